package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// keyRotationCmd is `headgate key rotation`.
type keyRotationCmd struct {
	List   rotationListCmd   `cmd:"" help:"List rotations that run."`
	Show   rotationShowCmd   `cmd:"" help:"Show a rotation and who still uses the old key; status 3 while it is not ready with --exit-code."`
	Extend rotationExtendCmd `cmd:"" help:"Let the old key work longer."`
	End    rotationEndCmd    `cmd:"" help:"Refuse the old key from now on."`
	Cancel rotationCancelCmd `cmd:"" help:"Revoke the new key, and keep the old one."`
}

type rotationListCmd struct {
	State  string `help:"As it is shown." enum:"overlap,ready,overdue,completed,forced,cancelled" default:"overlap"`
	Tenant string `help:"Only this tenant's." placeholder:"ID"`
	listing
	shell
}

// Run lists rotations.
func (c *rotationListCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	at := query(path("rotations"), "state", c.State, "tenant", c.Tenant)
	return list(ctx, s, c.Limit, at, "id state tenant old new ends old_last_seen why_not_ready", func(r api.Rotation) []any {
		return []any{r.ID, r.Shown, r.TenantID, r.OldKID, r.NewKID, r.EndsAt, r.OldLastSeen, r.WhyNotReady}
	})
}

type rotationShowCmd struct {
	Rotation string `arg:"" help:"Rotation's id."`
	ExitCode bool   `help:"End with status 3 unless it is ready or over."`
	shell
}

// Run shows a rotation.
func (c *rotationShowCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	var r api.RotationDetail
	if err := s.ask(ctx, apiCall{method: http.MethodGet, path: path("rotations", c.Rotation)}, &r, func() { tellRotation(s, r) }); err != nil {
		return err
	}
	if c.ExitCode && r.State == "overlap" && !r.Readiness.Ready {
		return &exitError{exitNotEverywhere, fmt.Errorf("the old key cannot be ended yet: %s", r.WhyNotReady)}
	}
	return nil
}

func tellRotation(s *session, r api.RotationDetail) {
	facts(s.out, "id", r.ID, "state", r.Shown, "tenant", r.TenantID, "credential", r.CredentialID, "old key", r.OldKID, "new key", r.NewKID, "reason", r.Reason,
		"started", r.StartedAt, "ends", r.EndsAt, "old key last seen", r.OldLastSeen, "not ready because", r.WhyNotReady)
	say(s.out, "")
	table := newTable(s.out, "network agent stand old_requests old_last new_requests new_last")
	for _, u := range r.Sources {
		table.row(u.Network, u.Agent, u.Stand, u.OldRequests, u.OldLast, u.NewRequests, u.NewLast)
	}
	table.end()
	tellUse(s, r.Readiness.Use)
}

type rotationExtendCmd struct {
	Rotation string `arg:"" help:"Rotation's id."`
	By       days   `required:"" help:"By how long, such as 24h or 7d." placeholder:"SPAN"`
	acting
	shell
}

// Run extends a rotation.
func (c *rotationExtendCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.rotation(ctx, k, c.acting, "extend", "extended", c.Rotation, map[string]any{"by": c.By.text(), "reason": c.Reason})
}

type rotationEndCmd struct {
	Rotation string `arg:"" help:"Rotation's id."`
	acting
	shell
}

// Run ends a rotation.
func (c *rotationEndCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.rotation(ctx, k, c.acting, "end", "ended", c.Rotation, map[string]any{"reason": c.Reason})
}

type rotationCancelCmd struct {
	Rotation string `arg:"" help:"Rotation's id."`
	acting
	shell
}

// Run cancels a rotation.
func (c *rotationCancelCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.rotation(ctx, k, c.acting, "cancel", "cancelled", c.Rotation, map[string]any{"reason": c.Reason})
}

// rotation does one thing to a rotation.
func (c *shell) rotation(ctx context.Context, k *kong.Kong, a acting, verb, done, id string, body map[string]any) error {
	var p config.Problems
	a.check(&p, true)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var out api.Converged
	if err := s.ask(ctx, apiCall{method: http.MethodPost, path: a.on(path("rotations", id, verb)), body: body}, &out, func() {}); err != nil {
		return err
	}
	return a.told(s, id+" "+done, out)
}
