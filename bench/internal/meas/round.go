package meas

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Tally is what one operation did.
type Tally struct {
	Decisions, Admitted uint64
	// Took is how long it took, when that is not the time of the Op: 0 means it is.
	Took time.Duration
}

// Op is one operation of one caller, the i-th of its own. It is called by as many
// goroutines as there are callers, each in a loop without a pause.
type Op func(ctx context.Context, caller int, i uint64) (Tally, error)

// Process is a process whose processor time is charged to the decisions.
type Process struct {
	Name string
	PID  int
}

// Case is one row of the table.
type Case struct {
	Name    string
	Callers int // 0: Plan.Callers
	// GCPercent is GOGC of this process during the case; 0: 100.
	GCPercent int
	Processes []Process // besides this process, which is "self"
	Op        Op
	// Counter, if there is one, is read at both ends of the counted stretch.
	Counter func(context.Context) (int64, error)
	// Before and After stand around each round: for fresh state and for checks.
	Before func(context.Context) error
	After  func(context.Context, *Round) error
}

// Round is one stretch of a case.
type Round struct {
	Decisions, Admitted uint64
	Failed              uint64
	FirstError          error
	Elapsed             time.Duration
	Latency             Hist                     // of operations
	CPU                 map[string]time.Duration // by Process.Name
	Allocations         uint64                   // of this process
	Counted             int64                    // by Case.Counter
	Foreign             float64                  // processors used by all that is not measured
}

// worker is one caller's count.
type worker struct {
	latency             Hist
	decisions, admitted uint64
	failed              uint64
	firstError          error
	_                   [64]byte // callers do not share a cache line
}

// gate says whether callers go on and whether what they do counts.
type gate struct{ stopped, counting atomic.Bool }

func (w *worker) run(ctx context.Context, op Op, caller int, g *gate) {
	for i := uint64(0); !g.stopped.Load(); i++ {
		began := time.Now()
		tally, err := op(ctx, caller, i)
		if !g.counting.Load() {
			continue
		}
		if tally.Took == 0 {
			tally.Took = time.Since(began)
		}
		w.latency.Record(tally.Took)
		w.decisions += tally.Decisions
		w.admitted += tally.Admitted
		if err != nil {
			w.failed++
			if w.firstError == nil {
				w.firstError = err
			}
		}
	}
}

// run makes one round of the case: callers first warm up, then count.
func (c *Case) run(ctx context.Context, callers int, warm, length time.Duration) (Round, error) {
	if c.Before != nil {
		if err := c.Before(ctx); err != nil {
			return Round{}, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	percent := c.GCPercent
	if percent == 0 {
		percent = 100
	}
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	round, err := c.count(ctx, callers, warm, length)
	if err == nil && c.After != nil {
		err = c.After(ctx, &round)
	}
	if err != nil {
		return round, fmt.Errorf("%s: %w", c.Name, err)
	}
	return round, nil
}

func (c *Case) count(ctx context.Context, callers int, warm, length time.Duration) (Round, error) {
	var g gate
	var done sync.WaitGroup
	workers := make([]worker, callers)
	for i := range workers {
		done.Go(func() { workers[i].run(ctx, c.Op, i, &g) })
	}
	err := pause(ctx, warm)
	if err != nil {
		g.stopped.Store(true)
		done.Wait()
		return Round{}, err
	}
	before, err := c.usage(ctx)
	began := time.Now()
	g.counting.Store(true)
	err3 := pause(ctx, length)
	g.counting.Store(false)
	round := Round{Elapsed: time.Since(began)}
	after, err2 := c.usage(ctx)
	g.stopped.Store(true)
	done.Wait()
	if err := errors.Join(err, err2, err3); err != nil {
		return round, err
	}
	for i := range workers {
		round.add(&workers[i])
	}
	round.charge(before, after)
	return round, nil
}

func (r *Round) add(w *worker) {
	r.Latency.Add(&w.latency)
	r.Decisions += w.decisions
	r.Admitted += w.admitted
	r.Failed += w.failed
	if r.FirstError == nil {
		r.FirstError = w.firstError
	}
}

// usage is what had been used at one moment.
type usage struct {
	cpu         map[string]time.Duration
	busy        time.Duration
	allocations uint64
	counted     int64
}

func (c *Case) usage(ctx context.Context) (u usage, err error) {
	u.cpu = map[string]time.Duration{}
	if c.Counter != nil {
		if u.counted, err = c.Counter(ctx); err != nil {
			return u, err
		}
	}
	for _, p := range append([]Process{{Name: Self, PID: os.Getpid()}}, c.Processes...) {
		cpu, err := CPU(p.PID)
		if err != nil {
			return u, err
		}
		u.cpu[p.Name] = cpu
	}
	if u.busy, err = Busy(); err != nil {
		return u, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.allocations = m.Mallocs
	return u, nil
}

// Self is the name of this process in Round.CPU.
const Self = "self"

func (r *Round) charge(before, after usage) {
	r.CPU = map[string]time.Duration{}
	ours := time.Duration(0)
	for name, cpu := range after.cpu {
		r.CPU[name] = cpu - before.cpu[name]
		ours += r.CPU[name]
	}
	r.Counted = after.counted - before.counted
	r.Allocations = after.allocations - before.allocations
	r.Foreign = max(0, (after.busy-before.busy-ours).Seconds()/r.Elapsed.Seconds())
}

// pause lets time pass, which is what a round is made of.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
