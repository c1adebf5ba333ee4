package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestNoRedeploy_RotatedKeysShareTheLimitAndAnEndedOneIsRefused(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	tenant, credential := d.NewTenant("Rotating", "free")
	started := d.MustAPI(http.StatusCreated, http.MethodPost, "/api/v1/credentials/"+credential+"/rotations",
		map[string]any{"overlap": "24h", "reason": "test"})
	oldKey, newKey, rotation := tenant.Key, str(started, "key"), str(started, "rotation", "id")
	if newKey == "" || newKey == oldKey || num(started, "of") != 3 {
		t.Fatalf("rotation: accepted on %v of %v", started["accepted_on"], started["of"])
	}
	from := time.Now()
	for i := range d.Gateways {
		acceptedAt(t, d, i, newKey)
		acceptedAt(t, d, i, oldKey)
	}
	admitted := 2 * len(d.Gateways)
	for n, refused := 0, 0; refused < 6; n++ {
		switch a := d.Hit(n%3, []string{oldKey, newKey}[n%2], "/x"); a.Status {
		case http.StatusOK:
			admitted, refused = admitted+1, 0
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("status %d: %s", a.Status, a.Body)
		}
	}
	// Both keys together had one burst of 60 and one a second since.
	if most := 60 + int(time.Since(from).Seconds()); admitted < 60 || admitted > most {
		t.Errorf("both keys together were admitted %d times, want 60 to %d", admitted, most)
	}
	ended := time.Now()
	d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/rotations/"+rotation+"/end", map[string]any{"reason": "test"})
	for i := range d.Gateways {
		eventually(t, 30*time.Second, "the old key is refused", func() error {
			if a := d.Hit(i, oldKey, "/x"); a.Status != http.StatusUnauthorized {
				return fmt.Errorf("gateway %d: status %d", i+1, a.Status)
			}
			return nil
		})
		took(t, fmt.Sprintf("the ended key is refused on gateway %d", i+1), time.Since(ended), time.Second)
		if a := d.Hit(i, newKey, "/x"); a.Status == http.StatusUnauthorized {
			t.Errorf("gateway %d refuses the new key", i+1)
		}
	}
}

func acceptedAt(t *testing.T, d *Demo, i int, key string) {
	t.Helper()
	if a := d.Hit(i, key, "/x"); a.Status != http.StatusOK {
		t.Errorf("gateway %d: status %d: %s", i+1, a.Status, a.Body)
	}
}

func TestNoRedeploy_ChangedLimitIsInForceEverywhereAndRefillsNothing(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	d.Publish(document(60, 60))
	empty := quiet(t, d, "free")
	fresh, _ := d.NewTenant("Fresh", "free")
	drain(t, d, empty.Key)
	drained := time.Now()
	got := d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/policy/publish?wait=converged&timeout=20s",
		map[string]any{"document": document(10, 10), "base_version": 2, "note": "less"})
	if num(got, "version") != 3 || num(got, "converged_on") != 3 || num(got, "of") != 3 {
		t.Errorf("published %v", got)
	}
	published := time.Now()
	took(t, "the new limit is in force on all gateways", time.Duration(num(got, "after_ms"))*time.Millisecond, time.Second)
	for i := range d.Gateways {
		if v := d.Hit(i, fresh.Key, "/x").Header.Get("X-Headgate-Policy"); v != "v3" {
			t.Errorf("gateway %d answers by %q", i+1, v)
		}
	}
	// What the empty bucket may give: one a second until the change, one every
	// six seconds from then on.
	late := 0
	for n := range 9 {
		if d.Hit(n%3, empty.Key, "/x").Status == http.StatusOK {
			late++
		}
	}
	if most := int(published.Sub(drained).Seconds()+time.Since(published).Seconds()/6) + 1; late > min(most, 9) {
		t.Errorf("an empty bucket admitted %d after the change, want at most %d", late, most)
	}
	admitted := len(d.Gateways) // above
	for n := range 20 {
		if d.Hit(n%3, fresh.Key, "/x").Status == http.StatusOK {
			admitted++
		}
	}
	if most := 10 + int(time.Since(published).Seconds()/6); admitted < 10 || admitted > most {
		t.Errorf("a full bucket admitted %d after the change to 10, want 10 to %d", admitted, most)
	}
	shown := eventually(t, 20*time.Second, "the console shows all in sync", func() error {
		list, _ := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/gateways", nil)["items"].([]any)
		for _, g := range list {
			if g, _ := g.(map[string]any); num(g, "version") != 3 || str(g, "status") != "in-sync" {
				return fmt.Errorf("gateway %v: version %v, status %v", g["id"], g["version"], g["status"])
			}
		}
		return nil
	})
	took(t, "the console shows all in sync", shown, time.Second)
}

// drain empties a tenant's bucket.
func drain(t *testing.T, d *Demo, key string) {
	t.Helper()
	for n, refused := 0, 0; refused < 2*len(d.Gateways); n++ {
		switch a := d.Hit(n%len(d.Gateways), key, "/x"); a.Status {
		case http.StatusOK:
			refused = 0
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("status %d: %s", a.Status, a.Body)
		}
		if n > 500 {
			t.Fatal("the bucket is never empty")
		}
	}
}
