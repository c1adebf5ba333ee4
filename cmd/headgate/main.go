// Command headgate is both planes of Headgate in one binary: the console, where
// limits are set, and the gateway, which keeps to them; and what belongs to
// running them. Its files hold one subcommand each: they read configuration,
// wire, and run.
//
// Nothing may import it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	_ "time/tzdata" // quotas follow calendars, also where the system has no time zones

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
)

// version is set by the linker in a release.
var version = "dev"

// cli is the command line. Every flag may be given as HEADGATE_<NAME>, too.
type cli struct {
	Version kong.VersionFlag `help:"Print the version and exit." env:"-"`
	Config  kong.ConfigFlag  `help:"JSON file with settings by flag name; flags and environment win." placeholder:"FILE"`

	Console  consoleCmd  `cmd:"" help:"Run the web console, its JSON API and its background work."`
	Gateway  gatewayCmd  `cmd:"" help:"Run one gateway: reverse proxy, forward-auth, JSON decisions, Envoy's services, metrics."`
	Migrate  migrateCmd  `cmd:"" help:"Bring the database schema up to date."`
	User     userCmd     `cmd:"" help:"Create operators and their API tokens."`
	Policy   policyCmd   `cmd:"" help:"Policy as a file: check, compare, test, publish, simulate; for editors and CI."`
	Tenant   tenantCmd   `cmd:"" help:"Tenants: list, show, create, change, suspend, delete; their own limits and boosts."`
	Key      keyCmd      `cmd:"" help:"API keys: list, show, issue, rotate, revoke, import."`
	Lockout  lockoutCmd  `cmd:"" help:"Who is refused now: list, unlock, extend; reset and repair of limiter state."`
	Explain  explainCmd  `cmd:"" help:"Why a tenant, key, address, account or receipt is refused."`
	Usage    usageCmd    `cmd:"" help:"Usage by the ledger: reports, rows for billing, files, completeness, rebuilding."`
	Bulk     bulkCmd     `cmd:"" help:"What concerns many tenants or keys: imports, expiry, plans, unused keys."`
	Knee     kneeCmd     `cmd:"" help:"Measure what a route takes: a bounded ramp that calls itself off, stored for the advisor."`
	Advisor  advisorCmd  `cmd:"" help:"Limits from measurement: use, head-room, what other numbers would have refused."`
	Doctor   doctorCmd   `cmd:"" help:"Look Redis and PostgreSQL over for known hazards, each with what mends it."`
	Keys     keysCmd     `cmd:"" help:"Make the key pair that signs policy and directory."`
	Demo     demoCmd     `cmd:"" help:"Run everything on this machine, with sample tenants and traffic."`
	Upstream upstreamCmd `cmd:"" hidden:"" help:"Run the demo's upstream."`
	Traffic  trafficCmd  `cmd:"" hidden:"" help:"Run the demo's traffic."`
	RunAs    runAsCmd    `cmd:"" hidden:"" help:"Run a command as another user."`
}

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is main with its inputs; it returns the exit status: 0, 1 for a failure,
// 2 for a command line that cannot be understood or a policy that has problems,
// 3 for one that is not in force everywhere.
func run(args, env []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	exit := -1
	var c cli
	parser, err := kong.New(&c,
		kong.Name("headgate"),
		kong.Description("Say once how much each customer may use an API, and have every gateway keep to it."),
		kong.DefaultEnvars("HEADGATE"),
		kong.Configuration(config.File),
		kong.Vars{"version": "headgate " + buildVersion()},
		kong.Writers(stdout, stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "headgate:", err)
		return 2
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if exit >= 0 { // --help and --version have been answered
		return exit
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "headgate: %v\nRun `headgate %s --help` for what it takes.\n", err, commandName(args))
		return 2
	}
	for _, name := range unknownEnv(parser, env) {
		_, _ = fmt.Fprintf(stderr, "headgate: warning: nothing reads the environment variable %s\n", name)
	}
	if err := command.Run(); err != nil {
		_, _ = fmt.Fprintln(stderr, "headgate:", err)
		return statusOf(err)
	}
	return 0
}

// statusOf is the exit status of a command that failed: 1, unless the error has
// one of its own.
func statusOf(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.status
	}
	return 1
}

// commandName is the subcommand in args, for a hint.
func commandName(args []string) string {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			return a
		}
	}
	return ""
}

// unknownEnv lists HEADGATE_* variables that no flag reads: most often a typing
// mistake. What Kubernetes sets for a service named headgate is none.
func unknownEnv(parser *kong.Kong, env []string) []string {
	known := []string{"HEADGATE_PG_BIN", "HEADGATE_REDIS_BIN", "HEADGATE_BROWSER_BIN"}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range n.Flags {
			known = append(known, f.Envs...)
		}
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(parser.Model.Node)
	var unknown []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		kubernetes := strings.Contains(name, "_SERVICE_") || strings.Contains(name, "_PORT_")
		if strings.HasPrefix(name, "HEADGATE_") && !kubernetes && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// buildVersion is the release, or the revision that the binary was built from.
func buildVersion() string {
	if version != "dev" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return version + "-" + s.Value[:12]
		}
	}
	return version
}
