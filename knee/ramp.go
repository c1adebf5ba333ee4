package knee

import (
	"context"
	"fmt"
	"time"
)

const (
	// resolution is the factor between good and bad at which the search ends.
	resolution = 1.05
	// leastAnswered of what is offered has to be answered in a good step.
	leastAnswered = 0.95
	// mostFailed of it may fail.
	mostFailed = 0.005
	// slack is by how much a 99th percentile may exceed the plateau, besides twice it.
	slack = 20 * time.Millisecond
	// refusedShare of 429s says that a limiter was met, not the server.
	refusedShare = 0.01
)

// ramp is one run of a plan.
type ramp struct {
	plan    Plan
	call    func(context.Context) Answer
	told    func(Step)
	result  Result
	plateau time.Duration // the lowest 99th percentile of good steps; 0 before the first
}

// Run offers call the load of a plan and tells each step as it ends (nil: not). call
// must return soon after its context ends. The result is valid whatever its End; the
// error is that of a plan that cannot be.
func (p Plan) Run(ctx context.Context, call func(context.Context) Answer, told func(Step)) (Result, error) {
	if err := p.Check(); err != nil {
		return Result{}, err
	}
	if told == nil {
		told = func(Step) {}
	}
	r := &ramp{plan: p.withDefaults(), call: call, told: told}
	r.result.Started = time.Now()
	r.climb(ctx)
	r.result.Took = time.Since(r.result.Started)
	r.result.Plateau = r.plateau
	return r.result, nil
}

// climb goes up until a step is not good, and then halves the distance.
func (r *ramp) climb(ctx context.Context) {
	for rps := r.plan.StartRPS; ; {
		good, ended := r.step(ctx, rps)
		switch {
		case ended:
			return
		case !good:
			r.halve(ctx)
			return
		case rps >= r.plan.MaxRPS:
			r.end(EndMaxRPS, fmt.Sprintf("no knee up to %g requests a second", rps))
			return
		}
		rps = min(rps*r.plan.Step, r.plan.MaxRPS)
	}
}

func (r *ramp) halve(ctx context.Context) {
	for r.result.Knee > 0 && r.result.Beyond > r.result.Knee*resolution {
		if _, ended := r.step(ctx, (r.result.Knee+r.result.Beyond)/2); ended {
			return
		}
	}
	why := fmt.Sprintf("between %.4g and %.4g requests a second", r.result.Knee, r.result.Beyond)
	if r.result.Knee == 0 {
		why = fmt.Sprintf("below the first step, %.4g requests a second", r.result.Beyond)
	}
	r.end(EndKnee, why)
}

func (r *ramp) end(e End, why string) { r.result.End, r.result.Why = e, why }

// step tries a pace. One that is not good is tried again: it takes two to be beyond
// the knee, as one may have met a pause of some other making.
func (r *ramp) step(ctx context.Context, rps float64) (good, ended bool) {
	for range 2 {
		s, end, why := r.offer(ctx, rps)
		if end == "" && s.Answered > 0 && s.P99 > r.plan.AbortP99 { // too few a second to be called off meanwhile
			end, why = EndP99, fmt.Sprintf("p99 was %s", s.P99.Round(time.Millisecond))
		}
		if end != "" {
			s.Good, s.Why = false, why
		} else {
			r.judge(&s)
		}
		r.result.Steps = append(r.result.Steps, s)
		r.told(s)
		switch {
		case end != "":
			r.end(end, why)
			return false, true
		case s.Good:
			if r.plateau == 0 || s.P99 < r.plateau {
				r.plateau = s.P99
			}
			r.result.Knee, r.result.P99 = max(r.result.Knee, rps), s.P99
			return true, false
		}
	}
	if r.result.Beyond == 0 || rps < r.result.Beyond {
		r.result.Beyond = rps
	}
	return false, false
}

// judge says whether a step is below the knee.
func (r *ramp) judge(s *Step) {
	switch most := r.most(); {
	case float64(s.Failed) > mostFailed*float64(s.Sent):
		s.Why = fmt.Sprintf("%d of %d failed", s.Failed, s.Sent)
	case r.plateau > 0 && s.P99 > most:
		s.Why = fmt.Sprintf("p99 %s, above %s", s.P99.Round(time.Millisecond), most.Round(time.Millisecond))
	case s.Throughput < leastAnswered*min(s.RPS, float64(s.Sent)/r.plan.For.Seconds()):
		s.Why = fmt.Sprintf("%.4g of %.4g a second answered", s.Throughput, s.RPS)
	default:
		s.Good = true
	}
}

// most is the 99th percentile up to which a step is below the knee.
func (r *ramp) most() time.Duration { return max(2*r.plateau, r.plateau+slack) }
