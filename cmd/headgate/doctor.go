package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
)

// doctorCmd is `headgate doctor`.
type doctorCmd struct {
	RedisURL        string        `help:"Redis to look over." placeholder:"URL"`
	RedisURLFile    string        `help:"File that holds the Redis URL." placeholder:"FILE"`
	RedisNamespace  string        `help:"Prefix of the keys in Redis." default:"hg"`
	DatabaseURL     string        `help:"PostgreSQL to look over." placeholder:"URL"`
	DatabaseURLFile string        `help:"File that holds the database URL." placeholder:"FILE"`
	Strict          bool          `help:"Fail for what is amber, too."`
	Timeout         time.Duration `help:"Longest time for all of it." default:"1m"`
	Output          string        `help:"table, for people, or json, for programs." enum:"table,json" default:"table" short:"o"`
}

// Run looks servers over, tells what it found with the mend of each, and fails when
// limits can be lost or exceeded now.
func (c *doctorCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	wantRedis, wantDatabase := c.RedisURL != "" || c.RedisURLFile != "", c.DatabaseURL != "" || c.DatabaseURLFile != ""
	if !wantRedis && !wantDatabase {
		p.Add("--redis-url", "or --database-url is required: there is nothing to look over")
	}
	var looks []func() ([]policy.Hazard, error)
	if wantRedis {
		if look := c.redis(ctx, &p); look != nil {
			looks = append(looks, look)
		}
	}
	if wantDatabase {
		dsn := config.Secret(&p, "--database-url", c.DatabaseURL, c.DatabaseURLFile)
		looks = append(looks, func() ([]policy.Hazard, error) { return db.Inspect(ctx, dsn, time.Now) })
	}
	if err := p.Err(); err != nil {
		return err
	}
	found := []policy.Hazard{}
	for _, look := range looks {
		hazards, err := look()
		if err != nil {
			return err
		}
		found = append(found, hazards...)
	}
	if err := c.tell(k, found); err != nil {
		return err
	}
	return c.verdict(found)
}

// redis looks a Redis over; nil when its flags are wrong.
func (c *doctorCmd) redis(ctx context.Context, p *config.Problems) func() ([]policy.Hazard, error) {
	_, options := redisURL(p, c.RedisURL, c.RedisURLFile)
	if options == nil {
		return nil
	}
	return func() ([]policy.Hazard, error) {
		client := wireClient(options, c.RedisURLFile)
		defer func() { _ = client.Close() }()
		publisher, err := feed.NewPublisher(feed.Config{Client: client, Namespace: c.RedisNamespace, Deployment: "doctor"})
		if err != nil {
			return nil, err
		}
		return publisher.Examine(ctx)
	}
}

func (c *doctorCmd) tell(k *kong.Kong, found []policy.Hazard) error {
	if c.Output == "json" {
		b, err := json.MarshalIndent(found, "", "  ")
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
		say(k.Stdout, "%s", b)
		return nil
	}
	for _, h := range found {
		say(k.Stdout, "%-5s %s  %s\n      %s\n      → %s", h.Severity, h.Server, h.Code, h.Text, h.Mend)
	}
	if len(found) == 0 {
		say(k.Stdout, "Nothing was found that endangers the limits.")
	}
	return nil
}

func (c *doctorCmd) verdict(found []policy.Hazard) error {
	bad := 0
	for _, h := range found {
		if h.Severity == policy.SeverityRed || c.Strict && h.Severity == policy.SeverityAmber {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d findings have to be mended", bad, len(found))
	}
	return nil
}
