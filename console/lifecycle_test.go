package console_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// walk is a random life of one credential.
type walk struct {
	*env
	t     *testing.T
	rnd   *rand.Rand
	cred  string
	final map[string]console.KeyVersion // versions that have ended, as they were then
	ended map[string]console.Rotation
	seqs  map[string]int64
	taken bool // whether somebody took the last working key away on purpose
	log   []string
}

// TestLifecycle_I19_RandomLivesKeepTheRules lets credentials live through random
// rotations, suspensions, revocations and the passing of time, and checks after
// each step what has to hold at every instant.
func TestLifecycle_I19_RandomLivesKeepTheRules(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	for seed := range uint64(12) {
		w := &walk{
			env: e, t: t, rnd: rand.New(rand.NewPCG(seed, 1)), cred: e.issue(t, ten.ID).Credential.ID,
			final: map[string]console.KeyVersion{}, ended: map[string]console.Rotation{}, seqs: map[string]int64{},
		}
		for range 25 {
			w.step()
			w.check()
		}
	}
	if good, _, problem, err := e.audit.Verify(e.ctx); err != nil || problem != nil || good == 0 {
		t.Fatalf("%d good rows, problem %+v (%v)", good, problem, err)
	}
}

func (w *walk) step() {
	c, open := w.state()
	pick := c.Versions[w.rnd.IntN(len(c.Versions))]
	var err error
	name := ""
	switch w.rnd.IntN(12) {
	case 0, 1, 2:
		overlap := time.Duration(w.rnd.IntN(4)) * time.Hour
		name = "rotate " + overlap.String()
		_, err = w.rotations.Start(w.ctx, owner, w.cred, console.NewRotation{Overlap: overlap, Reason: "r"})
	case 3:
		name = "suspend " + pick.KID
		_, err = w.keys.Suspend(w.ctx, owner, pick.KID, "r")
	case 4:
		name = "resume " + pick.KID
		_, err = w.keys.Resume(w.ctx, owner, pick.KID, "r")
	case 5:
		working := live(c.Versions, w.clock.now())
		if working > 1 || w.rnd.IntN(4) == 0 {
			name = "revoke " + pick.KID
			_, err = w.keys.Revoke(w.ctx, owner, pick.KID, "leak")
			w.taken = w.taken || err == nil && working == 1
		}
	case 6:
		name, err = w.moveRotation(open)
	case 7:
		name, err = "expire", w.jobs.Expire(w.ctx)
	case 8:
		name, err = w.contain(pick, live(c.Versions, w.clock.now()))
	case 9:
		if name = "brown-out"; open != nil {
			_, _, err = w.rotations.StartBrownout(w.ctx, owner, open.ID, console.NewBrownout{Reason: "r"})
		}
	default:
		by := time.Duration(w.rnd.IntN(90)) * time.Minute
		name = "wait " + by.String()
		w.clock.add(by)
	}
	if code := console.CodeOf(err); err != nil && code != console.CodeConflict {
		w.fatalf("%s: %v", name, err)
	}
	w.log = append(w.log, fmt.Sprintf("%s → %s", name, console.CodeOf(err)))
}

func (w *walk) moveRotation(open *console.Rotation) (string, error) {
	if open == nil {
		return "", nil
	}
	switch w.rnd.IntN(3) {
	case 0:
		_, err := w.rotations.Extend(w.ctx, owner, open.ID, time.Hour, "r")
		return "extend", err
	case 1:
		_, err := w.rotations.End(w.ctx, owner, open.ID, "r")
		return "end", err
	}
	_, err := w.rotations.Cancel(w.ctx, owner, open.ID, "r")
	return "cancel", err
}

// contain answers a leak of one version: with a replacement a working key is
// there afterwards, whatever was there before.
func (w *walk) contain(pick console.KeyVersion, working int) (name string, err error) {
	replace := w.rnd.IntN(2) == 0
	if !replace && working <= 1 && w.rnd.IntN(4) != 0 {
		return "", nil
	}
	name = fmt.Sprintf("contain %s, replace %v", pick.KID, replace)
	out, err := console.NewLeaks(w.deps, console.LeakRules{}).Contain(w.ctx, owner, console.Containment{KID: pick.KID, Replace: replace, Note: "r"})
	if err != nil {
		return name, err
	}
	switch {
	case replace && out.Working != "":
		w.taken = false
	case !replace && out.Working == "":
		w.taken = true
	}
	if out.Replaced && out.Working != out.KeyVersion.KID {
		w.fatalf("%s: %+v does not work", name, out.KeyVersion)
	}
	return name, nil
}

// state reads the credential and its open rotation.
func (w *walk) state() (console.Credential, *console.Rotation) {
	c, err := w.keys.GetCredential(w.ctx, w.cred)
	if err != nil {
		w.fatalf("read: %v", err)
	}
	list, err := w.rotations.List(w.ctx, false)
	if err != nil {
		w.fatalf("read: %v", err)
	}
	var open *console.Rotation
	for _, r := range list {
		switch {
		case r.CredentialID != w.cred:
		case r.Open():
			open = &r
		default:
			if was, ok := w.ended[r.ID]; ok && !reflect.DeepEqual(was, r) {
				w.fatalf("a rotation that was over has changed: %+v → %+v", was, r)
			}
			w.ended[r.ID] = r
		}
	}
	return c, open
}

// live counts versions that work or can be resumed, without those whose time has
// run out and that nobody has finalised yet.
func live(versions []console.KeyVersion, now time.Time) (n int) {
	for _, v := range versions {
		if v.Live() && (v.NotAfter == nil || v.NotAfter.After(now)) {
			n++
		}
	}
	return n
}

func (w *walk) check() {
	c, open := w.state()
	now := w.clock.now()
	places := map[policy.KeyState]int{}
	for _, v := range c.Versions {
		w.checkVersion(v)
		if v.Live() {
			place := v.State
			if v.State == policy.KeySuspended {
				place = v.ResumeState
			}
			places[place]++
		}
	}
	if places[policy.KeyActive] > 1 || places[policy.KeyRetiring] > 1 {
		w.fatalf("places %v", places)
	}
	if places[policy.KeyActive] == 0 && !w.taken {
		w.fatalf("no active version, and nobody took it away")
	}
	if (open != nil) != (places[policy.KeyRetiring] == 1) {
		w.fatalf("open rotation %v, places %v", open, places)
	}
	if open == nil {
		return
	}
	oldAt := slices.IndexFunc(c.Versions, func(v console.KeyVersion) bool { return v.KID == open.OldKID })
	if old := c.Versions[oldAt]; !old.NotAfter.Equal(open.EndsAt) || open.EndsAt.Sub(open.StartedAt) > console.MaxOverlap {
		w.fatalf("the old version ends %s, its rotation %s (now %s)", old.NotAfter, open.EndsAt, now)
	}
}

func (w *walk) checkVersion(v console.KeyVersion) {
	if v.Seq < w.seqs[v.KID] {
		w.fatalf("sequence of %s fell from %d to %d", v.KID, w.seqs[v.KID], v.Seq)
	}
	w.seqs[v.KID] = v.Seq
	was, ok := w.final[v.KID]
	was.Leaked = v.Leaked // that it got out can be learnt afterwards
	if ok && !reflect.DeepEqual(was, v) {
		w.fatalf("a version that had ended has changed: %+v → %+v", was, v)
	}
	if !v.Live() {
		w.final[v.KID] = v
		if v.EndedAt == nil || v.EndedAt.After(w.clock.now()) {
			w.fatalf("ended at %v", v.EndedAt)
		}
	}
}

func (w *walk) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter %v", fmt.Sprintf(format, args...), w.log)
}
