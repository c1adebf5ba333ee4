package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/gateway/dimension"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// afterAll is the Order of a refusal that was remembered: it comes after the call of
// the store that it was learnt from, which may have the same time.
const afterAll = 1 << 30

// recorder logs decisions, so that another policy can be tried on them. It never
// sees a key, and of what limits are counted per it keeps keyed hashes.
type recorder struct {
	log  *decisionlog.Recorder
	salt atomic.Pointer[[sha256.Size]byte]
}

// logEntry is what a verdict keeps for the log.
type logEntry struct {
	at     int64 // store's clock when it was decided, Unix µs
	order  int32
	user   string // whom limits count, on any route
	ref    uint64 // of what it holds or may settle; 0: nothing
	logged bool
}

// newRecorder is nil where no log is wanted, or nobody would carry it.
func newRecorder(cfg *Config, m *metrics) *recorder {
	if _, carries := cfg.Reporter.(DecisionReporter); cfg.DecisionLogRate < 1 || !carries {
		return nil
	}
	r := &recorder{log: decisionlog.NewRecorder(cfg.Identity.ID, cfg.Identity.Boot, cfg.DecisionLogRate)}
	var own [sha256.Size]byte // until the one of all replicas is known
	_, _ = rand.Read(own[:])  // never fails
	r.salt.Store(&own)
	total := func(name, help string, of func() float64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, of))
	}
	total("headgate_decisions_logged_total", "Entries of the decision log.", func() float64 { n, _, _ := r.log.Totals(); return float64(n) })
	total("headgate_decisions_unlogged_total", "Entries that the decision log had no room for, or that did not get through.", func() float64 { _, n, _ := r.log.Totals(); return float64(n) })
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_decision_log_share", Help: "Share of subjects of which every decision is logged, 0 to 1.",
	}, func() float64 { _, _, share := r.log.Totals(); return float64(share) / float64(decisionlog.Whole) }))
	return r
}

// hash stands for a value in the log: the same for the same value on all replicas, and
// nothing that the value can be told from.
func (r *recorder) hash(name, value string) string {
	if value == "" {
		return ""
	}
	salt := r.salt.Load()
	var room [256]byte
	text := append(append(append(append(room[:0], salt[:]...), name...), 0), value...)
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// decidedAt notes when an answer was made.
func (v *Verdict) decidedAt(answer *limiter.Decision, g *Gateway) {
	v.recorded.at, v.recorded.order = answer.NowMicros, answer.Order
	switch {
	case answer.Degraded:
		v.recorded.at = g.limiter.StoreNow()
	case answer.Cached:
		v.recorded.order = afterAll
	}
}

// refer names what the request holds or may settle.
func (v *Verdict) refer() {
	switch {
	case len(v.leases) > 0:
		v.recorded.ref = refOf(v.leases[0].ID)
	case v.settleID != "":
		v.recorded.ref = refOf(v.settleID)
	}
}

// refOf is how the log names a lease or a settlement: a hash, as a name is long.
func refOf(id string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return max(h, 1)
}

// record logs the decision: of subjects in the sample all, of the others refusals and
// what was decided without the store. Questions that charge nothing leave no trace,
// and what no limiter saw is counted only. A caller that left was charged all the same.
func (g *Gateway) record(in *Inbound, v *Verdict) {
	r := g.recorder
	if r == nil || v.Peeked || v.Free {
		return
	}
	if v.Reason == "" {
		r.log.Unjudged()
		return
	}
	user := ""
	if v.recorded.user != "" {
		user = r.hash("user", v.recorded.user)
	}
	always, sampled := !v.Allowed || v.Degraded, true
	if !r.log.All() {
		sampled = r.log.Sampled(v.loggedSubject(user))
	}
	if !always && !sampled {
		return
	}
	e := decisionlog.Entry{
		Kind: decisionlog.KindDecision, At: v.recorded.at, Order: v.recorded.order, Ref: v.recorded.ref,
		Tenant: v.Tenant, Credential: v.Credential, User: user, ByUser: v.User != "", IP: v.Subject,
		Method: in.Method, Host: in.Host, Path: v.Path, Route: v.routeName(), Policy: v.version(), Cost: v.Cost, Hits: v.hits,
		Allowed: v.Allowed, Degraded: v.Degraded, Cached: v.Cached, Leased: g.leased(v), Renewed: in.Ends && v.recorded.ref != 0,
		Reason: string(v.Reason), Limit: v.DecidingLimit(), Wait: v.RetryAfterMicros,
	}
	if in.RouteName != "" { // it matched nothing
		e.Method, e.Host = "", ""
	}
	view := g.viewOf(v.Policy.Compiled)
	e.Priced = in.Cost > 0 || view.pricers[v.Route] != nil
	if counted := view.counted[v.Route]; counted != nil {
		e.Values = r.values(counted, &rows{g: g, in: in, v: v, view: view})
	}
	r.log.Add(&e, always)
	v.recorded.logged = true
}

// loggedSubject is what the log is sampled by.
func (v *Verdict) loggedSubject(user string) string {
	e := decisionlog.Entry{Tenant: v.Tenant, User: user, ByUser: v.User != "", IP: v.Subject}
	return e.Subject()
}

// leased reports whether a part of the request is counted ahead.
func (g *Gateway) leased(v *Verdict) bool {
	if v.drawn == nil {
		return false
	}
	for i := range v.drawn.draw.Charges {
		c := &v.drawn.draw.Charges[i]
		if (c.Leased || g.leasesGlobal && c.Row.Kind == limiter.RowGlobal) && !c.Shadow {
			return true
		}
	}
	return false
}

// values are the identifiers of a request that the log would not have otherwise.
func (r *recorder) values(counted []policy.Dimension, of *rows) map[string]string {
	out := make(map[string]string, len(counted))
	for _, d := range counted {
		name := d.String()
		switch p := of.part(d); p.State {
		case dimension.Present:
			out[name] = r.hash(name, p.Value)
		case dimension.Unreadable:
			out[name] = decisionlog.Unreadable
		default:
			out[name] = ""
		}
	}
	return out
}

// countedPer lists for each route what its requests are counted per by their headers
// and bodies. Routes without are left out.
func countedPer(c *policy.Compiled) map[*policy.CompiledRoute][]policy.Dimension {
	var all perList
	all.add(c.Global)
	for _, limits := range c.Plans {
		all.add(limits)
	}
	out := map[*policy.CompiledRoute][]policy.Dimension{}
	for _, route := range c.Routes {
		own := perList{list: all.list[:len(all.list):len(all.list)]}
		own.add(route.Limits)
		if route.Concurrency != nil {
			own.dimensions(route.Concurrency.Dimensions)
		}
		if len(own.list) > 0 {
			out[route] = own.list
		}
	}
	return out
}

// perList gathers dimensions that are read from headers and bodies, each once.
type perList struct{ list []policy.Dimension }

func (c *perList) add(limits []policy.CompiledLimit) {
	for i := range limits {
		c.dimensions(limits[i].Dimensions)
	}
}

func (c *perList) dimensions(list []policy.Dimension) {
next:
	for _, d := range list {
		if d.Kind != policy.DimensionHeader && d.Kind != policy.DimensionBody {
			continue
		}
		for _, known := range c.list {
			if known == d {
				continue next
			}
		}
		c.list = append(c.list, d)
	}
}

// sampledRow reports whether the subject of a row is whole in the log. Of rows that
// hold neither a tenant nor an address nobody can tell: they count as whole.
func (r *recorder) sampledRow(row *limiter.Row) bool {
	switch {
	case row.Tenant != "":
		return r.log.Sampled(row.Tenant)
	case row.Kind == limiter.RowIP:
		return r.log.Sampled(row.Subject)
	}
	return true
}

// recordEnds logs that places are free again.
func (g *Gateway) recordEnds(leases []limiter.Lease, at int64) {
	r := g.recorder
	if r == nil {
		return
	}
	for i := range leases {
		if r.sampledRow(&leases[i].Row) {
			r.log.Add(&decisionlog.Entry{Kind: decisionlog.KindEnd, At: at, Ref: refOf(leases[i].ID)}, false)
		}
	}
}

// recordCost logs what a request really cost. at 0 is for a correction that was
// none.
func (g *Gateway) recordCost(ref uint64, spent *limiter.Draw, cost, at int64) {
	r := g.recorder
	if r == nil || at == 0 {
		return
	}
	var row limiter.Row
	switch {
	case len(spent.Quotas) > 0:
		row = spent.Quotas[0].Row
	case len(spent.Charges) > 0:
		row = spent.Charges[len(spent.Charges)-1].Row // tenants' come last
	}
	if r.sampledRow(&row) {
		r.log.Add(&decisionlog.Entry{Kind: decisionlog.KindSettle, At: at, Ref: ref, Cost: cost}, false)
	}
}
