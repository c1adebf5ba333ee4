package feed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/policy"
)

// TestWatcher_NeverGoesBackWhateverHappens publishes, replays, forges, loses
// data and restarts in random order. The version in force never falls, is always
// one that was published, and always has that version's content.
func TestWatcher_NeverGoesBackWhateverHappens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		r.do("FLUSHALL")
		dir := t.TempDir()
		var published []policy.SignedPolicy
		w := r.watcherOn(r.client, dir, rarely)
		defer func() { w.saving.Wait() }() // before its folder goes
		version := func() int64 { return w.version() }
		high := int64(0)
		next := func() policy.SignedPolicy {
			p := r.signed(int64(len(published)+1), len(published)+1)
			published = append(published, p)
			return p
		}
		one := func() policy.SignedPolicy {
			return rapid.SampledFrom(published).Draw(rt, "which")
		}
		actions := map[string]func(){
			"publish": func() {
				if _, err := r.pub.PublishPolicy(t.Context(), next()); err != nil {
					rt.Fatal(err)
				}
			},
			"replay":   func() { r.writeRaw(one(), nil) },
			"renumber": func() { r.writeRaw(one(), map[string]any{"version": len(published) + 5}) },
			"swap body": func() {
				p := one()
				p.Body = document(999)
				r.writeRaw(p, nil)
			},
			"flush": func() { r.do("FLUSHALL") },
			"poll":  func() { w.poll(t.Context()) },
			"restart": func() {
				w.saving.Wait() // as Run does before it returns, however slow the disk
				w = r.watcherOn(r.client, dir, rarely)
			},
			"lose a copy": func() { _ = os.Remove(filepath.Join(dir, policyFile)) },
		}
		published = append(published, r.signed(1, 1))
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			name := rapid.SampledFrom([]string{"publish", "poll", "poll", "poll", "replay", "renumber", "swap body", "flush", "restart", "lose a copy"}).Draw(rt, "action")
			actions[name]()
			c := w.Current()
			if c == nil {
				continue // after a restart without its copy
			}
			if version() < high {
				rt.Fatalf("after %s version %d is in force; it was %d", name, version(), high)
			}
			high = version()
			if high > int64(len(published)) || c.Digest != published[high-1].Digest || string(c.Body) != string(published[high-1].Body) {
				rt.Fatalf("after %s version %d is in force with %s", name, high, c.Digest)
			}
		}
	})
}

func TestWatcher_ASignatureMadeAnewIsVerifiedAndSaved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := r.publish(5, 60)
	dir := t.TempDir()
	w := r.watcher(dir, often)
	start(t, w.Run)
	w.untilVersion(t, 5)
	anew := policy.SignPolicy(key('z'), deployment, 5, "", old.Body, time.Now())
	if result, err := r.pub.PublishPolicy(t.Context(), anew); err != nil || result != "same" {
		t.Fatal(result, err)
	}
	until(t, w.changed, "new signature on disk", func() bool {
		var c policyCopy
		return readJSON(filepath.Join(dir, policyFile), maxPolicyFile, &c) == nil && c.Signer == anew.Signer
	})
	if s := w.Status(); s.NACK != nil || s.Version != 5 {
		t.Fatalf("status is %+v", s)
	}
	// The version in force under a signature of nobody's is an alarm, no more.
	r.writeRaw(policy.SignPolicy(key('x'), deployment, 5, "", old.Body, time.Now()), nil)
	if nack := w.untilNACK(t, policy.NACKBadSignature); nack.Version != 5 || w.version() != 5 {
		t.Fatalf("NACK is %+v with version %d in force", nack, w.version())
	}
	if _, err := r.pub.PublishPolicy(t.Context(), anew); err != nil {
		t.Fatal(err)
	}
	w.untilNoNACK(t)
}

func TestWatcher_ABodyMendedInPlaceIsTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.enforcing(t, 5, often)
	p := r.signed(6, 61)
	harmed := p
	harmed.Body = []byte("{}")
	r.writeRaw(harmed, nil)
	w.untilNACK(t, policy.NACKBadDigest)
	if result, err := r.pub.PublishPolicy(t.Context(), p); err != nil || result != "same" {
		t.Fatal(result, err)
	}
	begin := time.Now()
	w.untilVersion(t, 6)
	holds(t, "taking the mended body", time.Since(begin), 3*time.Second, hung)
}

// TestWatcher_TwelveReplicasTakeAStormOfVersions publishes as fast as it can:
// all end at the last one, and none of them ever fell.
func TestWatcher_TwelveReplicasTakeAStormOfVersions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const replicas, versions = 12, 40
	var all []watching
	for range replicas {
		w := r.watcher("", rarely)
		start(t, w.Run)
		all = append(all, w)
	}
	untilSubscribed(t, r, replicas)
	seen := make([]int64, replicas)
	for version := int64(1); version <= versions; version++ {
		r.publish(version, int(version))
		for i, w := range all {
			if now := w.version(); now < seen[i] {
				t.Fatalf("replica %d fell from %d to %d", i, seen[i], now)
			} else {
				seen[i] = now
			}
		}
	}
	for i, w := range all {
		until(t, w.changed, fmt.Sprintf("replica %d at the last version", i), func() bool { return w.version() == versions })
	}
}
