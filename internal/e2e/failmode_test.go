package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestFailModes_HoldWhileRedisIsDeadAndEndWithIt(t *testing.T) {
	t.Parallel()
	d := StartDemo(t)
	d.Publish(document(60, 60))
	known, _ := d.NewTenant("Known", "pro")
	unseen, _ := d.NewTenant("Unseen", "pro")
	for i := range d.Gateways {
		decidedByRedis(t, d, i, known.Key)
		decidedByRedis(t, d, i, quiet(t, d, "free").Key)
	}
	d.Kill(d.Processes.Redis)
	var waits []time.Duration
	hit := func(i int, key, path string) Answer {
		a := d.Hit(i, key, path)
		waits = append(waits, a.Took)
		return a
	}
	for i := range d.Gateways {
		openGoesOnWithinItsFallback(t, i, known.Key, hit)
		closedAnswers503(t, i, known.Key, hit)
		unseenKeyIsNotAdmitted(t, i, unseen.Key, hit)
		if a := hit(i, quiet(t, d, "free").Key, "/x"); a.Status != http.StatusOK {
			t.Errorf("gateway %d: another tenant has a fallback of its own, but got %d", i+1, a.Status)
		}
	}
	slices.Sort(waits)
	took(t, "longest request while Redis was dead", waits[len(waits)-1], 50*time.Millisecond)
	d.Restart(d.Processes.Redis)
	d.WaitPort(d.Redis)
	back := time.Now()
	for i := range d.Gateways {
		eventually(t, 30*time.Second, "normal again", func() error {
			a := d.Hit(i, unseen.Key, "/closed/x")
			if a.Status != http.StatusOK || a.Header.Get("RateLimit") == "" {
				return fmt.Errorf("gateway %d: status %d: %s", i+1, a.Status, a.Body)
			}
			return nil
		})
	}
	took(t, "normal again on all gateways", time.Since(back), time.Second)
	policyIsBackInRedis(t, d)
}

// decidedByRedis makes a gateway know a key. On a busy machine the decision may
// take longer than its budget and then draws from the fallback: that has come back
// ten seconds later, at six a minute.
func decidedByRedis(t *testing.T, d *Demo, i int, key string) {
	t.Helper()
	eventually(t, 90*time.Second, "decided by Redis, with a full fallback", func() error {
		a := d.Hit(i, key, "/x")
		if a.Status == http.StatusOK && a.Header.Get("RateLimit") != "" {
			return nil
		}
		time.Sleep(12 * time.Second) //nolint:forbidigo // the fallback's own time has to pass
		return fmt.Errorf("gateway %d: status %d without numbers", i+1, a.Status)
	})
}

// openGoesOnWithinItsFallback holds the open route to its burst of five.
func openGoesOnWithinItsFallback(t *testing.T, i int, key string, hit func(int, string, string) Answer) {
	t.Helper()
	admitted, from := 0, time.Now()
	for range 9 {
		a := hit(i, key, "/x")
		switch a.Status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
			if reason := str(a.JSON(t), "reason"); reason != "fallback" {
				t.Errorf("gateway %d: refused for %q", i+1, reason)
			}
		default:
			t.Errorf("gateway %d: status %d: %s", i+1, a.Status, a.Body)
		}
		if a.Header.Get("RateLimit") != "" {
			t.Errorf("gateway %d invents what is left: %s", i+1, a.Header.Get("RateLimit"))
		}
	}
	if most := 5 + int(time.Since(from).Seconds()/10); admitted < 5 || admitted > most {
		t.Errorf("gateway %d: the fallback of 5 admitted %d", i+1, admitted)
	}
}

func closedAnswers503(t *testing.T, i int, key string, hit func(int, string, string) Answer) {
	t.Helper()
	a := hit(i, key, "/closed/x")
	after, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if a.Status != http.StatusServiceUnavailable || err != nil || after < 1 || after > 3 {
		t.Errorf("gateway %d, closed route: status %d, Retry-After %q", i+1, a.Status, a.Header.Get("Retry-After"))
	}
	if kind := str(a.JSON(t), "type"); !strings.HasSuffix(kind, "#temporary-reduced-capacity") {
		t.Errorf("gateway %d, closed route: type %q", i+1, kind)
	}
}

func unseenKeyIsNotAdmitted(t *testing.T, i int, key string, hit func(int, string, string) Answer) {
	t.Helper()
	for _, path := range []string{"/x", "/closed/x"} {
		a := hit(i, key, path)
		if a.Status != http.StatusServiceUnavailable || str(a.JSON(t), "code") != "identity-unavailable" {
			t.Errorf("gateway %d: a key it never saw got %d: %s", i+1, a.Status, a.Body)
		}
	}
}

// policyIsBackInRedis holds that the console has filled the empty Redis again.
func policyIsBackInRedis(t *testing.T, d *Demo) {
	t.Helper()
	c := d.RedisClient()
	eventually(t, 30*time.Second, "policy and tenants are in Redis", func() error {
		v, err := c.HGet(t.Context(), "hg:{policy}:head", "version").Result()
		if err != nil || v != "2" {
			return fmt.Errorf("version %q, %w", v, err)
		}
		keys, err := c.Keys(t.Context(), "hg:tenant:*").Result()
		if err != nil || len(keys) < len(d.Tenants) {
			return fmt.Errorf("%d tenants, %w", len(keys), err)
		}
		return nil
	})
}
