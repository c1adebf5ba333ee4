package console_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// fakeUse says in tests who uses keys.
type fakeUse struct {
	mu      sync.Mutex
	age     console.UseAge
	uses    map[string]console.KeyUse
	sources map[string][]console.KeySource
	err     error
}

func (f *fakeUse) Uses(_ context.Context, kids []string) (map[string]console.KeyUse, console.UseAge, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]console.KeyUse{}
	for _, kid := range kids {
		if u, ok := f.uses[kid]; ok {
			out[kid] = u
		}
	}
	return out, f.age, f.err
}

func (f *fakeUse) Sources(_ context.Context, kid string, since time.Time, limit int) ([]console.KeySource, console.UseAge, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []console.KeySource
	for _, s := range f.sources[kid] {
		if !s.LastSeen.Before(since) && len(out) < limit {
			out = append(out, s)
		}
	}
	return out, f.age, f.err
}

// see notes that a source used a version at a time.
func (f *fakeUse) see(kid, network, agent string, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.uses[kid]
	if u.LastUsedAt == nil || u.LastUsedAt.Before(at) {
		u.LastUsedAt = &at
	}
	f.uses[kid] = u
	list := f.sources[kid]
	for i := range list {
		if s := &list[i]; s.Network == network && s.Agent == agent {
			s.LongestGap = max(s.LongestGap, at.Sub(s.LastSeen).Truncate(time.Second))
			s.LastSeen, s.Requests = at, s.Requests+1
			return
		}
	}
	f.sources[kid] = append(list, console.KeySource{KID: kid, Network: network, Agent: agent, FirstSeen: at, LastSeen: at, Requests: 1})
}

func (f *fakeUse) told(through time.Time) { f.mu.Lock(); f.age.Through = through; f.mu.Unlock() }

// watched is a rotation of a week whose use is known since long ago.
type watched struct {
	*env
	use     *fakeUse
	started console.Started
	old     string
}

func newWatched(t *testing.T, overlap time.Duration) *watched {
	t.Helper()
	e := newEnv(t)
	use := &fakeUse{uses: map[string]console.KeyUse{}, sources: map[string][]console.KeySource{}}
	use.age = console.UseAge{Since: e.clock.now().Add(-30 * dayLong), Through: e.clock.now()}
	d := e.deps
	d.KeyUse = use
	e.rotations = console.NewRotations(d)
	issued := e.issue(t, e.tenant(t, "A").ID)
	return &watched{env: e, use: use, started: e.rotate(t, issued.Credential.ID, overlap), old: issued.KeyVersion.KID}
}

// wait lets time pass, and lets gateways tell what they saw up to then.
func (w *watched) wait(d time.Duration) {
	w.clock.add(d)
	w.use.told(w.clock.now())
}

func (w *watched) evidence(t *testing.T) console.Evidence {
	t.Helper()
	ev, err := w.rotations.Evidence(w.ctx, owner, w.started.Rotation.ID)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func network(i int) string { return fmt.Sprintf("198.51.%d.0/24", i) }

func TestRotations_EvidenceNamesExactlyWhoHasNotSwitched(t *testing.T) {
	t.Parallel()
	w := newWatched(t, 7*dayLong)
	const clients, stay = 20, 3
	for i := range clients {
		w.use.see(w.old, network(i), "client", w.clock.now().Add(time.Second))
	}
	w.wait(time.Hour)
	for i := range clients {
		kid := w.started.KeyVersion.KID
		if i < stay {
			kid = w.old
		}
		w.use.see(kid, network(i), "client", w.clock.now())
	}
	w.wait(time.Minute)
	ev := w.evidence(t)
	if got := ev.Stragglers(); len(got) != stay || got[0].Network != network(0) || got[2].Network != network(2) || got[0].Stand != console.SourceOld {
		t.Fatalf("stragglers %+v", got)
	}
	if len(ev.Sources) != clients || ev.Sources[stay].Stand != console.SourceSwitched || ev.Sources[stay].NewLast == nil {
		t.Fatalf("sources %+v", ev.Sources)
	}
	if ev.Ready || ev.Shown != console.ShownOverlap || !strings.Contains(ev.WhyNot, "3 sources have not switched") {
		t.Fatalf("evidence %+v", ev)
	}
	w.wait(30 * time.Hour) // longer than the longest silence that is asked for
	if ev = w.evidence(t); !ev.Ready || ev.Shown != console.ShownReady || ev.WhyNot != "" {
		t.Fatalf("after a day of silence: %+v", ev)
	}
}

func TestRotations_QuietThatIsNeededFollowsTheOverlap(t *testing.T) {
	t.Parallel()
	for overlap, needed := range map[time.Duration]time.Duration{
		10 * time.Minute: 15 * time.Minute, time.Hour: 15 * time.Minute, 24 * time.Hour: 6 * time.Hour, 7 * dayLong: 24 * time.Hour, 30 * dayLong: 24 * time.Hour,
	} {
		t.Run(overlap.String(), func(t *testing.T) {
			t.Parallel()
			w := newWatched(t, overlap)
			if got := w.evidence(t).Needed; got != needed {
				t.Errorf("%s is needed, want %s", got, needed)
			}
		})
	}
}

func TestRotations_ReadyNeedsTheWholeSilenceSinceTheStart(t *testing.T) {
	t.Parallel()
	w := newWatched(t, 24*time.Hour)
	w.wait(6*time.Hour - time.Second)
	if ev := w.evidence(t); ev.Ready || ev.ReadyAt == nil || !ev.ReadyAt.Equal(w.started.Rotation.StartedAt.Add(6*time.Hour)) {
		t.Fatalf("a second early: %+v", ev)
	}
	w.wait(time.Second)
	if ev := w.evidence(t); !ev.Ready || ev.Quiet != 6*time.Hour {
		t.Fatalf("in time: %+v", ev)
	}
	w.use.see(w.old, network(1), "late", w.clock.now())
	if ev := w.evidence(t); ev.Ready || ev.Quiet != 0 {
		t.Fatalf("used again: %+v", ev)
	}
}

func TestRotations_WhatIsNotKnownCountsAsUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*console.UseAge, time.Time)
		words  string
	}{
		"behind":            {func(a *console.UseAge, _ time.Time) { a.Behind = true }, "behind"},
		"never told":        {func(a *console.UseAge, _ time.Time) { *a = console.UseAge{Behind: true} }, "not told yet"},
		"told since lately": {func(a *console.UseAge, now time.Time) { a.Since = now.Add(-time.Hour) }, "silent for 60 minutes"},
		"a stretch is lost": {func(a *console.UseAge, now time.Time) {
			a.Missing = &console.UseGap{Replica: "gw", From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour)}
		}, "silent for 60 minutes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t, 24*time.Hour)
			w.wait(8 * time.Hour)
			if ev := w.evidence(t); !ev.Ready {
				t.Fatalf("before: %+v", ev)
			}
			c.change(&w.use.age, w.clock.now())
			if ev := w.evidence(t); ev.Ready || ev.Shown != console.ShownOverlap || !strings.Contains(ev.WhyNot, c.words) {
				t.Fatalf("ready %v, %q", ev.Ready, ev.WhyNot)
			}
		})
	}
	t.Run("nobody tells", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t, 24*time.Hour)
		w.wait(20 * time.Hour)
		w.rotations = console.NewRotations(w.deps)
		if ev := w.evidence(t); ev.Ready || ev.WhyNot == "" || !ev.Age.Behind {
			t.Fatalf("%+v", ev)
		}
	})
	t.Run("asking fails", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t, 24*time.Hour)
		w.use.err = errors.New("down")
		if _, err := w.rotations.Evidence(w.ctx, owner, w.started.Rotation.ID); err == nil {
			t.Fatal("no error")
		}
	})
}

// A job that runs each night is silent all day: a day without it says nothing.
func TestRotations_ARhythmOfTheLastWeekStretchesTheSilence(t *testing.T) {
	t.Parallel()
	w := newWatched(t, 7*dayLong)
	at := w.started.Rotation.StartedAt
	for night := range 6 {
		w.use.see(w.old, network(9), "nightly", at.Add(-time.Duration(6-night)*20*time.Hour))
	}
	w.wait(25 * time.Hour)
	ev := w.evidence(t)
	if ev.Ready || ev.Needed != 40*time.Hour || len(ev.Sources) != 1 || ev.Sources[0].Stand != console.SourceAwaited {
		t.Fatalf("%+v", ev)
	}
	w.use.see(w.started.KeyVersion.KID, network(9), "nightly", w.clock.now()) // it has switched
	w.wait(time.Second)
	if ev = w.evidence(t); !ev.Ready || ev.Needed != 24*time.Hour || ev.Sources[0].Stand != console.SourceSwitched {
		t.Fatalf("after the switch: %+v", ev)
	}
	w.use.see(w.old, network(8), "yearly", at.Add(-6*dayLong))
	w.use.see(w.old, network(8), "yearly", at.Add(-time.Hour))
	if ev = w.evidence(t); ev.Needed != 48*time.Hour {
		t.Fatalf("needed %s, want the bound", ev.Needed)
	}
}

func TestRotations_TwoClientsBehindOneAddressHaveNotSwitchedWhileOneUsesTheOldKey(t *testing.T) {
	t.Parallel()
	w := newWatched(t, 24*time.Hour)
	for range 10 {
		w.wait(time.Minute)
		w.use.see(w.old, network(1), "sdk", w.clock.now())
		w.use.see(w.started.KeyVersion.KID, network(1), "sdk", w.clock.now())
	}
	w.use.told(w.clock.now())
	if ev := w.evidence(t); len(ev.Stragglers()) != 1 || ev.Sources[0].Stand != console.SourceBoth || !strings.Contains(ev.WhyNot, "one source has not switched") {
		t.Fatalf("%+v", ev)
	}
	for range 7 {
		w.wait(time.Hour)
		w.use.see(w.started.KeyVersion.KID, network(1), "sdk", w.clock.now())
	}
	w.wait(0)
	if ev := w.evidence(t); len(ev.Stragglers()) != 0 || !ev.Ready {
		t.Fatalf("after hours with the new key alone: %+v", ev)
	}
}

func TestRotations_OverdueIsInItsLastDayAndStillUsed(t *testing.T) {
	t.Parallel()
	w := newWatched(t, 7*dayLong)
	w.wait(6*dayLong + time.Hour)
	if ev := w.evidence(t); ev.Overdue || !ev.Ready {
		t.Fatalf("nobody uses the old key: %+v", ev)
	}
	w.use.see(w.old, network(1), "x", w.clock.now())
	w.wait(time.Minute)
	if ev := w.evidence(t); !ev.Overdue || ev.Shown != console.ShownOverdue || ev.Ready {
		t.Fatalf("%+v", ev)
	}
}

func TestRotations_EndIsCompletedByEvidenceAndForcedWithout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait   time.Duration
		want   console.RotationState
		action string
	}{
		"ready":     {7 * time.Hour, console.RotationCompleted, "rotation.complete"},
		"not ready": {time.Hour, console.RotationForced, "rotation.end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t, 24*time.Hour)
			w.wait(c.wait)
			if _, err := w.rotations.End(w.ctx, owner, w.started.Rotation.ID, "done with it"); err != nil {
				t.Fatal(err)
			}
			ev := w.evidence(t)
			if ev.Rotation.State != c.want || string(ev.Shown) != string(c.want) || ev.WhyNot != "" {
				t.Fatalf("%+v", ev)
			}
			if got := w.actions(t); got[len(got)-1] != c.action {
				t.Fatalf("actions %v", got)
			}
		})
	}
}
