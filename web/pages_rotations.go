package web

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// overlaps are the presets for how long both keys of a rotation work.
func overlaps() []ui.Option {
	return []ui.Option{{Value: "0s", Label: "now: the old key ends at once"}, {Value: "1h", Label: "1 hour"}, {Value: "24h", Label: "24 hours"},
		{Value: "168h", Label: "7 days"}, {Value: "720h", Label: "30 days"}}
}

const defaultOverlap = "168h"

// switchersKnown is how far back a rotation looks for who has to switch.
const switchersKnown = 7 * 24 * time.Hour

// rotationTabs are what the list of rotations can show.
func rotationTabs(now string) []ui.Tab {
	var tabs []ui.Tab
	for _, t := range [][2]string{{"", "Under way"}, {"overdue", "Overdue"}, {"ready", "Ready"}, {"all", "All"}} {
		url := ui.RotationsURL()
		if t[0] != "" {
			url += "?state=" + t[0]
		}
		tabs = append(tabs, ui.Tab{Label: t[1], URL: url, Current: now == t[0]})
	}
	return tabs
}

func (s *Server) rotationList(w http.ResponseWriter, r *http.Request) error {
	page, which := pageOf(r), r.URL.Query().Get("state")
	q := console.RotationQuery{State: console.ShownOverlap, Page: page}
	p := views.RotationListProps{Frame: s.titled(r, "Rotations"), Now: s.Now(), Tabs: rotationTabs(which),
		Empty: "No rotation is under way. One is started from a key, on a tenant's page."}
	switch which {
	case "overdue":
		q.State, p.Empty = console.ShownOverdue, "No rotation is overdue: none has less than 24 hours left while its old key is still in use."
	case "ready":
		q.State, p.Empty = console.ShownReady, "No rotation is ready to be ended."
	case "all":
		q.State, p.Empty = "", "No key has been rotated yet."
	}
	list, next, err := s.Rotations.ListByRisk(r.Context(), q)
	if err != nil {
		return err
	}
	for _, rot := range list {
		row := s.rotationRow(rot.Rotation)
		row.State, row.WhyNot, row.OldLast = string(rot.Shown), rot.WhyNot, at(rot.OldLast)
		p.Rows = append(p.Rows, row)
	}
	p.Pager = pagerOf(r, page, len(list), next)
	return s.render(w, r, http.StatusOK, views.RotationList(p))
}

func (s *Server) rotationRow(rot console.Rotation) views.RotationRow {
	return views.RotationRow{ID: rot.ID, URL: ui.RotationURL(rot.ID, ""), Tenant: rot.TenantName, TenantURL: ui.TenantURL(rot.TenantID, "keys"),
		Credential: rot.CredentialName, OldKID: rot.OldKID, NewKID: rot.NewKID, State: string(rot.State), Reason: rot.Reason,
		Started: rot.StartedAt, Ends: rot.EndsAt, Ended: at(rot.EndedAt)}
}

func (s *Server) rotationNew(w http.ResponseWriter, r *http.Request) error {
	return s.rotationForm(w, r, http.StatusOK, form.New(map[string]string{"overlap": defaultOverlap, "token": form.NewToken()}))
}

func (s *Server) rotationForm(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	c, err := s.Keys.GetCredential(r.Context(), chi.URLParam(r, "credential"))
	if err != nil {
		return err
	}
	t, err := s.Tenants.Get(r.Context(), c.TenantID)
	if err != nil {
		return err
	}
	now := s.Now()
	p := views.RotationFormProps{Frame: s.titled(r, "Rotate "+c.Name), Now: now, UseAge: useAgeText(now, console.UseAge{}), Form: f, Credential: c.Name, TenantName: t.Name, Overlaps: overlaps(),
		Action: ui.CredentialURL(c.ID, "rotate"), Back: ui.TenantURL(c.TenantID, "keys"), Token: f.Raw("token")}
	for _, v := range c.Versions {
		if v.State == policy.KeyActive {
			p.OldKID = v.KID
			if v.NotAfter != nil {
				p.OldEnds = "The old key ends by itself on " + ui.Absolute(*v.NotAfter) + "; the overlap never goes past that."
			}
		}
	}
	if s.KeyUse != nil && p.OldKID != "" {
		list, age, err := s.KeyUse.Sources(r.Context(), p.OldKID, now.Add(-switchersKnown), sourcesShown)
		if err != nil {
			return err
		}
		p.Sources, p.UseAge = sourceRows(list), useAgeText(now, age)
	}
	return s.render(w, r, status, views.RotationForm(p))
}

// rotationStart makes the new key and shows it in this answer alone.
func (s *Server) rotationStart(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "credential")
	f := form.Parse(r, "overlap", "reason", "token")
	overlap, err := time.ParseDuration(f.Get("overlap"))
	if err != nil {
		f.Fail("overlap", "Choose one of the overlaps.")
	}
	if !f.OK() {
		return s.rotationForm(w, r, http.StatusUnprocessableEntity, f)
	}
	o, fresh, err := s.claim(w, r, "rotations.start", f, "overlap", "reason")
	if err != nil || !fresh {
		return err
	}
	started, err := s.Rotations.Start(r.Context(), actor(r), id, console.NewRotation{Overlap: overlap, Reason: f.Get("reason")})
	if err != nil {
		o.failed(r, err)
		if status := s.take(f, err); status != 0 {
			return s.rotationForm(w, r, status, f)
		}
		return err
	}
	rot := started.Rotation
	if err := o.done(r, made{URL: ui.RotationURL(rot.ID, ""), Label: "Go to the rotation"}); err != nil {
		s.Log.WarnContext(r.Context(), "keep form token", "request_id", requestID(r.Context()), "error", err)
	}
	p := views.SecretProps{Title: "New key", KID: rot.NewKID, TenantName: rot.TenantName, Credential: rot.CredentialName,
		Environment: started.KeyVersion.Environment, Next: ui.RotationURL(rot.ID, ""), NextLabel: "I have copied it",
		Overlap: "The old key, " + rot.OldKID + ", works until " + ui.Absolute(rot.EndsAt) + ". Both share the tenant's limits."}
	if !rot.Open() {
		p.Overlap = "The old key, " + rot.OldKID + ", has ended."
	}
	return s.showSecret(w, r, started.Secret, started.Change, p)
}

func (s *Server) rotationEnd(w http.ResponseWriter, r *http.Request) error {
	return s.rotationAct(w, r, s.Rotations.End, "end")
}

func (s *Server) rotationCancel(w http.ResponseWriter, r *http.Request) error {
	return s.rotationAct(w, r, s.Rotations.Cancel, "cancel")
}

func (s *Server) rotationAct(w http.ResponseWriter, r *http.Request, do act, name string) error {
	id := chi.URLParam(r, "rotation")
	f := form.Parse(r, "reason")
	change, err := do(r.Context(), actor(r), id, f.Get("reason"))
	if err != nil {
		problem, status := s.problemOf(f, err)
		if status == 0 {
			return err
		}
		return s.rotationPageWith(w, r, status, views.RotationPageProps{Act: name, Problem: problem, Reason: f.Raw("reason")})
	}
	return s.told(w, r, ui.RotationURL(id, ""), name, change)
}

func (s *Server) rotationExtend(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "rotation")
	f := form.Parse(r, "by", "reason")
	by, err := time.ParseDuration(f.Get("by"))
	if err != nil || by <= 0 {
		return s.rotationPageWith(w, r, http.StatusUnprocessableEntity, views.RotationPageProps{Act: "extend", Problem: "Choose by how much.", Reason: f.Raw("reason")})
	}
	change, err := s.Rotations.Extend(r.Context(), actor(r), id, by, f.Get("reason"))
	if err != nil {
		problem, status := s.problemOf(f, err)
		if status == 0 {
			return err
		}
		return s.rotationPageWith(w, r, status, views.RotationPageProps{Act: "extend", Problem: problem, Reason: f.Raw("reason"), By: f.Get("by")})
	}
	return s.toldAs(w, r, ui.RotationURL(id, ""), "extend", "Extended by "+ui.Span(by), change)
}
