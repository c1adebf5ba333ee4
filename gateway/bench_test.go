package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// BenchmarkDecide measures the gateway's own share of a decision: everything but
// Redis and the upstream.
func BenchmarkDecide(b *testing.B) {
	f := newFixture(b, testPolicy, nil)
	key := f.key("ten_big", "big")
	in := Inbound{
		Method: "GET", Host: "api.example", EscapedPath: "/api/x", Peer: netip.MustParseAddr("192.0.2.1"),
		Header: http.Header{"Authorization": {"Bearer " + key}},
	}
	b.ReportAllocs()
	for b.Loop() {
		v := f.g.decide(b.Context(), &in)
		if v.Status != 200 && v.Status != 429 {
			b.Fatal(v.Status)
		}
		h := http.Header{}
		f.g.writeHeaders(h, &v)
	}
}

// BenchmarkRefused measures a refusal that is remembered, at the proxy door: what
// a flood costs.
func BenchmarkRefused(b *testing.B) {
	f := newFixture(b, testPolicy, nil)
	key := f.key("ten_a", "free")
	h := f.g.ProxyHandler()
	r := httptest.NewRequest("GET", "/v1/reports/1", nil)
	r.RemoteAddr = "192.0.2.1:4711"
	r.Header.Set("Authorization", "Bearer "+key)
	w := &discard{h: http.Header{}}
	for range 3 {
		h.ServeHTTP(w, r)
	}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.h)
		h.ServeHTTP(w, r)
		if w.status != 429 {
			b.Fatal(w.status)
		}
	}
}

// discard takes an answer and keeps its status.
type discard struct {
	h      http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
