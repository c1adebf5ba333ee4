package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// trafficCmd plays the demo's sample tenants: some stay within their limits,
// some do not, and somebody tries keys that are none.
type trafficCmd struct {
	PlanFile string `help:"JSON file: gateways, and tenants with their keys." required:""`
}

// trafficPlan is the content of the plan file.
type trafficPlan struct {
	Gateways []string        `json:"gateways"`
	Tenants  []trafficTenant `json:"tenants"`
}

type trafficTenant struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// habit is how a tenant behaves: requests per second on average, how far they
// swing around it over a few minutes, and what is called.
type habit struct {
	perSecond, swing float64
	calls            []call
}

type call struct {
	method, path string
	weight       int
}

// habits are dealt to the tenants in order. The second and the fifth want more
// than a free plan's one request a second.
func habits() []habit {
	browse := []call{{"GET", "/v1/items", 8}, {"GET", "/v1/items/42", 5}, {"GET", "/v1/search?q=lamp", 2}, {"GET", "/v1/reports/weekly", 1}}
	return []habit{
		{14, 0.5, browse},
		{2.2, 0.6, []call{{"GET", "/v1/items", 3}, {"GET", "/v1/search?q=trend", 1}}},
		{9, 0.7, []call{{"GET", "/v1/shipments", 4}, {"GET", "/v1/search?q=port", 5}, {"GET", "/v1/reports/daily", 1}}},
		{5, 0.4, []call{{"POST", "/v1/payments", 3}, {"GET", "/v1/items", 1}}},
		{1.3, 0.9, []call{{"GET", "/v1/items", 1}}},
	}
}

// Run sends requests until told to stop. Gateways that are away are passed over.
func (c *trafficCmd) Run(ctx context.Context) error {
	b, err := os.ReadFile(c.PlanFile)
	if err != nil {
		return fmt.Errorf("--plan-file: %w", err)
	}
	var plan trafficPlan
	if err := json.Unmarshal(b, &plan); err != nil {
		return fmt.Errorf("--plan-file: %w", err)
	}
	if len(plan.Gateways) == 0 {
		return fmt.Errorf("--plan-file: %s names no gateways", c.PlanFile)
	}
	var wg sync.WaitGroup
	h := habits()
	for i, t := range plan.Tenants {
		c, _ := client(i)
		wg.Go(func() { play(ctx, plan.Gateways, t.Key, h[i%len(h)], c) })
	}
	// Refused keys are counted per address. Strangers play only where they have
	// one of their own, or they would shut out everybody on this machine.
	if c, own := client(len(plan.Tenants)); own {
		strangers := habit{0.2, 0.8, []call{{"GET", "/v1/items", 3}, {"POST", "/login", 2}}}
		wg.Go(func() { play(ctx, plan.Gateways, "hg_live_not-a-key", strangers, c) })
	}
	wg.Wait()
	return nil
}

// client speaks from a loopback address of its own where the system has them
// (Linux), so that what is counted per address is counted per caller. It
// reports whether it does.
func client(n int) (c *http.Client, own bool) {
	d := &net.Dialer{Timeout: 2 * time.Second}
	from := net.IPv4(127, 0, 10, byte(10+n))
	if l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: from}); err == nil {
		_ = l.Close()
		d.LocalAddr, own = &net.TCPAddr{IP: from}, true
	}
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 4}}, own
}

// play sends one tenant's requests, spread over the gateways, one after the
// other.
func play(ctx context.Context, gateways []string, key string, h habit, c *http.Client) {
	var deck []call
	for _, k := range h.calls {
		for range k.weight {
			deck = append(deck, k)
		}
	}
	started := time.Now()
	phase := rand.Float64() * 2 * math.Pi //nolint:gosec // traffic for show
	for {
		// A slow swing over three minutes and the chance of single calls.
		swing := 1 + h.swing*math.Sin(phase+time.Since(started).Minutes()*2*math.Pi/3)
		pause := time.Duration(rand.ExpFloat64() / (h.perSecond * swing) * float64(time.Second)) //nolint:gosec // as above
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(pause, 20*time.Second)):
		}
		send(ctx, c, gateways[rand.IntN(len(gateways))], deck[rand.IntN(len(deck))], key) //nolint:gosec // as above
	}
}

// send makes one request. Its answer is the gateway's and the console's to
// show; errors are expected while parts are down.
func send(ctx context.Context, c *http.Client, gateway string, k call, key string) {
	req, err := http.NewRequestWithContext(ctx, k.method, gateway+k.path, nil)
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("User-Agent", "headgate-demo-traffic")
	res, err := c.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	_ = res.Body.Close()
}
