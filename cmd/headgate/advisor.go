package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// advisorCmd is `headgate advisor`: limits from measurement.
type advisorCmd struct {
	Limits     advisorLimitsCmd     `cmd:"" help:"How limits are used, and what other numbers would have refused."`
	Promises   advisorPromisesCmd   `cmd:"" help:"What limits promise of each route, and what it was measured to take."`
	Try        advisorTryCmd        `cmd:"" help:"Replay logged decisions with one limit at other numbers."`
	Capacities advisorCapacitiesCmd `cmd:"" help:"List measurements of routes, the newest first."`
}

type advisorLimitsCmd struct {
	Wait time.Duration `help:"Longest wait for a first report." default:"2m"`
	shell
}

// Run prints the newest report.
func (c *advisorLimitsCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	var got api.Advice
	for {
		if err := s.do(ctx, http.MethodGet, path("advisor"), nil, &got); err != nil {
			return refusedCommand(err)
		}
		if got.At != nil || !got.Working {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("there is no report after %s", c.Wait)
		case <-time.After(500 * time.Millisecond):
		}
	}
	return s.ask(ctx, apiCall{method: http.MethodGet, path: path("advisor")}, &got, func() { tellAdvice(s, got) })
}

func tellAdvice(s *session, a api.Advice) {
	if a.At == nil {
		say(s.err, "There is no report: %s", a.Problem)
		return
	}
	t := newTable(s.out, "limit plan rate burst window p50 p90 p99 max used requests refused")
	for _, l := range a.Limits {
		used := "-"
		if l.Allowed > 0 {
			used = fmt.Sprintf("%.0f%%", 100*float64(l.Asked.P99)/float64(l.Allowed))
		}
		t.row(l.ID, l.Plan, l.Rate, l.Burst, time.Duration(l.WindowMS)*time.Millisecond, l.Asked.P50, l.Asked.P90, l.Asked.P99, l.Asked.Max, used, l.Requests, l.Refused)
	}
	t.end()
	say(s.err, "By the log of decisions of v%d's limits from %s to %s: %d decisions, %.3g %% of callers. Windows in which nobody asked do not count.", a.Version, shown(*a.From), shown(*a.To), a.Entries, 100*a.Share)
}

type advisorPromisesCmd struct{ shell }

// Run prints promises beside capacities.
func (c *advisorPromisesCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var got api.List[api.Promise]
	return s.ask(ctx, apiCall{method: http.MethodGet, path: path("advisor", "promises")}, &got, func() {
		t := newTable(s.out, "route tenants promised/s measured/s times measured stale")
		for _, p := range got.Items {
			promised, capacity, times, at, stale := "no bound", "unknown", "-", "-", "-"
			if p.PromisedMilli != nil {
				promised = rps(*p.PromisedMilli)
			}
			if k := p.Capacity; k != nil {
				capacity, at = rps(k.KneeMilli), shown(k.MeasuredAt)
				if k.AtLeast {
					capacity += "+"
				}
				if k.Stale != "" {
					stale = k.Stale
				}
			}
			if p.TimesMilli > 0 {
				times = rps(p.TimesMilli)
			}
			t.row(p.Route, p.Tenants, promised, capacity, times, at, stale)
		}
		t.end()
	})
}

// rps writes thousandths.
func rps(milli int64) string { return fmt.Sprintf("%.4g", float64(milli)/1000) }

type advisorTryCmd struct {
	Limit   string        `arg:"" help:"Id of a rate limit, as in plan.requests."`
	Rate    string        `required:"" help:"The rate to try, as in 600/minute." placeholder:"RATE"`
	Burst   int64         `help:"The burst to try; 0: the rate's own." default:"0"`
	Plan    string        `help:"Whose limit, where it is a plan's." placeholder:"PLAN"`
	Last    time.Duration `help:"How much of the traffic until now." default:"24h"`
	Timeout time.Duration `help:"Longest wait for the result." default:"30m"`
	shell
}

// Run replays, and tells what comes out otherwise.
func (c *advisorTryCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	if c.Last <= 0 {
		p.Add("--last", "must be a duration above 0, as in 24h")
	}
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	run := policySimulateCmd{Timeout: c.Timeout}
	body := map[string]any{"limit": c.Limit, "plan": c.Plan, "rate": c.Rate, "burst": c.Burst, "last": c.Last.String()}
	t, err := run.result(ctx, s.apiClient, path("advisor", "what-if"), body)
	if err != nil {
		return refusedCommand(err)
	}
	return s.ask(ctx, apiCall{method: http.MethodGet, path: path("policy", "trials", t.ID)}, &t, func() { tellTrial(s.out, t) })
}

type advisorCapacitiesCmd struct {
	Route string `help:"Only this route's." placeholder:"NAME"`
	listing
	shell
}

// Run lists measurements.
func (c *advisorCapacitiesCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	return list(ctx, s, c.Limit, query(path("capacities"), "route", c.Route), "route knee/s beyond/s p99 ended measured by target", func(m api.Capacity) []any {
		return []any{m.Route, rps(m.KneeMilli), rps(m.BeyondMilli), (time.Duration(m.P99US) * time.Microsecond).String(), m.Ended, m.MeasuredAt, m.Author, m.Target}
	})
}
