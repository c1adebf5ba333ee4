package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy"
)

// Quotas keeps Redis' counters of quotas and the ledger together, and tells how
// tenants stand. Redis answers gateways; the ledger is what was used.
type Quotas struct {
	d      Deps
	feed   QuotaFeed // nil: a feed without counters
	ledger QuotaLedger
	laws   *lawCache

	// Of Run's goroutine alone:
	known    map[string]time.Time // replicas, by when they were heard of last, by Redis' clock
	losses   map[int]time.Time    // lanes without their mark, since when, by Redis' clock
	readings map[string]reading   // by tenant, of the last comparison
	compared time.Time            // when the last comparison began, by the console's clock
	kept     time.Time            // when marks were kept up last
}

// NewQuotas returns the service. A Feed that is no QuotaFeed leaves Redis' side unknown.
func NewQuotas(d Deps, ledger QuotaLedger) *Quotas {
	counters, _ := d.Feed.(QuotaFeed)
	return &Quotas{
		d: d.withDefaults(), feed: counters, ledger: ledger, laws: &lawCache{},
		known: map[string]time.Time{}, losses: map[int]time.Time{}, readings: map[string]reading{},
	}
}

// QuotaPercents are the parts of an amount, in hundredths, at which a crossing is told.
func QuotaPercents() []int { return []int{50, 80, 100, 120} }

// QuotaGrant is units given once, on top of one period's amount. It ends with the period, and nothing
// takes it back.
type QuotaGrant struct {
	ID       string // gra_…
	TenantID string
	Start    time.Time  // of the period
	End      *time.Time // nil: a lifetime
	Units    int64
	Reason   string
	AuthorID string
	Author   string
	At       time.Time
}

// QuotaReset begins a lifetime's counting anew: so many units no longer count.
type QuotaReset struct {
	ID       string // qrs_…
	TenantID string
	Start    time.Time
	Units    int64
	Reason   string
	AuthorID string
	Author   string
	At       time.Time
}

// QuotaStanding is how a tenant's quota stood when Redis and the ledger were compared last.
type QuotaStanding struct {
	TenantID, TenantName string
	Plan                 string
	Period               string // day, week, month, year or lifetime
	Start                time.Time
	End                  *time.Time // nil: it does not renew
	TimeZone             string     // that the period's ends are midnights of
	Counts               string     // cost or requests
	Over                 string     // block or bill
	Amount               int64      // granted units included
	Most                 int64      // units at which a quota that bills refuses; 0: no bound
	Granted              int64
	Redis                *int64 // nil: there is no counter
	Ledger               int64
	ComparedAt           time.Time
	// Complete says that no live replica's last admissions but those of a few seconds were missing
	// in the ledger: what is apart then is hardly on its way.
	Complete    bool
	HealedAt    *time.Time // when the counter was corrected last
	HealedUnits int64      // by how much; negative: lowered
}

// Drift is how far the ledger is ahead of Redis; negative: behind, as it is while
// events are on their way.
func (s QuotaStanding) Drift() int64 { return s.Ledger - s.counted() }

// Used is the larger of what Redis and the ledger know.
func (s QuotaStanding) Used() int64 { return max(s.Ledger, s.counted()) }

// counted is what Redis counts: nothing without a counter.
func (s QuotaStanding) counted() int64 {
	if s.Redis == nil {
		return 0
	}
	return *s.Redis
}

// Left is what is left of the amount, never below 0.
func (s QuotaStanding) Left() int64 { return max(s.Amount-s.Used(), 0) }

// QuotaDrift is how all standings are together.
type QuotaDrift struct {
	Tenants  int64 // that have a quota
	Apart    int64 // of which Redis and ledger do not agree
	Units    int64 // by which they do not, either way
	Oldest   time.Time
	HealedAt *time.Time // the last correction of any
}

// QuotaCrossing is that a tenant's use reached a part of its amount for the first time in a period.
type QuotaCrossing struct {
	ID                   int64 // grows
	TenantID, TenantName string
	Start                time.Time
	End                  *time.Time
	Percent              int
	Units, Amount        int64 // when it was seen
	At                   time.Time
}

// QuotaLoss is that Redis lost counters, and that they were rebuilt.
type QuotaLoss struct {
	SeenAt    time.Time // by Redis' clock
	Lanes     int       // of policy.TenantLanes
	RebuiltAt time.Time
	Tenants   int64 // whose counters were looked at
	Raised    int64 // of them
	// Complete says that all live replicas had told what they admitted before. Otherwise Missing
	// names those that had not, and what they tell later is added later.
	Complete bool
	Missing  []string
}

// Standing tells how a tenant's quota stood last; CodeNotFound when it has none or none
// was compared yet.
func (s *Quotas) Standing(ctx context.Context, actor Actor, tenantID string) (QuotaStanding, error) {
	if err := actor.needOf(tenantID, PermView, PermOwnTenant); err != nil {
		return QuotaStanding{}, err
	}
	all, err := s.Standings(ctx, []string{tenantID})
	if err != nil {
		return QuotaStanding{}, err
	}
	if standing, ok := all[tenantID]; ok {
		return standing, nil
	}
	return QuotaStanding{}, &Error{Code: CodeNotFound, Public: "The tenant's quota has not been compared yet, or it has none."}
}

// Standings tells those of some tenants, for lists. Tenants without one are left out.
func (s *Quotas) Standings(ctx context.Context, tenantIDs []string) (map[string]QuotaStanding, error) {
	out := make(map[string]QuotaStanding, len(tenantIDs))
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		all, err := tx.QuotaStandings(ctx, tenantIDs)
		for _, standing := range all {
			out[standing.TenantID] = standing
		}
		return err
	})
	return out, err
}

// QuotaCompared is a page of the reconciliation, the furthest apart first.
type QuotaCompared struct {
	Items  []QuotaStanding
	Next   string // cursor; "" on the last page
	Drift  QuotaDrift
	Losses []QuotaLoss // the newest ten
}

// Compared lists standings.
func (s *Quotas) Compared(ctx context.Context, actor Actor, page Page) (out QuotaCompared, err error) {
	if err := actor.need(PermView); err != nil {
		return out, err
	}
	after, err := decodeCursor(page.After)
	if err != nil {
		return out, err
	}
	limit := page.limit()
	err = s.d.Store.Read(ctx, func(tx Tx) (err error) {
		if out.Items, err = tx.QuotaStandingsByDrift(ctx, after.At.UnixMicro(), after.ID, limit+1); err != nil {
			return err
		}
		if out.Drift, err = tx.QuotaDrift(ctx); err != nil {
			return err
		}
		out.Losses, err = tx.QuotaLosses(ctx, 10)
		return err
	})
	out.Items, out.Next = cut(out.Items, limit, func(q QuotaStanding) Cursor {
		return Cursor{At: time.UnixMicro(max(q.Drift(), -q.Drift())), ID: q.TenantID} // a cursor holds a number as a time
	})
	return out, err
}

// MostUsed lists the quotas of which the largest part is used, at most limit.
func (s *Quotas) MostUsed(ctx context.Context, limit int) (out []QuotaStanding, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.QuotaStandingsByUse(ctx, s.d.now(), limit)
		return err
	})
	return out, err
}

// Crossings lists thresholds that were crossed after an id, oldest first. Each is told once a
// period; whoever sends them on remembers the last id.
func (s *Quotas) Crossings(ctx context.Context, after int64, limit int) (out []QuotaCrossing, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.QuotaCrossings(ctx, after, limit)
		return err
	})
	return out, err
}

// QuotaPeriod is the period that a quota is in.
type QuotaPeriod struct {
	Start time.Time
	End   *time.Time // nil: a lifetime
	Zone  string
}

// PeriodOf is the period of a tenant's quota that holds at a time; CodeNotFound without a quota.
func (s *Quotas) PeriodOf(ctx context.Context, tenantID string, at time.Time) (p QuotaPeriod, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		c, err := s.caseOf(ctx, tx, tenantID, at)
		p = QuotaPeriod{Start: c.counter.Start, End: c.end(), Zone: c.zone}
		return err
	})
	return p, err
}

// caseOf is what a tenant's quota comes to at a time.
func (s *Quotas) caseOf(ctx context.Context, tx Tx, tenantID string, at time.Time) (quotaCase, error) {
	t, err := tx.Tenant(ctx, tenantID)
	if err != nil {
		return quotaCase{}, err
	}
	cases, err := s.cases(ctx, tx, []Tenant{t}, at)
	if err != nil {
		return quotaCase{}, err
	}
	if len(cases) == 0 {
		return quotaCase{}, &Error{Code: CodeNotFound, Public: "The tenant has no quota."}
	}
	return cases[0], nil
}

// quotaCase is a tenant's quota in its current period.
type quotaCase struct {
	tenant   Tenant
	quota    *policy.CompiledQuota
	counter  policy.QuotaCounter
	zone     string
	amount   int64 // granted units included
	most     int64
	granted  int64
	forgiven int64 // by resets of this period
	ledger   int64 // set by sums; resets taken off
}

func (c *quotaCase) end() *time.Time {
	if c.counter.End.IsZero() {
		return nil
	}
	return &c.counter.End
}
