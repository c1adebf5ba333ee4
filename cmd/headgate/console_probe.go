package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/probe"
)

// prober lets the console ask the gateways' engine. It follows policy and directory as a
// gateway does, and asks the store by a client of its own.
type prober struct {
	probe *probe.Probe
	store *redisstore.Store
}

// prober makes it. The console's own public key is the one that gateways trust.
func (c *consoleCmd) prober(client redis.UniversalClient, signer ed25519.PrivateKey, log *slog.Logger) (*prober, error) {
	public, ok := signer.Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("make the probe: the signing key has no public part")
	}
	wire := feed.Config{Client: client, Namespace: c.RedisNamespace, Deployment: c.Deployment, Log: log}
	watcher, err := feed.NewWatcher(feed.WatcherConfig{Config: wire, PublicKeys: []ed25519.PublicKey{public}})
	if err != nil {
		return nil, fmt.Errorf("make the probe: %w", err)
	}
	directory, err := feed.NewDirectory(feed.DirectoryConfig{Config: wire, PublicKeys: []ed25519.PublicKey{public}, Timeout: probe.Budget, Entries: 1000})
	if err != nil {
		return nil, fmt.Errorf("make the probe: %w", err)
	}
	var p config.Problems
	address, o := redisURL(&p, c.RedisURL, c.RedisURLFile)
	if err := p.Err(); err != nil {
		return nil, err
	}
	store, err := redisstore.Open(address, redisstore.Options{
		Namespace: c.RedisNamespace, Deployment: c.Deployment, Budget: probe.Budget, Writers: 2,
		Credentials: fileCredentials(o.Username, o.Password, c.RedisURLFile),
	})
	if err != nil {
		return nil, fmt.Errorf("make the probe: %w", err)
	}
	asks, err := probe.New(probe.Config{Policies: watcher, Directory: directory, Store: store})
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	return &prober{asks, store}, nil
}

// Run follows policy and directory until ctx ends.
func (p *prober) Run(ctx context.Context) error {
	if err := p.probe.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// Close lets go of the store.
func (p *prober) Close() { _ = p.store.Close() }

// Version implements console.Probe.
func (p *prober) Version() int64 { return p.probe.Version() }

// Ask implements console.Probe.
func (p *prober) Ask(ctx context.Context, questions []console.ProbeQuestion) ([]console.ProbeAnswer, error) {
	asked := make([]probe.Question, len(questions))
	for i, q := range questions {
		asked[i] = probe.Question{
			Tenant: q.Tenant, Credential: q.Credential, Key: q.Key, Route: q.Route, Method: q.Method, Host: q.Host, Path: q.Path,
			Client: q.Client, User: q.User, Fields: q.Fields, Cost: q.Cost, Recorded: q.Recorded,
		}
	}
	answers, err := p.probe.Ask(ctx, asked...)
	out := make([]console.ProbeAnswer, len(answers))
	for i := range answers {
		out[i] = probeAnswer(&answers[i])
	}
	return out, err
}

// probeAnswer tells an answer of the engine in the console's words.
func probeAnswer(a *probe.Answer) console.ProbeAnswer {
	out := console.ProbeAnswer{
		Allowed: a.Allowed, Degraded: a.Degraded, Bare: a.Bare, Status: a.Status, Code: string(a.Code), Detail: a.Detail, Reason: string(a.Reason),
		Cause: a.Cause, Tenant: a.Tenant, Cost: a.Cost, CostAssumed: a.CostAssumed, Deciding: a.Deciding, At: time.Now(),
		RetryAfter: time.Duration(a.RetryAfterMicros) * time.Microsecond, RetryKnown: a.RetryAfterMicros > 0,
	}
	if a.Policy != nil {
		out.Version = a.Policy.Version
	}
	if a.Route != nil {
		out.Route = a.Route.Name
	}
	if !a.Allowed && out.Deciding < 0 && len(a.Limits) > 0 && a.Reason != "" && !a.Degraded {
		out.Deciding = 0
	}
	for _, list := range [][]gateway.LimitState{a.Limits, a.Unlimited, a.Shadows} {
		for i := range list {
			out.Limits = append(out.Limits, probeLimit(&list[i]))
		}
	}
	return out
}

func probeLimit(l *gateway.LimitState) console.ProbeLimit {
	return console.ProbeLimit{
		ID: l.ID, Kind: string(l.Kind), Limit: l.Quota, Window: time.Duration(l.Window) * time.Second, Burst: l.Burst, Left: l.Remaining,
		Next: time.Duration(l.NextMicros) * time.Microsecond, Wait: time.Duration(l.WaitMicros) * time.Microsecond, Cost: l.Cost,
		Violated: l.WaitMicros > 0 || l.Refused || l.Blocked, Blocked: l.Blocked, Overage: l.Overage, Overflow: l.Overflow, Unknown: l.Unknown,
		Shadow: l.Shadow, Unlimited: l.Unlimited, Source: l.From.Source, ExpiresMicro: l.From.ExpiresMicros,
	}
}
