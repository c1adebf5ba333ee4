package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/knee"
	"github.com/headgate/headgate/web/api"
)

// kneeCmd measures what a route takes.
type kneeCmd struct {
	URL         string        `name:"url" required:"" help:"What to ask: the upstream itself, or a gateway with a key that no limit holds." placeholder:"URL"`
	Route       string        `required:"" help:"Name of the route that this is." placeholder:"NAME"`
	Method      string        `help:"HTTP method." default:"GET"`
	Header      []string      `help:"A header, as in 'Accept: text/plain'; may be repeated. Not for keys." placeholder:"NAME: VALUE"`
	KeyFile     string        `help:"File with an API key, sent as Authorization: Bearer." placeholder:"FILE"`
	BodyFile    string        `help:"File that is sent as the body." placeholder:"FILE"`
	MaxRPS      float64       `name:"max-rps" help:"Requests a second that are never exceeded." default:"200"`
	StartRPS    float64       `name:"start-rps" help:"Requests a second of the first step; 0: a 32nd of the most." default:"0"`
	Step        float64       `help:"Factor from one step to the next." default:"1.5"`
	For         time.Duration `help:"How long a step lasts." default:"3s"`
	AbortP99    time.Duration `name:"abort-p99" help:"Leave the server alone when the 99th percentile exceeds this." default:"2s"`
	AbortErrors float64       `name:"abort-errors" help:"Leave the server alone when so large a share of answers fails." default:"0.05"`
	Note        string        `help:"What else was so, kept with the result." placeholder:"TEXT"`
	Store       bool          `help:"Store the result in the console." default:"true" negatable:""`
	shell
}

// Run asks, tells each step as it ends, and stores what was found.
func (c *kneeCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	target, plan := c.target(&p), c.plan(&p)
	s := &session{json: c.Output == "json", out: k.Stdout, err: k.Stderr}
	if c.Store {
		s.apiClient = c.client(&p)
	}
	if err := p.Err(); err != nil {
		return err
	}
	call, err := target.Call(knee.Client())
	if err != nil {
		return problemsError("--url: %v", err)
	}
	if c.Store {
		if err := c.allowed(ctx, s); err != nil {
			return err
		}
	}
	r, err := plan.Run(ctx, call, func(st knee.Step) { say(s.err, "%s", stepText(st)) })
	if err != nil {
		return err
	}
	return c.tell(ctx, s, r)
}

// allowed finds out before a server is loaded whether the result could be stored.
func (c *kneeCmd) allowed(ctx context.Context, s *session) error {
	var got api.List[api.Promise]
	if err := s.do(ctx, http.MethodGet, path("advisor", "promises"), nil, &got); err != nil {
		return refusedCommand(err)
	}
	for _, p := range got.Items {
		if p.Route == c.Route {
			return nil
		}
	}
	return problemsError("--route: the policy in force has no route %q", c.Route)
}

func (c *kneeCmd) target(p *config.Problems) knee.Target {
	t := knee.Target{Method: strings.ToUpper(c.Method), URL: c.URL, Header: http.Header{"User-Agent": {"headgate-knee/" + buildVersion()}}}
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		p.Add("--url", "must be http(s)://HOST[:PORT]/PATH, without a password")
	}
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || name == "" {
			p.Add("--header", "%q must be NAME: VALUE", name)
			continue
		}
		if name == "Authorization" {
			p.Add("--header", "everybody on this machine can read arguments: give a key by --key-file")
		}
		notSecret(p, "--header", strings.TrimPrefix(value, "Bearer "))
		t.Header.Add(name, value)
	}
	if c.KeyFile != "" {
		t.Header.Set("Authorization", "Bearer "+config.Secret(p, "--key-file", "", c.KeyFile))
	}
	if c.BodyFile != "" {
		body, err := os.ReadFile(c.BodyFile)
		if err != nil {
			p.Add("--body-file", "%v", err)
		}
		t.Body = string(body)
	}
	return t
}

func (c *kneeCmd) plan(p *config.Problems) knee.Plan {
	plan := knee.Plan{MaxRPS: c.MaxRPS, StartRPS: c.StartRPS, Step: c.Step, For: c.For, AbortP99: c.AbortP99, AbortErrors: c.AbortErrors}
	if err := plan.Check(); err != nil {
		for line := range strings.Lines(err.Error()) {
			p.Add("--max-rps and its like", "%s", strings.TrimSpace(line))
		}
	}
	return plan
}

func stepText(s knee.Step) string {
	verdict := "good"
	if !s.Good {
		verdict = s.Why
	}
	return fmt.Sprintf("%8.1f/s  %6d sent  p50 %-9s p99 %-9s %s", s.RPS, s.Sent, s.P50.Round(10*time.Microsecond), s.P99.Round(10*time.Microsecond), verdict)
}

// measured is a result as the API takes it.
type measured struct {
	Route       string             `json:"route"`
	Target      string             `json:"target"`
	KneeMilli   int64              `json:"knee_milli"`
	BeyondMilli int64              `json:"beyond_milli,omitempty"`
	PlateauUS   int64              `json:"plateau_us,omitempty"`
	P99US       int64              `json:"p99_us,omitempty"`
	Ended       string             `json:"ended"`
	Why         string             `json:"why,omitempty"`
	Method      string             `json:"method"`
	Note        string             `json:"note,omitempty"`
	Steps       []api.CapacityStep `json:"steps,omitempty"`
	MeasuredAt  time.Time          `json:"measured_at"`
}

func (c *kneeCmd) measured(r knee.Result) measured {
	where := *must(url.Parse(c.URL)) // it was read before
	where.RawQuery, where.Fragment = "", ""
	m := measured{
		Route: c.Route, Target: c.Method + " " + where.String(), KneeMilli: milli(r.Knee), BeyondMilli: milli(r.Beyond), PlateauUS: r.Plateau.Microseconds(),
		P99US: r.P99.Microseconds(), Ended: string(r.End), Why: r.Why, Method: knee.Method, Note: c.Note, MeasuredAt: r.Started.UTC(),
	}
	for _, s := range r.Steps[max(0, len(r.Steps)-200):] {
		m.Steps = append(m.Steps, api.CapacityStep{RPSMilli: milli(s.RPS), Sent: int64(s.Sent), Failed: int64(s.Failed), Refused: int64(s.Refused),
			P50US: s.P50.Microseconds(), P99US: s.P99.Microseconds(), Good: s.Good, Why: s.Why})
	}
	return m
}

func milli(rps float64) int64 { return int64(math.Round(rps * 1000)) }

// must is for what cannot fail by then.
func must[T any](v T, _ error) T { return v }

// tell prints the result and stores it. A ramp that was called off is a failure, and
// what it found before that is stored all the same, unless it was stopped or met a
// limiter: then it says nothing of the server.
func (c *kneeCmd) tell(ctx context.Context, s *session, r knee.Result) error {
	if r.End == knee.EndRefused || r.End == knee.EndInterrupted || r.End == knee.EndBehind {
		return fmt.Errorf("nothing was measured: %s", r.Why)
	}
	say(s.err, "%s", kneeText(r))
	if c.Store {
		err := s.make(ctx, apiCall{path: path("capacities"), body: c.measured(r)}, &api.Capacity{}, func() { say(s.out, "Stored for route %s.", c.Route) })
		if err != nil {
			return err
		}
	}
	if r.End.Aborted() {
		return fmt.Errorf("the server was left alone: %s", r.Why)
	}
	return nil
}

func kneeText(r knee.Result) string {
	switch {
	case r.Knee == 0:
		return fmt.Sprintf("No rate was answered well: %s.", r.Why)
	case r.Beyond == 0:
		return fmt.Sprintf("It takes %.4g requests a second or more (p99 %s): %s.", r.Knee, r.P99.Round(10*time.Microsecond), r.Why)
	}
	return fmt.Sprintf("It takes %.4g requests a second (p99 %s, %s below), and no more at %.4g: %s.", r.Knee,
		r.P99.Round(10*time.Microsecond), r.Plateau.Round(10*time.Microsecond), r.Beyond, r.Why)
}
