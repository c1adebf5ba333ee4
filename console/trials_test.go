package console_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
)

// decisions is a log of nothing.
type decisions struct{}

type emptyLog struct{ from, to time.Time }

func (emptyLog) Batches(context.Context, func(*decisionlog.Batch) error) error { return nil }

func (l emptyLog) Bounds() (from, to time.Time, entries int64) { return l.from, l.to, 0 }

func (emptyLog) Sample() uint32 { return 77 }

func (decisions) Range(_ context.Context, from, to time.Time) (console.Log, error) {
	return emptyLog{from, to}, nil
}

// trying is a console that can simulate; compare does it.
func trying(t *testing.T, compare func(context.Context, console.Log, func(float64)) (decisionlog.Comparison, error)) (*env, console.Draft) {
	t.Helper()
	e := newEnv(t)
	e.deps.Decisions = decisions{}
	e.proven(prover{compare: compare})
	e.publish(t, "10", 0)
	return e, e.draft(t, owner, document("12"))
}

// try starts a simulation of the last hour.
func (e *env) try(draft string) (console.Trial, error) {
	return e.policies.StartTrial(e.ctx, owner, draft, e.clock.now().Add(-time.Hour), e.clock.now())
}

// started starts one, once somebody works on them.
func (e *env) started(t *testing.T, draft string) console.Trial {
	t.Helper()
	var out console.Trial
	waitFor(t, "simulations", func() bool {
		var err error
		out, err = e.try(draft)
		if err != nil && console.CodeOf(err) != console.CodeUnavailable {
			t.Fatal(err)
		}
		return err == nil
	})
	return out
}

func (e *env) trial(t *testing.T, id string) console.Trial {
	t.Helper()
	out, err := e.policies.Trial(e.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTrials_RunInTheBackgroundAndKeepTheirResult(t *testing.T) {
	t.Parallel()
	told, finish := make(chan struct{}), make(chan struct{})
	e, d := trying(t, func(_ context.Context, log console.Log, progress func(float64)) (decisionlog.Comparison, error) {
		if live, ok := log.(interface{ Live() int64 }); !ok || live.Live() != 1 {
			return decisionlog.Comparison{}, errBroken
		}
		if sampled, ok := log.(interface{ Sample() uint32 }); !ok || sampled.Sample() != 77 {
			return decisionlog.Comparison{}, errBroken
		}
		progress(0.5)
		close(told)
		<-finish
		return decisionlog.Comparison{Entries: 9, Refused: decisionlog.Change{Requests: 3, Tenants: 1}}, nil
	})
	run(t, e.policies.RunTrials)
	tr := e.started(t, d.ID)
	<-told
	waitFor(t, "progress", func() bool { return e.trial(t, tr.ID).Progress == 0.5 })
	if r := e.ready(t, d.ID); r.Trial == nil || r.Trial.ID != tr.ID || r.Trial.State != console.TrialRunning {
		t.Fatalf("the draft's newest is %+v", r.Trial)
	}
	close(finish)
	waitFor(t, "its end", func() bool { return e.trial(t, tr.ID).State == console.TrialDone })
	got := e.trial(t, tr.ID)
	if got.Result == nil || got.Result.Entries != 9 || got.Result.Refused.Requests != 3 || got.Against != 1 || got.Author != "Ann" || got.Progress != 1 {
		t.Fatalf("trial %+v", got)
	}
	list, err := e.policies.Trials(e.ctx, d.ID)
	if err != nil || len(list) != 1 || list[0].Result != nil || list[0].State != console.TrialDone {
		t.Fatalf("list %+v (%v)", list, err)
	}
	v, err := e.policies.PublishDraft(e.ctx, owner, d.ID, d.ETag, console.PublishOptions{})
	if err != nil || v.Proof.Trial != tr.ID {
		t.Fatalf("version rests on %q (%v)", v.Proof.Trial, err)
	}
}

func TestTrials_OfAnotherContentAreNotTheDraftsNewest(t *testing.T) {
	t.Parallel()
	e, d := trying(t, func(context.Context, console.Log, func(float64)) (decisionlog.Comparison, error) {
		return decisionlog.Comparison{}, nil
	})
	run(t, e.policies.RunTrials)
	tr := e.started(t, d.ID)
	waitFor(t, "its end", func() bool { return e.trial(t, tr.ID).State == console.TrialDone })
	e.save(t, owner, d, 1)
	if r := e.ready(t, d.ID); r.Trial != nil {
		t.Fatalf("the draft's newest is %+v", r.Trial)
	}
	other, err := e.policies.StartTrialOf(e.ctx, owner, document("13"), e.clock.now().Add(-time.Minute), e.clock.now())
	if err != nil || other.Draft != "" {
		t.Fatalf("trial %+v (%v)", other, err)
	}
}

func TestTrials_ThatFailSayWhy(t *testing.T) {
	t.Parallel()
	var answer error
	e, d := trying(t, func(context.Context, console.Log, func(float64)) (decisionlog.Comparison, error) {
		return decisionlog.Comparison{}, answer
	})
	run(t, e.policies.RunTrials)
	for want, err := range map[string]error{
		"The simulation failed.": errBroken,
		"The log has no entries": &console.Error{Code: console.CodeInvalid, Public: "The log has no entries of that time."},
	} {
		answer = err
		tr := e.started(t, d.ID)
		waitFor(t, "its end", func() bool { return e.trial(t, tr.ID).State == console.TrialFailed })
		if got := e.trial(t, tr.ID); !strings.Contains(got.Problem, want) || strings.Contains(got.Problem, "engine") || got.Result != nil {
			t.Fatalf("trial %+v", got)
		}
	}
}

func TestTrials_EndWithTheirConsole(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 9)
	e, d := trying(t, func(ctx context.Context, _ console.Log, _ func(float64)) (decisionlog.Comparison, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return decisionlog.Comparison{}, ctx.Err()
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.policies.RunTrials(ctx) }()
	first := e.started(t, d.ID)
	<-begun
	second := e.started(t, d.ID)
	for range 7 {
		e.started(t, d.ID)
	}
	if _, err := e.try(d.ID); console.CodeOf(err) != console.CodeConflict {
		t.Fatalf("a queue without end: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{first.ID, second.ID} {
		if got := e.trial(t, id); got.State != console.TrialFailed || !strings.Contains(got.Problem, "restarted") {
			t.Fatalf("trial %+v", got)
		}
	}
	_, err := e.try(d.ID)
	wantCode(t, err, console.CodeUnavailable)
}

// A console that was killed cannot say so: what it ran is seen to have failed.
func TestTrials_OfAKilledConsoleHaveFailed(t *testing.T) {
	t.Parallel()
	e, d := trying(t, nil)
	now := e.clock.now()
	tr := console.Trial{
		ID: "sim_aaaaaaaaaaaaaaaa", Draft: d.ID, Digest: "sha256:" + strings.Repeat("a", 64), Against: 1, From: now.Add(-time.Hour), To: now,
		State: console.TrialRunning, Author: "Ann", At: now,
	}
	if err := e.store.InTx(e.ctx, func(tx console.Tx) error { return tx.InsertTrial(e.ctx, tr, owner.ID) }); err != nil {
		t.Fatal(err)
	}
	if got := e.trial(t, tr.ID); got.State != console.TrialRunning {
		t.Fatalf("trial %+v", got)
	}
	e.clock.add(16 * time.Second)
	list, err := e.policies.Trials(e.ctx, d.ID)
	if got := e.trial(t, tr.ID); err != nil || got.State != console.TrialFailed || list[0].State != console.TrialFailed || got.Problem == "" {
		t.Fatalf("trial %+v, list %+v (%v)", got, list, err)
	}
	e.clock.add(31 * 24 * time.Hour)
	if err := e.jobs.Sweep(e.ctx); err != nil {
		t.Fatal(err)
	}
	_, err = e.policies.Trial(e.ctx, tr.ID)
	wantCode(t, err, console.CodeNotFound)
}

func TestTrials_AreRefusedForWhatCannotBeTried(t *testing.T) {
	t.Parallel()
	e, d := trying(t, nil)
	_, err := e.try(d.ID) // nobody works on them
	wantCode(t, err, console.CodeUnavailable)
	run(t, e.policies.RunTrials)
	now := e.clock.now()
	waitFor(t, "simulations", func() bool {
		_, err := e.policies.StartTrial(e.ctx, owner, d.ID, now, now)
		return console.CodeOf(err) == console.CodeInvalid
	})
	_, err = e.policies.StartTrial(e.ctx, owner, d.ID, now.Add(-8*24*time.Hour), now)
	wantCode(t, err, console.CodeInvalid)
	_, err = e.policies.StartTrial(e.ctx, owner, "drf_x", now.Add(-time.Hour), now)
	wantCode(t, err, console.CodeNotFound)
	_, err = e.policies.StartTrialOf(e.ctx, owner, []byte("a: ["), now.Add(-time.Hour), now)
	wantCode(t, err, console.CodeInvalid)
	if list, err := e.policies.Trials(e.ctx, d.ID); err != nil || len(list) != 0 {
		t.Fatalf("list %+v (%v)", list, err)
	}
}

// A simulation on nothing must not read as if nothing changed.
func TestTrials_SayWhichPartOfTheTimeWasNotTried(t *testing.T) {
	t.Parallel()
	var answer decisionlog.Comparison
	e, d := trying(t, func(context.Context, console.Log, func(float64)) (decisionlog.Comparison, error) { return answer, nil })
	run(t, e.policies.RunTrials)
	to := e.clock.now()
	from := to.Add(-time.Hour)
	for _, c := range []struct {
		entries     int64
		first, last time.Duration // after the beginning
		want        string
	}{
		{0, 0, 0, "nothing was tried"},
		{5, 0, time.Hour, ""},
		{5, 2 * time.Minute, 58 * time.Minute, ""},
		{5, 50 * time.Minute, time.Hour, "was not tried"},
		{5, 0, 10 * time.Minute, "was not tried"},
	} {
		answer = decisionlog.Comparison{Entries: c.entries, From: from.Add(c.first).UnixMicro(), To: from.Add(c.last).UnixMicro()}
		tr, err := e.policies.StartTrial(e.ctx, owner, d.ID, from, to)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "its end", func() bool { return e.trial(t, tr.ID).State == console.TrialDone })
		if got := strings.Join(e.trial(t, tr.ID).Result.Notes, " "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d entries from %v to %v: notes %q", c.entries, c.first, c.last, got)
		}
	}
}

func TestTrials_AgainstAnotherVersionAreNoProof(t *testing.T) {
	t.Parallel()
	e, d := trying(t, func(context.Context, console.Log, func(float64)) (decisionlog.Comparison, error) {
		return decisionlog.Comparison{}, nil
	})
	run(t, e.policies.RunTrials)
	tr := e.started(t, d.ID)
	waitFor(t, "its end", func() bool { return e.trial(t, tr.ID).State == console.TrialDone })
	e.publish(t, "90", 1)
	d, err := e.policies.RebaseDraft(e.ctx, owner, d.ID, d.ETag)
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.policies.PublishDraft(e.ctx, owner, d.ID, d.ETag, console.PublishOptions{Confirmed: map[string]string{"cut-half": "yes"}})
	if err != nil || v.Proof.Trial != "" {
		t.Fatalf("v%d rests on %q, which compared with v%d (%v)", v.Number, v.Proof.Trial, tr.Against, err)
	}
}
