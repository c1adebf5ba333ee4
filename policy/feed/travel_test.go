package feed

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

func TestDirectory_OverridesTravelAreKeptOnDiskAndReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	burst, until2030 := int64(5), time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	want := policy.TenantRecord{
		ID: "ten_a", Plan: "free", State: policy.TenantActive, TimeZone: "Europe/Berlin", QuotaAnchor: "2026-01-31",
		Overrides: []policy.Override{
			{Limit: "plan.requests", Rate: "100/minute", Burst: &burst, ExpiresAt: &until2030, Reason: "launch", Author: "ann"},
			{Limit: "plan.requests", FactorMilli: 2500, Reason: "boost"},
		},
	}
	sign := func(seq int64, rec policy.TenantRecord) policy.SignedRecord {
		s, err := policy.SignRecord(r.key, deployment, policy.RecordTenant, rec.ID, seq, rec)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	place := r.fill("e1", sign(1, want))
	dir := t.TempDir()
	told := make(chan string, 10)
	d := r.directory(dir, rarely, func(c *DirectoryConfig) {
		c.OnRecord = func(kind policy.RecordKind, id string) { told <- string(kind) + " " + id }
	})
	stop := start(t, d.Run)
	d.untilPlace(t, place)
	got, err := d.Tenant(t.Context(), "ten_a")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("tenant %+v, %v; want %+v", got, err, want)
	}
	if again, _ := d.Tenant(t.Context(), "ten_a"); &again.Overrides[0] != &got.Overrides[0] {
		t.Error("an unchanged record is another slice: what was compiled from it could not be kept")
	}
	changed := want
	changed.Overrides = want.Overrides[:1]
	untilSubscribed(t, r, 1)
	place = r.put(sign(2, changed))
	d.untilPlace(t, place)
	if call := <-told; call != "tenant ten_a" {
		t.Errorf("the hook was told %q", call)
	}
	if got, err = d.Tenant(t.Context(), "ten_a"); err != nil || len(got.Overrides) != 1 {
		t.Errorf("after the change: %+v, %v", got, err)
	}
	stop()
	r.redis.Kill()
	if got, err = r.directory(dir, rarely).Tenant(t.Context(), "ten_a"); err != nil || !reflect.DeepEqual(got, changed) {
		t.Errorf("from disk: %+v, %v; want %+v", got, err, changed)
	}
}

// TestWire_R18_TheBellIsOnlyLatency takes the bell away in two ways: each
// subscription is killed as soon as it is there, or none is ever let in.
func TestWire_R18_TheBellIsOnlyLatency(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]func(*testing.T, *rig){
		"killed": func(t *testing.T, r *rig) {
			start(t, func(ctx context.Context) error {
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-tick.C:
						r.client.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub")
					}
				}
			})
		},
		"never let in": func(_ *testing.T, r *rig) {
			r.do("ACL", "SETUSER", "default", "-subscribe")
			r.do("CLIENT", "KILL", "TYPE", "pubsub")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := r.enforcing(t, 1, defaultPoll)
			d := r.following(t, defaultPoll, r.keyRecord("k1", 1, policy.KeyActive))
			if d.state("k1") != "active" {
				t.Fatal("the key is not there")
			}
			silence(t, r)
			for i := int64(2); i < 5; i++ {
				begun := time.Now()
				r.publish(i, int(60+i))
				r.put(r.keyRecord("k1", i, []policy.KeyState{policy.KeyActive, policy.KeyRevoked}[i%2]))
				w.untilVersion(t, i)
				until(t, d.changed, "the key's change", func() bool { return d.state("k1") == []string{"active", "revoked"}[i%2] })
				holds(t, "a version and a revocation without the bell", time.Since(begun), defaultPoll+defaultPoll/10+50*time.Millisecond, hung)
			}
		})
	}
}

// TestWire_R051_PublishingLeaksNothing publishes often and counts goroutines,
// connections and memory before and after.
//
//nolint:paralleltest // goroutines and memory of the whole process are counted
func TestWire_R051_PublishingLeaksNothing(t *testing.T) {
	r := newRig(t)
	r.publish(1, 60)
	w := r.watcher("", defaultPoll)
	w.ration = newRation(1000, time.Microsecond) // each version is to be taken
	start(t, w.Run)
	w.untilVersion(t, 1)
	d := r.following(t, defaultPoll, r.keyRecord("k1", 1, policy.KeyActive))
	untilSubscribed(t, r, 2)
	const versions = 70
	publish := func(from int64) {
		for v := from; v < from+versions; v++ {
			r.publish(v, int(60+v%50))
			place := r.put(r.keyRecord("k1", v, policy.KeyActive))
			w.untilVersion(t, v)
			until(t, d.changed, "the directory's change", func() bool { return d.Place() == place })
			d.state("k1")
		}
	}
	measure := func() (goroutines, connections int, heap uint64) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		list := r.client.ClientList(t.Context()).Val()
		return runtime.NumGoroutine(), strings.Count(list, "\n"), m.HeapAlloc
	}
	publish(2) // fills every buffer and table
	goroutines, connections, heap := measure()
	publish(2 + versions)
	goroutinesAfter, connectionsAfter, heapAfter := measure()
	said := fmt.Sprintf("goroutines %d → %d, connections %d → %d, heap %d → %d",
		goroutines, goroutinesAfter, connections, connectionsAfter, heap, heapAfter)
	t.Log(said)
	if goroutinesAfter > goroutines+5 || connectionsAfter > connections+5 || heapAfter > heap+heap/10+1<<20 {
		t.Error("something grows with each version: " + said)
	}
}
