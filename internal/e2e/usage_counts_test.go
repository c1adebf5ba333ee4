package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
)

// countsPolicy admits 20 a tenant on /few, everything on /many, and knows no other path.
const countsPolicy = `
apiVersion: headgate/v1
plans: {free: {limits: []}}
routes:
  - {name: few, match: ["/few"], identity: api_key, motive: fairness, cost: 3, limits: [{name: few, per: tenant, rate: 60/day, burst: 60}], on_store_failure: {mode: closed}}
  - {name: many, match: ["/many"], identity: api_key, motive: fairness, on_store_failure: {mode: open, fallback: unlimited}}
  - {name: warm, match: ["/warm"], identity: api_key, motive: fairness, limits: [{name: any, per: tenant, rate: 1000/second, burst: 1000}], on_store_failure: {mode: closed}}
`

// TestUsage_R110_I07_CallersMetricsAndLedgerAgree sends a known number of requests of all
// kinds to two gateways by two doors, and counts them three ways, also after one of the
// gateways was told to stop.
func TestUsage_R110_I07_CallersMetricsAndLedgerAgree(t *testing.T) {
	t.Parallel()
	const rounds, workers = 40, 4
	f := NewFleet(t, testkit.RedisURL(t), countsPolicy)
	f.Start(2, unhurried)
	books := newClerk(t, f.redisURL)
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() { books.run(ctx) })
	defer func() { stop(); reading.Wait() }()

	var mu sync.Mutex
	saw := map[string]int64{} // answers by path and status
	var load sync.WaitGroup
	for w := range workers {
		load.Go(func() {
			for i := range rounds {
				m := f.Gateways[(i+w)%2]
				for _, path := range []string{"/few", "/many", "/none"} {
					a := m.Proxy(t.Context(), f.Key, path)
					if path == "/many" && i%2 == 0 {
						a = m.Check(f.Key, path)
						mu.Lock()
						saw["/many 200"]++ // the one by the proxy door
						mu.Unlock()
					}
					mu.Lock()
					saw[fmt.Sprint(path, " ", a.Status)]++
					mu.Unlock()
				}
				if a := m.Proxy(t.Context(), "hg_live_nonsense", "/many"); a.Status != http.StatusUnauthorized && a.Status != http.StatusTooManyRequests {
					t.Errorf("a wrong key gets %d", a.Status)
				}
			}
		})
	}
	load.Wait()
	mu.Lock()
	defer mu.Unlock()
	if saw["/few 200"] != 20 || saw["/few 429"] != rounds*workers-20 || saw["/none 404"] != rounds*workers || saw["/many 200"] != rounds*workers*3/2 {
		t.Fatalf("answers are %v", saw)
	}

	received, classes := map[*Member]float64{}, 0.0
	for _, m := range f.Gateways {
		received[m] = m.metric("headgate_received_total")
		classes += m.metric("headgate_decisions_total")
	}
	f.Gateways[0].Term()
	f.Gateways[1].spoolEmpty()
	total := received[f.Gateways[0]] + received[f.Gateways[1]]
	sent := float64(rounds*workers*4 + rounds*workers/2)
	eventually(t, time.Minute, "the ledger has as many as the gateways received", func() error {
		if n := books.requests(""); float64(n) != total {
			return fmt.Errorf("%d of %v", n, total)
		}
		return nil
	})
	warm, _ := books.sums("warm", "admitted")
	if classes != total || total != sent+float64(warm) {
		t.Errorf("sent %v and %d before, received %v, of a class %v", sent, warm, total, classes)
	}
	for _, m := range f.Gateways {
		if n := books.requests(m.id(t)); float64(n) != received[m] {
			t.Errorf("a gateway received %v, its events have %d", received[m], n)
		}
	}
	if n, cost := books.sums("few", "admitted"); n != 20 || cost != 60 {
		t.Errorf("/few: %d of cost %d", n, cost)
	}
	if n, cost := books.sums("few", "limited"); n != saw["/few 429"] || cost != 0 {
		t.Errorf("/few refused: %d of cost %d, callers saw %d", n, cost, saw["/few 429"])
	}
	if n, _ := books.sums("many", "admitted"); n != saw["/many 200"] {
		t.Errorf("/many: %d, callers saw %d", n, saw["/many 200"])
	}
	if n, _ := books.sums("", "no-route"); n != saw["/none 404"] {
		t.Errorf("no route: %d, callers saw %d", n, saw["/none 404"])
	}
}

// requests is how many requests all events have, of one replica or of all ("").
func (c *clerk) requests(replica string) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for run, of := range c.events {
		if !strings.HasPrefix(run, replica) {
			continue
		}
		for _, e := range of {
			n += e.Requests
		}
	}
	return n
}

// id is the replica's, as its log says it.
func (m *Member) id(t *testing.T) string {
	t.Helper()
	_, rest, found := strings.Cut(string(tail(m.Log)), `"replica":"`)
	id, _, ended := strings.Cut(rest, `"`)
	if !found || !ended {
		t.Fatalf("the log names no replica: %s", tail(m.Log))
	}
	return id
}
