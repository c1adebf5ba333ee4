package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) keyList(w http.ResponseWriter, r *http.Request) error {
	f, page := form.Query(r, "q", "state", "environment"), pageOf(r)
	q := console.KeyQuery{Q: f.Get("q"), Environment: f.Get("environment"), State: policy.KeyState(f.Get("state")), Page: page}
	if k, err := apikey.Parse(q.Q); err == nil {
		// A whole key was pasted: go on with its public part, so that no page,
		// link or address repeats the secret.
		http.Redirect(w, r, ui.KeysURL()+"?q="+k.KID, http.StatusSeeOther)
		return nil
	}
	items, next, err := s.Keys.ListKeys(r.Context(), q)
	if err != nil {
		return err
	}
	p := views.KeyListProps{Frame: s.titled(r, "Keys"), Now: s.Now(), Q: q.Q, State: f.Get("state"), Environment: f.Get("environment")}
	p.Filtered = p.Q != "" || p.State != "" || p.Environment != ""
	total := ""
	if !p.Filtered {
		n, err := s.Keys.Count(r.Context())
		if err != nil {
			return err
		}
		total = estimate(n)
	}
	for _, k := range items {
		p.Rows = append(p.Rows, keyRow(r, k))
	}
	p.Pager = withTotal(pagerOf(r, page, len(items), next), total)
	return s.render(w, r, http.StatusOK, views.KeyList(p))
}

// masked is a key as tables show it: its public part.
func masked(environment, kid string) string { return "hg_" + environment + "_" + kid + "_…" }

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func keyRow(r *http.Request, k console.KeyVersion) views.KeyRow {
	manage := can(r, console.PermManageKeys)
	return views.KeyRow{
		KID: k.KID, Masked: masked(k.Environment, k.KID), Credential: k.CredentialName, Tenant: k.TenantName,
		TenantURL: ui.TenantURL(k.TenantID, "keys"), Environment: k.Environment, State: string(k.State), Created: k.CreatedAt,
		NotAfter: at(k.NotAfter), Ended: at(k.EndedAt), RevokeReason: k.RevokeReason,
		CanRevoke:  manage && k.Live(),
		CanSuspend: manage && (k.State == policy.KeyActive || k.State == policy.KeyRetiring),
		CanResume:  manage && k.State == policy.KeySuspended,
	}
}

func (s *Server) keyPage(w http.ResponseWriter, r *http.Request) error {
	return s.keyPageWith(w, r, http.StatusOK, "", "", "")
}

// keyPageWith shows a key version, with the problem of an act that failed.
func (s *Server) keyPageWith(w http.ResponseWriter, r *http.Request, status int, act, problem, reason string) error {
	k, err := s.Keys.Get(r.Context(), chi.URLParam(r, "kid"))
	if err != nil {
		return err
	}
	c, err := s.Keys.GetCredential(r.Context(), k.CredentialID)
	if err != nil {
		return err
	}
	open, err := s.openRotations(r)
	if err != nil {
		return err
	}
	p := views.KeyPageProps{Frame: s.titled(r, "Key "+k.KID), Now: s.Now(), Key: keyRow(r, k), Scopes: k.Scopes,
		Act: act, Problem: problem, Reason: reason, SuspendEffect: "How much it is used is not yet recorded per key."}
	for _, v := range c.Versions {
		p.Versions = append(p.Versions, keyRow(r, v))
	}
	if rot, ok := open[c.ID]; ok {
		p.RotationURL = ui.RotationURL(rot.ID, "")
	} else {
		p.CanRotate, p.RotateURL = canRotate(r, c), ui.CredentialURL(c.ID, "rotate")
	}
	return s.render(w, r, status, views.KeyPage(p))
}

// canRotate reports whether a credential has an active version to be replaced.
func canRotate(r *http.Request, c console.Credential) bool {
	for _, v := range c.Versions {
		if v.State == policy.KeyActive {
			return can(r, console.PermManageKeys)
		}
	}
	return false
}

// openRotations are the rotations under way by credential.
func (s *Server) openRotations(r *http.Request) (map[string]console.Rotation, error) {
	list, err := s.Rotations.List(r.Context(), true)
	if err != nil {
		return nil, err
	}
	out := make(map[string]console.Rotation, len(list))
	for _, rot := range list {
		out[rot.CredentialID] = rot
	}
	return out, nil
}

func (s *Server) keyRevoke(w http.ResponseWriter, r *http.Request) error {
	return s.keyAct(w, r, s.Keys.Revoke, "revoke", "Revoked", "refused")
}

func (s *Server) keySuspend(w http.ResponseWriter, r *http.Request) error {
	return s.keyAct(w, r, s.Keys.Suspend, "suspend", "Suspended", "refused")
}

func (s *Server) keyResume(w http.ResponseWriter, r *http.Request) error {
	return s.keyAct(w, r, s.Keys.Resume, "resume", "Resumed", "accepted")
}

func (s *Server) keyAct(w http.ResponseWriter, r *http.Request, do act, name, did, verb string) error {
	kid := chi.URLParam(r, "kid")
	f := form.Parse(r, "reason")
	change, err := do(r.Context(), actor(r), kid, f.Get("reason"))
	if err != nil {
		problem, status := s.problemOf(f, err)
		if status == 0 {
			return err
		}
		return s.keyPageWith(w, r, status, name, problem, f.Raw("reason"))
	}
	return s.told(w, r, ui.KeyURL(kid, ""), did, verb, change)
}

func (s *Server) tenantKeys(w http.ResponseWriter, r *http.Request) error {
	t, _, head, err := s.tenantHead(r, "keys")
	if err != nil {
		return err
	}
	list, err := s.Keys.ListCredentials(r.Context(), t.ID)
	if err != nil {
		return err
	}
	open, err := s.openRotations(r)
	if err != nil {
		return err
	}
	p := views.TenantKeysProps{Head: head}
	if head.CanManageKey && t.State != policy.TenantDeleted {
		p.NewURL = ui.TenantURL(t.ID, "keys") + "/new"
	}
	for _, c := range list {
		b := views.CredentialBlock{ID: c.ID, Name: c.Name, Environment: c.Environment, Scopes: strings.Join(c.Scopes, " "),
			Expires: at(c.ExpiresAt), CanRotate: canRotate(r, c), RotateURL: ui.CredentialURL(c.ID, "rotate")}
		for _, v := range c.Versions {
			b.Versions = append(b.Versions, keyRow(r, v))
		}
		if rot, ok := open[c.ID]; ok {
			row := s.rotationRow(rot)
			b.Rotation = &row
		}
		p.Credentials = append(p.Credentials, b)
	}
	return s.render(w, r, http.StatusOK, views.TenantKeys(p))
}
