package usage

import (
	"cmp"
	"slices"
	"time"
)

// runGap ends a run of refusals.
const runGap = 60

// Point is what happened in one step.
type Point struct {
	At       time.Time // begin of the step
	Admitted int64     // requests that went to an upstream
	Refused  int64     // by a limit or a fail mode
	Degraded int64     // of all, those decided without Redis
	Invalid  int64     // no valid credential, no route, not decidable
	Cost     int64     // tokens of admitted requests
	// Reported is false when no replica said anything about the step: a gap in
	// a chart, not a zero.
	Reported bool
}

// TenantRefusals is a tenant that was refused.
type TenantRefusals struct {
	Tenant            string
	Requests, Refused int64
	Limit             string    // the limit that refused most; "" when unknown
	Since             time.Time // begin of the present run of refusals, ± 5 s
}

// LimitRefusals is a limit that refused.
type LimitRefusals struct {
	Limit   string
	Refused int64
	Tenants int // that were refused by it, as far as they are told apart
	// Since is the begin of the present run of refusals, ± 15 s; TopLimits alone tells it.
	Since time.Time
}

// RouteTotals is what happened on a route; the fields are as in Point.
type RouteTotals struct {
	Route                                      string
	Admitted, Refused, Degraded, Invalid, Cost int64
}

// Totals is the series of everything together from a moment to another (not
// included), with a point for each step, empty ones too. A step is at least a
// second and lies on whole multiples of itself; at most an hour is there.
func (l *Live) Totals(from, to time.Time, step time.Duration) []Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.series(&l.totals, from, to, step)
}

// TenantSeries is Totals for one tenant, with steps of at least 5 s.
func (l *Live) TenantSeries(tenant string, from, to time.Time, step time.Duration) []Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, held := l.byName[tenant]; held {
		return l.series(&t.all, from, to, step)
	}
	return l.series(&ring{step: tenantStep}, from, to, step)
}

func (l *Live) series(r *ring, from, to time.Time, step time.Duration) []Point {
	s := max(int64(step/time.Second), r.step)
	s += (r.step - s%r.step) % r.step
	// The window: not before the hour, not after the step that is under way.
	oldest := l.now().Add(-kept).Unix()
	begin := max(from.Unix(), oldest)
	begin -= begin % s
	end := min(to.Unix(), l.now().Unix()+s)
	if end <= begin {
		return nil
	}
	points := make([]Point, (end-begin+s-1)/s)
	for i := range points {
		at := begin + int64(i)*s
		points[i].At = time.Unix(at, 0).UTC()
		points[i].Reported = l.told.any(at, at+s)
	}
	r.each(begin, begin+int64(len(points))*s, func(second int64, t tally) {
		p := &points[(second-begin)/s]
		p.Admitted += t.admitted
		p.Refused += t.refused
		p.Degraded += t.degraded
		p.Invalid += t.invalid
		p.Cost += t.cost
	})
	return points
}

// TopRefused lists the n tenants that were refused most since a moment, most
// first. Requests without a tenant are not in it.
func (l *Live) TopRefused(since time.Time, n int) []TenantRefusals {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []TenantRefusals
	for name, t := range l.byName {
		if sum := t.all.sum(since.Unix()); sum.refused > 0 && name != "" {
			out = append(out, TenantRefusals{Tenant: name, Requests: sum.requests(), Refused: sum.refused})
		}
	}
	slices.SortFunc(out, func(a, b TenantRefusals) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Tenant, b.Tenant))
	})
	out = first(out, n)
	for i := range out {
		t := l.byName[out[i].Tenant]
		out[i].Since = runSince(&t.all)
		if top := limitsOf(t, since.Unix()); len(top) > 0 {
			out[i].Limit = top[0].Limit
		}
	}
	return out
}

// runSince is the begin of the last run of refusals without a minute's pause.
func runSince(rings ...*ring) time.Time {
	var at []int64
	for _, r := range rings {
		r.each(0, 1<<62, func(second int64, t tally) {
			if t.refused > 0 {
				at = append(at, second)
			}
		})
	}
	if len(at) == 0 {
		return time.Time{}
	}
	slices.Sort(at)
	i := len(at) - 1
	for i > 0 && at[i]-at[i-1] <= runGap {
		i--
	}
	return time.Unix(at[i], 0).UTC()
}

// TopLimits lists the n limits that refused most since a moment, most first.
func (l *Live) TopLimits(since time.Time, n int) []LimitRefusals {
	l.mu.Lock()
	defer l.mu.Unlock()
	byID := map[string]LimitRefusals{}
	for name, t := range l.byName {
		for _, r := range limitsOf(t, since.Unix()) {
			sum := byID[r.Limit]
			sum.Limit = r.Limit
			sum.Refused += r.Refused
			if name != "" && name != Rest {
				sum.Tenants++
			}
			byID[r.Limit] = sum
		}
	}
	out := make([]LimitRefusals, 0, len(byID))
	for _, r := range byID {
		out = append(out, r)
	}
	sortLimits(out)
	out = first(out, n)
	for i := range out {
		var rings []*ring
		for _, t := range l.byName {
			if r := t.limits[out[i].Limit]; r != nil {
				rings = append(rings, r)
			}
		}
		out[i].Since = runSince(rings...)
	}
	return out
}

// TenantLimits is TopLimits for one tenant.
func (l *Live) TenantLimits(tenant string, since time.Time, n int) []LimitRefusals {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, held := l.byName[tenant]
	if !held {
		return nil
	}
	return first(limitsOf(t, since.Unix()), n)
}

func limitsOf(t *tenantLive, since int64) []LimitRefusals {
	var out []LimitRefusals
	for id, r := range t.limits {
		if sum := r.sum(since); sum.refused > 0 {
			out = append(out, LimitRefusals{Limit: id, Refused: sum.refused, Tenants: 1})
		}
	}
	sortLimits(out)
	return out
}

func sortLimits(out []LimitRefusals) {
	slices.SortFunc(out, func(a, b LimitRefusals) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Limit, b.Limit))
	})
}

// Routes lists routes by requests since a moment, most first. The route ""
// stands for requests that matched none.
func (l *Live) Routes(since time.Time) []RouteTotals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return routesOf(l.routes, since.Unix())
}

// TenantRoutes is Routes for one tenant.
func (l *Live) TenantRoutes(tenant string, since time.Time) []RouteTotals {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, held := l.byName[tenant]; held {
		return routesOf(t.routes, since.Unix())
	}
	return nil
}

func routesOf(rings map[string]*ring, since int64) []RouteTotals {
	var out []RouteTotals
	for name, r := range rings {
		if s := r.sum(since); s.requests() > 0 {
			out = append(out, RouteTotals{Route: name, Admitted: s.admitted, Refused: s.refused,
				Degraded: s.degraded, Invalid: s.invalid, Cost: s.cost})
		}
	}
	slices.SortFunc(out, func(a, b RouteTotals) int {
		return cmp.Or(cmp.Compare(b.requests(), a.requests()), cmp.Compare(a.Route, b.Route))
	})
	return out
}

func (r RouteTotals) requests() int64 { return r.Admitted + r.Refused + r.Invalid }

func first[T any](s []T, n int) []T { return s[:min(len(s), max(n, 0))] }
