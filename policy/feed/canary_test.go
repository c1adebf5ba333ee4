package feed

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// named is a watcher that is a replica of its own, on a folder of its own.
func (r *rig) named(id, dir string, poll time.Duration, change ...func(*WatcherConfig)) watching {
	r.t.Helper()
	s := newSignals()
	cfg := WatcherConfig{
		Config:     Config{Client: r.newClient(), Deployment: deployment},
		PublicKeys: []ed25519.PublicKey{public(r.key)}, StateDir: dir, Poll: poll, OnChange: s.notify, Replica: id,
	}
	for _, c := range change {
		c(&cfg)
	}
	w, err := NewWatcher(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return watching{w, s}
}

// try offers a version to replicas beside a base.
func (r *rig) try(base policy.SignedPolicy, version int64, rate int, ids ...string) (policy.SignedPolicy, policy.Canary) {
	r.t.Helper()
	p := policy.SignPolicy(r.key, deployment, version, base.Digest, document(rate), time.Now())
	c := policy.SignCanary(r.key, deployment, p, base.Version, ids, time.Now())
	if result, err := r.pub.PutCanary(r.t.Context(), p, c); err != nil || result != "published" {
		r.t.Fatalf("offer version %d: %q, %v", version, result, err)
	}
	return p, c
}

func TestCanary_IsTakenByItsReplicasAloneAndEndsInAHigherVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	base := r.publish(5, 60)
	dirs := map[string]string{}
	all := map[string]watching{}
	for _, id := range []string{"gw_a", "gw_b", "gw_c"} {
		dirs[id] = t.TempDir()
		all[id] = r.named(id, dirs[id], often)
		start(t, all[id].Run)
		all[id].untilVersion(t, 5)
	}
	p, _ := r.try(base, 6, 61, "gw_b", "gw_zzz")
	all["gw_b"].untilVersion(t, 6)
	for _, id := range []string{"gw_a", "gw_c"} {
		all[id].untilPolled(t)
		if s := all[id].Status(); s.Version != 5 || s.NACK != nil {
			t.Errorf("%s: %+v", id, s)
		}
	}
	all["gw_b"].untilPolled(t)
	if s := all["gw_b"].Status(); s.NACK != nil || s.Digest != p.Digest || s.Unsaved {
		t.Errorf("the head below the canary is a reason for a NACK: %+v", s)
	}
	again := r.named("gw_b", copied(t, dirs["gw_b"]), rarely)
	if again.version() != 6 {
		t.Errorf("a restart leads back to version %d", again.version())
	}
	again.poll(t.Context())
	if s := again.Status(); s.Version != 6 || s.NACK != nil {
		t.Errorf("after a restart: %+v", s)
	}
	r.publish(7, 60) // stopped: the old content, under a higher number
	for id, w := range all {
		w.untilVersion(t, 7)
		if s := w.Status(); s.NACK != nil || s.Digest != base.Digest {
			t.Errorf("%s: %+v", id, s)
		}
	}
	if n := r.client.Exists(t.Context(), "hg:{policy}:canary", "hg:{policy}:body:6").Val(); n != 0 {
		t.Errorf("%d keys of the canary are left", n)
	}
}

// copied is a folder with the same policy files.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range []string{policyFile, markFile} {
		var raw json.RawMessage
		if err := readJSON(filepath.Join(dir, name), maxPolicyFile, &raw); err != nil {
			t.Fatal(err)
		}
		if err := writeFile(filepath.Join(to, name), raw); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestCanary_PromotedChangesNothingForThoseOnIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	base := r.publish(5, 60)
	w, other := r.named("gw_a", t.TempDir(), often), r.named("gw_b", t.TempDir(), often)
	start(t, w.Run)
	start(t, other.Run)
	w.untilVersion(t, 5)
	p, _ := r.try(base, 6, 61, "gw_a")
	w.untilVersion(t, 6)
	before := w.Current()
	if result, err := r.pub.PublishPolicy(t.Context(), p); err != nil || result != "published" {
		t.Fatal(result, err)
	}
	other.untilVersion(t, 6)
	w.untilPolled(t)
	if w.Current() != before || w.Status().NACK != nil {
		t.Errorf("promotion made another snapshot, or a NACK: %+v", w.Status())
	}
	if n := r.client.Exists(t.Context(), "hg:{policy}:body:6").Val(); n != 1 {
		t.Error("the body is gone")
	}
}

// TestCanary_A24_AnOldOfferDoesNothing replays, byte for byte, everything that
// stood in Redis while the canary ran, after it was stopped.
func TestCanary_A24_AnOldOfferDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	base := r.publish(5, 60)
	dir := t.TempDir()
	w, other := r.named("gw_a", dir, often), r.named("gw_b", t.TempDir(), often)
	start(t, w.Run)
	start(t, other.Run)
	r.try(base, 6, 61, "gw_a", "gw_b")
	w.untilVersion(t, 6)
	other.untilVersion(t, 6)
	keys := []string{"hg:{policy}:head", "hg:{policy}:canary", "hg:{policy}:body:5", "hg:{policy}:body:6"}
	old := map[string]string{}
	for _, k := range keys {
		old[k] = r.client.Dump(t.Context(), k).Val()
	}
	r.publish(7, 60)
	w.untilVersion(t, 7)
	other.untilVersion(t, 7)
	replay := func(ks ...string) {
		for _, k := range ks {
			r.do("RESTORE", k, 0, old[k], "REPLACE")
		}
	}
	replay(keys[1:]...) // the canary beside the head that ended it
	w.untilPolled(t)
	if s := w.Status(); s.Version != 7 || s.NACK != nil {
		t.Errorf("a canary of another head counts: %+v", s)
	}
	replay(keys...)
	if n := w.untilNACK(t, policy.NACKWentBack); n.Version != 6 {
		t.Errorf("NACK %+v", n)
	}
	w.untilPolled(t)
	again := r.named("gw_a", copied(t, dir), rarely)
	again.poll(t.Context())
	if w.version() != 7 || other.version() != 7 || again.version() != 7 {
		t.Errorf("versions %d, %d, and %d after a restart", w.version(), other.version(), again.version())
	}
}

func TestCanary_OfNoGoodChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	base := r.publish(5, 60)
	good := policy.SignPolicy(r.key, deployment, 6, base.Digest, document(61), time.Now())
	sign := func(p policy.SignedPolicy, base int64, at time.Time, ids ...string) policy.Canary {
		return policy.SignCanary(r.key, deployment, p, base, ids, at)
	}
	now := time.Now()
	alter := func(f func(*policy.Canary)) policy.Canary {
		c := sign(good, 5, now, "gw_x")
		f(&c)
		return c
	}
	for name, c := range map[string]policy.Canary{
		"names others":     sign(good, 5, now, "gw_x"),
		"names added":      alter(func(c *policy.Canary) { c.Replicas = []string{"gw_a", "gw_x"} }),
		"names swapped":    alter(func(c *policy.Canary) { c.Replicas = []string{"gw_a"} }),
		"of another base":  sign(good, 4, now, "gw_a"),
		"stale":            sign(good, 5, now.Add(-canaryFresh-time.Minute), "gw_a"),
		"from the future":  sign(good, 5, now.Add(canaryFresh+time.Minute), "gw_a"),
		"other deployment": policy.SignCanary(r.key, "staging", good, 5, []string{"gw_a"}, now),
		"other key":        policy.SignCanary(key('x'), deployment, good, 5, []string{"gw_a"}, now),
		"not above":        sign(policy.SignPolicy(r.key, deployment, 5, "", document(61), now), 5, now, "gw_a"),
		"other digest":     alter(func(c *policy.Canary) { c.Digest = policy.DigestOf(document(1e6)) }),
		"nobody":           alter(func(c *policy.Canary) { c.Replicas = nil }),
		"another parent":   sign(policy.SignPolicy(r.key, deployment, 6, "sha256:00", document(61), now), 5, now, "gw_a"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := r.named("gw_a", "", rarely)
			w.poll(t.Context())
			raw, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			w.takeCanary(t.Context(), name, string(raw))
			offer := base
			offer.Body = nil
			w.decide(t.Context(), head{offer: offer, raw: "head"}, w.canary, good.Body)
			if s := w.Status(); s.Version != 5 || s.NACK != nil {
				t.Errorf("status %+v", s)
			}
		})
	}
}

func TestCanary_ThatCannotBeUsedIsReportedAndLeavesTheBase(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	base := r.publish(5, 60)
	body := []byte(`{"apiVersion":"headgate/v1"}`)
	p := policy.SignPolicy(r.key, deployment, 6, base.Digest, body, time.Now())
	if _, err := r.pub.PutCanary(t.Context(), p, policy.SignCanary(r.key, deployment, p, 5, []string{"gw_a"}, time.Now())); err != nil {
		t.Fatal(err)
	}
	w := r.named("gw_a", t.TempDir(), often) // fresh: it takes what the others have, first
	start(t, w.Run)
	n := w.untilNACK(t, policy.NACKInvalid)
	if n.Version != 6 || w.version() != 5 {
		t.Errorf("NACK %+v, version %d", n, w.version())
	}
	r.publish(7, 60)
	w.untilVersion(t, 7)
	w.untilNoNACK(t)
}

func TestPutCanary_KeepsOrderAndItsBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	base := r.publish(5, 60)
	p, c := r.try(base, 20, 61, "gw_a")
	put := func(p policy.SignedPolicy, c policy.Canary) string {
		t.Helper()
		result, err := r.pub.PutCanary(t.Context(), p, c)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if got := put(p, c); got != "same" {
		t.Errorf("the same again: %q", got)
	}
	lower := r.signed(19, 62)
	if got := put(lower, policy.SignCanary(r.key, deployment, lower, 5, []string{"gw_a"}, time.Now())); got != "went-back" {
		t.Errorf("a lower one: %q", got)
	}
	s, err := r.pub.State(t.Context())
	if err != nil || s.Version != 5 || s.Canary != 20 || s.CanaryTag != c.Tag() || s.CanaryBodyMissing || s.BodyMissing {
		t.Fatalf("state %+v, %v", s, err)
	}
	for v := int64(6); v < 18; v++ { // more than the bodies that are kept
		r.publish(v, 60)
	}
	if s, err = r.pub.State(t.Context()); err != nil || s.Canary != 20 || s.CanaryBodyMissing {
		t.Fatalf("state %+v, %v", s, err)
	}
	r.do("DEL", "hg:{policy}:body:20")
	if s, err = r.pub.State(t.Context()); err != nil || !s.CanaryBodyMissing {
		t.Fatalf("state %+v, %v does not say that the body is missing", s, err)
	}
	if got := put(p, c); got != "published" {
		t.Errorf("put back: %q", got)
	}
	r.publish(21, 60)
	if got := put(p, c); got != "went-back" {
		t.Errorf("below the head: %q", got)
	}
	if s, err = r.pub.State(t.Context()); err != nil || s.Canary != 0 || s.CanaryTag != "" {
		t.Fatalf("state %+v, %v", s, err)
	}
	r.do("SET", "hg:{policy}:canary", "hello") // whatever stands there, publishing goes on
	r.publish(22, 61)
	if err := r.pub.DropCanary(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReadPolicy_ReturnsWhatStandsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if p, err := r.pub.ReadPolicy(t.Context()); err != nil || p.Version != 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	want := r.publish(5, 60)
	p, err := r.pub.ReadPolicy(t.Context())
	if err != nil || policy.VerifyPolicy([]ed25519.PublicKey{public(r.key)}, deployment, p) != nil || p.Version != 5 || p.Digest != want.Digest {
		t.Fatalf("%+v, %v", p, err)
	}
	r.writeRaw(r.signed(9, 60), map[string]any{"signature": "%%", "version": "9007199254740993"})
	if p, err = r.pub.ReadPolicy(t.Context()); err != nil || p.Signature != nil || p.Version != 9007199254740993 {
		t.Fatalf("%+v, %v", p, err)
	}
}

func FuzzReadCanary(f *testing.F) {
	k := key('a')
	p := policy.SignPolicy(k, deployment, 6, "", []byte("{}"), time.Unix(1, 0))
	c := policy.SignCanary(k, deployment, p, 5, []string{"gw_a"}, time.Unix(1, 0))
	raw, err := json.Marshal(c)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"version":1e99}`))
	w := &Watcher{cfg: WatcherConfig{Config: Config{Deployment: deployment}, PublicKeys: []ed25519.PublicKey{public(k)}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, err := w.readCanary(raw); err == nil && fmt.Sprint(got) != fmt.Sprint(c) {
			t.Errorf("a canary that nobody signed is read: %+v", got)
		}
	})
}
