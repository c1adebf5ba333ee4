package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDemo_AnEmergencyPublishNeedsNoRedis kills Redis and changes the fail mode
// of a route all the same. Afterwards Redis comes back with nothing, and nothing
// goes back.
func TestDemo_AnEmergencyPublishNeedsNoRedis(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=3", exact)
	d.Publish(document(60, 60))
	known := quiet(t, d, "free")
	for i := range d.Gateways {
		acceptedAt(t, d, i, known.Key)
	}
	d.Kill(d.Processes.Redis)
	for i := range d.Gateways {
		answersWith(t, d, i, known.Key, http.StatusServiceUnavailable, "v2")
	}
	opened := strings.Replace(document(60, 60), "on_store_failure: {mode: closed}", "on_store_failure: {mode: open, fallback: {rate: 100/minute, burst: 100}}", 1)
	if opened == document(60, 60) {
		t.Fatal("the document has no closed route")
	}
	from := time.Now()
	if v := d.Publish(opened); v != 3 {
		t.Fatalf("published as %d", v)
	}
	took(t, "an emergency publish without Redis is known to be on 3 of 3", time.Since(from), 4*time.Second)
	for i := range d.Gateways {
		answersWith(t, d, i, known.Key, http.StatusOK, "v3")
	}
	fleet := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/gateways", nil)
	if s := fmt.Sprint(fleet); strings.Count(s, "version:3") != 3 {
		t.Errorf("the console says: %s", s)
	}
	startsFromTheConsole(t, d, 0, known.Key)
	d.Restart(d.Processes.Redis)
	d.WaitPort(d.Redis)
	c := d.RedisClient()
	eventually(t, 30*time.Second, "the version that Redis never had is there", func() error {
		if v, err := c.HGet(t.Context(), "hg:{policy}:head", "version").Result(); err != nil || v != "3" {
			return fmt.Errorf("version %q, %w", v, err)
		}
		return nil
	})
	for i := range d.Gateways {
		eventually(t, time.Minute, "decided by Redis again", func() error {
			a := d.Hit(i, known.Key, "/closed/x")
			if got := a.Header.Get("X-Headgate-Policy"); got != "v3" {
				t.Fatalf("gateway %d went to %s", i+1, got)
			}
			if a.Status != http.StatusOK || a.Header.Get("RateLimit") == "" {
				return fmt.Errorf("gateway %d: status %d, %v", i+1, a.Status, a.Header)
			}
			return nil
		})
	}
}

// answersWith waits until the closed route answers with a status under a version.
func answersWith(t *testing.T, d *Demo, i int, key string, status int, version string) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("gateway %d answers %d under %s", i+1, status, version), func() error {
		a := d.Hit(i, key, "/closed/x")
		if a.Status != status || a.Header.Get("X-Headgate-Policy") != version {
			return fmt.Errorf("status %d under %s: %s", a.Status, a.Header.Get("X-Headgate-Policy"), a.Body)
		}
		return nil
	})
}

// startsFromTheConsole restarts a gateway without its copy of the policy, while
// there is no Redis.
func startsFromTheConsole(t *testing.T, d *Demo, i int, key string) {
	t.Helper()
	d.Kill(d.Processes.Gateways[i])
	for _, name := range []string{"policy.json", "policy-mark.json"} {
		if err := os.Remove(filepath.Join(stateDir(d.Processes.Gateways[i]), name)); err != nil {
			t.Fatal(err)
		}
	}
	d.Restart(d.Processes.Gateways[i])
	d.WaitGateway(i)
	answersWith(t, d, i, key, http.StatusOK, "v3")
}

func stateDir(p *Process) string {
	for _, arg := range p.Argv {
		if dir, ok := strings.CutPrefix(arg, "--state-dir="); ok {
			return dir
		}
	}
	return ""
}
