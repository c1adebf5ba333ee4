package portal

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	views "github.com/headgate/headgate/views/portal"
	"github.com/headgate/headgate/views/ui"
)

// convergeWait is how long an answer waits for gateways.
const convergeWait = 2 * time.Second

func (s *Server) keyList(w http.ResponseWriter, r *http.Request, v *visit) error {
	all, err := s.Portal.Keys(r.Context(), v.actor)
	if err != nil {
		return err
	}
	p := views.KeysProps{Frame: s.frame(v, "Keys", "keys"), Age: s.useAge(all.Age), Room: room(all)}
	if v.can(console.PermOwnKeys) && all.Rules.MayCreate && all.Live() < all.Rules.Credentials {
		p.NewURL = v.url("keys", "new")
	}
	for _, c := range all.Credentials {
		b := views.KeyBlock{ID: c.ID, Name: c.Name, Environment: c.Environment, Scopes: strings.Join(c.Scopes, " "), RotateURL: rotateURL(v, all, c)}
		for _, k := range c.Versions {
			b.Versions = append(b.Versions, keyRow(v, all, c, k))
		}
		if rot, ok := all.Open[c.ID]; ok {
			b.RotationURL = v.url("rotations", rot.ID)
		}
		p.Blocks = append(p.Blocks, b)
	}
	return s.render(w, r, http.StatusOK, views.Keys(p))
}

func room(all console.PortalKeys) string {
	return fmt.Sprintf("%d of %d", all.Live(), all.Rules.Credentials)
}

// rotateURL is where a credential is rotated; "" when it cannot be.
func rotateURL(v *visit, all console.PortalKeys, c console.Credential) string {
	if _, open := all.Open[c.ID]; open || !v.can(console.PermOwnKeys) || !all.Rules.MayRotate {
		return ""
	}
	for _, k := range c.Versions {
		if k.State == policy.KeyActive {
			return v.url("credentials", c.ID, "rotate")
		}
	}
	return ""
}

// useAge says how current what is known of keys' use is.
func (s *Server) useAge(a console.UseAge) string {
	switch {
	case a.Through.IsZero():
		return "Nothing is known yet of the use of keys."
	case a.Behind:
		return "What is known of the use of keys is from " + ui.Ago(s.Now(), a.Through) + " and behind: a key that seems unused may be in use."
	}
	text := "Use of keys as of " + ui.Ago(s.Now(), a.Through)
	if a.Missing != nil {
		text += "; nothing is known of " + ui.Span(a.Missing.To.Sub(a.Missing.From)) + " before " + ui.Absolute(a.Missing.To)
	}
	return text
}

func masked(environment, kid string) string { return "hg_" + environment + "_" + kid + "_…" }

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func keyRow(v *visit, all console.PortalKeys, c console.Credential, k console.KeyVersion) views.KeyRow {
	row := views.KeyRow{
		KID: k.KID, Masked: masked(c.Environment, k.KID), URL: v.url("keys", k.KID), Name: c.Name, State: string(k.State), Environment: c.Environment,
		Created: k.CreatedAt, Ends: at(k.NotAfter),
	}
	if k.EndedAt != nil {
		row.Ends = *k.EndedAt
	}
	use, known := all.Uses[k.KID]
	switch {
	case known && use.LastUsedAt != nil:
		row.LastUsed, row.LastFrom = *use.LastUsedAt, source(use.LastNetwork, use.LastAgent)
	case !told(all.Age, k.CreatedAt):
		row.Use = "unknown"
	default:
		row.Use = "never"
	}
	return row
}

// told reports whether all use of a key since it was made is known, so that
// silence means that nobody used it.
func told(a console.UseAge, made time.Time) bool {
	return !a.Behind && !a.Since.IsZero() && !a.Since.After(made) && (a.Missing == nil || a.Missing.To.Before(made))
}

func source(network, agent string) string {
	switch {
	case network == "":
		return agent
	case agent == "":
		return network
	}
	return agent + ", " + network
}

func sourceRow(k console.KeySource) views.SourceRow {
	row := views.SourceRow{Network: k.Network, Agent: k.Agent, First: k.FirstSeen, Last: k.LastSeen, Requests: ui.Int(k.Requests), Refused: ui.Int(k.Refused)}
	return named(row)
}

// named says what stands for an address that is not told.
func named(row views.SourceRow) views.SourceRow {
	if row.Network == "" && row.Agent == "" {
		row.Network = "others"
	} else if row.Network == "" {
		row.Network = "unknown"
	}
	return row
}

func (s *Server) keyPage(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.keyPageWith(w, r, v, http.StatusOK, nil)
}

func (s *Server) keyPageWith(w http.ResponseWriter, r *http.Request, v *visit, status int, failed *form.Form) error {
	k, err := s.Portal.Key(r.Context(), v.actor, chi.URLParam(r, "kid"))
	if err != nil {
		return err
	}
	p := views.KeyProps{
		Frame: s.frame(v, "Key "+k.Key.KID, "keys"), Key: keyRow(v, k.PortalKeys, k.Credential, k.Key), Scopes: strings.Join(k.Credential.Scopes, " "),
		Age: s.useAge(k.Age), CanRevoke: v.can(console.PermOwnKeys) && k.Rules.MayRevoke && k.Key.Live(), Form: failed,
	}
	if k.Key.State == policy.KeyActive {
		p.Rotate = rotateURL(v, k.PortalKeys, k.Credential)
	}
	for _, o := range k.Sources {
		p.Sources = append(p.Sources, sourceRow(o))
	}
	return s.render(w, r, status, views.Key(p))
}

func (s *Server) keyNew(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.keyForm(w, r, v, http.StatusOK, form.New(map[string]string{"environment": "live", "token": form.NewToken()}))
}

func (s *Server) keyForm(w http.ResponseWriter, r *http.Request, v *visit, status int, f *form.Form) error {
	all, err := s.Portal.Keys(r.Context(), v.actor)
	if err != nil {
		return err
	}
	return s.render(w, r, status, views.KeyForm(views.KeyFormProps{Frame: s.frame(v, "Create a key", "keys"), Form: f, Room: room(all) + " in use"}))
}

// keyCreate makes a credential and shows its key in this answer alone.
func (s *Server) keyCreate(w http.ResponseWriter, r *http.Request, v *visit) error {
	f := form.Parse(r, "name", "environment", "expires_at", "token")
	in := console.NewCredential{Name: f.Get("name"), Environment: f.Get("environment")}
	if day := f.Get("expires_at"); day != "" {
		t, err := time.ParseInLocation(time.DateOnly, day, time.UTC)
		if err != nil {
			f.Fail("expires_at", "Write the date as YYYY-MM-DD.")
			return s.keyForm(w, r, v, http.StatusUnprocessableEntity, f)
		}
		end := t.AddDate(0, 0, 1)
		in.ExpiresAt = &end
	}
	const scope = "portal.credentials"
	if err := s.claim(r, v, scope, f, "name", "environment", "expires_at"); err != nil {
		return err
	}
	issued, err := s.Portal.IssueCredential(r.Context(), v.actor, in)
	s.claimed(r, v, scope, f.Get("token"), err)
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.keyForm(w, r, v, status, f)
		}
		return err
	}
	return s.secret(w, r, v, issued.Secret.Reveal(), issued.Change, views.SecretProps{Title: "Key " + issued.Credential.Name, Next: v.url("keys")})
}

// secret answers a POST with the key that it made. No other answer ever holds it.
func (s *Server) secret(w http.ResponseWriter, r *http.Request, v *visit, secret string, change console.Change, p views.SecretProps) error {
	p.Frame, p.Secret = s.frame(v, p.Title, "keys"), secret
	p.Converged, p.ConvergedOK = s.converged(r.Context(), change, "accepted")
	p.Header = s.header(r.Context(), secret)
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, http.StatusCreated, views.Secret(p))
}

// converged says how far a change is, without numbers that are the operator's.
func (s *Server) converged(ctx context.Context, change console.Change, verb string) (string, bool) {
	c := s.Fleet.WaitChange(ctx, change, convergeWait)
	switch {
	case change.OutboxID == 0, c.Known && c.Of == 0, c.Done():
		return verb + " everywhere", true
	case !c.Known:
		return "it is not known yet whether it is " + verb + " everywhere; it will be shortly", false
	}
	return fmt.Sprintf("%s on %d of %d gateways so far; the others follow in a moment", verb, c.On, c.Of), false
}

// header is how the policy in force wants a key to be sent.
func (s *Server) header(ctx context.Context, key string) string {
	compiled, err := s.InForce(ctx)
	if err != nil || compiled == nil || len(compiled.Document.Credentials.Headers) == 0 {
		return "Authorization: Bearer " + key
	}
	h := compiled.Document.Credentials.Headers[0]
	if h.Scheme == "" {
		return h.Name + ": " + key
	}
	return h.Name + ": " + h.Scheme + " " + key
}

func (s *Server) keyRevoke(w http.ResponseWriter, r *http.Request, v *visit) error {
	kid := chi.URLParam(r, "kid")
	f := form.Parse(r, "reason", "name")
	change, err := s.Portal.RevokeKey(r.Context(), v.actor, kid, f.Get("reason"), f.Get("name"))
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.keyPageWith(w, r, v, status, f)
		}
		return err
	}
	text, _ := s.converged(r.Context(), change, "refused")
	return s.redirect(w, r, v.url("keys", kid), "Revoked: "+text+".")
}
