package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/gateway/envoy"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage/spool"
)

// gatewayCmd is `headgate gateway`: one replica of the data plane.
type gatewayCmd struct {
	RedisURL       string   `help:"Redis that policy, directory and limiter state are in: redis://, rediss://, unix://, redis-sentinel://HOST,HOST/MASTER or redis-cluster://HOST,HOST." placeholder:"URL"`
	RedisURLFile   string   `help:"File that holds the Redis URL." placeholder:"FILE"`
	RedisNamespace string   `help:"First part of every Redis key." default:"hg"`
	Deployment     string   `help:"Name of the deployment; policy and keys of another one mean nothing here." default:"default"`
	PolicyKeyFile  []string `help:"Public key that policy and directory are signed with (PEM); twice while it is being changed." placeholder:"FILE"`
	StateDir       string   `help:"Folder of this replica alone: its id, the last good policy, known keys, incidents." placeholder:"DIR"`
	Zone           string   `help:"Where this replica runs, shown in the console."`

	Console consoleFlags `embed:""`

	Listen          string        `help:"Address of the reverse proxy." placeholder:"HOST:PORT"`
	Upstream        string        `help:"Where admitted requests go." placeholder:"URL"`
	UpstreamTimeout time.Duration `help:"How long the upstream may take until its answer begins." default:"60s"`
	DecideListen    string        `help:"Address for forward-auth and JSON decisions." placeholder:"HOST:PORT"`
	DecideToken     string        `help:"Token that callers from elsewhere than loopback need for decisions." placeholder:"TOKEN"`
	DecideTokenFile string        `help:"File that holds that token." placeholder:"FILE"`
	AdminListen     string        `help:"Address of metrics and health." default:"127.0.0.1:9180" placeholder:"HOST:PORT"`
	GRPC            grpcFlags     `embed:"" prefix:"grpc-"`
	AddrFile        string        `help:"File to write the bound addresses to, as JSON." placeholder:"FILE"`

	Budget            time.Duration `help:"Longest time for a decision, waiting for a connection included." default:"25ms"`
	DirectoryMaxStale time.Duration `help:"How long known keys stay valid while Redis is away." default:"10m"`
	DirectoryEntries  int           `help:"Keys and tenants that are kept in memory." default:"100000"`
	DecisionLogRate   int64         `help:"Most decisions a second that are logged for simulations; 0 logs none." default:"2000"`
	Spool             bool          `help:"Note what is admitted in the state folder until the ledger has it; without, usage is not recorded." default:"true" negatable:""`
	SpoolBytes        int64         `help:"Most bytes that these notes may take on the disk." default:"268435456"`
	FallbackEntries   int           `help:"Subjects counted apart while Redis is away." default:"100000"`
	Drain             time.Duration `help:"Grace for requests in flight when stopping." default:"25s"`
	LegacyHeaders     bool          `help:"Send RateLimit-Limit, -Remaining and -Reset, too." default:"true" negatable:""`
	DebugHeader       bool          `help:"Answer X-Headgate-Debug: 1 with the policy version and what shadows would have refused."`
	StripCredential   bool          `help:"Remove the API key before forwarding."`
	LogLevel          slog.Level    `help:"debug, info, warn or error." default:"info"`
}

// Run runs the replica until ctx ends.
func (c *gatewayCmd) Run(ctx context.Context) error {
	collectSeldom()
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	redis.SetLogger(quietRedis{log})
	var p config.Problems
	cfg := c.settings(&p, log)
	keys := config.PublicKeys(&p, "--policy-key-file", c.PolicyKeyFile)
	away := c.Console.console(&p)
	store, rest := c.redis(&p)
	p.Require("--state-dir", c.StateDir)
	if err := p.Err(); err != nil {
		return err
	}
	defer func() { _, _ = store.Close(), rest.Close() }()
	state, err := gateway.OpenState(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = state.Close() }()
	cfg.Identity, cfg.StateDir = state.Identity, c.StateDir

	closeSpool, err := c.spool(&cfg)
	if err != nil {
		return err
	}
	defer closeSpool()

	var wired hooks
	if away != nil {
		defer away.Close()
		cfg.Console = away
	}
	if err := c.wire(&cfg, rest, keys, away, &wired, log); err != nil { //nolint:contextcheck // reads files, and logs what is wrong with them
		return err
	}
	cfg.Store, cfg.StoreCause = store, redisstore.Cause
	g, err := gateway.New(cfg)
	if err != nil {
		return err
	}
	wired.gateway.Store(g)
	return g.Run(ctx)
}

// spool opens the spool in the state folder, whose lock guards it.
func (c *gatewayCmd) spool(cfg *gateway.Config) (closeIt func(), err error) {
	if !c.Spool {
		return func() {}, nil
	}
	s, err := spool.Open(spool.Options{
		Dir: filepath.Join(c.StateDir, "spool"), Replica: cfg.Identity.ID, Boot: cfg.Identity.Boot, Limit: c.SpoolBytes,
	})
	if err != nil {
		return nil, err
	}
	cfg.Spool = s
	return func() {
		if err := s.Close(); err != nil {
			cfg.Log.Error("close the spool", "error", err)
		}
	}, nil
}

// hooks tells the gateway what its feeds have taken in. They are made first.
type hooks struct {
	gateway atomic.Pointer[gateway.Gateway]
}

func (h *hooks) record(kind policy.RecordKind, id string) {
	if g := h.gateway.Load(); g != nil {
		g.RecordChanged(kind, id)
	}
}

func (h *hooks) reset() {
	if g := h.gateway.Load(); g != nil {
		g.DirectoryReset()
	}
}

// wire makes the gateway's ends of the wire to the console.
func (c *gatewayCmd) wire(cfg *gateway.Config, rest redis.UniversalClient, keys []ed25519.PublicKey, away *feed.Console, h *hooks, log *slog.Logger) error {
	changes := make(chan struct{}, 1)
	changed := func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	wire := feed.Config{Client: rest, Namespace: c.RedisNamespace, Deployment: c.Deployment, Log: log}
	watcher, err := feed.NewWatcher(feed.WatcherConfig{
		Config: wire, PublicKeys: keys, StateDir: c.StateDir, OnChange: changed, Replica: cfg.Identity.ID, Console: away,
	})
	if err != nil {
		return fmt.Errorf("policy watcher: %w", err)
	}
	directory, err := feed.NewDirectory(feed.DirectoryConfig{
		Config: wire, PublicKeys: keys, StateDir: c.StateDir, OnChange: changed, OnRecord: h.record, OnReset: h.reset,
		Entries: c.DirectoryEntries, MaxStale: c.DirectoryMaxStale, Timeout: cfg.Budget,
	})
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	reporter, err := feed.NewReporter(wire)
	if err != nil {
		return fmt.Errorf("reporter: %w", err)
	}
	cfg.Changes, cfg.Policies, cfg.Directory, cfg.Reporter = changes, watcher, directory, reporter
	return nil
}

// settings are the parts of the configuration that are plain values.
func (c *gatewayCmd) settings(p *config.Problems, log *slog.Logger) gateway.Config {
	cfg := gateway.Config{
		Zone: c.Zone, Build: buildVersion(), Log: log,
		Listen: c.Listen, UpstreamTimeout: c.UpstreamTimeout, DecideListen: c.DecideListen, AdminListen: c.AdminListen,
		GRPCListen: c.GRPC.Listen, AddrFile: c.AddrFile, Budget: c.Budget, FallbackEntries: c.FallbackEntries, Drain: c.Drain,
		DecisionLogRate: c.DecisionLogRate, LegacyHeaders: c.LegacyHeaders, DebugHeader: c.DebugHeader, StripCredential: c.StripCredential,
	}
	if c.Spool && c.SpoolBytes < spool.MinLimit {
		p.Add("--spool-bytes", "%d is less than %d", c.SpoolBytes, spool.MinLimit)
	}
	if c.DecideToken != "" || c.DecideTokenFile != "" {
		cfg.DecideToken = config.Secret(p, "--decide-token", c.DecideToken, c.DecideTokenFile)
	}
	if c.Upstream != "" {
		u, err := url.Parse(c.Upstream)
		if err != nil {
			p.Add("--upstream", "is no URL")
		}
		cfg.Upstream = u
	}
	c.GRPC.door(&cfg, p, log)
	cfg.Problems(p.Add)
	return cfg
}

// grpcFlags are those of Envoy's door.
type grpcFlags struct {
	Listen       string        `help:"Address of Envoy's rate limit and authorization services." placeholder:"HOST:PORT"`
	Domain       string        `help:"Domain that rate limit requests must name." default:"headgate"`
	Budget       time.Duration `help:"Longest time for a decision of that door; Envoy waits 20 ms by default." default:"15ms"`
	CertFile     string        `help:"Certificate of that door (PEM), read anew at each handshake." placeholder:"FILE"`
	KeyFile      string        `help:"Its private key (PEM)." placeholder:"FILE"`
	ClientCAFile string        `name:"client-ca-file" help:"Authority of callers' certificates (PEM): only callers with one are heard, and need no token." placeholder:"FILE"`
	XHeaders     bool          `name:"x-ratelimit-headers" help:"Send X-RateLimit-Limit, -Remaining and -Reset of the tightest limit, too."`
}

// door sets up Envoy's door when it is asked for.
func (f *grpcFlags) door(cfg *gateway.Config, p *config.Problems, log *slog.Logger) {
	if f.Listen == "" {
		return
	}
	c := envoy.Config{
		Domain: f.Domain, Budget: f.Budget, CertFile: f.CertFile, KeyFile: f.KeyFile, ClientCAFile: f.ClientCAFile,
		XHeaders: f.XHeaders, Log: log,
	}
	c.Problems(p.Add)
	cfg.GRPCDoor, cfg.GRPCMutualTLS = envoy.Door(c), c.MutualTLS()
}

// redis makes two clients: the store's for decisions, which must never wait
// behind a policy of some megabytes, and one for everything else.
func (c *gatewayCmd) redis(p *config.Problems) (*redisstore.Store, redis.UniversalClient) {
	address, o := redisURL(p, c.RedisURL, c.RedisURLFile)
	if o == nil {
		return nil, nil
	}
	store, err := redisstore.Open(address, redisstore.Options{
		Namespace: c.RedisNamespace, Deployment: c.Deployment, Budget: c.Budget,
		Credentials: fileCredentials(o.Username, o.Password, c.RedisURLFile),
	})
	if err != nil {
		p.Add("--redis-url", "is %v", err)
		return nil, nil
	}
	return store, wireClient(o, c.RedisURLFile)
}

// quietRedis takes go-redis' own lines, which come with every failed dial, to
// the level where they harm nobody.
type quietRedis struct{ log *slog.Logger }

// Printf logs one line.
func (q quietRedis) Printf(_ context.Context, format string, v ...any) {
	q.log.Debug("redis client", "text", fmt.Sprintf(format, v...))
}
