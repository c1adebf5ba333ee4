package console

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
)

// States of a Trial.
const (
	TrialRunning = "running"
	TrialDone    = "done"
	TrialFailed  = "failed"
)

const (
	trialRange   = 7 * 24 * time.Hour // the longest
	trialWaiting = 8                  // on one console, besides the one that runs
	trialBeat    = time.Second
	trialLost    = 15 * time.Second // without a sign of life, its console is gone
	trialKept    = 30 * 24 * time.Hour
	trialLimit   = 30 * time.Minute
)

const restarted = "The console was restarted meanwhile; please start the simulation again."

// trialJob is a simulation with the documents that it compares.
type trialJob struct {
	Trial
	live, draft *policy.Document
}

// trialQueue holds simulations of this console.
type trialQueue struct {
	jobs    chan trialJob
	running atomic.Bool // whether somebody works on them
	mu      sync.Mutex
	alive   map[string]float64 // progress of those that wait or run
}

func newTrialQueue() *trialQueue {
	return &trialQueue{jobs: make(chan trialJob, trialWaiting), alive: map[string]float64{}}
}

func (q *trialQueue) see(id string, progress float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alive[id] = min(max(progress, 0), 1)
}

func (q *trialQueue) forget(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.alive, id)
}

func (q *trialQueue) seen() map[string]float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.alive)
}

// StartTrial begins to replay the decisions of a time under a draft and under
// the version in force, in the background of this console. It waits for others.
func (s *Policies) StartTrial(ctx context.Context, actor Actor, draft string, from, to time.Time) (Trial, error) {
	if err := firstAllowed(actor, PermEditDrafts, PermApprove); err != nil {
		return Trial{}, err
	}
	d, err := s.GetDraft(ctx, draft)
	if err != nil {
		return Trial{}, err
	}
	return s.startTrial(ctx, actor, Trial{Draft: draft, From: from, To: to}, []byte(d.Source))
}

// StartTrialOf is StartTrial for a document that is no draft.
func (s *Policies) StartTrialOf(ctx context.Context, actor Actor, src []byte, from, to time.Time) (Trial, error) {
	if err := firstAllowed(actor, PermEditDrafts, PermApprove); err != nil {
		return Trial{}, err
	}
	return s.startTrial(ctx, actor, Trial{From: from, To: to}, src)
}

func (s *Policies) startTrial(ctx context.Context, actor Actor, t Trial, src []byte) (Trial, error) {
	if s.d.Prover == nil || s.d.Decisions == nil || !s.trials.running.Load() {
		return Trial{}, noProver()
	}
	t.From, t.To = t.From.UTC().Truncate(time.Microsecond), t.To.UTC().Truncate(time.Microsecond)
	var p problems
	switch {
	case !t.To.After(t.From):
		p.add("to", "This must be after the beginning.")
	case t.To.Sub(t.From) > trialRange:
		p.add("from", "At most 7 days at once.")
	}
	if err := p.err(); err != nil {
		return Trial{}, err
	}
	doc, report, err := s.parse(ctx, src)
	if err != nil {
		return Trial{}, err
	}
	if doc == nil || !report.OK() {
		return Trial{}, invalidDocument(report)
	}
	head, ok, err := s.Head(ctx)
	if err != nil {
		return Trial{}, err
	}
	if !ok {
		return Trial{}, conflict("There is no version in force to compare with.")
	}
	live, err := s.documents.of(head)
	if err != nil {
		return Trial{}, err
	}
	if t.ID, err = s.d.newID("sim"); err != nil {
		return Trial{}, err
	}
	t.Digest, t.Against, t.State, t.Author, t.At = policy.DigestOf(doc.Canonical()), head.Number, TrialRunning, actor.Name, s.d.now()
	t.SeenAt = t.At
	return t, s.enqueue(ctx, actor, trialJob{Trial: t, live: live, draft: doc})
}

// enqueue stores a simulation and puts it in the queue of this console.
func (s *Policies) enqueue(ctx context.Context, actor Actor, job trialJob) error {
	if len(s.trials.jobs) >= trialWaiting {
		return conflict("Many simulations are waiting already; please try again later.")
	}
	if err := s.d.Store.InTx(ctx, func(tx Tx) error { return tx.InsertTrial(ctx, job.Trial, actor.ID) }); err != nil {
		return err
	}
	s.trials.see(job.ID, 0)
	select {
	case s.trials.jobs <- job:
		return nil
	default: // somebody was faster
		s.finish(ctx, job.Trial, decisionlog.Comparison{}, conflict("Many simulations were waiting already."))
		return conflict("Many simulations are waiting already; please try again later.")
	}
}

// Trial returns one simulation, with its result when it is done.
func (s *Policies) Trial(ctx context.Context, id string) (t Trial, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		t, err = tx.Trial(ctx, id)
		return err
	})
	return s.asOfNow(t), err
}

// Trials lists a draft's simulations without their results, the newest first,
// at most 50.
func (s *Policies) Trials(ctx context.Context, draft string) (out []Trial, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Trials(ctx, draft, 50)
		return err
	})
	for i := range out {
		out[i] = s.asOfNow(out[i])
	}
	return out, err
}

// asOfNow says of a simulation whose console died that it failed.
func (s *Policies) asOfNow(t Trial) Trial {
	if t.State == TrialRunning && s.d.now().Sub(t.SeenAt) > trialLost {
		t.State, t.Problem = TrialFailed, restarted
	}
	return t
}

// RunTrials runs simulations that were started here, one at a time, until ctx
// ends. Those that have not ended by then have failed.
func (s *Policies) RunTrials(ctx context.Context) error {
	s.trials.running.Store(true)
	defer s.trials.running.Store(false)
	stop := every(ctx, trialBeat, s.beat)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			s.abandon(ctx)
			return nil
		case job := <-s.trials.jobs:
			result, err := s.compare(ctx, job)
			s.finish(ctx, job.Trial, result, err)
		}
	}
}

// abandon fails what still waits.
func (s *Policies) abandon(ctx context.Context) {
	for {
		select {
		case job := <-s.trials.jobs:
			s.finish(ctx, job.Trial, decisionlog.Comparison{}, ctx.Err())
		default:
			return
		}
	}
}

// liveLog is a log that knows which version the live document is.
type liveLog struct {
	Log
	version int64
}

// Live is the number of the version that the log is compared with.
func (l liveLog) Live() int64 { return l.version }

// sampledLog also tells the smallest share that was logged.
type sampledLog struct {
	liveLog
	sampled interface{ Sample() uint32 }
}

// Sample is the smallest share of subjects that was logged.
func (l sampledLog) Sample() uint32 { return l.sampled.Sample() }

func (s *Policies) compare(ctx context.Context, job trialJob) (decisionlog.Comparison, error) {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	inner, err := s.d.Decisions.Range(ctx, job.From, job.To)
	if err != nil {
		return decisionlog.Comparison{}, err
	}
	var log Log = liveLog{inner, job.Against}
	if sampled, ok := inner.(interface{ Sample() uint32 }); ok {
		log = sampledLog{liveLog{inner, job.Against}, sampled}
	}
	result, err := s.d.Prover.Compare(ctx, job.live, job.draft, log, s.tenantsFor(ctx), func(done float64) { s.trials.see(job.ID, done) })
	if note := untried(job.Trial, result); note != "" {
		result.Notes = append([]string{note}, result.Notes...)
	}
	return result, err
}

// untried says what of the time that was asked for the log has nothing of. The
// numbers alone would read as if nothing changed.
func untried(t Trial, c decisionlog.Comparison) string {
	if c.Entries == 0 {
		return "The log has no decisions of this time that could be replayed: nothing was tried, and these numbers say nothing."
	}
	before, after := time.UnixMicro(c.From).Sub(t.From), t.To.Sub(time.UnixMicro(c.To))
	if c.From == 0 || (before+after)*untriedShare <= t.To.Sub(t.From) {
		return ""
	}
	at := func(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339) }
	return fmt.Sprintf("The log has decisions from %s to %s alone: the rest of the time that was asked for was not tried.", at(c.From), at(c.To))
}

// untriedShare is of the time that was asked for how small a part may lack without a word.
const untriedShare = 10

// beat writes of each simulation here that it lives, and how far it is.
func (s *Policies) beat(ctx context.Context) {
	for id, progress := range s.trials.seen() {
		err := s.d.Store.Read(ctx, func(tx Tx) error { return tx.SeeTrial(ctx, id, progress, s.d.now()) })
		if err != nil {
			return // the database is away: the next beat tries again
		}
	}
}

// every calls do each beat until stop is called, which waits for it.
func every(ctx context.Context, beat time.Duration, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause(ctx, beat) {
			do(ctx)
		}
	}()
	return func() { cancel(); <-done }
}

// finish stores how a simulation ended, also when ctx has.
func (s *Policies) finish(ctx context.Context, t Trial, result decisionlog.Comparison, err error) {
	defer s.trials.forget(t.ID)
	t.State, t.Progress = TrialDone, 1
	if err != nil {
		t.State, t.Progress, t.Problem = TrialFailed, 0, "The simulation failed."
		if e := (*Error)(nil); asError(err, &e) {
			t.Problem = e.Public
		}
		if ctx.Err() != nil {
			t.Problem = restarted
		}
		s.d.Log.WarnContext(ctx, "simulation failed", "id", t.ID, "error", err)
	} else {
		t.Result = &result
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.d.Store.InTx(within, func(tx Tx) error { return tx.FinishTrial(within, t, s.d.now()) }); err != nil {
		s.d.Log.WarnContext(ctx, "result of a simulation is lost", "id", t.ID, "error", err)
	}
}
