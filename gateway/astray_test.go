package gateway

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/headgate/headgate/usage"
)

// catchAllPolicy has a route of its own and one for every path.
const catchAllPolicy = `
apiVersion: headgate/v1
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: ip
    motive: fairness
    limits: [{name: per-ip, per: ip, rate: 1000000/second, burst: 1000000}]
    on_store_failure: {mode: closed}
  - name: rest
    match: ["GET /", "POST /upload/"]
    identity: ip
    motive: fairness
    limits: [{name: per-ip, per: ip, rate: 1000000/second, burst: 1000000}]
    on_store_failure: {mode: closed}
`

// put decides one request at no door in particular.
func (f *fixture) put(in Inbound) Verdict {
	in.Host, in.Peer = "api.example", netip.MustParseAddr("192.0.2.1")
	if in.Header == nil {
		in.Header = http.Header{}
	}
	return f.g.decide(f.t.Context(), &in)
}

func TestAstray_PathsWithoutARouteOfTheirOwnAreCountedAsTemplates(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catchAllPolicy, nil)
	f.put(Inbound{Method: "GET", EscapedPath: "/v1/reports/7"})
	f.put(Inbound{Method: "POST", EscapedPath: "/upload/7"})
	f.put(Inbound{Method: "GET", EscapedPath: "/v1/invoices/1234", Query: "token=secret"})
	f.put(Inbound{Method: "GET", EscapedPath: "/v1/invoices/5678"})
	f.put(Inbound{Method: "DELETE", EscapedPath: "/users/jane%40example.com"})
	f.put(Inbound{Method: "GET", EscapedPath: "/a/../b"})
	f.put(Inbound{Method: "GET", EscapedPath: "/named", RouteName: "report"})
	f.put(Inbound{Method: "GET", EscapedPath: "/named", RouteName: "no-such"})
	f.put(Inbound{Method: "GET", EscapedPath: "/peeked", Peek: true})
	d := f.g.counter.CutLast(f.g.cfg.Now().Add(1e9)).Detail
	at := f.g.cfg.Now().Unix()
	want := []usage.PathRow{
		{Method: "GET", Path: "/v1/invoices/{id}", Route: "rest", Requests: 2, Last: at},
		{Method: "DELETE", Path: "/users/{id}", Requests: 1, Last: at},
	}
	if fmt.Sprint(d.Paths) != fmt.Sprint(want) || d.Rest != 0 {
		t.Fatalf("paths are %+v, want %+v", d.Paths, want)
	}
	timed := map[string]int64{}
	for _, r := range d.Times {
		for _, n := range r.Buckets {
			timed[r.Route] += n
		}
	}
	if timed["report"] != 2 || timed["rest"] != 3 || len(timed) != 2 {
		t.Fatalf("times are %v", timed)
	}
}

func TestAstray_PreflightCountsForTheMethodThatItAsksFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	v := f.put(Inbound{Method: "OPTIONS", EscapedPath: "/lost", Header: http.Header{"Origin": {"https://a.example"}, "Access-Control-Request-Method": {"PUT"}}})
	if v.Code != CodeNoRoute {
		t.Fatalf("code %q", v.Code)
	}
	if d := f.g.counter.CutLast(f.g.cfg.Now().Add(1e9)).Detail; len(d.Paths) != 1 || d.Paths[0].Method != "PUT" {
		t.Fatalf("paths are %+v", d.Paths)
	}
}

// BenchmarkAstray sets a request with a route of its own against those without.
func BenchmarkAstray(b *testing.B) {
	for name, path := range map[string]string{"own-route": "/v1/reports/7", "catch-all": "/v1/invoices/1234"} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, catchAllPolicy, nil)
			in := Inbound{Method: "GET", Host: "api.example", EscapedPath: path, Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				f.g.decide(b.Context(), &in)
			}
		})
	}
}
