package console_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// traffic answers for live counts: requests a step, refused by the hour's minute,
// and from when nothing is known.
type traffic struct {
	refused func(at time.Time) int64
	gap     time.Time
}

func (f traffic) Totals(from, to time.Time, step time.Duration) (out []usage.Point) {
	for at := from.Truncate(step); at.Before(to); at = at.Add(step) {
		refused := f.refused(at)
		out = append(out, usage.Point{At: at, Admitted: 100 - refused, Refused: refused, Reported: !at.Equal(f.gap)})
	}
	return out
}

func (e *env) effects(t *testing.T, s *console.Effects) map[int64]console.Effect {
	t.Helper()
	versions, _, err := e.policies.Versions(e.ctx, console.Page{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Of(e.ctx, versions)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEffects_KeepWhenAllGatewaysEnforceAVersion(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := console.NewEffects(e.deps, e.fleet, nil)
	v := e.publish(t, "10", 0)
	e.feed.set(func() {
		e.feed.beats = []policy.Heartbeat{e.feed.beat("a", 1, v.Digest, 0), e.feed.beat("b", 0, "", 0)}
	})
	note := func() console.Effect {
		t.Helper()
		if err := s.Note(e.ctx); err != nil {
			t.Fatal(err)
		}
		return e.effects(t, s)[1]
	}
	if got := note(); got.Replicas != 0 || got.Before != nil || got.Since != nil {
		t.Errorf("half of the gateways: %+v", got)
	}
	e.clock.add(2 * time.Second)
	e.feed.set(func() {
		e.feed.beats = []policy.Heartbeat{e.feed.beat("a", 1, v.Digest, 0), e.feed.beat("b", 1, v.Digest, 0)}
		for i := range e.feed.beats {
			e.feed.beats[i].Since = v.CreatedAt.Add(time.Duration(i+1) * 300 * time.Millisecond)
		}
	})
	if got := note(); got.Replicas != 2 || got.After != 600*time.Millisecond {
		t.Errorf("all gateways: %+v", got)
	}
	e.feed.set(func() { // a third one comes, and another console looks
		late := e.feed.beat("c", 1, v.Digest, 0)
		late.Since = v.CreatedAt.Add(time.Hour)
		e.feed.beats = append(e.feed.beats, late)
	})
	s = console.NewEffects(e.deps, e.fleet, nil)
	if got := note(); got.Replicas != 2 || got.After != 600*time.Millisecond {
		t.Errorf("the first sight does not count: %+v", got)
	}
}

func TestEffects_RefusalsAroundAPublicationAreKeptAndNeverInvented(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.publish(t, "10", 0)
	e.clock.add(5 * time.Minute)
	second := e.publish(t, "20", 1)
	live := traffic{refused: func(at time.Time) int64 {
		if at.Before(second.CreatedAt) {
			return 10
		}
		return 40
	}}
	s := console.NewEffects(e.deps, e.fleet, live)
	e.clock.add(30 * time.Second)
	if got := e.effects(t, s)[2]; got.Since != nil || got.Before == nil {
		t.Errorf("half a minute after: %+v", got)
	}
	e.clock.add(10 * time.Minute)
	percent := func(s *console.Share) int64 {
		if s == nil || s.Requests == 0 {
			return -1
		}
		return 100 * s.Refused / s.Requests
	}
	if err := s.Note(e.ctx); err != nil {
		t.Fatal(err)
	}
	e.clock.add(24 * time.Hour) // live counts have forgotten it
	got := e.effects(t, console.NewEffects(e.deps, e.fleet, nil))
	if b, a := percent(got[second.Number].Before), percent(got[second.Number].Since); b != 10 || a != 40 {
		t.Errorf("%d %% before and %d %% after, want 10 and 40", b, a)
	}
	if a := got[first.Number].Since; percent(a) != 10 || a.Requests > 100*5*6 {
		t.Errorf("the first version's time reaches into the second's: %+v", a)
	}

	// A span of which nobody reported a part is unknown.
	third := e.publish(t, "30", 2)
	e.clock.add(11 * time.Minute)
	holed := traffic{refused: func(time.Time) int64 { return 1 }, gap: third.CreatedAt.Add(5 * time.Minute).Truncate(10 * time.Second)}
	s = console.NewEffects(e.deps, e.fleet, holed)
	if err := s.Note(e.ctx); err != nil {
		t.Fatal(err)
	}
	if got := e.effects(t, s)[third.Number]; got.Since != nil || percent(got.Before) != 1 || !got.Judged {
		t.Errorf("with a gap: %+v", got)
	}
}

func TestPolicies_ADraftThatWasPublishedIsFoundAsItsVersion(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d, err := e.policies.CreateDraft(e.ctx, owner, "d", document("10"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.policies.VersionOfDraft(e.ctx, d.ID); !console.IsNotFound(err) {
		t.Errorf("before: %v", err)
	}
	v, err := e.policies.PublishDraft(e.ctx, owner, d.ID, d.ETag, console.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := e.policies.VersionOfDraft(e.ctx, d.ID); err != nil || n != v.Number {
		t.Errorf("v%d, %v", n, err)
	}
}

func TestRollback_ToTheContentInForceChangesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.publish(t, "10", 0)
	e.publish(t, "20", 1)
	if v, err := e.policies.Rollback(e.ctx, owner, 1, console.PublishOptions{}); err != nil || v.Number != 3 {
		t.Fatalf("v%d, %v", v.Number, err)
	}
	for _, n := range []int64{1, 3} {
		if _, err := e.policies.Rollback(e.ctx, owner, n, console.PublishOptions{}); console.CodeOf(err) != console.CodeConflict {
			t.Errorf("to v%d, whose content v3 has: %v", n, err)
		}
	}
	if v, err := e.policies.Rollback(e.ctx, owner, 2, console.PublishOptions{}); err != nil || v.Number != 4 {
		t.Errorf("to another one: v%d, %v", v.Number, err)
	}
}
