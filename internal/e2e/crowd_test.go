package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Outcomes of a request, as its client sees them.
const (
	admitted     = iota // and Redis has counted it
	admittedHere        // by the gateway alone: there are no numbers
	refused             // 429
	unavailable         // 503
	unanswered          // no answer at all: the gateway was killed, or is not there
)

// event is one request as its client saw it.
type event struct {
	sent, answered time.Duration // since the fleet began
	outcome        int
	gateway        *Member
}

// crowd is clients that ask for the same path without a pause.
type crowd struct {
	path  string
	open  bool // the route goes on without Redis; then an admission without numbers is of that kind
	began time.Time
	stop  context.CancelFunc
	wg    sync.WaitGroup
	empty atomic.Bool // somebody was refused: the burst is spent

	mu  sync.Mutex
	log []event
	odd []Answer // what is none of the outcomes
}

// Crowd sets n clients on each gateway of the fleet. They go to where the
// gateway listens now, and wait a moment where it does not.
func (f *Fleet) Crowd(n int, path string) *crowd {
	ctx, cancel := context.WithCancel(context.Background())
	c := &crowd{path: path, open: path == "/shared", began: f.began, stop: cancel}
	f.t.Cleanup(cancel)
	for _, m := range f.Gateways {
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: n}}
		f.t.Cleanup(client.CloseIdleConnections)
		for range n {
			c.wg.Go(func() { c.run(ctx, m, client) })
		}
	}
	return c
}

func (c *crowd) run(ctx context.Context, m *Member, client *http.Client) {
	var mine []event
	var odd []Answer
	for ctx.Err() == nil {
		e := event{sent: time.Since(c.began), gateway: m}
		a := m.CheckContext(context.Background(), client, m.f.Key, c.path) //nolint:contextcheck // an answer is waited for although the crowd is told to stop
		e.answered = time.Since(c.began)
		switch {
		case a.Status == http.StatusOK && c.open && a.Header.Get("RateLimit") == "":
			e.outcome = admittedHere
		case a.Status == http.StatusOK:
			e.outcome = admitted
		case a.Status == http.StatusTooManyRequests:
			e.outcome = refused
			c.empty.Store(true)
		case a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "":
			e.outcome = unavailable
		case a.Status == 0:
			e.outcome = unanswered
			pause(ctx, 5*time.Millisecond)
		default:
			odd = append(odd, a)
		}
		if a.Status == http.StatusServiceUnavailable {
			pause(ctx, time.Millisecond)
		}
		mine = append(mine, e)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log, c.odd = append(c.log, mine...), append(c.odd, odd...)
}

// pause waits unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// now is the time on the clock that all crowds of a fleet have.
func (c *crowd) now() time.Duration { return time.Since(c.began) }

// drained waits until the crowd has spent the burst.
func (c *crowd) drained(t testing.TB) {
	t.Helper()
	eventually(t, time.Minute, "the burst is spent", func() error {
		if !c.empty.Load() {
			return errors.New("nobody was refused")
		}
		return nil
	})
}

// done lets the clients finish their requests and returns what they saw.
func (c *crowd) done(t testing.TB) seen {
	t.Helper()
	c.stop()
	c.wg.Wait()
	for _, a := range c.odd[:min(3, len(c.odd))] {
		t.Errorf("%s: an answer that is none: status %d, %v: %s", c.path, a.Status, a.Header, a.Body)
	}
	return c.log
}

// seen is what clients saw of a path.
type seen []event

// pick picks what fits.
func (s seen) pick(fits func(event) bool) (out seen) {
	for _, e := range s {
		if fits(e) {
			out = append(out, e)
		}
	}
	return out
}

// of picks the events of some outcomes.
func (s seen) of(outcomes ...int) seen {
	return s.pick(func(e event) bool { return slices.Contains(outcomes, e.outcome) })
}

// by picks what some gateways answered.
func (s seen) by(gateways ...*Member) seen {
	return s.pick(func(e event) bool { return slices.Contains(gateways, e.gateway) })
}

// within picks what was sent at or after from and answered before to.
func (s seen) within(from, to time.Duration) seen {
	return s.pick(func(e event) bool { return e.sent >= from && e.answered < to })
}

// excess is by how much the events exceed r a second and a burst of b, in the
// worst of all intervals, from some request's sending to some answer; 0 or less
// is within the limit. There is no slack in it: a token that was there at the
// time of a decision was there between its request and its answer.
func (s seen) excess(b, r int) (worst int, from, to time.Duration) {
	byAnswer := slices.SortedFunc(slices.Values(s), func(x, y event) int { return int(x.answered - y.answered) })
	worst = -b
	for _, first := range s {
		n := 0
		for _, e := range byAnswer {
			if e.sent < first.sent {
				continue
			}
			n++
			most := b + int(int64(r)*int64(e.answered-first.sent)/int64(time.Second))
			if n-most > worst {
				worst, from, to = n-most, first.sent, e.answered
			}
		}
	}
	return worst, from, to
}

// span is from the first sending to the last answer.
func (s seen) span() time.Duration {
	first, last := s[0].sent, s[0].answered
	for _, e := range s {
		first, last = min(first, e.sent), max(last, e.answered)
	}
	return last - first
}

// emptied is from the first answer to the sending of the last request that was
// refused: over that time the limit was drained to the last token.
func (s seen) emptied() time.Duration {
	first, last := s[0].answered, time.Duration(0)
	for _, e := range s {
		first = min(first, e.answered)
		if e.outcome == refused {
			last = max(last, e.sent)
		}
	}
	return max(0, last-first)
}

// counts tells how often each outcome came.
func (s seen) counts() map[string]int {
	names := [...]string{"admitted", "admitted here", "refused", "unavailable", "unanswered"}
	out := map[string]int{}
	for _, e := range s {
		out[names[e.outcome]]++
	}
	return out
}

// keepsTo holds what was admitted to a burst of b and r a second, over every
// interval, with so much more as a fault may have given back.
func (s seen) keepsTo(t testing.TB, what string, b, r, lost int) {
	t.Helper()
	all := s.of(admitted)
	if len(all) == 0 {
		t.Fatalf("%s: nothing was admitted: %v", what, s.counts())
	}
	outer := s.span()
	worst, from, to := all.excess(b+lost, r)
	t.Logf("%s: %v in %s; at most %d may be admitted in all, and the fullest interval has %d to spare", what, s.counts(), outer.Round(time.Millisecond),
		b+lost+int(int64(r)*int64(outer)/int64(time.Second)), -worst)
	if worst > 0 {
		t.Errorf("%s: %d too many from %s to %s (burst %d, %d a second, %d given back by the fault)", what, worst, from, to, b, r, lost)
	}
}

// getsItsShare holds that a greedy crowd gets what the limit has, or so many
// thousandths of it: a burst of b, r a second, less what the fault may have cost
// it.
func (s seen) getsItsShare(t testing.TB, what string, thousandths, b, r, cost int) {
	t.Helper()
	drained := s.emptied()
	got, least := len(s.of(admitted)), (b+int(int64(r)*int64(drained)/int64(time.Second)))*thousandths/1000-cost
	if drained == 0 {
		t.Errorf("%s: nobody was refused, so the crowd was not greedy: %v", what, s.counts())
	}
	if got < least {
		t.Errorf("%s: %d admitted, want at least %d", what, got, least)
	}
}
