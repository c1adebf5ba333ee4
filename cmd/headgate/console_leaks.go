package main

import (
	"crypto/ecdsa"
	"log/slog"
	"os"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web"
	"github.com/headgate/headgate/web/gate"
	"github.com/headgate/headgate/web/leaks"
)

// doors is what programs that are neither operators nor browsers come in by.
type doors struct {
	gateways []string // tokens
	leaks    leakDoors
	probe    *prober
}

// leakDoors is by what scanners are known.
type leakDoors struct {
	token   string
	partner map[string]*ecdsa.PublicKey
}

// leaks reads by what scanners and partners are known.
func (c *consoleCmd) leaks(p *config.Problems) (d leakDoors) {
	d.token = config.Secret(p, "--leak-token", c.LeakToken, c.LeakTokenFile)
	if problem := gate.CheckToken(d.token); problem != "" && d.token != "" {
		p.Add("--leak-token", "%s", problem)
	}
	if c.LeakPartnerKeys == "" {
		return d
	}
	b, err := os.ReadFile(c.LeakPartnerKeys)
	if err != nil {
		p.Add("--leak-partner-keys", "%v", err)
		return d
	}
	if d.partner, err = leaks.ParseKeys(b); err != nil {
		p.Add("--leak-partner-keys", "%s: %v", c.LeakPartnerKeys, err)
	}
	return d
}

// openLeaks adds the service and its doors to the pages.
func (c *consoleCmd) openLeaks(d *web.Deps, s services, known leakDoors, log *slog.Logger) (err error) {
	d.Leaks, d.LeakToken = console.NewLeaks(s.deps, console.LeakRules{Revoke: c.LeakRevoke}), known.token
	if len(known.partner) > 0 {
		d.LeakPartner, err = leaks.New(leaks.Config{Leaks: d.Leaks, Keys: known.partner, Source: "github", Log: log, Now: time.Now})
	}
	return err
}
