package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// tenantCmd is `headgate tenant`: tenants from a shell.
type tenantCmd struct {
	List     tenantListCmd     `cmd:"" help:"List tenants, the newest first."`
	Show     tenantShowCmd     `cmd:"" help:"Show a tenant with the limits it meets."`
	Create   tenantCreateCmd   `cmd:"" help:"Create a tenant; prints its id."`
	Set      tenantSetCmd      `cmd:"" help:"Change a tenant's name, plan, external id or time zone."`
	Suspend  tenantSuspendCmd  `cmd:"" help:"Refuse a tenant's requests until it is resumed."`
	Resume   tenantResumeCmd   `cmd:"" help:"Let a suspended tenant in again."`
	Delete   tenantDeleteCmd   `cmd:"" help:"Delete a tenant for good: its keys are revoked, its history stays."`
	Override tenantOverrideCmd `cmd:"" help:"Give a tenant its own value for one limit, or take it away with --clear."`
	Boost    tenantBoostCmd    `cmd:"" help:"Raise one limit of a tenant by a factor for a while, or end that with --end."`
}

type tenantListCmd struct {
	Query  string `arg:"" optional:"" help:"Part of a name, or a whole id or external id."`
	Plan   string `help:"Only those on this plan." placeholder:"PLAN"`
	Status string `help:"active, suspended or deleted; all but deleted ones when left out." enum:"active,suspended,deleted," default:""`
	CSV    bool   `name:"csv" help:"All of them as CSV, which headgate bulk import can read again."`
	listing
	shell
}

// Run lists tenants.
func (c *tenantListCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	if c.CSV {
		return s.save(ctx, query(path("tenants.csv"), "q", c.Query, "plan", c.Plan, "status", c.Status))
	}
	at := query(path("tenants"), "q", c.Query, "plan", c.Plan, "status", c.Status)
	return list(ctx, s, c.Limit, at, "id name plan status external_id", func(t api.Tenant) []any {
		return []any{t.ID, t.Name, t.Plan, t.Status, t.ExternalID}
	})
}

type tenantShowCmd struct {
	Tenant string `arg:"" help:"Tenant's id."`
	shell
}

// Run shows a tenant.
func (c *tenantShowCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	var t api.Tenant
	if err := s.ask(ctx, apiCall{method: http.MethodGet, path: path("tenants", c.Tenant)}, &t, func() { tellTenant(s, t) }); err != nil || s.json {
		return err
	}
	var limits struct {
		Limits []api.EffectiveLimit `json:"limits"`
	}
	return s.ask(ctx, apiCall{method: http.MethodGet, path: path("tenants", c.Tenant, "limits")}, &limits, func() {
		say(s.out, "")
		table := newTable(s.out, "limit value from until")
		for _, l := range limits.Limits {
			table.row(l.Limit, l.Text, l.Source, l.ExpiresAt)
		}
		table.end()
	})
}

func tellTenant(s *session, t api.Tenant) {
	facts(s.out, "id", t.ID, "name", t.Name, "plan", t.Plan, "status", t.Status, "reason", t.Reason, "external id", t.ExternalID, "time zone", t.TimeZone,
		"created", t.CreatedAt, "changed", t.UpdatedAt)
}

type tenantCreateCmd struct {
	Name       string `arg:"" help:"Its name."`
	Plan       string `required:"" help:"Plan, which the policy in force has." placeholder:"PLAN"`
	ExternalID string `name:"external-id" help:"Its id elsewhere." placeholder:"ID"`
	TimeZone   string `help:"IANA name; UTC when left out." placeholder:"ZONE"`
	shell
}

// Run creates a tenant.
func (c *tenantCreateCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	body := map[string]any{"name": c.Name, "plan": c.Plan}
	given(body, "external_id", c.ExternalID, "time_zone", c.TimeZone)
	var t api.Tenant
	return s.make(ctx, apiCall{path: path("tenants"), body: body}, &t, func() { say(s.out, "%s", t.ID) })
}

// given adds what is not "": name, value, name, value.
func given(body map[string]any, pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			body[pairs[i]] = pairs[i+1]
		}
	}
}

type tenantSetCmd struct {
	Tenant     string  `arg:"" help:"Tenant's id."`
	Name       string  `help:"New name." placeholder:"NAME"`
	Plan       string  `help:"New plan." placeholder:"PLAN"`
	ExternalID *string `name:"external-id" help:"New id elsewhere; empty for none." placeholder:"ID"`
	TimeZone   string  `help:"New time zone." placeholder:"ZONE"`
	shell
}

// Run changes a tenant.
func (c *tenantSetCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	body := map[string]any{}
	given(body, "name", c.Name, "plan", c.Plan, "time_zone", c.TimeZone)
	if c.ExternalID != nil {
		body["external_id"] = *c.ExternalID
	}
	if len(body) == 0 {
		p.Add("--name", "or another flag must say what to change")
	}
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var t api.Tenant
	return s.ask(ctx, apiCall{method: http.MethodPatch, path: path("tenants", c.Tenant), body: body}, &t, func() { tellTenant(s, t) })
}

type tenantSuspendCmd struct {
	Tenant string `arg:"" help:"Tenant's id."`
	acting
	shell
}

// Run suspends a tenant.
func (c *tenantSuspendCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.act(ctx, k, c.acting, "suspend", c.Tenant, true)
}

type tenantResumeCmd struct {
	Tenant string `arg:"" help:"Tenant's id."`
	acting
	shell
}

// Run resumes a tenant.
func (c *tenantResumeCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.act(ctx, k, c.acting, "resume", c.Tenant, false)
}

// act suspends or resumes a tenant.
func (c *shell) act(ctx context.Context, k *kong.Kong, a acting, verb, tenant string, reason bool) error {
	var p config.Problems
	a.check(&p, reason)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var out api.Converged
	in := apiCall{method: http.MethodPost, path: a.on(path("tenants", tenant, verb)), body: map[string]any{"reason": a.Reason}}
	if err := s.ask(ctx, in, &out, func() {}); err != nil {
		return err
	}
	return a.told(s, tenant+" "+strings.TrimSuffix(verb, "e")+"ed", out)
}

type tenantDeleteCmd struct {
	Tenant string `arg:"" help:"Tenant's id."`
	Yes    bool   `help:"Say that it is meant: a deletion is final."`
	acting
	shell
}

// Run deletes a tenant.
func (c *tenantDeleteCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	c.check(&p, true)
	if !c.Yes {
		p.Add("--yes", "is required: a deletion is final, and all keys of the tenant are revoked")
	}
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var out api.Converged
	in := apiCall{method: http.MethodDelete, path: c.on(path("tenants", c.Tenant), "reason", c.Reason)}
	if err := s.ask(ctx, in, &out, func() {}); err != nil {
		return err
	}
	return c.told(s, c.Tenant+" deleted", out)
}

type tenantOverrideCmd struct {
	Tenant  string `arg:"" help:"Tenant's id."`
	LimitID string `arg:"" name:"limit" help:"Limit's id, such as plan.requests."`
	Rate    string `help:"Of a rate limit, such as 120/minute; unlimited for any kind." placeholder:"RATE"`
	Burst   *int64 `help:"Of a rate limit." placeholder:"N"`
	Amount  *int64 `help:"Of a quota." placeholder:"N"`
	Max     *int64 `help:"Of a quota that bills, or of a concurrency limit." placeholder:"N"`
	Until   moment `help:"When it ends: a time, a day, or a span such as 30d. Until it is cleared when left out." placeholder:"WHEN"`
	Lower   bool   `help:"Say that a value below the one in force is meant."`
	Clear   bool   `help:"Take the tenant's own value away."`
	acting
	shell
}

// overrideAct is what the API answers to a change of an override or boost.
type overrideAct struct {
	Override *api.Override       `json:"override"`
	InForce  *api.EffectiveLimit `json:"in_force"`
	api.Converged
}

func (o overrideAct) text(limit string) string {
	if o.InForce == nil {
		return limit + " set"
	}
	return limit + ": " + o.InForce.Text + " (" + o.InForce.Source + ")"
}

// Run sets or clears an override.
func (c *tenantOverrideCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	c.check(&p, true)
	body := map[string]any{"reason": c.Reason}
	given(body, "rate", c.Rate)
	for name, v := range map[string]*int64{"burst": c.Burst, "amount": c.Amount, "max": c.Max} {
		if v != nil {
			body[name] = *v
		}
	}
	if c.Clear == (len(body) > 1) {
		p.Add("--rate", "or --amount or --max must give a value, or --clear take it away")
	}
	if at := c.Until.at(); at != nil {
		body["expires_at"] = at
	}
	if c.Lower {
		body["confirm"] = map[string]string{"lower": "yes"}
	}
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	in := apiCall{method: http.MethodPut, path: c.on(path("tenants", c.Tenant, "overrides", c.LimitID)), body: body}
	if c.Clear {
		in = apiCall{method: http.MethodDelete, path: c.on(path("tenants", c.Tenant, "overrides", c.LimitID), "reason", c.Reason)}
	}
	var out overrideAct
	if err := s.ask(ctx, in, &out, func() {}); err != nil {
		return err
	}
	return c.told(s, out.text(c.LimitID), out.Converged)
}

type tenantBoostCmd struct {
	Tenant  string  `arg:"" help:"Tenant's id."`
	LimitID string  `arg:"" name:"limit" help:"Limit's id, such as plan.requests."`
	Factor  float64 `help:"By how much, such as 2." placeholder:"N"`
	For     days    `help:"For how long, such as 24h or 7d." placeholder:"SPAN"`
	Lower   bool    `help:"Say that a boost smaller than the one that holds is meant."`
	End     bool    `help:"End the boost that holds."`
	acting
	shell
}

// Run begins or ends a boost.
func (c *tenantBoostCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	c.check(&p, true)
	if !c.End && (c.Factor <= 1 || c.For <= 0) {
		p.Add("--factor", "must be more than 1, and --for say for how long; or --end ends a boost")
	}
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var out overrideAct
	if c.End {
		in := apiCall{method: http.MethodDelete, path: c.on(path("tenants", c.Tenant, "boosts", c.LimitID), "reason", c.Reason)}
		err = s.ask(ctx, in, &out, func() {})
	} else {
		body := map[string]any{"limit": c.LimitID, "factor": c.Factor, "for": c.For.text(), "reason": c.Reason}
		if c.Lower {
			body["confirm"] = map[string]string{"lower": "yes"}
		}
		err = s.make(ctx, apiCall{path: c.on(path("tenants", c.Tenant, "boosts")), body: body}, &out, func() {})
	}
	if err != nil {
		return err
	}
	return c.told(s, out.text(c.LimitID), out.Converged)
}
