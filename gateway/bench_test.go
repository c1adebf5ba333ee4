package gateway

import (
	"net/http"
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
