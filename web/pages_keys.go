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
	f, page := form.Query(r, "q", "state", "environment", "show"), pageOf(r)
	q := console.KeyQuery{Q: f.Get("q"), Environment: f.Get("environment"), State: policy.KeyState(f.Get("state")), Show: console.KeyShow(f.Get("show")), Page: page}
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
	uses, err := s.usesOf(r.Context(), kidsOf(items)...)
	if err != nil {
		return err
	}
	now := s.Now()
	p := views.KeyListProps{Frame: s.titled(r, "Keys"), Now: now, Q: q.Q, State: f.Get("state"), Environment: f.Get("environment"),
		Show: f.Get("show"), Shows: keyShows(), UseAge: useAgeText(now, uses.age), CanManage: can(r, console.PermManageKeys), ExportURL: s.exportURL(r, "/keys.csv")}
	p.Filtered = p.Q != "" || p.State != "" || p.Environment != "" || p.Show != ""
	total := ""
	if !p.Filtered {
		n, err := s.Keys.Count(r.Context())
		if err != nil {
			return err
		}
		total = estimate(n) + " that work"
	}
	if p.Rows, err = s.usedRows(r, items, uses); err != nil {
		return err
	}
	p.Pager = withTotal(pagerOf(r, page, len(items), next), total)
	return s.render(w, r, http.StatusOK, views.KeyList(p))
}

// keyShows are the questions that the list of keys answers.
func keyShows() []ui.Option {
	return []ui.Option{{Value: "", Label: "all keys"}, {Value: string(console.ShowUnused), Label: "unused for 90 days"}, {Value: string(console.ShowNever), Label: "never used"},
		{Value: string(console.ShowExpiring), Label: "ending within 30 days"}, {Value: string(console.ShowRetiringUsed), Label: "retiring, still in use"},
		{Value: string(console.ShowCompromised), Label: "compromised"}}
}

func kidsOf(list []console.KeyVersion) []string {
	kids := make([]string, len(list))
	for i, k := range list {
		kids[i] = k.KID
	}
	return kids
}

// usedRows are keys with what is known of their use and, for those that are part
// of a rotation under way, a link to it.
func (s *Server) usedRows(r *http.Request, list []console.KeyVersion, uses keyUses) ([]views.KeyRow, error) {
	rows := make([]views.KeyRow, 0, len(list))
	var rotating []string
	for _, k := range list {
		row := keyRow(r, k)
		row.Use = uses.cell(k.KID, k.CreatedAt)
		rows = append(rows, row)
		if k.State == policy.KeyRetiring {
			rotating = append(rotating, k.CredentialID)
		}
	}
	if len(rotating) == 0 {
		return rows, nil
	}
	open, err := s.Rotations.OpenOf(r.Context(), rotating)
	if err != nil {
		return nil, err
	}
	for i, k := range list {
		if rot, ok := open[k.CredentialID]; ok && k.State == policy.KeyRetiring {
			rows[i].RotationURL = ui.RotationURL(rot.ID, "")
		}
	}
	return rows, nil
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
		NotAfter: at(k.NotAfter), Ended: at(k.EndedAt), RevokeReason: k.RevokeReason, Scopes: strings.Join(k.Scopes, " "),
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
	now := s.Now()
	uses, err := s.usesOf(r.Context(), kidsOf(c.Versions)...)
	if err != nil {
		return err
	}
	p := views.KeyPageProps{Frame: s.titled(r, "Key "+k.KID), Now: now, Key: keyRow(r, k), Scopes: k.Scopes,
		Act: act, Problem: problem, Reason: reason, UseEffect: uses.effect(now, k.KID), UseAge: useAgeText(now, uses.age), Timeline: timelineOf(now, c.Versions)}
	p.Key.Use = uses.cell(k.KID, k.CreatedAt)
	if p.Versions, err = s.usedRows(r, c.Versions, uses); err != nil {
		return err
	}
	p.CanRotate, p.RotateURL = canRotate(r, c), ui.CredentialURL(c.ID, "rotate")
	for _, v := range p.Versions {
		if v.RotationURL != "" {
			p.RotationURL, p.CanRotate = v.RotationURL, false
		}
	}
	if err := s.keyHistory(r, k, &p); err != nil {
		return err
	}
	return s.render(w, r, status, views.KeyPage(p))
}

// keyHistory fills in who used a key and what was done to it.
func (s *Server) keyHistory(r *http.Request, k console.KeyVersion, p *views.KeyPageProps) error {
	var err error
	if p.Sources, err = s.sourcesOf(r.Context(), k.KID); err != nil {
		return err
	}
	if !can(r, console.PermViewAudit) {
		return nil
	}
	events, _, err := s.Audit.List(r.Context(), console.AuditQuery{Object: "key", ObjectID: k.KID, Page: console.Page{Limit: 20}})
	if err != nil {
		return err
	}
	p.AuditURL = ui.TenantURL(k.TenantID, "audit")
	p.Events, err = s.eventRows(r.Context(), events)
	return err
}

// timelineOf draws the lives of a credential's versions.
func timelineOf(now time.Time, versions []console.KeyVersion) views.TimelineProps {
	p := views.TimelineProps{From: now, To: now}
	for _, v := range versions {
		l := views.LifeProps{KID: v.KID, Start: v.CreatedAt, Retiring: at(v.RetiringAt), End: now, Words: string(v.State) + " since " + ui.Absolute(v.CreatedAt)}
		if v.EndedAt != nil {
			l.End = *v.EndedAt
			l.Words = string(v.State) + ", from " + ui.Absolute(v.CreatedAt) + " to " + ui.Absolute(l.End)
		}
		if v.CreatedAt.Before(p.From) {
			p.From = v.CreatedAt
		}
		p.Lives = append(p.Lives, l)
	}
	return p
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

func (s *Server) keyRevoke(w http.ResponseWriter, r *http.Request) error {
	return s.keyAct(w, r, s.Keys.Revoke, "revoke")
}

func (s *Server) keySuspend(w http.ResponseWriter, r *http.Request) error {
	return s.keyAct(w, r, s.Keys.Suspend, "suspend")
}

func (s *Server) keyResume(w http.ResponseWriter, r *http.Request) error {
	return s.keyAct(w, r, s.Keys.Resume, "resume")
}

func (s *Server) keyAct(w http.ResponseWriter, r *http.Request, do act, name string) error {
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
	return s.told(w, r, ui.KeyURL(kid, ""), name, change)
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
	ids := make([]string, len(list))
	for i, c := range list {
		ids[i] = c.ID
	}
	open, err := s.Rotations.OpenOf(r.Context(), ids)
	if err != nil {
		return err
	}
	var kids []string
	for _, c := range list {
		kids = append(kids, kidsOf(c.Versions)...)
	}
	uses, err := s.usesOf(r.Context(), kids...)
	if err != nil {
		return err
	}
	p := views.TenantKeysProps{Head: head, UseAge: useAgeText(head.Now, uses.age)}
	if head.CanManageKey && t.State != policy.TenantDeleted {
		p.NewURL = ui.TenantURL(t.ID, "keys") + "/new"
	}
	for _, c := range list {
		b := views.CredentialBlock{ID: c.ID, Name: c.Name, Environment: c.Environment, Scopes: strings.Join(c.Scopes, " "),
			Expires: at(c.ExpiresAt), CanRotate: canRotate(r, c), RotateURL: ui.CredentialURL(c.ID, "rotate")}
		for _, v := range c.Versions {
			row := keyRow(r, v)
			row.Use = uses.cell(v.KID, v.CreatedAt)
			b.Versions = append(b.Versions, row)
		}
		if rot, ok := open[c.ID]; ok {
			row := s.rotationRow(rot)
			b.Rotation = &row
		}
		p.Credentials = append(p.Credentials, b)
	}
	return s.render(w, r, http.StatusOK, views.TenantKeys(p))
}
