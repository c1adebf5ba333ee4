package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) credentialNew(w http.ResponseWriter, r *http.Request) error {
	return s.credentialForm(w, r, http.StatusOK, form.New(map[string]string{"environment": "live", "token": form.NewToken()}))
}

func (s *Server) credentialForm(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	t, err := s.Tenants.Get(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	return s.render(w, r, status, views.CredentialForm(views.CredentialFormProps{Frame: s.titled(r, "Issue a key"), Form: f,
		TenantName: t.Name, Action: ui.TenantURL(t.ID, "keys"), Back: ui.TenantURL(t.ID, "keys"), Token: f.Raw("token")}))
}

// credentialIssue makes a credential and shows its key in this answer alone.
func (s *Server) credentialIssue(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Tenants.Get(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	f := form.Parse(r, "name", "environment", "scopes", "expires_at", "token")
	expires, ok := endOfDay(f)
	if !ok {
		return s.credentialForm(w, r, http.StatusUnprocessableEntity, f)
	}
	o, fresh, err := s.claim(w, r, "credentials.issue", f, "name", "environment", "scopes", "expires_at")
	if err != nil || !fresh {
		return err
	}
	issued, err := s.Keys.IssueCredential(r.Context(), actor(r), t.ID, console.NewCredential{Name: f.Get("name"),
		Environment: f.Get("environment"), Scopes: strings.Fields(f.Get("scopes")), ExpiresAt: expires})
	if err != nil {
		o.failed(r, err)
		if status := s.take(f, err); status != 0 {
			return s.credentialForm(w, r, status, f)
		}
		return err
	}
	keys := ui.TenantURL(t.ID, "keys")
	if err := o.done(r, made{URL: keys, Label: "Go to the keys of " + t.Name}); err != nil {
		s.Log.WarnContext(r.Context(), "keep form token", "request_id", requestID(r.Context()), "error", err)
	}
	return s.showSecret(w, r, issued.Secret, issued.Change, views.SecretProps{Title: "Key issued", KID: issued.KeyVersion.KID,
		TenantName: t.Name, Credential: issued.Credential.Name, Environment: issued.Credential.Environment,
		Next: keys, NextLabel: "I have copied it"})
}

// showSecret answers a POST with the key that it made. No other answer ever
// holds it.
func (s *Server) showSecret(w http.ResponseWriter, r *http.Request, secret apikey.Secret, change console.Change, p views.SecretProps) error {
	p.Frame = s.titled(r, p.Title)
	act := namedActs()["issue"]
	text, ok := s.converged(r.Context(), change, act.verb)
	if p.Converged = text; !ok {
		pending := s.pending(r.Context(), change.OutboxID, "issue", act)
		p.Pending = &pending
	}
	p.Secret = secret.Reveal()
	p.HeaderName, p.HeaderValue = s.credentialHeader(r, p.Secret)
	p.GatewayURL = s.gatewayURL(r)
	return s.render(w, r, http.StatusCreated, views.Secret(p))
}

// credentialHeader is how the policy in force wants a key to be sent.
func (s *Server) credentialHeader(r *http.Request, key string) (name, value string) {
	name, value = "Authorization", "Bearer "+key
	in, err := s.inForce(r.Context())
	if err != nil || in.Compiled == nil || len(in.Compiled.Document.Credentials.Headers) == 0 {
		return name, value // the default says the same
	}
	h := in.Compiled.Document.Credentials.Headers[0]
	if h.Scheme == "" {
		return h.Name, key
	}
	return h.Name, h.Scheme + " " + key
}

// gatewayURL is the address of a gateway that has told one, for examples.
func (s *Server) gatewayURL(r *http.Request) string {
	for _, g := range s.Fleet.Health(r.Context()).Replicas {
		if g.ProxyAddr == "" {
			continue
		}
		if strings.Contains(g.ProxyAddr, "://") {
			return g.ProxyAddr
		}
		return "http://" + g.ProxyAddr
	}
	return ""
}

// endOfDay reads expires_at as a date: the key works until that day has ended.
func endOfDay(f *form.Form) (*time.Time, bool) {
	v := f.Get("expires_at")
	if v == "" {
		return nil, true
	}
	day, err := time.ParseInLocation(time.DateOnly, v, time.UTC)
	if err != nil {
		f.Fail("expires_at", "Write the date as YYYY-MM-DD.")
		return nil, false
	}
	end := day.AddDate(0, 0, 1)
	return &end, true
}
