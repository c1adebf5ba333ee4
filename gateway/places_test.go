package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// placesPolicy has places with the shortest lease, beside what refills slowly.
const placesPolicy = `
apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 1000/hour, burst: 1000}]
    quota: {amount: 500, counts: requests, period: month, over: block}
routes:
  - name: slots
    match: ["/slots/"]
    identity: api_key
    motive: fairness
    concurrency: {per: tenant, max: 2, lease: 1s}
    on_store_failure: {mode: closed}
  - name: llm
    match: ["POST /llm"]
    identity: api_key
    motive: fairness
    cost: {reserve: 50, settle_header: X-Cost}
    limits: [{name: tokens, per: tenant, rate: 100/hour, burst: 100}]
    on_store_failure: {mode: closed}
  - name: few
    match: ["/few/"]
    identity: api_key
    motive: fairness
    limits: [{name: few, per: tenant, rate: 2/hour, burst: 2}]
    on_store_failure: {mode: closed}
`

// decide asks the decisions door.
func (r *replica) decide(t *testing.T, tenant, method, path string) (d decision) {
	t.Helper()
	body := fmt.Sprintf(`{"tenant": %q, "method": %q, "path": %q}`, tenant, method, path)
	res, err := http.Post(r.decisions+"/v1/decide", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil || res.StatusCode != 200 {
		t.Fatalf("decide: %d, %v", res.StatusCode, err)
	}
	return d
}

// after asks for what comes after a decision and returns the status.
func (r *replica) after(t *testing.T, path, body string) int {
	t.Helper()
	res, err := http.Post(r.decisions+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// left is what is left of a limit.
func (d decision) left(id string) int64 {
	for _, l := range d.Limits {
		if l.ID == id {
			return l.Remaining
		}
	}
	return -1
}

// a request that takes longer than its lease keeps its place, on every
// replica's view; R-026: the places of a replica that was never heard of again
// are free when the lease is over; R-007: refusals spend nothing elsewhere.
func TestGateways_R026_R028_PlacesOutliveLeasesAndNotTheirHolders(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, placesPolicy)
	key, _ := d.tenant("ten_a", "free")
	d.refill()
	a, b := d.replica(t.TempDir()), d.replica(t.TempDir())
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	done := make(chan struct{}, 2)
	for range 2 {
		go func() {
			req, _ := http.NewRequestWithContext(ctx, "GET", a.url+"/slots/hold", nil)
			req.Header.Set("Authorization", "Bearer "+key)
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
			done <- struct{}{}
		}()
		<-d.places.entered
	}
	refusals := int64(0)
	for start := time.Now(); time.Since(start) < 2500*time.Millisecond; refusals++ { // the lease is 1 s
		res, _ := b.hit(t, "GET", "/slots/x", key)
		if res.StatusCode != 429 || res.Header.Get("Retry-After") != "1" {
			t.Fatalf("%v after two requests took the two places: %d %v", time.Since(start), res.StatusCode, res.Header)
		}
	}
	leave()
	<-done
	<-done
	eventually(t, patience, "the places are free", func() bool {
		res, _ := b.hit(t, "GET", "/slots/x", key)
		return res.StatusCode == 204
	})
	first, second := a.decide(t, "ten_a", "GET", "/slots/x"), a.decide(t, "ten_a", "GET", "/slots/x")
	third := b.decide(t, "ten_a", "GET", "/slots/x")
	if !first.Allowed || !second.Allowed || third.Allowed || third.Reason != "concurrency" {
		t.Fatalf("%+v\n%+v\n%+v", first, second, third)
	}
	var last decision
	eventually(t, patience, "the leases of the silent are over", func() bool {
		last = b.decide(t, "ten_a", "GET", "/slots/x")
		return last.Allowed
	})
	// Admitted were the two, one that found the places free, two and one; the rate
	// refills a little meanwhile, the quota does not.
	rate, quota := 1000-last.left("plan.requests"), 500-last.left("plan.quota")
	if refusals < 10 || quota != 6 || rate > quota {
		t.Errorf("after %d refusals and six admissions %d of the rate are used, %d of the quota", refusals, rate, quota)
	}
}

// a release on any replica ends one lease, however often it is repeated,
// and nobody else's.
func TestGateways_R027_ReleasesEndTheirOwnLease(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, strings.Replace(placesPolicy, "lease: 1s", "lease: 1h", 1))
	d.tenant("ten_a", "free")
	d.refill()
	a, b := d.replica(t.TempDir()), d.replica(t.TempDir())
	one, two := a.decide(t, "ten_a", "GET", "/slots/x"), a.decide(t, "ten_a", "GET", "/slots/x")
	for i := range 5 {
		if got := b.after(t, "/v1/release", lease(one.Lease)); got != 204 {
			t.Errorf("release %d: %d", i, got)
		}
	}
	three := b.decide(t, "ten_a", "GET", "/slots/x")
	if four := b.decide(t, "ten_a", "GET", "/slots/x"); !three.Allowed || four.Allowed {
		t.Fatalf("after one of two was released: %+v, %+v", three, four)
	}
	for _, token := range []string{one.Lease, two.Lease, three.Lease, two.Lease} {
		if got := a.after(t, "/v1/release", lease(token)); got != 204 {
			t.Errorf("release: %d", got)
		}
	}
	if d := a.decide(t, "ten_a", "GET", "/slots/x"); d.left("route:slots.concurrency") != 1 {
		t.Errorf("one place is held: %+v", d)
	}
}

// A settlement on another replica counts once.
func TestGateways_SettleOnceOnAnyReplica(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, placesPolicy)
	d.tenant("ten_a", "free")
	d.refill()
	a, b := d.replica(t.TempDir()), d.replica(t.TempDir())
	first := a.decide(t, "ten_a", "POST", "/llm")
	if !first.Allowed || first.left("route:llm.tokens") != 50 || first.Lease == "" {
		t.Fatalf("%+v", first)
	}
	for _, r := range []*replica{b, a, b} {
		if got := r.after(t, "/v1/settle", fmt.Sprintf(`{"lease": %q, "cost": 20}`, first.Lease)); got != 204 {
			t.Errorf("settle: %d", got)
		}
	}
	second := b.decide(t, "ten_a", "POST", "/llm")
	if !second.Allowed || second.left("route:llm.tokens") != 30 {
		t.Errorf("20 are spent and 50 reserved of 100: %+v", second)
	}
}

// A raised limit reaches a replica that has been refusing from memory, by the
// directory's stream alone.
func TestGateways_AnOverrideEndsRememberedRefusals(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, placesPolicy)
	d.tenant("ten_a", "free")
	d.refill()
	r := d.replica(t.TempDir())
	for i := range 5 {
		if got := r.decide(t, "ten_a", "GET", "/few/x"); got.Allowed != (i < 2) {
			t.Fatalf("request %d: %+v", i, got)
		}
	}
	if n := counter(t, r.g, "headgate_cached_refusals_total", "few"); n < 2 {
		t.Errorf("%v of three refusals were remembered", n)
	}
	burst := int64(10)
	record := policy.TenantRecord{ID: "ten_a", Plan: "free", State: policy.TenantActive, Overrides: []policy.Override{
		{Limit: "route:few.few", Rate: "100000/hour", Burst: &burst, Reason: "launch", Author: "ann"},
	}}
	start := time.Now()
	if _, err := d.publisher.PutRecords(t.Context(), []policy.SignedRecord{d.record(policy.RecordTenant, "ten_a", 2, record)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the override holds", func() bool {
		got := r.decide(t, "ten_a", "GET", "/few/x")
		return got.Allowed && got.Limits[len(got.Limits)-2].Source == "override"
	})
	promised(t, "override to admission", time.Since(start), time.Second)
}
