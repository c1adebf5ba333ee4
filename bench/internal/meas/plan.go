// Package meas measures: callers in closed loops, histograms of their latencies,
// and the processor time that each process took meanwhile.
//
// It imports nothing of this module and nothing of headgate.
package meas

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Plan says how cases are measured: in interleaved rounds, so that whatever else
// the machine does in a minute hits all of them alike.
type Plan struct {
	Callers      int
	Rounds       int
	Warm, Length time.Duration // of a round
	Progress     func(format string, args ...any)
}

// Result is a case with its rounds.
type Result struct {
	Case   Case
	Rounds []Round
}

// Run measures all cases and returns their results by name.
func (p *Plan) Run(ctx context.Context, cases []Case) (map[string]*Result, error) {
	results := map[string]*Result{}
	for _, c := range cases {
		if results[c.Name] != nil {
			return nil, fmt.Errorf("two cases are called %q", c.Name)
		}
		results[c.Name] = &Result{Case: c}
	}
	for n := range p.Rounds {
		p.Progress("round %d of %d: %d cases", n+1, p.Rounds, len(cases))
		for i := range cases {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("measure: %w", err)
			}
			callers := cases[i].Callers
			if callers == 0 {
				callers = p.Callers
			}
			round, err := cases[i].run(ctx, callers, p.Warm, p.Length)
			if err != nil {
				return nil, err
			}
			r := results[cases[i].Name]
			r.Rounds = append(r.Rounds, round)
		}
	}
	return results, nil
}

// PerSecond is the median of decisions per second.
func (r *Result) PerSecond() float64 { return r.median((*Round).PerSecond) }

// PerSecond is the round's decisions per second.
func (r *Round) PerSecond() float64 { return float64(r.Decisions) / r.Elapsed.Seconds() }

// Quantile is the median of the rounds' quantiles.
func (r *Result) Quantile(q float64) time.Duration {
	return time.Duration(r.median(func(o *Round) float64 { return float64(o.Latency.Quantile(q)) }))
}

// CPU is the processor time per decision that the named process took, over all
// rounds, because a single one is short beside the clock of /proc.
func (r *Result) CPU(process string) time.Duration {
	cpu, decisions := time.Duration(0), uint64(0)
	for i := range r.Rounds {
		cpu += r.Rounds[i].CPU[process]
		decisions += r.Rounds[i].Decisions
	}
	if decisions == 0 {
		return 0
	}
	return time.Duration(float64(cpu) / float64(decisions))
}

// Allocations is the median number of allocations per decision.
func (r *Result) Allocations() float64 {
	return r.median(func(o *Round) float64 { return float64(o.Allocations) / float64(max(1, o.Decisions)) })
}

// Counted is what Case.Counter counted per decision, over all rounds.
func (r *Result) Counted() float64 {
	counted, decisions := int64(0), uint64(0)
	for i := range r.Rounds {
		counted += r.Rounds[i].Counted
		decisions += r.Rounds[i].Decisions
	}
	return float64(counted) / float64(max(1, decisions))
}

// Admitted is the share of decisions that were admitted, over all rounds.
func (r *Result) Admitted() float64 {
	admitted, decisions := uint64(0), uint64(0)
	for i := range r.Rounds {
		admitted += r.Rounds[i].Admitted
		decisions += r.Rounds[i].Decisions
	}
	return float64(admitted) / float64(max(1, decisions))
}

// Failed is the number of operations that failed, with the first error.
func (r *Result) Failed() (n uint64, first error) {
	for i := range r.Rounds {
		n += r.Rounds[i].Failed
		if first == nil {
			first = r.Rounds[i].FirstError
		}
	}
	return n, first
}

// Foreign is the median number of processors that others used meanwhile.
func (r *Result) Foreign() float64 {
	return r.median(func(o *Round) float64 { return o.Foreign })
}

// Ratio is the median, over the rounds, of f's value for a divided by b's: rounds
// of the same number ran close together.
func Ratio(a, b *Result, f func(*Round) float64) float64 {
	var ratios []float64
	for i := range min(len(a.Rounds), len(b.Rounds)) {
		if d := f(&b.Rounds[i]); d > 0 {
			ratios = append(ratios, f(&a.Rounds[i])/d)
		}
	}
	return Median(ratios)
}

func (r *Result) median(f func(*Round) float64) float64 {
	values := make([]float64, len(r.Rounds))
	for i := range r.Rounds {
		values[i] = f(&r.Rounds[i])
	}
	return Median(values)
}

// Median is the middle of the values, the lower of two; 0 when there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
