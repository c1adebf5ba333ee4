package knee

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// lookEvery is how often a running step is looked at.
	lookEvery = 50 * time.Millisecond
	// lookBack is the stretch of answers by which a step is called off.
	lookBack = time.Second
	// stall is how long nothing may be answered while much is asked; with a slow server
	// three times its plateau.
	stall = 500 * time.Millisecond
	// few is the number of answers or open requests below which nothing is called off.
	few = 5
	// drain is how long answers are awaited after a step, at most; AbortP99 if that is longer.
	drain = 2 * time.Second
	// late is by how much this machine may be late with its own requests.
	late = 250 * time.Millisecond
)

// sample is one answer.
type sample struct {
	at   time.Time     // when it came
	took time.Duration // from when it was due
	Answer
}

// load is a step under way. Only the goroutine of offer touches it.
type load struct {
	r       *ramp
	rps     float64
	begun   time.Time
	sent    int
	samples []sample
	last    time.Time // the last sign of life
	back    chan sample
	abort   End
	why     string
}

// offer asks rps times a second for as long as a step lasts, and awaits the answers.
// It ends early, without an End, when so many requests are open that the step cannot
// be good any more.
func (r *ramp) offer(ctx context.Context, rps float64) (Step, End, string) {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{r: r, rps: rps, begun: time.Now(), back: make(chan sample, 1024)}
	l.last = l.begun
	l.send(ctx)
	if l.abort == "" {
		l.await(ctx)
	}
	cancel() // calls back what is still open
	for range l.open() {
		l.samples = append(l.samples, <-l.back) // so that no request outlives its step
	}
	return l.step(), l.abort, l.why
}

func (l *load) open() int { return l.sent - len(l.samples) }

// due is when the next request is.
func (l *load) due() time.Time {
	return l.begun.Add(time.Duration(float64(l.sent) / l.rps * float64(time.Second)))
}

// send keeps the pace until the step is over.
func (l *load) send(ctx context.Context) {
	end := l.begun.Add(l.r.plan.For)
	next := time.NewTimer(0)
	defer next.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			l.abort, l.why = EndInterrupted, "it was stopped"
			return
		case s := <-l.back:
			l.took(s)
		case <-look.C:
			if l.look(time.Now()); l.abort != "" || l.hopeless() {
				return
			}
		case now := <-next.C:
			// The channel's time may be old; what is due now counts.
			for now = time.Now(); !l.due().After(now); {
				if !l.due().Before(end) {
					return
				}
				if now.Sub(l.due()) > late {
					l.abort, l.why = EndBehind, fmt.Sprintf("this machine cannot offer %.4g requests a second", l.rps)
					return
				}
				l.ask(ctx, l.due())
			}
			next.Reset(time.Until(l.due()))
		}
	}
}

func (l *load) ask(ctx context.Context, due time.Time) {
	l.sent++
	go func() {
		a := l.r.call(ctx)
		now := time.Now()
		l.back <- sample{now, now.Sub(due), a}
	}()
}

func (l *load) took(s sample) {
	l.samples = append(l.samples, s)
	l.last = s.at
}

// await takes the answers that are still open.
func (l *load) await(ctx context.Context) {
	patience := time.NewTimer(max(drain, l.r.plan.AbortP99))
	defer patience.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for l.open() > 0 && l.abort == "" {
		select {
		case <-ctx.Done():
			l.abort, l.why = EndInterrupted, "it was stopped"
		case s := <-l.back:
			l.took(s)
		case <-look.C:
			l.look(time.Now())
		case <-patience.C:
			l.abort, l.why = EndP99, fmt.Sprintf("%d requests were not answered in %s", l.open(), max(drain, l.r.plan.AbortP99))
		}
	}
}

// look calls everything off when the server suffers.
func (l *load) look(now time.Time) {
	recent := l.since(now.Add(-lookBack))
	failed, refused := 0, 0
	for _, s := range recent {
		if s.Failed() {
			failed++
		}
		if s.Status == 429 {
			refused++
		}
	}
	quiet := max(stall, 3*l.r.plateau)
	switch {
	case failed >= few && float64(failed) >= l.r.plan.AbortErrors*float64(len(recent)):
		l.abort, l.why = EndErrors, fmt.Sprintf("%d of the last %d answers failed: %s", failed, len(recent), reason(recent))
	case refused >= few && float64(refused) >= refusedShare*float64(len(recent)):
		l.abort, l.why = EndRefused, fmt.Sprintf("%d of the last %d answers were 429: a limiter refuses, and its number is not the server's", refused, len(recent))
	case len(recent) >= few && percentile(times(recent), 99) > l.r.plan.AbortP99:
		l.abort, l.why = EndP99, fmt.Sprintf("p99 of the last second was %s", percentile(times(recent), 99).Round(time.Millisecond))
	case l.open() >= few && now.Sub(l.last) > quiet && now.Sub(l.begun) > quiet:
		l.abort, l.why = EndStalled, fmt.Sprintf("no answer for %s with %d requests open", now.Sub(l.last).Round(time.Millisecond), l.open())
	}
}

// since are the samples that came after a time.
func (l *load) since(t time.Time) []sample {
	i := len(l.samples)
	for i > 0 && l.samples[i-1].at.After(t) {
		i--
	}
	return l.samples[i:]
}

// hopeless reports whether so many requests are open that, by Little's law, they take
// twice as long as a good step's may: there is no need to ask for more.
func (l *load) hopeless() bool {
	if l.r.plateau == 0 || time.Since(l.begun) < l.r.plan.For/3 {
		return false
	}
	return float64(l.open()) > 2*l.rps*l.r.most().Seconds()+10
}

func (l *load) step() Step {
	s := Step{RPS: l.rps, Sent: l.sent}
	var good []time.Duration
	end := l.begun
	for _, v := range l.samples {
		if v.at.After(end) {
			end = v.at
		}
		switch {
		case v.Failed():
			s.Failed++
		case v.Status == 429:
			s.Refused++
		default:
			s.Answered++
			good = append(good, v.took)
		}
	}
	slices.Sort(good)
	s.P50, s.P99, s.Max = percentile(good, 50), percentile(good, 99), percentile(good, 100)
	// The last request is due one interval before the step's end, and takes its time.
	took := max(end.Sub(l.begun)-s.P50, time.Duration(float64(l.sent)/l.rps*float64(time.Second)))
	if took > 0 {
		s.Throughput = float64(s.Answered) / took.Seconds()
	}
	return s
}

// times are the sorted times of samples.
func times(in []sample) []time.Duration {
	out := make([]time.Duration, len(in))
	for i, s := range in {
		out[i] = s.took
	}
	slices.Sort(out)
	return out
}

// percentile is the least value that p % of the sorted values do not exceed (nearest
// rank); 0 for none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}

// reason is what the last failed answer said.
func reason(in []sample) string {
	for _, s := range slices.Backward(in) {
		switch {
		case s.Err != nil:
			return s.Err.Error()
		case s.Failed():
			return fmt.Sprintf("status %d", s.Status)
		}
	}
	return ""
}
