package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
)

const (
	places = 5
	lease  = 2 * time.Second
)

// placesPolicy has five places, whose leases are short.
const placesPolicy = `
apiVersion: headgate/v1
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 100000/minute, burst: 100000}]}
routes:
  - name: slots
    match: ["/slots/"]
    identity: api_key
    motive: fairness
    concurrency: {per: tenant, max: 5, lease: 2s}
    on_store_failure: {mode: closed}
  - name: all
    match: ["/"]
    identity: api_key
    motive: quota
    on_store_failure: {mode: closed}
`

// held is requests that the upstream keeps waiting, until leave.
type held struct {
	leave context.CancelFunc
	gone  chan struct{} // one per request that has ended
}

// hold has a gateway forward n requests that wait at the upstream.
func (m *Member) hold(t *testing.T, n int) *held {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	h := &held{leave: cancel, gone: make(chan struct{}, n)}
	for range n {
		h.one(ctx, t, m)
	}
	return h
}

// one takes a place as soon as there is one.
func (h *held) one(ctx context.Context, t *testing.T, m *Member) {
	t.Helper()
	eventually(t, time.Minute, "a place is free", func() error {
		ended := make(chan Answer, 1)
		go func() { ended <- m.Proxy(ctx, m.f.Key, "/slots/hold") }()
		select {
		case <-m.f.Upstream.Entered:
			go func() { <-ended; h.gone <- struct{}{} }()
			return nil
		case a := <-ended:
			return fmt.Errorf("status %d: %s", a.Status, a.Body)
		}
	})
}

// full wants a gateway to refuse a request for want of a place.
func full(t *testing.T, m *Member) {
	t.Helper()
	a := m.Proxy(t.Context(), m.f.Key, "/slots/x")
	if a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "1" || str(a.JSON(t), "reason") != "concurrency" {
		t.Errorf("with all places taken: status %d, Retry-After %q: %s", a.Status, a.Header.Get("Retry-After"), a.Body)
	}
}

// TestPlaces_R026_AKilledGatewayLeaksNothingBeyondTheLease takes all places
// through one gateway, kills it, and gets all of them through another one.
func TestPlaces_R026_AKilledGatewayLeaksNothingBeyondTheLease(t *testing.T) {
	t.Parallel()
	f := NewFleet(t, testkit.RedisURL(t), placesPolicy)
	f.Start(2, unhurried)
	a, b := f.Gateways[0], f.Gateways[1]
	a.hold(t, places)
	for began := time.Now(); time.Since(began) < lease*3/2; { // they are renewed while the requests last
		full(t, b)
	}
	killed := time.Now()
	a.Kill()
	h := b.hold(t, places)
	took(t, "all places after a kill -9 of their holder", time.Since(killed), lease+time.Second)
	if most := f.Upstream.Most(); most > places {
		t.Errorf("%d requests were with the upstream at once, over %d places", most, places)
	}
	full(t, b)

	left := time.Now()
	h.leave() // clients that hang up
	for range places {
		<-h.gone
	}
	b.hold(t, places-1)
	took(t, "places of clients that hung up", time.Since(left), time.Second)
	for range 2 * places { // an upstream that cuts the connection in the middle
		if got := b.Proxy(t.Context(), f.Key, "/slots/panic"); got.Status != http.StatusBadGateway {
			t.Errorf("an upstream that panics: status %d: %s", got.Status, got.Body)
		}
	}
	if got := b.Proxy(t.Context(), f.Key, "/slots/x"); got.Status != http.StatusOK {
		t.Errorf("the last place: status %d: %s", got.Status, got.Body)
	}
}

// TestPlaces_R028_G06_ASuspendedGatewayFreesNobodysPlace suspends a gateway for
// longer than the lease. Others get its places meanwhile; when it goes on it
// neither renews nor frees what is theirs.
func TestPlaces_R028_G06_ASuspendedGatewayFreesNobodysPlace(t *testing.T) {
	t.Parallel()
	f := NewFleet(t, testkit.RedisURL(t), placesPolicy)
	f.Start(2, unhurried)
	a, b := f.Gateways[0], f.Gateways[1]
	late := a.hold(t, places)
	a.proc.Signal(syscall.SIGSTOP)
	h := b.hold(t, places)
	a.proc.Signal(syscall.SIGCONT)
	eventually(t, time.Minute, "the gateway knows that it lost its leases", func() error {
		if n := a.metric("headgate_leases_lost_total"); n != places {
			return fmt.Errorf("%v are lost", n)
		}
		return nil
	})
	full(t, a)
	full(t, b)
	late.leave()
	for range places {
		<-late.gone
	}
	for range places {
		full(t, a)
		full(t, b)
	}
	h.leave()
	for range places {
		<-h.gone
	}
	a.hold(t, places)
}

// TestPlaces_R027_ReleasesAtAnyGatewayFreeOnePlaceEach takes places at a door that
// does not see the end, and gives them back at another gateway: twice, and as
// nobody was given them.
func TestPlaces_R027_ReleasesAtAnyGatewayFreeOnePlaceEach(t *testing.T) {
	t.Parallel()
	document := strings.Replace(placesPolicy, "lease: 2s", "lease: 1h", 1) // nothing is free by itself
	f := NewFleet(t, testkit.RedisURL(t), document)
	f.Start(2, unhurried, "--decide-token=shared-by-the-gateways-0123456789")
	a, b := f.Gateways[0], f.Gateways[1]
	take := func(m *Member, want int) string {
		t.Helper()
		got := m.Check(f.Key, "/slots/x")
		if got.Status != want {
			t.Fatalf("status %d, want %d: %s", got.Status, want, got.Body)
		}
		return got.Header.Get("X-Headgate-Lease")
	}
	var leases []string
	for range places {
		leases = append(leases, take(a, http.StatusOK))
	}
	for range 3 * places { // refusals free nothing
		take(b, http.StatusTooManyRequests)
	}
	for _, l := range leases {
		for range 3 {
			if got := b.release(t.Context(), l); got.Status != http.StatusNoContent {
				t.Errorf("release: status %d: %s", got.Status, got.Body)
			}
		}
		take(a, http.StatusOK)
		take(b, http.StatusTooManyRequests)
	}
	if got := b.release(t.Context(), "nobody's"); got.Status != http.StatusBadRequest {
		t.Errorf("release of what is no lease: status %d: %s", got.Status, got.Body)
	}
	take(a, http.StatusTooManyRequests)
}

// release gives a place back.
func (m *Member) release(ctx context.Context, lease string) Answer {
	return fetch(ctx, http.DefaultClient, http.MethodPost, "http://"+m.at.Load().Decide+"/v1/release", fmt.Sprintf(`{"lease": %q}`, lease),
		http.Header{"Content-Type": {"application/json"}})
}
