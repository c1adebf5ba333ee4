package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/service"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/notify"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/web"
)

// consoleCmd is `headgate console`: pages, JSON API, relay, collector and jobs.
type consoleCmd struct {
	DatabaseURL     string `help:"PostgreSQL that everything is kept in." placeholder:"URL"`
	DatabaseURLFile string `help:"File that holds the database URL." placeholder:"FILE"`
	DatabaseConns   int32  `help:"Most connections to PostgreSQL." default:"16"`
	RedisURL        string `help:"Redis that gateways read policy and directory from: redis://, rediss://, unix://, redis-sentinel://HOST,HOST/MASTER or redis-cluster://HOST,HOST." placeholder:"URL"`
	RedisURLFile    string `help:"File that holds the Redis URL." placeholder:"FILE"`
	RedisNamespace  string `help:"First part of every Redis key." default:"hg"`
	Deployment      string `help:"Name of the deployment; it is part of everything that is signed." default:"default"`
	Environment     string `help:"Label shown on every page, such as production."`
	SigningKeyFile  string `help:"Private key that signs policy and directory (PEM); headgate keys makes one." placeholder:"FILE"`

	Listen        string        `help:"Address of pages and API." default:"127.0.0.1:8480" placeholder:"HOST:PORT"`
	PublicURL     string        `help:"The one origin that people open, such as https://console.example. Default: http:// and the address." placeholder:"URL"`
	SessionSecure *bool         `help:"Send the session cookie over HTTPS alone. Default: when the public URL is https." negatable:""`
	AddrFile      string        `help:"File to write the bound address to, as JSON." placeholder:"FILE"`
	Drain         time.Duration `help:"Grace for requests in flight when stopping." default:"10s"`

	GatewayToken     string   `help:"Token of gateways that pull policy from this console while Redis is away; without one there is no such door." placeholder:"TOKEN"`
	GatewayTokenFile []string `help:"File that holds that token; twice while it is being changed." placeholder:"FILE"`

	LeakToken       string        `help:"Token with which scanners report leaked keys to the API; without one it takes operators' tokens alone." placeholder:"TOKEN"`
	LeakTokenFile   string        `help:"File that holds that token." placeholder:"FILE"`
	LeakPartnerKeys string        `help:"Public keys of GitHub's secret scanning, as its key endpoint gives them (JSON); without them /leaks/partner is not there." placeholder:"FILE"`
	LeakRevoke      bool          `help:"Revoke keys at once that scanners and partners report. Default: open a case, and let a person decide."`
	MinQuiet        time.Duration `help:"Least silence of an old key after which its rotation is ready." default:"15m"`

	DecisionLogAge   time.Duration `help:"How long logged decisions are kept for simulations." default:"168h"`
	DecisionLogBytes int64         `help:"How much of them is kept, in bytes." default:"2147483648"`
	KeySourceAge     time.Duration `help:"How long it is remembered which network and program used a key, after it was last seen." default:"2160h"`

	alertFlags
	notifier *notify.Sender
	state    console.LimiterState

	UsageAge time.Duration `help:"How long the events that usage is made of are kept, in whole months." default:"9600h"`

	LogLevel slog.Level `help:"debug, info, warn or error." default:"info"`
}

// Run runs the console until ctx ends.
func (c *consoleCmd) Run(ctx context.Context) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	redis.SetLogger(quietRedis{log})
	var p config.Problems
	dsn := config.Secret(&p, "--database-url", c.DatabaseURL, c.DatabaseURLFile)
	p.Require("--database-url", dsn)
	signer := config.PrivateKey(&p, "--signing-key-file", c.SigningKeyFile)
	client := c.redis(&p)
	c.check(&p, dsn)
	tokens := gatewayTokens(&p, c.GatewayToken, c.GatewayTokenFile)
	leaks := c.leaks(&p)
	c.notifier = c.sender(&p)
	if err := p.Err(); err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	store, err := db.Open(ctx, dsn, c.DatabaseConns)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := schemaCurrent(ctx, dsn, log); err != nil {
		return err
	}
	publisher, err := feed.NewPublisher(feed.Config{Client: client, Namespace: c.RedisNamespace, Deployment: c.Deployment, Log: log})
	if err != nil {
		return err
	}
	c.state = redisstore.NewAdmin(client, redisstore.Options{Namespace: c.RedisNamespace, Deployment: c.Deployment})
	deps := console.Deps{Store: store, Feed: publisher, Signer: signer, Deployment: c.Deployment, Log: log, MinQuiet: c.MinQuiet}
	if err := deps.Check(); err != nil {
		return err
	}
	asks, err := c.prober(client, signer, log)
	if err != nil {
		return err
	}
	defer asks.Close()
	return c.serve(ctx, log, deps, store, doors{tokens, leaks, asks})
}

// check notes what can be seen to be wrong before anything is opened.
func (c *consoleCmd) check(p *config.Problems, dsn string) {
	if _, err := pgx.ParseConfig(dsn); dsn != "" && err != nil {
		p.Add("--database-url", "is not a PostgreSQL URL") // the error would repeat some of it
	}
	if c.DatabaseConns < 0 {
		p.Add("--database-conns", "must not be negative")
	}
	if c.KeySourceAge != 0 && c.KeySourceAge < 8*24*time.Hour {
		p.Add("--key-source-age", "must be at least 192h: rotations look back a week")
	}
	if c.UsageAge != 0 && c.UsageAge < 35*24*time.Hour {
		p.Add("--usage-age", "must be at least 840h: a month may still be billed when it is over")
	}
	if !policy.ValidDeployment(c.Deployment) {
		p.Add("--deployment", "must be 1 to 40 lower-case letters, digits and hyphens")
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		p.Add("--listen", "must be HOST:PORT")
	}
	if c.PublicURL != "" {
		if _, err := web.ParsePublicURL(c.PublicURL); err != nil {
			p.Add("--public-url", "%v", err)
		}
	}
	if c.Drain < 0 {
		p.Add("--drain", "must not be negative")
	}
	if c.MinQuiet <= 0 {
		p.Add("--min-quiet", "must be longer than 0, such as 15m")
	}
}

// redis makes the client of the feed.
func (c *consoleCmd) redis(p *config.Problems) redis.UniversalClient {
	_, o := redisURL(p, c.RedisURL, c.RedisURLFile)
	if o == nil {
		return nil
	}
	return wireClient(o, c.RedisURLFile)
}

// schemaCurrent refuses a schema that lacks migrations or is newer than this
// build. A database that cannot be reached is no reason: the console answers 503
// until it can.
func schemaCurrent(ctx context.Context, dsn string, log *slog.Logger) error {
	ask, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := db.CheckSchema(ask, dsn)
	if errors.Is(err, db.ErrSchemaOlder) || errors.Is(err, db.ErrSchemaNewer) {
		return err
	}
	if err != nil {
		log.WarnContext(ctx, "the schema could not be checked", "error", err)
	}
	return nil
}

// serve wires services, handler and background work, and runs them.
func (c *consoleCmd) serve(ctx context.Context, log *slog.Logger, deps console.Deps, store *db.Store, d doors) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	defer func() { _ = l.Close() }()
	s := c.services(deps, store)
	s.probe, s.explain = d.probe, console.NewExplainer(s.deps, s.fleet, s.activity.Live(), d.probe)
	gates, err := s.gate(d.gateways)
	if err != nil {
		return err
	}
	pages := c.webDeps(log, s, gates, l.Addr().String())
	if err := c.openLeaks(&pages, s, d.leaks, log); err != nil {
		return err
	}
	pages.Alerts = c.newAlerts(s, c.publicURL(l.Addr().String()))
	handler, err := web.New(pages)
	if err != nil {
		return err
	}
	if err := writeConsoleAddr(c.AddrFile, l.Addr().String()); err != nil {
		return err
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 90 * time.Second, WriteTimeout: 2 * time.Minute, // answers may wait 60 s for gateways
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	log.InfoContext(ctx, "console is up", "address", l.Addr().String(), "public_url", c.publicURL(l.Addr().String()), "deployment", c.Deployment)
	return service.Run(ctx, log, c.Drain+5*time.Second, append(s.tasks(), service.Task{Name: "alerts", Run: pages.Alerts.RunDeliveries}, service.HTTP("pages", srv, l, c.Drain))...)
}

func (c *consoleCmd) webDeps(log *slog.Logger, s services, gates http.Handler, address string) web.Deps {
	public := c.publicURL(address)
	secure := strings.HasPrefix(public, "https://")
	if c.SessionSecure != nil {
		secure = *c.SessionSecure
	}
	d := s.deps
	return web.Deps{
		Tenants: console.NewTenants(d), Keys: console.NewKeys(d), Rotations: console.NewRotations(d), Policies: s.policies,
		Rollouts: s.rollouts, Effects: s.effects, Fleet: s.fleet, Operators: s.operators, Audit: console.NewAudit(d), Activity: s.activity,
		Sessions: console.NewSessions(d), Idempotency: console.NewIdempotency(d), Overrides: console.NewOverrides(d), Lockouts: s.lockouts, Bulk: s.bulk, Exports: console.NewExports(d), KeyUse: s.keyUse,
		Members: console.NewMembers(d), MemberSessions: console.NewMemberSessions(d), Asks: console.NewAsks(d, console.NewOverrides(d)), Portal: console.NewPortal(d, s.store),
		Explain: s.explain, Advisor: s.advisor, Capacities: s.capacity,
		Ledger: s.ledger, Quotas: s.quotas,
		Gate: gates, Log: log, Now: time.Now,
		Environment: c.Environment, Deployment: c.Deployment, PublicURL: public, SecureCookies: secure,
	}
}

func (c *consoleCmd) publicURL(address string) string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return (&url.URL{Scheme: "http", Host: address}).String()
}

// writeConsoleAddr writes {"listen": ADDR}; whoever waits for the file never
// sees half of it.
func writeConsoleAddr(file, address string) error {
	if file == "" {
		return nil
	}
	temp := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".tmp")
	if err := os.WriteFile(temp, fmt.Appendf(nil, "{\"listen\":%q}\n", address), 0o600); err != nil {
		return fmt.Errorf("write address file: %w", err)
	}
	if err := os.Rename(temp, file); err != nil {
		return fmt.Errorf("write address file: %w", err)
	}
	return nil
}
