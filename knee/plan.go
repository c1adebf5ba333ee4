package knee

import (
	"errors"
	"fmt"
	"time"
)

// Answer is what became of one request.
type Answer struct {
	Status int   // HTTP's; 0 when Err is set
	Err    error // that no answer came, and why
}

// Failed reports whether the server failed: no answer, or 5xx.
func (a Answer) Failed() bool { return a.Err != nil || a.Status >= 500 }

// Bounds of a Plan.
const (
	MaxRPS     = 100_000
	MaxFor     = 5 * time.Minute
	leastFor   = 100 * time.Millisecond
	leastStart = 1.0
)

// Plan says how a server is asked, and when to leave it alone. The zero value of each
// but MaxRPS is its default.
type Plan struct {
	MaxRPS      float64       // requests a second that are never exceeded, at most 100 000
	StartRPS    float64       // of the first step; default a 32nd of MaxRPS, 1 at least
	Step        float64       // factor from one step to the next, above 1 and at most 4; default 1.5
	For         time.Duration // how long a step lasts, 100 ms to 5 min; default 3 s
	AbortP99    time.Duration // a 99th percentile from which on all is called off; default 2 s
	AbortErrors float64       // share of failed answers from which on all is called off; default 0.05
}

// withDefaults fills in what was left out.
func (p Plan) withDefaults() Plan {
	if p.StartRPS == 0 {
		p.StartRPS = max(p.MaxRPS/32, leastStart)
	}
	if p.Step == 0 {
		p.Step = 1.5
	}
	if p.For == 0 {
		p.For = 3 * time.Second
	}
	if p.AbortP99 == 0 {
		p.AbortP99 = 2 * time.Second
	}
	if p.AbortErrors == 0 {
		p.AbortErrors = 0.05
	}
	return p
}

// Check lists every problem of a plan.
func (p Plan) Check() error {
	p = p.withDefaults()
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	// Written so that NaN is refused, too.
	bad(!(p.MaxRPS >= leastStart && p.MaxRPS <= MaxRPS), "max RPS %g: must be 1 to %d", p.MaxRPS, MaxRPS)
	bad(!(p.StartRPS > 0 && p.StartRPS <= max(p.MaxRPS, leastStart)), "start RPS %g: must be above 0 and at most max RPS", p.StartRPS)
	bad(!(p.Step >= 1.05 && p.Step <= 4), "step %g: must be a factor from 1.05 to 4", p.Step)
	bad(p.For < leastFor || p.For > MaxFor, "for %s: must be %s to %s", p.For, leastFor, MaxFor)
	bad(p.AbortP99 < time.Millisecond, "abort p99 %s: must be 1ms or more", p.AbortP99)
	bad(!(p.AbortErrors > 0 && p.AbortErrors <= 1), "abort errors %g: must be a share above 0 and at most 1", p.AbortErrors)
	return errors.Join(errs...)
}

// End says why a ramp ended.
type End string

// Ends of a ramp. After the first two nothing was wrong; after all others the server
// was left alone before its time.
const (
	EndKnee        End = "knee"        // the step after the knee answered later or less
	EndMaxRPS      End = "max-rps"     // the most that was allowed was offered, and no knee was met
	EndErrors      End = "errors"      // too many answers failed
	EndP99         End = "p99"         // answers took too long
	EndStalled     End = "stalled"     // no answers came any more
	EndRefused     End = "refused"     // a limiter in front refused (429): its number was met, not the server's
	EndInterrupted End = "interrupted" // the caller stopped it
	EndBehind      End = "behind"      // this machine could not offer the load
)

// Aborted reports whether the server was left alone before its time.
func (e End) Aborted() bool { return e != EndKnee && e != EndMaxRPS }

// Step is what one pace got. Times are from the instant at which a request was due.
type Step struct {
	RPS        float64 // offered
	Sent       int
	Answered   int     // with anything but 5xx and 429
	Failed     int     // 5xx, or none
	Refused    int     // 429
	Throughput float64 // answered a second, until the last answer
	P50, P99   time.Duration
	Max        time.Duration
	Good       bool   // below the knee
	Why        string // what was wrong with one that is not good
}

// Result is what a ramp found.
type Result struct {
	Knee    float64       // requests a second of the best good step; 0: not even the first was
	Beyond  float64       // of the least step that was not good: the knee lies between; 0: none
	Plateau time.Duration // the 99th percentile below the knee
	P99     time.Duration // at the knee
	End     End
	Why     string // the end, for people
	Steps   []Step // in the order in which they were made
	Started time.Time
	Took    time.Duration
}

// Method says how a knee is found, for whoever reads the figure later.
const Method = "open load at a constant pace, times from the due instant; a step is beyond the knee when, twice, " +
	"its p99 exceeds twice the plateau's and 20 ms more, under 95 % are answered, or over 0.5 % fail; then halved down to 5 %"
