package replay

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

const (
	// maxOpen bounds the requests under way that a side remembers. The log of a request
	// that was killed never tells its end.
	maxOpen = 200_000
	// openFor is how long one is remembered at least, in µs, when there are too many.
	openFor = 3_600_000_000
	// refundFor is for how long, in µs, a gateway may go on refusing by itself what a
	// refund would admit, a little more than it does: another replica may have settled.
	refundFor = 1_100_000
)

// outcome is a side's answer to one entry.
type outcome struct {
	allowed bool
	unknown bool   // the log cannot tell who calls
	by      string // limit or code that refused
	route   string
	lacks   string // dimension that the log does not have
	costs   bool   // what it would cost is not known
}

// side replays the log under one document.
type side struct {
	clock    clock
	replayer *gateway.Replayer
	judging  *judging
	in       gateway.Inbound
	replay   gateway.Replay
	verdict  gateway.Verdict
	open     map[uint64]opened
	places   places           // of requests whose end the log does not tell
	lasted   map[string]lasts // by route, of the requests that ended
	refunds  map[string]int64 // when a tenant last got something back
	refund   int64            // when anyone did
	guessed  int64            // ends that were assumed
	dropped  int64            // requests under way that were forgotten
}

type opened struct {
	at            int64
	tenant, route string
	kept          gateway.Kept
}

// lasts is a mean.
type lasts struct{ sum, n int64 }

func newSide(c *policy.Compiled, j *judging, tenants Tenants) (*side, error) {
	s := &side{judging: j, open: map[uint64]opened{}, lasted: map[string]lasts{}, refunds: map[string]int64{}}
	known := map[string]policy.TenantRecord{}
	find := func(id string) (policy.TenantRecord, bool) {
		if t, ok := known[id]; ok {
			return t, true
		}
		t, ok := tenants(id)
		if ok {
			t.State = policy.TenantActive // it was when it called
			known[id] = t
		}
		return t, ok
	}
	var err error
	s.replayer, err = gateway.NewReplayer(gateway.ReplayConfig{Compiled: c, Store: memstore.New(s.clock.now), Now: s.clock.now, Tenant: find, Without: j.left})
	return s, err
}

// entry is one entry of the log; only decisions have an outcome.
func (s *side) entry(e *decisionlog.Entry, out *outcome) error {
	*out = outcome{}
	if err := s.places.until(e.At, &s.clock, s.replayer); err != nil {
		return err
	}
	s.clock.micros = e.At
	switch e.Kind {
	case decisionlog.KindEnd:
		return s.ended(e)
	case decisionlog.KindSettle:
		return s.settled(e)
	default:
		return s.decide(e, out)
	}
}

func (s *side) ended(e *decisionlog.Entry) error {
	o, ok := s.open[e.Ref]
	if !ok {
		return nil
	}
	l := s.lasted[o.route]
	s.lasted[o.route] = lasts{l.sum + e.At - o.at, l.n + 1}
	err := s.replayer.End(&o.kept)
	if o.kept.Empty() {
		delete(s.open, e.Ref)
	} else { // its cost may still come
		s.open[e.Ref] = o
	}
	return err
}

func (s *side) settled(e *decisionlog.Entry) error {
	o, ok := s.open[e.Ref]
	if !ok {
		return nil
	}
	if !o.kept.Holds() {
		delete(s.open, e.Ref)
	}
	if back, err := s.replayer.Settle(&o.kept, e.Cost); !back {
		return err
	}
	s.refund = e.At
	if len(s.refunds) >= maxTenants {
		clear(s.refunds)
	}
	s.refunds[o.tenant] = e.At
	return nil
}

// followed reports whether a refusal stands as the log has it: a gateway remembered one
// from before a refund that it had not heard of. It spent nothing.
func (s *side) followed(e *decisionlog.Entry) bool {
	if !e.Cached || e.Allowed {
		return false
	}
	last := s.refunds[e.Tenant]
	if s.judging.crowded[e.Limit] {
		last = s.refund
	}
	return last != 0 && e.At-last <= refundFor
}

func (s *side) decide(e *decisionlog.Entry, out *outcome) error {
	if s.followed(e) {
		*out = outcome{by: e.Limit, route: e.Route}
		return nil
	}
	s.describe(e)
	v := &s.verdict
	s.replayer.Decide(&s.in, v)
	out.allowed, out.lacks, out.costs = v.Allowed, s.replay.Lacks, s.replay.Unpriced
	if v.Route != nil {
		out.route = v.Route.Name
	}
	if !v.Allowed {
		out.by = decidedBy(v)
		out.unknown = v.Code == gateway.CodeMissingCredential
		return nil
	}
	kept := v.Kept()
	if kept.Empty() {
		return nil
	}
	return s.keep(e, out.route, kept)
}

// keep remembers what an admitted request holds until the log tells its end.
func (s *side) keep(e *decisionlog.Entry, route string, kept gateway.Kept) error {
	if e.Ref == 0 {
		if !kept.Holds() {
			return nil
		}
		s.guessed++
		l := s.lasted[route]
		return s.places.take(kept, e.At+l.sum/max(l.n, 1), s.replayer)
	}
	if e.Renewed {
		if err := s.replayer.Renew(&kept); err != nil {
			return err
		}
	}
	if len(s.open) >= maxOpen {
		s.forget(e.At)
	}
	s.open[e.Ref] = opened{e.At, e.Tenant, route, kept}
	return nil
}

// forget makes room: of what began long ago, else of whatever comes first.
func (s *side) forget(now int64) {
	for ref, o := range s.open {
		if o.at < now-openFor {
			delete(s.open, ref)
		}
	}
	for ref := range s.open {
		if len(s.open) < maxOpen/2 {
			break
		}
		delete(s.open, ref)
		s.dropped++
	}
}

// describe makes the request as the log tells it.
func (s *side) describe(e *decisionlog.Entry) {
	hits := max(e.Hits, 1)
	s.replay = gateway.Replay{
		Credential: e.Credential, Logged: true, Values: e.Values, Unreadable: decisionlog.Unreadable,
		Priced: e.Priced, Queried: s.judging.queried[e.Route],
	}
	s.in = gateway.Inbound{
		Method: e.Method, Host: e.Host, EscapedPath: e.Path, Client: addressOf(e.IP), ClientKnown: true, Tenant: e.Tenant,
		Cost: max(e.Cost/hits, 1), User: e.User, UserKnown: true, Hits: hits, Ends: true, Replay: &s.replay,
	}
	if e.Path == "" { // the route was named
		s.in.RouteName, s.in.Method = e.Route, "GET"
	}
}

// addressOf reads an address or a prefix as it was counted; the zero one for what is
// neither.
func addressOf(ip string) netip.Addr {
	if text, _, found := strings.Cut(ip, "/"); found {
		ip = text
	}
	addr, _ := netip.ParseAddr(ip)
	return addr
}

// notes tells what was assumed.
func (s *side) notes() []string {
	var notes []string
	if s.guessed > 0 {
		notes = append(notes, fmt.Sprintf("%d requests that were refused then and are admitted now hold a place for as long as others of their route did.", s.guessed))
	}
	if s.dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d requests of which the log tells no end were forgotten.", s.dropped))
	}
	return notes
}
