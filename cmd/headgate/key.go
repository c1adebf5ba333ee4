package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// keyCmd is `headgate key`: API keys from a shell.
type keyCmd struct {
	List     keyListCmd     `cmd:"" help:"List keys, the newest first."`
	Show     keyShowCmd     `cmd:"" help:"Show a key, and who uses it."`
	Create   keyCreateCmd   `cmd:"" help:"Issue a key; prints it, once."`
	Rotate   keyRotateCmd   `cmd:"" help:"Issue the next version of a key; prints it, once. The old one works on for the overlap."`
	Rotation keyRotationCmd `cmd:"" help:"Rotations: list, show, extend, end, cancel."`
	Revoke   keyRevokeCmd   `cmd:"" help:"Refuse a key for good."`
	Suspend  keySuspendCmd  `cmd:"" help:"Refuse a key until it is resumed."`
	Resume   keyResumeCmd   `cmd:"" help:"Let a suspended key in again."`
	Import   keyImportCmd   `cmd:"" help:"Import digests of keys that were made elsewhere: bulk import keys."`
}

type keyListCmd struct {
	Query       string `arg:"" optional:"" help:"A kid, or part of a credential's or tenant's name."`
	Tenant      string `help:"Only this tenant's." placeholder:"ID"`
	Environment string `env:"-" help:"live or test." enum:"live,test," default:""`
	State       string `help:"Only in this state." enum:"active,retiring,suspended,expired,revoked," default:""`
	Show        string `help:"Only these: unused for 90 days, never used, expiring within 30 days, retiring and still used, or found where they should not be." enum:"unused,never,expiring,retiring-used,compromised," default:""`
	CSV         bool   `name:"csv" help:"All of them as CSV, without digests."`
	listing
	shell
}

// Run lists keys.
func (c *keyListCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	notSecret(&p, "QUERY", c.Query)
	if c.CSV && c.Show != "" {
		p.Add("--csv", "cannot be given together with --show")
	}
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	if c.CSV {
		return s.save(ctx, query(path("keys.csv"), "q", c.Query, "tenant", c.Tenant, "environment", c.Environment, "state", c.State))
	}
	at := query(path("key-versions"), "q", c.Query, "tenant", c.Tenant, "environment", c.Environment, "state", c.State, "show", c.Show)
	return list(ctx, s, c.Limit, at, "kid tenant credential environment state created expires", func(v api.KeyVersion) []any {
		return []any{v.KID, v.TenantID, v.CredentialID, v.Environment, v.State, v.CreatedAt, v.NotAfter}
	})
}

type keyShowCmd struct {
	KID string `arg:"" name:"kid" help:"The 12 characters after the environment, never the key."`
	shell
}

// Run shows a key.
func (c *keyShowCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	notSecret(&p, "KID", c.KID)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var v api.KeyVersion
	if err := s.ask(ctx, apiCall{method: http.MethodGet, path: path("key-versions", c.KID)}, &v, func() { tellKey(s, v) }); err != nil || s.json {
		return err
	}
	var used struct {
		Use   api.UseAge      `json:"use"`
		Items []api.KeySource `json:"items"`
	}
	return s.ask(ctx, apiCall{method: http.MethodGet, path: path("key-versions", c.KID, "sources")}, &used, func() {
		say(s.out, "")
		table := newTable(s.out, "network agent last_seen requests refused")
		for _, u := range used.Items {
			table.row(u.Network, u.Agent, u.LastSeen, u.Requests, u.Refused)
		}
		table.end()
		tellUse(s, used.Use)
	})
}

// tellUse says how much is known of the use of keys, where that is not all.
func tellUse(s *session, u api.UseAge) {
	switch {
	case u.Through == nil:
		say(s.err, "Nothing is known of the use of keys yet.")
	case u.Behind:
		say(s.err, "What is known of the use of keys is behind: it tells what was seen up to %s. Silent: %s.", shown(u.Through), shown(u.Silent))
	}
}

func tellKey(s *session, v api.KeyVersion) {
	facts(s.out, "kid", v.KID, "key", v.Masked, "tenant", v.TenantID, "credential", v.CredentialID, "environment", v.Environment, "state", v.State,
		"created", v.CreatedAt, "expires", v.NotAfter, "revoked", v.RevokedAt, "reason", v.RevokeReason)
}

type keyCreateCmd struct {
	Tenant      string   `arg:"" help:"Tenant's id."`
	Name        string   `required:"" help:"Name of the credential." placeholder:"NAME"`
	Environment string   `env:"-" help:"live or test." enum:"live,test" default:"live"`
	Scope       []string `help:"A scope; may be repeated." placeholder:"SCOPE"`
	Contact     string   `help:"Whom to ask about it." placeholder:"TEXT"`
	Expires     moment   `help:"When it ends: a time, a day, or a span such as 90d." placeholder:"WHEN"`
	shell
}

// issued is a new key, as the API answers it once.
type issued struct {
	Credential *api.Credential `json:"credential"`
	Rotation   *api.Rotation   `json:"rotation"`
	KeyVersion api.KeyVersion  `json:"key_version"`
	Key        string          `json:"key"`
	AcceptedOn *int            `json:"accepted_on"`
	Of         *int            `json:"of"`
}

// tell prints the key alone to standard output, for KEY=$(headgate key create …),
// and what else there is to say beside it.
func (i issued) tell(s *session) {
	say(s.out, "%s", i.Key)
	if i.Credential != nil {
		say(s.err, "credential %s, kid %s", i.Credential.ID, i.KeyVersion.KID)
	}
	if r := i.Rotation; r != nil {
		say(s.err, "rotation %s, kid %s; the old key %s works until %s", r.ID, i.KeyVersion.KID, r.OldKID, r.EndsAt.UTC().Format(time.RFC3339))
	}
	if i.AcceptedOn != nil && i.Of != nil {
		say(s.err, "accepted on %d of %d gateways", *i.AcceptedOn, *i.Of)
	}
	say(s.err, "The key is shown this once.")
}

// Run issues a key.
func (c *keyCreateCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	body := map[string]any{"name": c.Name, "environment": c.Environment}
	given(body, "contact", c.Contact)
	if len(c.Scope) > 0 {
		body["scopes"] = c.Scope
	}
	if at := c.Expires.at(); at != nil {
		body["expires_at"] = at
	}
	var out issued
	return s.make(ctx, apiCall{path: path("tenants", c.Tenant, "credentials"), body: body}, &out, func() { out.tell(s) })
}

type keyRotateCmd struct {
	Of      string `arg:"" name:"credential" help:"Credential's id, or the kid of its key."`
	Overlap days   `help:"How long the old key works on, such as 24h or 7d; 0s ends it at once." default:"7d" placeholder:"SPAN"`
	Reason  string `required:"" help:"Why; kept in the audit trail." placeholder:"TEXT"`
	shell
}

// Run rotates a key.
func (c *keyRotateCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	notSecret(&p, "CREDENTIAL", c.Of)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	id := c.Of
	if !strings.HasPrefix(id, "crd_") {
		var v api.KeyVersion
		if _, err := s.send(ctx, apiCall{method: http.MethodGet, path: path("key-versions", id)}, &v); err != nil {
			return refusedCommand(err)
		}
		id = v.CredentialID
	}
	var out issued
	in := apiCall{path: path("credentials", id, "rotations"), body: map[string]any{"overlap": c.Overlap.text(), "reason": c.Reason}}
	return s.make(ctx, in, &out, func() { out.tell(s) })
}

type keyRevokeCmd struct {
	KID []string `arg:"" name:"kid" help:"Kids, never keys."`
	acting
	shell
}

// Run revokes keys.
func (c *keyRevokeCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.keys(ctx, k, c.acting, "revoke", "revoked", c.KID, true)
}

type keySuspendCmd struct {
	KID []string `arg:"" name:"kid" help:"Kids, never keys."`
	acting
	shell
}

// Run suspends keys.
func (c *keySuspendCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.keys(ctx, k, c.acting, "suspend", "suspended", c.KID, true)
}

type keyResumeCmd struct {
	KID []string `arg:"" name:"kid" help:"Kids, never keys."`
	acting
	shell
}

// Run resumes keys.
func (c *keyResumeCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.keys(ctx, k, c.acting, "resume", "resumed", c.KID, false)
}

// keys does one thing to keys, one after the other. All are tried; the status is
// that of the first that did not go well.
func (c *shell) keys(ctx context.Context, k *kong.Kong, a acting, verb, done string, kids []string, reason bool) error {
	var p config.Problems
	a.check(&p, reason)
	notSecret(&p, "KID", kids...)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var first error
	for _, kid := range kids {
		var out api.Converged
		err := s.ask(ctx, apiCall{method: http.MethodPost, path: a.on(path("key-versions", kid, verb)), body: map[string]any{"reason": a.Reason}}, &out, func() {})
		if err == nil {
			err = a.told(s, kid+" "+done, out)
		}
		if err != nil && len(kids) > 1 {
			say(s.err, "%s: %v", kid, err)
		}
		if first == nil {
			first = err
		}
	}
	return first
}
