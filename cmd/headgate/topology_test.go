package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy/feed"
)

// topologyPolicy counts a request in every lane that there is.
const topologyPolicy = `
apiVersion: headgate/v1
global:
  limits: [{name: all, per: global, rate: 1000/second, burst: 1000}, {name: each, per: ip, rate: 1000/second, burst: 1000}]
plans:
  free:
    limits: [{name: requests, per: tenant, rate: 20/day, burst: 20}]
    quota: {amount: 1000, counts: cost, period: month, alignment: calendar, time_zone: UTC, over: block}
routes:
  - name: all
    match: ["/"]
    limits: [{name: keys, per: credential, rate: 1000/second, burst: 1000}]
    concurrency: {per: tenant, max: 50, lease: 30s}
    on_store_failure: {mode: closed}
`

// startGateway runs a gateway in front of an upstream until the test ends and
// returns the address of its proxy.
func startGateway(t *testing.T, redisURL, public string) string {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	addresses := filepath.Join(dir, "addresses.json")
	c := gatewayCmd{
		RedisURL: redisURL, RedisNamespace: "hg", Deployment: "test", PolicyKeyFile: []string{public}, StateDir: filepath.Join(dir, "state"),
		Listen: "127.0.0.1:0", Upstream: upstream.URL, AdminListen: "127.0.0.1:0", AddrFile: addresses, Budget: 2 * time.Second, Drain: time.Second, LogLevel: slog.LevelError + 1,
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("gateway stopped with %v", err)
		}
	})
	var bound map[string]string
	eventually(t, "the gateway's addresses", func() bool {
		raw, err := os.ReadFile(addresses)
		return err == nil && json.Unmarshal(raw, &bound) == nil
	})
	return bound["proxy"]
}

// TestHeadgate_R041_CountsAcrossGatewaysOnEveryTopology runs console and two
// gateways, as processes would, on Sentinel and on a Cluster.
func TestHeadgate_R041_CountsAcrossGatewaysOnEveryTopology(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(testing.TB) string{
		"Sentinel": func(t testing.TB) string { return testkit.Sentinel(t, testkit.WithMinReplicas()).URL() },
		"Cluster":  func(t testing.TB) string { return testkit.Cluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, redisURL := testkit.Postgres(t), begin(t)
			private, public, err := writeSigningKeys(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			startConsoleWith(t, dsn, redisURL, private)
			key := publishAndIssue(t, dsn, redisURL)
			gateways := []string{startGateway(t, redisURL, public), startGateway(t, redisURL, public)}
			get := func(i int) (int, string) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+gateways[i%2]+"/", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+key)
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = res.Body.Close() }()
				body, _ := io.ReadAll(res.Body)
				return res.StatusCode, string(body)
			}
			admitted := 0
			for i := range 2 {
				eventually(t, "a first admission", func() bool {
					status, _ := get(i)
					if status == http.StatusOK {
						admitted++
					}
					return status == http.StatusOK
				})
			}
			for i := range 40 {
				switch status, body := get(i); {
				case status == http.StatusOK:
					admitted++
				case status != http.StatusTooManyRequests:
					t.Fatalf("request %d: %d %s", i, status, body)
				}
			}
			if admitted != 20 {
				t.Errorf("%d of 42 admitted, want the burst of 20", admitted)
			}
		})
	}
}

// publishAndIssue publishes topologyPolicy and issues a key, by the console's
// own services, and returns the secret.
func publishAndIssue(t *testing.T, dsn, redisURL string) string {
	t.Helper()
	store, err := db.Open(t.Context(), dsn, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	publisher, err := feed.NewPublisher(feed.Config{Client: openWire(t, redisURL), Deployment: "test"})
	if err != nil {
		t.Fatal(err)
	}
	deps := console.Deps{Store: store, Feed: publisher, Deployment: "test"}
	if _, err := console.NewPolicies(deps).Publish(t.Context(), shellActor(), []byte(topologyPolicy), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	tenant, err := console.NewTenants(deps).Create(t.Context(), shellActor(), console.NewTenant{Name: "A", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	issued, err := console.NewKeys(deps).IssueCredential(t.Context(), shellActor(), tenant.ID, console.NewCredential{Name: "a", Environment: "live"})
	if err != nil {
		t.Fatal(err)
	}
	return issued.Secret.Reveal()
}

// openWire is a client of the wire for a URL.
func openWire(t *testing.T, address string) redis.UniversalClient {
	t.Helper()
	var p config.Problems
	_, o := redisURL(&p, address, "")
	if o == nil {
		t.Fatal(p.Err())
	}
	c := wireClient(o, "")
	t.Cleanup(func() { _ = c.Close() })
	return c
}
