package envoy

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// openPolicy has limits that a benchmark does not reach.
const openPolicy = `
apiVersion: headgate/v1
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 1000000000/second}]}
routes:
  - name: item
    match: ["GET /v1/items/{id}"]
    limits: [{name: a, per: tenant, rate: 1000000000/second}, {name: b, per: credential, rate: 1000000000/second}]
    on_store_failure: {mode: closed}
  - name: stopped
    match: ["GET /stopped"]
    limits: [{name: none, per: tenant, rate: 1/day}]
    on_store_failure: {mode: closed}
`

// rounds runs calls as the transport does: bytes in, bytes out.
func rounds(tb testing.TB, f *fixture, path string) func() {
	tb.Helper()
	raw, err := proto.Marshal(request(about("GET", path)))
	if err != nil {
		tb.Fatal(err)
	}
	limits, codec := newRateLimits(f.server), newCodec()
	return func() {
		c := limits.calls.get()
		if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, c); err != nil {
			tb.Fatal(err)
		}
		if err := limits.shouldRateLimit(tb.Context(), c); err != nil {
			tb.Fatal(err)
		}
		out, err := codec.Marshal(c)
		if err != nil {
			tb.Fatal(err)
		}
		out.Free()
	}
}

// What a call costs beside the transport and Redis.
func BenchmarkRateLimit(b *testing.B) {
	for name, path := range map[string]string{"admitted": "/v1/items/7", "refused": "/stopped"} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, func(s *setup) { s.policy = openPolicy })
			round := rounds(b, f, path)
			round()
			b.ReportAllocs()
			for b.Loop() {
				round()
			}
		})
	}
}
