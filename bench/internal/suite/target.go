package suite

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/bench/internal/meas"
)

// Target is one thing that should come out.
type Target struct {
	ID, What      string
	Figure, Wants string
	Met           bool
}

// results are what was measured, by case.
type results map[string]*meas.Result

// have reports whether all named cases were measured.
func (r results) have(names ...string) bool {
	for _, name := range names {
		if r[name] == nil {
			return false
		}
	}
	return true
}

// targets judges everything that was measured.
func (r results) targets(alone *pair, bounds map[string]float64) []Target {
	var all []Target
	for _, suffix := range []string{"", tuned} {
		all = append(all, r.faster("T1", "one limit beside redis_rate"+suffix, oursOne+suffix, redisRateOne+suffix, 2.5)...)
		all = append(all, r.cheaper("T1", "the same, Redis CPU"+suffix, server, oursOne+suffix, redisRateOne+suffix, 0.4)...)
	}
	for _, suffix := range []string{"", tuned} {
		all = append(all, r.faster("T2", "four layers beside four calls of redis_rate"+suffix, oursFour+suffix, redisRateFour+suffix, 5)...)
		all = append(all, r.cheaper("T2", "the same, Redis CPU"+suffix, server, oursFour+suffix, redisRateFour+suffix, 0.2)...)
	}
	all = append(all, alone.target()...)
	all = append(all, r.faster("T4", "hot key, exact, beside one call each", hotExact, hotUncombined, 4)...)
	all = append(all, r.faster("T4", "hot key, leased, beside one call each", hotLeased, hotUncombined, 15)...)
	all = append(all, within("T4", "leased, 12 replicas: share of what slices leave of the limit", overLeased, bounds)...)
	all = append(all, r.remembered()...)
	all = append(all, r.faster("T8", "12 replicas, 64 callers each, beside one replica", hotReplicasEach, hotExact, 0.8)...)
	all = append(all, r.faster("T8", "12 replicas, 64 callers in all, beside one replica", hotReplicas, hotExact, 0.8)...)
	return append(all, within("T8", "exact, 12 replicas: share of what the limit allows", overExact, bounds)...)
}

func (r results) faster(id, what, ours, theirs string, want float64) []Target {
	if !r.have(ours, theirs) {
		return nil
	}
	ratio := meas.Ratio(r[ours], r[theirs], (*meas.Round).PerSecond)
	return []Target{{
		ID: id, What: what, Wants: fmt.Sprintf("≥ %.2g ×", want), Met: ratio >= want,
		Figure: fmt.Sprintf("%s : %s = %.2f ×", perSecond(r[ours].PerSecond()), perSecond(r[theirs].PerSecond()), ratio),
	}}
}

// cheaper compares a process' time per decision.
func (r results) cheaper(id, what, process, ours, theirs string, want float64) []Target {
	if !r.have(ours, theirs) {
		return nil
	}
	a, b := r[ours].CPU(process), r[theirs].CPU(process)
	if b == 0 {
		return nil // not measured
	}
	ratio := float64(a) / float64(b)
	return []Target{{
		ID: id, What: what, Wants: fmt.Sprintf("≤ %.2g ×", want), Met: ratio <= want,
		Figure: fmt.Sprintf("%s : %s = %.2f ×", micros(a), micros(b), ratio),
	}}
}

func (p *pair) target() []Target {
	ratio := meas.Median(p.ratios)
	if ratio == 0 {
		return nil
	}
	first, second := time.Duration(meas.Median(p.firstMedian)), time.Duration(meas.Median(p.secondMedian))
	return []Target{{
		ID: "T3", What: "one at a time, p50 beside a bare EVALSHA", Wants: "≤ 1.25 ×", Met: ratio <= 1.25,
		Figure: fmt.Sprintf("%s : %s = %.2f ×", micros(first), micros(second), ratio),
	}}
}

// enough is the share of a limit that greedy callers have to get: one that admits
// nothing is never over its limit either.
const enough = 0.995

func within(id, what, name string, bounds map[string]float64) []Target {
	share, known := bounds[name]
	if !known || share == 0 {
		return nil
	}
	return []Target{{
		ID: id, What: what, Wants: fmt.Sprintf("%.3f to 1", enough), Met: share >= enough && share <= 1,
		Figure: fmt.Sprintf("%.4f", share),
	}}
}

// remembered judges refusals that need no Redis.
func (r results) remembered() []Target {
	if !r.have(refusedAlone) {
		return nil
	}
	result := r[refusedAlone]
	each := result.CPU(meas.Self) // one caller; what others take of its time does not count
	calls, allocations := result.Counted(), result.Allocations()
	return []Target{
		{ID: "T5", What: "refused, remembered: calls of Redis a decision", Wants: "0", Met: calls == 0, Figure: fmt.Sprintf("%.3g", calls)},
		{ID: "T5", What: "refused, remembered: processor time", Wants: "≤ 1 µs", Met: each <= time.Microsecond, Figure: micros(each)},
		{ID: "T5", What: "refused, remembered: allocations", Wants: "≤ 2", Met: allocations <= 2, Figure: fmt.Sprintf("%.1f", allocations)},
	}
}

func perSecond(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M/s", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.1f k/s", v/1e3)
	}
	return fmt.Sprintf("%.0f/s", v)
}

func micros(d time.Duration) string {
	us := float64(d) / float64(time.Microsecond)
	switch {
	case us >= 1000:
		return fmt.Sprintf("%.2f ms", us/1000)
	case us >= 100:
		return fmt.Sprintf("%.0f µs", us)
	case us >= 1:
		return fmt.Sprintf("%.1f µs", us)
	}
	return fmt.Sprintf("%.2f µs", us)
}
