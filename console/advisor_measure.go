package console

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// knownTenant is a tenant as the log's limits meet it.
type knownTenant struct {
	id, plan string
	own      []TenantOverride
	limits   map[string][]*policy.CompiledLimit // by route
	numbers  map[string]ownNumbers              // by limit id
}

// ownNumbers are a limit's for one tenant.
type ownNumbers struct {
	numbers   policy.Numbers
	unlimited bool
	own       bool
}

// met are the rate limits that a tenant on a plan meets on each route, and with plan
// "" those that callers without a tenant do.
func (l *law) met(plan string) map[string][]*policy.CompiledLimit {
	out := make(map[string][]*policy.CompiledLimit, len(l.Routes))
	for _, r := range l.Routes {
		var list []*policy.CompiledLimit
		for i := range l.Global {
			list = append(list, &l.Global[i])
		}
		if r.Route.Identity == policy.IdentityAPIKey {
			for i := range l.Plans[plan] {
				list = append(list, &l.Plans[plan][i])
			}
		}
		for i := range r.Limits {
			list = append(list, &r.Limits[i])
		}
		out[r.Name] = list
	}
	return out
}

// of are a limit's numbers for the tenant.
func (t *knownTenant) of(l *policy.CompiledLimit, now time.Time) ownNumbers {
	if n, ok := t.numbers[l.ID]; ok {
		return n
	}
	if t.numbers == nil {
		t.numbers = map[string]ownNumbers{}
	}
	n := ownNumbers{numbers: l.Numbers, unlimited: l.Unlimited}
	if layers := layersOf(l.ID, t.own, now); len(layers.parts) > 0 && ownable(l.Per) {
		own, p := layers.upTo(len(layers.parts)).Limit(l, now.UnixMicro())
		n = ownNumbers{numbers: own, unlimited: p.Unlimited, own: true}
	}
	t.numbers[l.ID] = n
	return n
}

// measurer adds up what a log says of limits.
type measurer struct {
	law     *law
	lookup  func(id string) (*knownTenant, error)
	now     time.Time
	nobody  *knownTenant // callers without a tenant
	tenants map[string]*knownTenant
	limits  map[adviceKey]*adviceSum
	order   []adviceKey
	routes  map[string]*windows
	out     AdvisorReport
}

type adviceKey struct{ id, source string }

// adviceSum is one limit while the log is read.
type adviceSum struct {
	limit    *policy.CompiledLimit
	subjects map[string]*useSum
	requests int64
	refused  int64
	leftOut  int64
}

// useSum is one subject of one limit.
type useSum struct {
	tenant  string
	numbers ownNumbers
	windows windows
	refused int64
	rungs   []rungSum
}

type rungSum struct {
	bucket  limiter.Bucket
	refused int64
}

// windows counts how often sums of windows that lie side by side came to what.
type windows struct {
	length  int64 // µs
	at      int64 // the window that is open
	sum     int64
	counts  map[int64]int64
	nothing bool // no window is open
}

func newWindows(length time.Duration) windows {
	return windows{length: length.Microseconds(), counts: map[int64]int64{}, nothing: true}
}

func (w *windows) add(at, n int64) {
	if i := at / w.length; w.nothing || i != w.at {
		w.close()
		w.at, w.sum, w.nothing = i, 0, false
	}
	w.sum += n
}

func (w *windows) close() {
	if !w.nothing && w.sum > 0 {
		w.counts[w.sum]++
	}
	w.nothing = true
}

// percentilesOf are those of windows by their sums, by nearest rank.
func percentilesOf(counts map[int64]int64) (p Percentiles) {
	sums := make([]int64, 0, len(counts))
	for sum, n := range counts {
		sums = append(sums, sum)
		p.Windows += n
	}
	slices.Sort(sums)
	seen := int64(0)
	for _, sum := range sums {
		before := seen
		seen += counts[sum]
		for _, at := range []struct {
			percent int64
			to      *int64
		}{{50, &p.P50}, {90, &p.P90}, {99, &p.P99}, {100, &p.Max}} {
			if rank := (p.Windows*at.percent + 99) / 100; before < rank && rank <= seen {
				*at.to = sum
			}
		}
	}
	return p
}

func newMeasurer(have *law, lookup func(string) (*knownTenant, error), now time.Time) *measurer {
	return &measurer{
		law: have, lookup: lookup, now: now, nobody: &knownTenant{limits: have.met("")}, tenants: map[string]*knownTenant{},
		limits: map[adviceKey]*adviceSum{}, routes: map[string]*windows{}, out: AdvisorReport{Version: have.version, Sample: decisionlog.Whole},
	}
}

// read adds up the decisions of a log from one time to another.
func (m *measurer) read(ctx context.Context, log Log, from, to time.Time) error {
	first, last := from.UnixMicro(), to.UnixMicro()
	return decisionlog.Merge(ctx, &noted{log, m}, func(_ *decisionlog.Batch, e *decisionlog.Entry) error {
		switch {
		case e.At < first || e.At >= last:
			return nil
		case e.Kind == decisionlog.KindSettle:
			m.out.Settled = true
			return nil
		case e.Kind != decisionlog.KindDecision:
			return nil
		}
		return m.entry(e)
	})
}

// noted is a log whose batches' heads are noted as they pass.
type noted struct {
	Log
	m *measurer
}

// Batches implements decisionlog.Log.
func (n *noted) Batches(ctx context.Context, yield func(*decisionlog.Batch) error) error {
	return n.Log.Batches(ctx, func(b *decisionlog.Batch) error {
		n.m.out.Dropped += b.Dropped
		n.m.out.Sample = min(n.m.out.Sample, b.Sample)
		if err := ctx.Err(); err != nil {
			return err
		}
		return yield(b)
	})
}

func (m *measurer) entry(e *decisionlog.Entry) error {
	m.out.Entries++
	t, err := m.tenant(e.Tenant)
	if err != nil {
		return err
	}
	if t == nil {
		m.out.Unplaced++
		return nil
	}
	limits, ok := t.limits[e.Route]
	if !ok {
		m.out.Unplaced++
		return nil
	}
	w := m.routes[e.Route]
	if w == nil {
		fresh := newWindows(time.Second)
		w, m.routes[e.Route] = &fresh, &fresh
	}
	w.add(e.At, max(e.Hits, 1))
	for _, l := range limits {
		if !l.Unlimited && !l.Expired(e.At) {
			m.charge(t, l, e)
		}
	}
	return nil
}

// tenant finds whose decision it was; nil for a tenant that is gone.
func (m *measurer) tenant(id string) (*knownTenant, error) {
	if id == "" {
		return m.nobody, nil
	}
	t, ok := m.tenants[id]
	if !ok {
		var err error
		if t, err = m.lookup(id); err != nil {
			return nil, err
		}
		m.tenants[id] = t
	}
	return t, nil
}

// charge notes a decision at one limit that it met.
func (m *measurer) charge(t *knownTenant, l *policy.CompiledLimit, e *decisionlog.Entry) {
	n := t.of(l, m.now)
	if n.unlimited || n.numbers.Blocked() {
		return
	}
	key := adviceKey{l.ID, l.Source}
	sum := m.limits[key]
	if sum == nil {
		sum = &adviceSum{limit: l, subjects: map[string]*useSum{}}
		m.limits[key], m.order = sum, append(m.order, key)
	}
	hits, cost := max(e.Hits, 1), e.Cost
	if l.Counts == policy.CountsRequests {
		cost = hits
	}
	mine := !e.Allowed && e.Limit == l.ID
	sum.requests += hits
	if mine {
		sum.refused += hits
	}
	u := sum.subject(subjectOf(l, e), t.id, n)
	if u == nil {
		sum.leftOut += hits
		return
	}
	u.windows.add(e.At, cost)
	if mine {
		u.refused += hits
	}
	if e.Allowed || mine { // what another limit refused has spent nothing here
		u.try(e.At, cost, hits)
	}
}

// subject finds or begins a subject; nil when there are too many.
func (s *adviceSum) subject(name, tenant string, n ownNumbers) *useSum {
	u := s.subjects[name]
	if u == nil && len(s.subjects) < advisorSubjects {
		u = &useSum{tenant: tenant, numbers: n, windows: newWindows(s.limit.Rate.Period), rungs: make([]rungSum, len(AdviceFactors()))}
		for i, factor := range AdviceFactors() {
			u.rungs[i].bucket.Numbers = timesMilli(n.numbers, factor)
		}
		s.subjects[name] = u
	}
	return u
}

// try asks a bucket of each size.
func (u *useSum) try(at, cost, hits int64) {
	for i := range u.rungs {
		r := &u.rungs[i]
		n := r.bucket.Numbers
		if r.bucket.TimeMicros == 0 {
			r.bucket = limiter.FullBucket(at, n)
		}
		r.bucket = r.bucket.Advance(max(at, r.bucket.TimeMicros), n)
		if cost > n.Burst || cost*n.Period > r.bucket.Units {
			r.refused += hits
			continue
		}
		r.bucket.Units -= cost * n.Period
	}
}

// timesMilli are numbers times so many thousandths: the rate exactly, the burst rounded
// up, within what can be counted.
func timesMilli(n policy.Numbers, milli int64) policy.Numbers {
	out := policy.Numbers{Tokens: n.Tokens * milli, Period: n.Period * 1000}
	a, b := out.Tokens, out.Period
	for b != 0 {
		a, b = b, a%b
	}
	out.Tokens, out.Period = out.Tokens/a, out.Period/a
	most := (policy.MaxUnits - 1 - out.Tokens) / out.Period
	out.Burst = max(min((n.Burst*milli+999)/1000, most), 1)
	return out
}

// subjectOf names whom a limit counts a decision for.
func subjectOf(l *policy.CompiledLimit, e *decisionlog.Entry) string {
	if len(l.Dimensions) == 1 && l.Dimensions[0].Kind == policy.DimensionTenant {
		return e.Tenant
	}
	var b strings.Builder
	for _, d := range l.Dimensions {
		switch d.Kind {
		case policy.DimensionGlobal:
		case policy.DimensionTenant:
			b.WriteString(e.Tenant)
		case policy.DimensionCredential:
			b.WriteString(e.Tenant + " " + e.Credential)
		case policy.DimensionUser:
			b.WriteString(e.Tenant + " " + e.User)
		case policy.DimensionIP:
			b.WriteString(e.IP)
		default:
			value := e.Values[strings.ToLower(d.String())]
			if value == "" { // one bucket of those who leave it out, for each tenant or address
				value = "\x00" + e.Subject()
			}
			b.WriteString(value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// report is what was added up.
func (m *measurer) report() *AdvisorReport {
	for _, key := range m.order {
		m.out.Limits = append(m.out.Limits, m.limits[key].advice())
	}
	slices.SortStableFunc(m.out.Limits, func(a, b LimitAdvice) int {
		return cmp.Or(cmp.Compare(b.UsedPercent(), a.UsedPercent()), strings.Compare(a.ID, b.ID), strings.Compare(a.Source, b.Source))
	})
	for name, w := range m.routes {
		w.close()
		u := RouteUse{Route: name, PerSec: percentilesOf(w.counts)}
		for sum, n := range w.counts {
			u.Requests += sum * n
		}
		m.out.Routes = append(m.out.Routes, u)
	}
	slices.SortFunc(m.out.Routes, func(a, b RouteUse) int { return strings.Compare(a.Route, b.Route) })
	return &m.out
}

func (s *adviceSum) advice() LimitAdvice {
	l := s.limit
	out := LimitAdvice{
		ID: l.ID, Source: l.Source, Per: string(l.Per), Counts: string(l.Counts), Rate: l.Rate.String(), Burst: l.Burst, Shadow: l.Shadow,
		Window: l.Rate.Period, Requests: s.requests, Refused: s.refused, Subjects: int64(len(s.subjects)), LeftOut: s.leftOut, Allowed: l.Rate.Tokens,
	}
	out.Plan, _ = strings.CutPrefix(l.Source, "plan ")
	if out.Plan == l.Source {
		out.Plan = ""
	}
	all := map[int64]int64{}
	rungs := make([]AdviceRung, len(AdviceFactors()))
	tenants := map[string]TenantUse{}
	for _, u := range s.subjects {
		u.windows.close()
		for sum, n := range u.windows.counts {
			all[sum] += n
		}
		for i, r := range u.rungs {
			if rungs[i].Refused += r.refused; r.refused > 0 {
				rungs[i].Subjects++
			}
		}
		if u.tenant != "" && l.Per != policy.PerGlobal {
			tenants[u.tenant] = u.fuller(tenants[u.tenant], l.Rate.Period)
		}
	}
	out.Asked = percentilesOf(all)
	for i, factor := range AdviceFactors() {
		n := timesMilli(l.Numbers, factor)
		rungs[i].FactorMilli, rungs[i].Rate, rungs[i].Burst = factor, rateText(n, l.Rate.Period), n.Burst
	}
	out.Rungs = rungs
	for _, t := range tenants {
		out.Tenants = append(out.Tenants, t)
	}
	slices.SortFunc(out.Tenants, func(a, b TenantUse) int {
		return cmp.Or(cmp.Compare(b.UsedPercent(), a.UsedPercent()), strings.Compare(a.Tenant, b.Tenant))
	})
	out.Tenants = out.Tenants[:min(len(out.Tenants), advisorTenants)]
	return out
}

// fuller is the use of the tenant's fullest subject, with the refusals of all.
func (u *useSum) fuller(have TenantUse, window time.Duration) TenantUse {
	mine := TenantUse{Tenant: u.tenant, Asked: percentilesOf(u.windows.counts), Allowed: perWindow(u.numbers.numbers, window), Burst: u.numbers.numbers.Burst, Own: u.numbers.own}
	if have.Tenant != "" && have.UsedPercent() >= mine.UsedPercent() {
		have.Refused += u.refused
		return have
	}
	mine.Refused = have.Refused + u.refused
	return mine
}

// perWindow is how many tokens a window brings, rounded down.
func perWindow(n policy.Numbers, window time.Duration) int64 {
	high, low := bits.Mul64(uint64(window.Microseconds()), uint64(n.Tokens))
	if high >= uint64(n.Period) {
		return math.MaxInt64
	}
	tokens, _ := bits.Div64(high, low, uint64(n.Period))
	return int64(min(tokens, math.MaxInt64))
}
