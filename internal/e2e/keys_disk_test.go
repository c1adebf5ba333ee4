package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestKeys_I10_C07_AGatewayThatRefusedAKeyRefusesItAfterAKill: also when it is killed
// the moment it has, and comes back without Redis, from what it has on disk.
func TestKeys_I10_C07_AGatewayThatRefusedAKeyRefusesItAfterAKill(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=1")
	d.Publish(document(1_000_000, 1_000_000))
	for round := range 6 {
		tenant, _ := d.NewTenant(fmt.Sprintf("Round %d", round), "free")
		eventually(t, time.Minute, "the key is accepted", func() error {
			if status := d.Hit(0, tenant.Key, "/x").Status; status != http.StatusOK {
				return fmt.Errorf("status %d", status)
			}
			return nil
		})
		<-time.After(time.Second) // the file has it
		d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/key-versions/"+kidOf(t, tenant.Key)+"/revoke", map[string]any{"reason": "leak"})
		eventually(t, time.Minute, "the key is refused", func() error {
			if status := d.Hit(0, tenant.Key, "/x").Status; status != http.StatusUnauthorized {
				return fmt.Errorf("status %d", status)
			}
			return nil
		})
		d.Kill(d.Processes.Gateways[0])
		d.Kill(d.Processes.Redis)
		d.Restart(d.Processes.Gateways[0])
		answered := 0
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) && answered < 20; <-time.After(20 * time.Millisecond) {
			switch a := d.Hit(0, tenant.Key, "/x"); a.Status {
			case http.StatusOK:
				t.Fatalf("round %d: a revoked key that was refused is accepted after a kill", round)
			case 0:
			default:
				answered++
			}
		}
		if answered == 0 {
			t.Fatalf("round %d: the gateway does not answer", round)
		}
		d.Restart(d.Processes.Redis)
		eventually(t, time.Minute, "all is well again", func() error {
			if a := d.API(http.MethodGet, "/api/v1/health", nil); a.Status != http.StatusOK {
				return fmt.Errorf("status %d", a.Status)
			}
			if status := d.Hit(0, tenant.Key, "/x").Status; status != http.StatusUnauthorized {
				return fmt.Errorf("status %d", status)
			}
			return nil
		})
	}
}
