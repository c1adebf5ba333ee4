package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestDemo_R11_TheConsolePutsBackWhatAFlushTook flushes the demo's Redis. The
// gateways know their policy and their callers all along.
func TestDemo_R11_TheConsolePutsBackWhatAFlushTook(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=2", exact)
	d.Publish(document(60, 60))
	known := quiet(t, d, "free")
	for i := range d.Gateways {
		acceptedAt(t, d, i, known.Key)
	}
	if err := d.RedisClient().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	flushed := time.Now()
	for i := range d.Gateways {
		eventually(t, time.Minute, "a known key is served", func() error {
			a := d.Hit(i, known.Key, "/closed/x")
			if a.Status == http.StatusUnauthorized || a.Status == http.StatusNotFound {
				t.Fatalf("gateway %d: status %d: %s", i+1, a.Status, a.Body)
			}
			if a.Status != http.StatusOK || a.Header.Get("X-Headgate-Policy") != "v2" {
				return fmt.Errorf("gateway %d: status %d: %s", i+1, a.Status, a.Body)
			}
			return nil
		})
	}
	policyIsBackInRedis(t, d)
	took(t, "policy and directory are back after a flush", time.Since(flushed), 2*time.Second)
	fresh, _ := d.NewTenant("Fresh", "free")
	for i := range d.Gateways {
		eventually(t, time.Minute, "a new key is served", func() error {
			if a := d.Hit(i, fresh.Key, "/x"); a.Status != http.StatusOK {
				return fmt.Errorf("gateway %d: status %d: %s", i+1, a.Status, a.Body)
			}
			return nil
		})
	}
}
