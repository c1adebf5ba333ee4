package usage

import "time"

// LiveConfig says how much a Live holds.
type LiveConfig struct {
	Now     func() time.Time // default time.Now
	Tenants int              // tenants told apart; default 2000
}

// Live adds up batches of the last hour.
type Live struct{ cfg LiveConfig }

// NewLive starts empty.
func NewLive(cfg LiveConfig) *Live { return &Live{cfg: cfg} }

// Point is what happened in one step.
type Point struct {
	At       time.Time // begin of the step
	Admitted int64     // requests that went to an upstream
	Refused  int64     // by a limit or a fail mode
	Degraded int64     // of all, those decided without Redis
	Invalid  int64     // no valid credential, no route, not decidable
	Cost     int64     // tokens of admitted requests
}

// TenantRefusals is a tenant that was refused.
type TenantRefusals struct {
	Tenant            string
	Requests, Refused int64
	Limit             string    // the limit that refused most; "" when unknown
	Since             time.Time // begin of the present run of refusals
}

// LimitRefusals is a limit that refused.
type LimitRefusals struct {
	Limit   string
	Refused int64
	Tenants int // that were refused by it
}

// RouteTotals is what happened on a route.
type RouteTotals struct {
	Route                                       string
	Admitted, Refused, Degraded, Invalid, Cost int64
}

// Apply adds a batch; it reports whether it was new.
func (l *Live) Apply(b Batch) bool { return false }

// Totals is the series of everything together.
func (l *Live) Totals(from, to time.Time, step time.Duration) []Point { return nil }

// TenantSeries is the series of one tenant.
func (l *Live) TenantSeries(tenant string, from, to time.Time, step time.Duration) []Point { return nil }

// TopRefused lists the n tenants refused most since a moment.
func (l *Live) TopRefused(since time.Time, n int) []TenantRefusals { return nil }

// TopLimits lists the n limits that refused most since a moment.
func (l *Live) TopLimits(since time.Time, n int) []LimitRefusals { return nil }

// Routes lists routes by requests since a moment.
func (l *Live) Routes(since time.Time) []RouteTotals { return nil }

// AsOf is the newest second that was reported; false when none was.
func (l *Live) AsOf() (time.Time, bool) { return time.Time{}, false }
