package main

import (
	"net/http"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/service"
	"github.com/headgate/headgate/replay"
	"github.com/headgate/headgate/web/gate"
)

// services are those of the console that know each other, or run beside the pages.
type services struct {
	deps      console.Deps
	store     *db.Store
	relay     *console.Relay
	fleet     *console.Fleet
	activity  *console.Activity
	operators *console.Operators
	decisions *console.Decisions
	keyUse    *console.KeyUses
	bulk      *console.Bulk
	lockouts  *console.Lockouts
	policies  *console.Policies
	rollouts  *console.Rollouts
	effects   *console.Effects
	advisor   *console.Advisor
	capacity  *console.Capacities
	probe     *prober
	explain   *console.Explainer
	ledger    *console.Ledger
	quotas    *console.Quotas
}

// services makes them in the order in which they need each other.
func (c *consoleCmd) services(d console.Deps, store *db.Store) services {
	s := services{relay: console.NewRelay(d, store), store: store}
	d.Nudge = s.relay.Nudge
	s.fleet, s.activity, s.operators = console.NewFleet(d), console.NewActivity(d), console.NewOperators(d)
	s.decisions = console.NewDecisions(d, console.DecisionRetention{Age: c.DecisionLogAge, Bytes: c.DecisionLogBytes})
	s.keyUse = console.NewKeyUses(d, s.fleet, console.KeyUseRetention{Sources: c.KeySourceAge})
	d.KeyUse = s.keyUse
	d.Prover, d.Decisions, d.Traffic, d.Passwords = replay.Engine{}, s.decisions, s.activity.Live(), s.operators
	s.bulk = console.NewBulkJobs(d)
	s.lockouts = console.NewLockouts(d, s.fleet, c.state)
	s.deps, s.policies, s.rollouts = d, console.NewPolicies(d), console.NewRollouts(d, s.fleet)
	s.relay.While(s.rollouts.Run)
	s.effects = console.NewEffects(d, s.fleet, s.activity.Live())
	s.relay.While(s.effects.Run)
	s.ledger = console.NewLedger(d, console.UsageRetention{})
	s.quotas = console.NewQuotas(d, s.ledger)
	s.relay.While(s.quotas.Run)
	s.capacity = console.NewCapacities(d)
	s.advisor = console.NewAdvisor(d, s.policies, s.capacity)
	return s
}

// tasks is what runs beside the pages.
func (s services) tasks() []service.Task {
	return []service.Task{
		{Name: "relay", Run: s.relay.Run},
		{Name: "fleet", Run: s.fleet.Run},
		{Name: "activity", Run: s.activity.Run},
		{Name: "decisions", Run: s.decisions.Run},
		{Name: "keys' use", Run: s.keyUse.Run},
		{Name: "trials", Run: s.policies.RunTrials},
		{Name: "bulk jobs", Run: s.bulk.Run},
		{Name: "lockouts", Run: s.lockouts.Run},
		{Name: "advisor", Run: s.advisor.Run},
		{Name: "ledger", Run: s.ledger.Run},
		{Name: "jobs", Run: console.NewJobs(s.deps).Run},
		{Name: "probe", Run: s.probe.Run},
		{Name: "receipts' keys", Run: s.explain.Run},
	}
}

// gate is the door for gateways that cannot reach Redis; nil without a token.
func (s services) gate(tokens []string) (http.Handler, error) {
	if len(tokens) == 0 {
		return nil, nil
	}
	return gate.New(gate.Config{Pull: console.NewPull(s.deps), Tokens: tokens, Log: s.deps.Log, Now: time.Now})
}

// gatewayTokens reads the token of gateways, or both while it is being changed.
func gatewayTokens(p *config.Problems, value string, files []string) []string {
	if value != "" && len(files) > 0 {
		p.Add("--gateway-token", "is given together with --gateway-token-file; only one of them may be")
	}
	tokens := make([]string, 0, 2)
	if value != "" {
		tokens = append(tokens, value)
	}
	for _, file := range files {
		tokens = append(tokens, config.Secret(p, "--gateway-token", "", file))
	}
	if len(tokens) > 2 {
		p.Add("--gateway-token-file", "is given %d times; two are the most", len(tokens))
	}
	for _, token := range tokens {
		if problem := gate.CheckToken(token); problem != "" && token != "" {
			p.Add("--gateway-token", "%s", problem)
		}
	}
	return tokens
}
