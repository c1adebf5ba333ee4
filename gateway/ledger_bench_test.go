package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
)

const benchPolicy = `
apiVersion: headgate/v1
credentials: {headers: [{name: Authorization, scheme: Bearer}]}
plans: {free: {limits: [{name: requests, per: tenant, rate: 1000000000/second}]}}
routes:
  - {name: all, match: ["/"], identity: api_key, motive: fairness, on_store_failure: {mode: closed}}
`

// BenchmarkProxy is what a forwarded request costs with an upstream on loopback and
// limits in memory: beside a bare reverse proxy, and with and without notes on the disk (T7).
func BenchmarkProxy(b *testing.B) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	for _, c := range []struct {
		name    string
		changes func(b *testing.B) []func(*Config)
	}{
		{"bare", nil},
		{"headgate", func(b *testing.B) []func(*Config) { return nil }},
		{"headgate noted", func(b *testing.B) []func(*Config) { return []func(*Config){spooled(b, b.TempDir(), 8<<30)} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := httptest.NewServer(upstream)
			defer s.Close()
			var h http.Handler
			headers := []string{"Authorization", "Bearer none"}
			if c.changes == nil {
				proxy := httputil.NewSingleHostReverseProxy(mustURL(b, s.URL))
				proxy.Transport, proxy.BufferPool = upstreamTransport(DefaultUpstreamTimeout), &buffers{}
				h = proxy
			} else {
				f := newFixture(b, benchPolicy, upstream, c.changes(b)...)
				h, headers = f.g.ProxyHandler(), bearer(f.key("ten_a", "free"))
			}
			front := httptest.NewServer(h)
			defer front.Close()
			client := &http.Client{Transport: upstreamTransport(DefaultUpstreamTimeout)}
			b.SetParallelism(16)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, front.URL+"/x", nil)
					r.Header.Set(headers[0], headers[1])
					res, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					if res.StatusCode != http.StatusOK {
						b.Errorf("status %d", res.StatusCode)
						return
					}
				}
			})
		})
	}
}
