package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// lockoutCmd is `headgate lockout`: who is refused now, from a shell.
type lockoutCmd struct {
	List   lockoutListCmd   `cmd:"" help:"List who is refused now, by what and until when."`
	Unlock lockoutUnlockCmd `cmd:"" help:"Let a refused subject through: its bucket is filled, and gateways forget."`
	Extend lockoutExtendCmd `cmd:"" help:"Keep a refused subject out for longer."`
	Reset  lockoutResetCmd  `cmd:"" help:"Drop the state of limits of a tenant; without limits it shows what there is."`
	Repair lockoutRepairCmd `cmd:"" help:"Give limiter state that was found without a TTL the one it should have."`
}

type lockoutListCmd struct {
	Kind   string `help:"tenants, accounts, ips or global." enum:"tenants,accounts,ips,global," default:""`
	Tenant string `help:"Only this tenant's." placeholder:"ID"`
	Limit  string `help:"Only by this limit, by its whole id." placeholder:"LIMIT"`
	shell
}

// Run lists lockouts.
func (c *lockoutListCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	var out struct {
		Items    []api.Lockout `json:"items"`
		Reported int           `json:"reported"`
		Of       int           `json:"of"`
		Strays   int           `json:"strays"`
	}
	return s.ask(ctx, apiCall{method: http.MethodGet, path: query(path("lockouts"), "kind", c.Kind, "tenant", c.Tenant, "limit_id", c.Limit)}, &out, func() {
		table := newTable(s.out, "subject limit refusals left until tenant id")
		for _, l := range out.Items {
			until := "unknown"
			switch {
			case l.Never:
				until = "never"
			case l.Until != nil:
				until = l.Until.Format(time.RFC3339)
			}
			refusals := strconv.FormatInt(l.Refusals, 10)
			if l.Error > 0 {
				refusals = fmt.Sprintf("%d-%d", l.Refusals-l.Error, l.Refusals)
			}
			table.row(l.Subject, l.Limit, refusals, fmt.Sprintf("%d/%d", l.Left, l.Most), until, l.TenantID, l.ID)
		}
		table.end()
		say(s.err, "told by %d of %d gateways", out.Reported, out.Of)
		if out.Strays > 0 {
			say(s.err, "%d keys of limiter state have no TTL: headgate lockout repair", out.Strays)
		}
	})
}

// lockoutRef names a lockout on the command line.
type lockoutRef struct {
	Lockout string `arg:"" help:"Id of a lockout (lko_…), or a limit's id with --subject."`
	Subject string `help:"A tenant's id, an address, or what the list shows." placeholder:"SUBJECT"`
}

func (r lockoutRef) body(p *config.Problems, reason string) map[string]any {
	if r.Subject == "" {
		if len(r.Lockout) < 4 || r.Lockout[:4] != "lko_" {
			p.Add("--subject", "is required with a limit's id: a tenant's id, an address, or what the list shows")
		}
		return map[string]any{"id": r.Lockout, "reason": reason}
	}
	return map[string]any{"limit": r.Lockout, "subject": r.Subject, "reason": reason}
}

// lockoutAct is the answer to an act on a lockout.
type lockoutAct struct {
	Lockout api.Lockout `json:"lockout"`
	Before  int64       `json:"before"`
	After   int64       `json:"after"`
	Until   *time.Time  `json:"until"`
	api.Converged
}

func (a lockoutAct) text(did string) string {
	return fmt.Sprintf("%s %s by %s: %d left before, %d now", did, a.Lockout.Subject, a.Lockout.Limit, a.Before, a.After)
}

type lockoutUnlockCmd struct {
	lockoutRef
	acting
	shell
}

// Run unlocks.
func (c *lockoutUnlockCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	c.check(&p, true)
	body := c.body(&p, c.Reason)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var out lockoutAct
	if err := s.ask(ctx, apiCall{method: http.MethodPost, path: c.on(path("lockouts", "unlock")), body: body}, &out, func() {}); err != nil {
		return err
	}
	return c.told(s, out.text("unlocked"), out.Converged)
}

type lockoutExtendCmd struct {
	lockoutRef
	For days `required:"" help:"For how long from now on, such as 1h; at most 24h." placeholder:"SPAN"`
	acting
	shell
}

// Run keeps a subject out.
func (c *lockoutExtendCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	c.check(&p, true)
	body := c.body(&p, c.Reason)
	body["for"] = c.For.text()
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var out lockoutAct
	if err := s.ask(ctx, apiCall{method: http.MethodPost, path: c.on(path("lockouts", "extend")), body: body}, &out, func() {}); err != nil {
		return err
	}
	return c.told(s, out.text("kept out"), out.Converged)
}

type lockoutResetCmd struct {
	Tenant string   `arg:"" help:"Tenant's id."`
	Limits []string `arg:"" optional:"" help:"Ids of limits to reset; none: show what Redis holds."`
	acting
	shell
}

// Run resets, or shows.
func (c *lockoutResetCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	c.check(&p, len(c.Limits) > 0)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	if len(c.Limits) == 0 {
		return c.show(ctx, s)
	}
	var out struct {
		Reset []lockoutAct `json:"reset"`
	}
	in := apiCall{method: http.MethodPost, path: c.on(path("tenants", c.Tenant, "state", "reset")), body: map[string]any{"limits": c.Limits, "reason": c.Reason}}
	if err := s.ask(ctx, in, &out, func() {}); err != nil {
		return err
	}
	for _, done := range out.Reset {
		if err := c.told(s, done.text("reset"), done.Converged); err != nil {
			return err
		}
	}
	return nil
}

// show lists what a reset would lose.
func (c *lockoutResetCmd) show(ctx context.Context, s *session) error {
	var out struct {
		Limits []api.HeldLimit `json:"limits"`
	}
	return s.ask(ctx, apiCall{method: http.MethodGet, path: path("tenants", c.Tenant, "state")}, &out, func() {
		table := newTable(s.out, "limit part used most full leases")
		for _, h := range out.Limits {
			table.row(h.Limit, h.Part, h.Used, h.Most, h.FullAt, len(h.Leases))
		}
		table.end()
	})
}

type lockoutRepairCmd struct {
	Reason string `required:"" help:"Why; kept in the audit trail." placeholder:"TEXT"`
	shell
}

// Run repairs.
func (c *lockoutRepairCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	var out struct {
		Repaired int `json:"repaired"`
	}
	return s.ask(ctx, apiCall{method: http.MethodPost, path: path("lockouts", "repair"), body: map[string]any{"reason": c.Reason}}, &out, func() {
		say(s.out, "%d keys repaired", out.Repaired)
	})
}
