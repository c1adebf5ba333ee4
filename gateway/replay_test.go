package gateway

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

const replayedPolicy = `
apiVersion: headgate/v1
global: {limits: [{name: all, per: global, counts: requests, rate: 100/second, burst: 100, sync: leased}]}
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 4}]}
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: api_key
    motive: fairness
    cost: {reserve: 5, settle_header: X-Cost}
    limits: [{name: region, per: "header:X-Region", rate: 60/minute, burst: 20}, {name: own, per: credential, rate: 60/minute, burst: 60}]
    concurrency: {per: tenant, max: 2, lease: 10s}
    on_store_failure: {mode: closed}
  - name: graphql
    match: ["POST /graphql"]
    identity: api_key
    motive: fairness
    cost: {graphql: {max: 100, default_list_size: 10}}
    on_store_failure: {mode: closed}
`

// replaying is a Replayer with a clock that stands until it is moved.
type replaying struct {
	*Replayer
	t   *testing.T
	now time.Time
}

func newReplaying(t *testing.T, without func(string) bool) *replaying {
	t.Helper()
	d, report := policy.Parse([]byte(replayedPolicy))
	if !report.OK() {
		t.Fatal(report.Error())
	}
	c, err := policy.Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	r := &replaying{t: t, now: time.Unix(1_790_000_000, 0)}
	clock := func() time.Time { return r.now }
	r.Replayer, err = NewReplayer(ReplayConfig{Compiled: c, Store: memstore.New(clock), Now: clock, Without: without, Tenant: func(id string) (policy.TenantRecord, bool) {
		return policy.TenantRecord{ID: id, Plan: "free", State: policy.TenantActive}, id == "ten_a"
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func logged(values map[string]string) *Replay {
	return &Replay{Credential: "crd_a", Logged: true, Values: values, Unreadable: "!"}
}

// ask decides one request for a report, or another path.
func (r *replaying) ask(path string, with *Replay, cost int64) *Verdict {
	r.t.Helper()
	method := "GET"
	if path == "/graphql" {
		method = "POST"
	}
	v := &Verdict{}
	r.Decide(&Inbound{
		Method: method, Host: "api.example", EscapedPath: path, ClientKnown: true, Client: netip.MustParseAddr("203.0.113.7"), Tenant: "ten_a", Cost: cost, Ends: true, Replay: with,
	}, v)
	return v
}

const aReport = "/v1/reports/1"

func TestReplayer_ValuesStandForHeaders(t *testing.T) {
	t.Parallel()
	r := newReplaying(t, func(id string) bool { return id == "plan.requests" || strings.HasSuffix(id, "concurrency") })
	for range 4 {
		if v := r.ask(aReport, logged(map[string]string{"header:X-Region": "h1"}), 0); !v.Allowed {
			t.Fatalf("%+v", v)
		}
	}
	if v := r.ask(aReport, logged(map[string]string{"header:X-Region": "h1"}), 0); v.Allowed || v.DecidingLimit() != "route:report.region" {
		t.Errorf("the same region again: %+v", v)
	}
	for _, other := range []string{"h2", "", "!"} {
		with := logged(map[string]string{"header:X-Region": other})
		if v := r.ask(aReport, with, 0); !v.Allowed || with.Lacks != "" {
			t.Errorf("region %q: %+v, lacks %q", other, v, with.Lacks)
		}
	}
	without := logged(nil)
	if v := r.ask(aReport, without, 0); !v.Allowed || without.Lacks != "header:X-Region" {
		t.Errorf("%+v, lacks %q", v, without.Lacks)
	}
	// What is told without a log is read from the request.
	v := &Verdict{}
	with := &Replay{Credential: "crd_b"}
	r.Decide(&Inbound{Method: "GET", Host: "h", EscapedPath: aReport, Header: http.Header{"X-Region": {"eu"}}, ClientKnown: true, Tenant: "ten_a", Replay: with}, v)
	if !v.Allowed || v.Credential != "crd_b" || with.Lacks != "" {
		t.Errorf("%+v", v)
	}
}

func TestReplayer_CostsAreThoseOfTheRouteThatIsMetNow(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		path     string
		with     Replay
		want     int64
		unpriced bool
	}{
		"of the route":                     {aReport, Replay{}, 5, false},
		"stated by the caller":             {aReport, Replay{Priced: true}, 7, false},
		"of a query, on a route without":   {aReport, Replay{Priced: true, Queried: true}, 5, false},
		"of a query":                       {"/graphql", Replay{Priced: true, Queried: true}, 7, false},
		"of a query that nobody has":       {"/graphql", Replay{}, 7, true},
		"stated, on a route that computes": {"/graphql", Replay{Priced: true}, 7, false},
	} {
		with := c.with
		with.Logged = true
		if v := newReplaying(t, nil).ask(c.path, &with, 7); !v.Allowed || v.Cost != c.want || with.Unpriced != c.unpriced {
			t.Errorf("%s: cost %d, unpriced %t, %+v", what, v.Cost, with.Unpriced, v)
		}
	}
}

func TestReplayer_PlacesComeBackAndCostsAreCorrected(t *testing.T) {
	t.Parallel()
	r := newReplaying(t, func(id string) bool { return id == "plan.requests" || id == "route:report.region" })
	one, two := r.ask(aReport, logged(nil), 0).Kept(), r.ask(aReport, logged(nil), 0).Kept()
	if one.Empty() || !one.Holds() {
		t.Fatal("a report holds nothing")
	}
	refused := r.ask(aReport, logged(nil), 0)
	if seconds, millis := refused.Waits(); refused.Allowed || refused.DecidingLimit() != "route:report.concurrency" || seconds != 1 || millis != 0 {
		t.Errorf("%+v", refused)
	}
	if kept := refused.Kept(); !kept.Empty() {
		t.Error("a refused request keeps something")
	}
	if err := r.Renew(&one); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(time.Hour) // the other place has ended by itself
	if v := r.ask(aReport, logged(nil), 0); !v.Allowed {
		t.Errorf("%+v", v)
	}
	if v := r.ask(aReport, logged(nil), 0); v.Allowed {
		t.Error("a place that was renewed has ended")
	}
	if err := r.End(&one); err != nil || one.Holds() || one.Empty() {
		t.Errorf("%v; holds %t", err, one.Holds())
	}
	if back, err := r.Settle(&one, 60); err != nil || back { // 55 more than reserved
		t.Fatal(back, err)
	}
	if v := r.ask(aReport, logged(nil), 0); v.Allowed || v.DecidingLimit() != "route:report.own" {
		t.Errorf("after a settlement: %+v", v)
	}
	if back, err := r.Settle(&two, 5); err != nil || back {
		t.Error(back, err)
	}
	if back, err := r.Settle(&two, 4); err != nil || !back {
		t.Error(back, err)
	}
}

func TestReplayer_LeasedLimitsCountExactly(t *testing.T) {
	t.Parallel()
	r := newReplaying(t, func(id string) bool { return id != "global.all" })
	for i := range 96 { // what the rate brings in 50 ms is kept off the burst of 100
		v := r.ask("/graphql", logged(nil), 1)
		if v.Allowed != (i < 95) || !v.Allowed && v.DecidingLimit() != "global.all" {
			t.Fatalf("request %d: %+v", i+1, v)
		}
	}
	seconds, millis := r.ask("/graphql", logged(nil), 1).Waits()
	if seconds != 1 || millis != 10 {
		t.Errorf("waits of %d s and %d ms", seconds, millis)
	}
}

func TestReplayer_RemembersNoRefusal(t *testing.T) {
	t.Parallel()
	r := newReplaying(t, nil)
	for range 4 {
		r.ask("/graphql", logged(nil), 1)
	}
	for range 3 {
		if v := r.ask("/graphql", logged(nil), 1); v.Allowed || v.Cached || v.DecidingLimit() != "plan.requests" {
			t.Errorf("%+v", v)
		}
	}
}

func TestReplayer_WhoIsUnknownIsRefused(t *testing.T) {
	t.Parallel()
	r := newReplaying(t, nil)
	v := &Verdict{}
	r.Decide(&Inbound{Method: "GET", Host: "h", EscapedPath: aReport, ClientKnown: true, Replay: logged(nil)}, v)
	if v.Allowed || v.Code != CodeMissingCredential || v.DecidingLimit() != "" {
		t.Errorf("%+v", v)
	}
	r.Decide(&Inbound{Method: "GET", Host: "h", EscapedPath: "/", ClientKnown: true, Replay: logged(nil)}, v)
	if v.Code != CodeNoRoute {
		t.Errorf("%+v", v)
	}
	v = r.ask(aReport, &Replay{Logged: true, Priced: true}, 61)
	if v.Code != CodeCostExceedsBurst || v.DecidingLimit() != "route:report.region" {
		t.Errorf("%+v names %q", v, v.DecidingLimit())
	}
	if admitted := r.ask(aReport, logged(nil), 0); admitted.DecidingLimit() != "" {
		t.Errorf("an admitted request names %q", admitted.DecidingLimit())
	}
}
