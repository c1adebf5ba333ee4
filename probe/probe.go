package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// Budget is the longest that one question may take, waiting for a connection included.
// Nobody's request waits for it, so it is longer than a gateway's.
const Budget = 400 * time.Millisecond

// Config is what a Probe needs.
type Config struct {
	// Policies and Directory are followed as a gateway follows them; *feed.Watcher and
	// *feed.Directory are such. The Probe runs them.
	Policies  gateway.Policies
	Directory gateway.Directory
	Store     limiter.Store // that the gateways count in
	Now       func() time.Time
}

// Probe answers what a gateway would answer. It is safe for concurrent use. Run must be
// running.
type Probe struct{ cfg Config }

// New makes a Probe, or says what is missing.
func New(cfg Config) (*Probe, error) {
	if cfg.Policies == nil || cfg.Directory == nil || cfg.Store == nil {
		return nil, errors.New("probe: policies, directory and store are all needed")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Probe{cfg}, nil
}

// Run follows policy and directory until ctx ends, and returns ctx's error or theirs.
func (p *Probe) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var first error
	var once sync.Once
	for _, run := range []func(context.Context) error{p.cfg.Policies.Run, p.cfg.Directory.Run} {
		wg.Go(func() {
			err := run(ctx)
			once.Do(func() { first = err })
			stop()
		})
	}
	wg.Wait()
	return first
}

// Question is a request that nobody makes. Either Route or Method and Path say which
// route is meant; either Tenant or Key who calls, on routes that want to know.
type Question struct {
	Tenant, Credential string
	Key                string // the whole key; it is kept nowhere
	Route              string // name
	Method, Host       string
	Path               string // escaped, with its query
	Client             netip.Addr
	User               string
	// Fields are fields of the body, such as the account of a sign-in.
	Fields map[string]string
	// Recorded says that the gateways write a ledger: a quota's counter that was lost is
	// then no counter of 0.
	Recorded bool
	Cost     int64 // 0: the route's, or 1 where it is computed from the request
}

// Answer is what a gateway would say.
type Answer struct {
	gateway.Verdict
	// CostAssumed says that the route computes costs from requests, and 1 was taken.
	CostAssumed bool
}

// Version is the version by which questions are answered; 0 while there is none.
func (p *Probe) Version() int64 {
	if c := p.cfg.Policies.Current(); c != nil {
		return c.Version
	}
	return 0
}

// Compiled is the policy by which questions are answered, as Redis has it; nil while
// none has come from there.
func (p *Probe) Compiled() *policy.Compiled {
	if c := p.cfg.Policies.Current(); c != nil {
		return c.Compiled
	}
	return nil
}

// Ask answers questions, in order, each by an engine that remembers nothing of earlier
// ones. Nothing is charged, leased or counted. It stops early when ctx ends.
func (p *Probe) Ask(ctx context.Context, questions ...Question) ([]Answer, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	g, err := p.engine()
	if err != nil {
		return nil, err
	}
	p.ask(ctx, g, &questions[0]) // what it says is thrown away: by it the engine learns Redis' time
	answers := make([]Answer, 0, len(questions))
	for i := range questions {
		if err := ctx.Err(); err != nil {
			return answers, fmt.Errorf("ask the engine: %w", err)
		}
		answers = append(answers, p.ask(ctx, g, &questions[i]))
	}
	return answers, nil
}

// engine is a gateway that nobody can call.
func (p *Probe) engine() (*gateway.Gateway, error) {
	g, err := gateway.New(gateway.Config{
		Policies: p.cfg.Policies, Directory: p.cfg.Directory, Store: p.cfg.Store, Reporter: nobody{},
		Identity: gateway.Identity{ID: "probe", Boot: "probe"}, DecideListen: "127.0.0.1:0", // is never opened
		Budget: Budget, DenyEntries: -1, FallbackEntries: 1, Now: p.cfg.Now, Log: slog.New(slog.DiscardHandler), Jitter: func() int64 { return 1 },
	})
	if err != nil {
		return nil, fmt.Errorf("make the probe's engine: %w", err)
	}
	return g, nil
}

func (p *Probe) ask(ctx context.Context, g *gateway.Gateway, q *Question) Answer {
	in := &gateway.Inbound{
		Method: q.Method, Host: q.Host, RouteName: q.Route, Tenant: q.Tenant, Key: q.Key, Client: q.Client, ClientKnown: true,
		User: q.User, UserKnown: q.User != "", Cost: q.Cost, Header: http.Header{}, Peek: true, Recorded: q.Recorded,
		Replay: &gateway.Replay{Credential: q.Credential}, RequestID: "probe-probe",
	}
	if in.Method == "" {
		in.Method = http.MethodGet
	}
	in.EscapedPath, in.Query, _ = strings.Cut(q.Path, "?")
	if len(q.Fields) > 0 {
		body, _ := json.Marshal(q.Fields) // strings by strings
		in.Body = &gateway.Body{ContentType: "application/json", Peek: body, Whole: true}
	}
	var a Answer
	if in.Cost == 0 && p.computes(in) {
		in.Cost, a.CostAssumed = 1, true
	}
	a.Verdict = g.Decide(ctx, in)
	return a
}

// computes reports whether the route of the question computes its costs.
func (p *Probe) computes(in *gateway.Inbound) bool {
	c := p.Compiled()
	if c == nil {
		return false
	}
	if in.RouteName != "" {
		for _, r := range c.Routes {
			if r.Name == in.RouteName {
				return r.Route.GraphQL != nil
			}
		}
		return false
	}
	path, err := policy.CanonicalPath(in.EscapedPath)
	if err != nil {
		return false
	}
	r, _ := c.MatchKind(in.Method, in.Host, path)
	return r != nil && r.Route.GraphQL != nil
}

// nobody is told nothing.
type nobody struct{}

// Beat does nothing.
func (nobody) Beat(context.Context, policy.Heartbeat) (int, time.Time, error) {
	return 1, time.Time{}, nil
}

// SendUsage does nothing.
func (nobody) SendUsage(context.Context, usage.Batch) error { return nil }
