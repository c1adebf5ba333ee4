package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/spool"
)

// Policies is where the policy in force comes from; *feed.Watcher is one.
type Policies interface {
	Current() *feed.Snapshot // nil when there is none yet
	Status() feed.Status
	Run(ctx context.Context) error
}

// Directory knows keys and tenants; *feed.Directory is one. Key and Tenant
// return feed.ErrUnknown when there certainly is none, and any other error when
// that cannot be told.
type Directory interface {
	Key(ctx context.Context, kid string) (policy.KeyRecord, error)
	Tenant(ctx context.Context, id string) (policy.TenantRecord, error)
	Place() policy.Place
	Run(ctx context.Context) error
}

// Reporter carries heartbeats and counts to the console; *feed.Reporter is one.
type Reporter interface {
	Beat(ctx context.Context, b policy.Heartbeat) (live int, redisNow time.Time, err error)
	SendUsage(ctx context.Context, b usage.Batch) error
}

// Console is the way of heartbeats while Redis is away; *feed.Console is one.
type Console interface {
	// Beat returns the number of live replicas, 0 when it is not known.
	Beat(ctx context.Context, b policy.Heartbeat) (live int, err error)
}

// Defaults of a Config.
const (
	DefaultBudget          = 25 * time.Millisecond
	DefaultDrain           = 25 * time.Second
	DefaultUpstreamTimeout = 60 * time.Second

	maxBudget = 5 * time.Second

	maxDecisionLogRate = 1_000_000
	minToken           = 16 // characters
)

// Config is what a Gateway needs. Addresses are host:port; a port may be 0.
type Config struct {
	Policies  Policies
	Directory Directory
	Reporter  Reporter
	Console   Console // nil: none
	Store     limiter.Store
	// StoreCause names the cause of a store's error, from a bounded set, for the
	// metrics. Default: "other".
	StoreCause func(error) string
	// Changes rings when policy or directory changed, so that the heartbeat says
	// so at once. May be nil.
	Changes <-chan struct{}

	Identity Identity     // of this replica; see OpenState
	Spool    *spool.Spool // notes what is admitted, for the ledger; nil: nothing is
	StateDir string       // keeps incidents and the number of live replicas; "" keeps nothing
	Zone     string
	Build    string

	Listen          string // reverse proxy; "" for none
	Upstream        *url.URL
	UpstreamTimeout time.Duration // until the answer's header; default 60 s
	DecideListen    string        // /v1/check, /v1/decide; "" for none
	DecideToken     string        // for callers that are not on loopback
	AdminListen     string        // /metrics, /healthz, /readyz; "" for none
	GRPCListen      string        // Envoy's services; "" for none
	GRPCMutualTLS   bool          // that door asks its callers for certificates: it needs no token elsewhere than on loopback
	// GRPCDoor makes the server for GRPCListen.
	GRPCDoor func(*Gateway) (Door, error)
	AddrFile string // written with the bound addresses; "" for none

	Budget          time.Duration // of a decision; default 25 ms
	FallbackEntries int           // default: the limiter's
	DenyEntries     int           // refusals remembered; default: the limiter's; -1 none
	DecisionLogRate int64         // entries of the decision log a second, about; 0 logs nothing
	Drain           time.Duration // grace for requests in flight at the end; default 25 s
	LegacyHeaders   bool
	DebugHeader     bool
	StripCredential bool

	Log    *slog.Logger
	Now    func() time.Time
	Jitter func() int64 // seconds for the Retry-After of a 503; default 1, 2 or 3 at random
}

// check lists everything that is wrong.
func (c *Config) check() error {
	var bad []error
	if c.Policies == nil || c.Directory == nil || c.Reporter == nil || c.Store == nil {
		bad = append(bad, errors.New("policies, directory, reporter and store are all needed"))
	}
	if c.GRPCListen != "" && c.GRPCDoor == nil {
		bad = append(bad, errors.New("--grpc-listen: this build has no server for it"))
	}
	if c.Identity.ID == "" || c.Identity.Boot == "" {
		bad = append(bad, errors.New("--state-dir: the replica has no id"))
	}
	c.Problems(func(setting, format string, args ...any) {
		bad = append(bad, fmt.Errorf("%s: %s", setting, fmt.Sprintf(format, args...)))
	})
	return errors.Join(bad...)
}

// Problems reports everything that is wrong with the plain values, each under
// the flag that sets it.
func (c *Config) Problems(add func(setting, format string, args ...any)) {
	if c.Listen == "" && c.DecideListen == "" && c.GRPCListen == "" {
		add("--listen", "is needed, or --decide-listen or --grpc-listen: a gateway without a door decides nothing")
	}
	for _, l := range [][2]string{{"--listen", c.Listen}, {"--decide-listen", c.DecideListen}, {"--admin-listen", c.AdminListen}, {"--grpc-listen", c.GRPCListen}} {
		if _, _, err := net.SplitHostPort(l[1]); l[1] != "" && err != nil {
			add(l[0], "%q is not HOST:PORT", l[1])
		}
	}
	if problem := c.upstreamProblem(); problem != "" {
		add("--upstream", "%s", problem)
	}
	for _, l := range [][2]string{{"--decide-listen", c.DecideListen}, {"--grpc-listen", c.GRPCListen}} {
		known := l[0] == "--grpc-listen" && c.GRPCMutualTLS
		if l[1] != "" && !onLoopback(l[1]) && c.DecideToken == "" && !known {
			add("--decide-token-file", "is needed, because %s %s is not on loopback", l[0], l[1])
		}
	}
	if c.DecideToken != "" && len(c.DecideToken) < minToken {
		add("--decide-token-file", "holds a token of less than %d characters", minToken)
	}
	if c.Budget < 0 || c.Budget > maxBudget {
		add("--budget", "%v is not between 0 and %v", c.Budget, maxBudget)
	}
	if c.Drain < 0 || c.Drain > DefaultDrain {
		add("--drain", "%v is not between 0 and %v", c.Drain, DefaultDrain)
	}
	if c.UpstreamTimeout < 0 {
		add("--upstream-timeout", "is negative")
	}
	if c.DecisionLogRate < 0 || c.DecisionLogRate > maxDecisionLogRate {
		add("--decision-log-rate", "%d is not between 0 and %d", c.DecisionLogRate, maxDecisionLogRate)
	}
	if c.FallbackEntries < 0 {
		add("--fallback-entries", "is negative")
	}
}

// upstreamProblem says what is wrong with the upstream, or "".
func (c *Config) upstreamProblem() string {
	switch {
	case c.Listen == "" && c.Upstream == nil:
		return ""
	case c.Listen == "":
		return "has no use without --listen"
	case c.Upstream == nil:
		return "is needed with --listen"
	case c.Upstream.Scheme != "http" && c.Upstream.Scheme != "https":
		return fmt.Sprintf("scheme %q is neither http nor https", c.Upstream.Scheme)
	case c.Upstream.Host == "":
		return "names no host"
	case c.Upstream.RawQuery != "" || c.Upstream.Fragment != "" || c.Upstream.User != nil:
		return "takes no query, fragment or user"
	}
	return ""
}

func (c *Config) fillDefaults() {
	if c.Budget == 0 {
		c.Budget = DefaultBudget
	}
	if c.Drain == 0 {
		c.Drain = DefaultDrain
	}
	if c.UpstreamTimeout == 0 {
		c.UpstreamTimeout = DefaultUpstreamTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.StoreCause == nil {
		c.StoreCause = func(error) string { return "other" }
	}
	if c.Jitter == nil {
		c.Jitter = randomSeconds
	}
	if c.Upstream != nil {
		u := *c.Upstream
		u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
		c.Upstream = &u
	}
}

// onLoopback reports whether an address to listen on is reachable from this
// machine only. A name other than localhost is not believed.
func onLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
