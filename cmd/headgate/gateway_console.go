package main

import (
	"os"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy/feed"
)

// consoleFlags are the way to the console for the time when Redis is away.
type consoleFlags struct {
	ConsoleURL       string `help:"Console to pull the policy from, and to bring heartbeats to, while Redis is away: https://HOST[:PORT]. Without one the copy on disk has to do." placeholder:"URL"`
	GatewayToken     string `help:"Token that the console asks for." placeholder:"TOKEN"`
	GatewayTokenFile string `help:"File that holds that token." placeholder:"FILE"`
	ConsoleCAFile    string `name:"console-ca-file" help:"Authority of the console's certificate (PEM) instead of the system's." placeholder:"FILE"`
}

// console makes the way to the console, nil when none is asked for.
func (c consoleFlags) console(p *config.Problems) *feed.Console {
	if c.ConsoleURL == "" {
		if c.GatewayToken != "" || c.GatewayTokenFile != "" || c.ConsoleCAFile != "" {
			p.Add("--console-url", "is needed with --gateway-token and --console-ca-file")
		}
		return nil
	}
	cfg := feed.ConsoleConfig{URL: c.ConsoleURL, Token: config.Secret(p, "--gateway-token", c.GatewayToken, c.GatewayTokenFile)}
	if cfg.Token == "" {
		p.Add("--gateway-token-file", "is needed with --console-url")
		return nil
	}
	if c.ConsoleCAFile != "" {
		raw, err := os.ReadFile(c.ConsoleCAFile)
		if err != nil {
			p.Add("--console-ca-file", "%v", err)
			return nil
		}
		cfg.CA = raw
	}
	way, err := feed.NewConsole(cfg)
	if err != nil {
		p.Add("--console-url", "%v", err)
		return nil
	}
	return way
}
