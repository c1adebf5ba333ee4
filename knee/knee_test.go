package knee_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/knee"
)

// pool is a server of n workers that each take a while for a request: it can answer
// n ÷ service requests a second, and whoever comes beyond waits.
func pool(n int, service time.Duration) func(context.Context) knee.Answer {
	free := make(chan struct{}, n)
	return func(ctx context.Context) knee.Answer {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		case <-ctx.Done():
			return knee.Answer{Err: ctx.Err()}
		}
		select {
		case <-time.After(service):
			return knee.Answer{Status: http.StatusOK}
		case <-ctx.Done():
			return knee.Answer{Err: ctx.Err()}
		}
	}
}

func run(t *testing.T, p knee.Plan, call func(context.Context) knee.Answer) knee.Result {
	t.Helper()
	r, err := p.Run(t.Context(), call, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The clock is the test's own: load, pool and answers take no real time, and the same
// time on each machine.
func TestKnee_OfAPoolOfWorkersIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		workers int
		service time.Duration
		plan    knee.Plan
	}{
		"quick":       {4, 10 * time.Millisecond, knee.Plan{MaxRPS: 1000}},
		"slow":        {10, 200 * time.Millisecond, knee.Plan{MaxRPS: 400}},
		"one worker":  {1, 25 * time.Millisecond, knee.Plan{MaxRPS: 500, For: 2 * time.Second}},
		"large steps": {16, 40 * time.Millisecond, knee.Plan{MaxRPS: 2000, Step: 3, StartRPS: 10}},
		"small steps": {8, 40 * time.Millisecond, knee.Plan{MaxRPS: 500, Step: 1.2, StartRPS: 90}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				want := float64(c.workers) / c.service.Seconds()
				r := run(t, c.plan, pool(c.workers, c.service))
				if r.End != knee.EndKnee || math.Abs(r.Knee-want) > 0.15*want {
					t.Errorf("found %.1f (%s: %s), the pool can answer %.1f; steps %+v", r.Knee, r.End, r.Why, want, r.Steps)
				}
				if r.Beyond < want*0.99 || r.Beyond > r.Knee*1.051 || r.Plateau < c.service || r.Plateau > 2*c.service {
					t.Errorf("beyond %.1f, plateau %s", r.Beyond, r.Plateau)
				}
				for _, s := range r.Steps {
					if s.RPS > c.plan.MaxRPS {
						t.Errorf("offered %.1f, more than the plan allows", s.RPS)
					}
				}
			})
		})
	}
}

// A pause of the whole pool in one step is not the knee.
func TestKnee_OnePauseIsNotTakenForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner, begun := pool(10, 20*time.Millisecond), time.Now()
		r := run(t, knee.Plan{MaxRPS: 800, StartRPS: 100}, func(ctx context.Context) knee.Answer {
			if at := time.Since(begun); at > 4*time.Second && at < 4200*time.Millisecond { // in the second step
				time.Sleep(4200*time.Millisecond - at)
			}
			return inner(ctx)
		})
		if r.End != knee.EndKnee || r.Knee < 425 || r.Knee > 575 {
			t.Errorf("found %.1f: %s", r.Knee, r.Why)
		}
		if bad := r.Steps[1]; bad.Good || !strings.Contains(bad.Why, "p99") {
			t.Errorf("the pause was not seen at all: %+v", bad)
		}
	})
}

func TestKnee_NoneIsMadeUpWhereNoneWasMet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, knee.Plan{MaxRPS: 100, For: time.Second}, pool(1000, 10*time.Millisecond))
		if r.End != knee.EndMaxRPS || r.Knee != 100 || r.Beyond != 0 || r.End.Aborted() {
			t.Errorf("%+v", r)
		}
	})
}

func TestKnee_BelowTheFirstStepIsSaidToBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, knee.Plan{MaxRPS: 400, StartRPS: 200, For: time.Second, AbortP99: time.Minute}, pool(1, 20*time.Millisecond))
		if r.Knee != 0 || r.End != knee.EndKnee || r.Beyond != 200 {
			t.Errorf("%+v", r)
		}
	})
}

// dying answers until a time, and then as dead does. It counts what it is asked later.
func dying(at time.Duration, alive, dead func(context.Context) knee.Answer, after *atomic.Int64, last *atomic.Int64) func(context.Context) knee.Answer {
	begun := time.Now()
	return func(ctx context.Context) knee.Answer {
		since := time.Since(begun)
		if since < at {
			return alive(ctx)
		}
		after.Add(1)
		last.Store(int64(since - at))
		return dead(ctx)
	}
}

func TestKnee_AServerThatDiesIsLeftAloneWithinASecond(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dead func(context.Context) knee.Answer
		end  knee.End
	}{
		"refuses connections": {func(context.Context) knee.Answer { return knee.Answer{Err: errors.New("connection refused")} }, knee.EndErrors},
		"answers 500":         {func(context.Context) knee.Answer { return knee.Answer{Status: 500} }, knee.EndErrors},
		"says nothing":        {func(ctx context.Context) knee.Answer { <-ctx.Done(); return knee.Answer{Err: ctx.Err()} }, knee.EndStalled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var after, last atomic.Int64
				call := dying(4500*time.Millisecond, pool(100, 10*time.Millisecond), c.dead, &after, &last)
				r := run(t, knee.Plan{MaxRPS: 800, StartRPS: 50, Step: 2}, call)
				if r.End != c.end || !r.End.Aborted() || r.Why == "" {
					t.Errorf("ended with %q: %s", r.End, r.Why)
				}
				if d := time.Duration(last.Load()); d > time.Second || after.Load() == 0 {
					t.Errorf("asked %d times after it died, until %s later", after.Load(), d)
				}
				if r.Knee != 50 {
					t.Errorf("knee %.1f: only the first step was good", r.Knee)
				}
				asked := after.Load()
				time.Sleep(time.Minute)
				if after.Load() != asked {
					t.Error("it was asked again afterwards")
				}
			})
		})
	}
}

func TestKnee_EndsWhenAnswersTakeTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := run(t, knee.Plan{MaxRPS: 100, AbortP99: 150 * time.Millisecond}, pool(100, 200*time.Millisecond))
		if r.End != knee.EndP99 || r.Knee != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestKnee_RefusalsOfALimiterAreNoKnee(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		r := run(t, knee.Plan{MaxRPS: 100}, func(context.Context) knee.Answer {
			if n.Add(1) > 60 {
				return knee.Answer{Status: http.StatusTooManyRequests}
			}
			return knee.Answer{Status: http.StatusOK}
		})
		if r.End != knee.EndRefused || !strings.Contains(r.Why, "limiter") {
			t.Errorf("ended with %q: %s", r.End, r.Why)
		}
	})
}

func TestKnee_StopsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1700*time.Millisecond)
		defer cancel()
		r, err := knee.Plan{MaxRPS: 100}.Run(ctx, pool(10, time.Millisecond), nil)
		if err != nil || r.End != knee.EndInterrupted || r.Took > 2*time.Second {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// Were times counted from when a request is sent, and sent when the one before was
// answered, a server that stops for a second would show one slow answer.
func TestKnee_TimesCountFromWhenRequestsAreDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var steps []knee.Step
		_, err := knee.Plan{MaxRPS: 100, StartRPS: 100, For: 2 * time.Second, AbortP99: time.Minute}.Run(t.Context(), func(context.Context) knee.Answer {
			if at := time.Since(begun); at >= time.Second && at < 1400*time.Millisecond {
				time.Sleep(1400*time.Millisecond - at)
			}
			return knee.Answer{Status: 200}
		}, func(s knee.Step) { steps = append(steps, s) })
		if err != nil {
			t.Fatal(err)
		}
		s := steps[0]
		if s.Sent != 200 || s.Max != 400*time.Millisecond || s.P50 != 0 || s.P99 < 350*time.Millisecond {
			t.Errorf("40 of 200 requests waited up to 400 ms: %+v", s)
		}
	})
}

func TestPlan_NamesEveryProblem(t *testing.T) {
	t.Parallel()
	if err := (knee.Plan{MaxRPS: 100}).Check(); err != nil {
		t.Error(err)
	}
	err := knee.Plan{MaxRPS: math.NaN(), StartRPS: -1, Step: 1, For: time.Hour, AbortP99: -1, AbortErrors: 2}.Check()
	for _, want := range []string{"max RPS", "start RPS", "step", "for 1h", "abort p99", "abort errors"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if _, err := (knee.Plan{}).Run(t.Context(), nil, nil); err == nil {
		t.Error("a plan without a bound was run")
	}
}

func TestTarget_AsksAsItIsTold(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	target := knee.Target{Method: "POST", URL: server.URL + "/v1/x", Body: "{}", Header: http.Header{"X-A": {"b"}, "Host": {"api.example"}}}
	call, err := target.Call(knee.Client())
	if err != nil {
		t.Fatal(err)
	}
	if a := call(t.Context()); a.Status != http.StatusFound || a.Failed() {
		t.Errorf("%+v", a)
	}
	r := <-got
	if r.Method != "POST" || r.URL.Path != "/v1/x" || r.Host != "api.example" || r.Header.Get("X-A") != "b" {
		t.Errorf("%s %s %s %v", r.Method, r.Host, r.URL, r.Header)
	}
	server.Close()
	if a := call(t.Context()); !a.Failed() {
		t.Error("a server that is gone answered")
	}
	for _, bad := range []string{"", "/v1", "ftp://x/", "http://a b/"} {
		if _, err := (knee.Target{URL: bad}).Call(knee.Client()); err == nil {
			t.Errorf("%q can be asked", bad)
		}
	}
}
