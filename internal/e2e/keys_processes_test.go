package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestRevoked_T11_I10_ByGatewayProcesses measures from the moment that a revocation is
// asked for at the console's API to the moment that the last gateway process refuses
// the key, while callers use it on every one of them all the time.
func TestRevoked_T11_I10_ByGatewayProcesses(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways", strconv.Itoa(sized(3, 12)))
	d.Publish(strings.Replace(document(1_000_000, 1_000_000), "plans:", `credentials:
  headers: [{name: Authorization, scheme: Bearer}]
  invalid: {per: ip, rate: 1000000/minute, burst: 1000000}
plans:`, 1))
	rounds := sized(3, 50)
	measured := make([]time.Duration, 0, rounds)
	for n := range rounds {
		tenant, _ := d.NewTenant(fmt.Sprintf("Leaky %d", n), "pro")
		measured = append(measured, revokedByProcesses(t, d, tenant.Key))
	}
	slices.Sort(measured)
	t.Logf("asked to refused by %d gateway processes, %d times: p50 %v, most %v", len(d.Gateways), rounds, measured[rounds/2].Round(time.Millisecond), measured[rounds-1].Round(time.Millisecond))
	took(t, "p99 of asked to refused", measured[min(rounds*99/100, rounds-1)], 250*time.Millisecond)
	took(t, "most of asked to refused", measured[rounds-1], time.Second)
}

// revokedByProcesses has a caller use the key on each gateway, revokes it, and returns
// how long the last gateway took to refuse it.
func revokedByProcesses(t *testing.T, d *Demo, key string) time.Duration {
	t.Helper()
	eventually(t, 20*time.Second, "the key is accepted everywhere", func() error {
		for i := range d.Gateways {
			if status := d.Hit(i, key, "/x").Status; status != http.StatusOK {
				return fmt.Errorf("gateway %d: %d", i+1, status)
			}
		}
		return nil
	})
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	refused := make([]time.Time, len(d.Gateways))
	var callers sync.WaitGroup
	for i := range d.Gateways {
		callers.Go(func() {
			for more := 20; ctx.Err() == nil && more > 0; <-time.After(2 * time.Millisecond) {
				switch status := d.Hit(i, key, "/x").Status; {
				case status == http.StatusUnauthorized && refused[i].IsZero():
					refused[i] = time.Now()
				case status == http.StatusOK && !refused[i].IsZero():
					t.Errorf("gateway %d accepts a key that it has refused", i+1)
					return
				}
				if !refused[i].IsZero() {
					more--
				}
			}
		})
	}
	asked := time.Now()
	d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/key-versions/"+kidOf(t, key)+"/revoke?wait=converged", map[string]any{"reason": "leak"})
	callers.Wait()
	last := asked
	for i, at := range refused {
		if at.IsZero() {
			t.Fatalf("gateway %d has not refused the key within 30 s", i+1)
		}
		if at.After(last) {
			last = at
		}
	}
	return last.Sub(asked)
}
