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

func (s *Server) rotationList(w http.ResponseWriter, r *http.Request) error {
	open := r.URL.Query().Get("all") == ""
	list, err := s.Rotations.List(r.Context(), open)
	if err != nil {
		return err
	}
	p := views.RotationListProps{Frame: s.titled(r, "Rotations"), Now: s.Now(), Open: open}
	for _, rot := range list {
		p.Rows = append(p.Rows, s.rotationRow(rot))
	}
	return s.render(w, r, http.StatusOK, views.RotationList(p))
}

func (s *Server) rotationRow(rot console.Rotation) views.RotationRow {
	return views.RotationRow{ID: rot.ID, URL: ui.RotationURL(rot.ID, ""), Tenant: rot.TenantName, TenantURL: ui.TenantURL(rot.TenantID, "keys"),
		Credential: rot.CredentialName, OldKID: rot.OldKID, NewKID: rot.NewKID, State: string(rot.State), Reason: rot.Reason,
		Started: rot.StartedAt, Ends: rot.EndsAt, Ended: at(rot.EndedAt)}
}

func (s *Server) rotationNew(w http.ResponseWriter, r *http.Request) error {
	return s.rotationForm(w, r, http.StatusOK, form.New(map[string]string{"overlap": defaultOverlap, "token": newToken()}))
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
	p := views.RotationFormProps{Frame: s.titled(r, "Rotate "+c.Name), Form: f, Credential: c.Name, TenantName: t.Name, Overlaps: overlaps(),
		Action: ui.CredentialURL(c.ID, "rotate"), Back: ui.TenantURL(c.TenantID, "keys"), Token: f.Raw("token")}
	for _, v := range c.Versions {
		if v.State == policy.KeyActive {
			p.OldKID = v.KID
			if v.NotAfter != nil {
				p.OldEnds = "The old key ends by itself on " + ui.Absolute(*v.NotAfter) + "; the overlap never goes past that."
			}
		}
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

func (s *Server) rotationPage(w http.ResponseWriter, r *http.Request) error {
	return s.rotationPageWith(w, r, http.StatusOK, views.RotationPageProps{})
}

// rotationPageWith shows a rotation; p holds the problem of an act that failed.
func (s *Server) rotationPageWith(w http.ResponseWriter, r *http.Request, status int, p views.RotationPageProps) error {
	rot, err := s.Rotations.Get(r.Context(), chi.URLParam(r, "rotation"))
	if err != nil {
		return err
	}
	k, err := s.Keys.Get(r.Context(), rot.NewKID)
	if err != nil {
		return err
	}
	p.Frame, p.Now = s.titled(r, "Rotation"), s.Now()
	p.Rotation, p.Extended, p.EndReason = s.rotationRow(rot), rot.Extensions, rot.EndReason
	p.Masked, p.NewMasked = masked(k.Environment, rot.OldKID), masked(k.Environment, rot.NewKID)
	p.CanAct = rot.Open() && can(r, console.PermManageKeys)
	p.Extends = overlaps()[1:]
	if p.By == "" {
		p.By = "24h"
	}
	p.Spark = s.rotationLiveProps(rot)
	return s.render(w, r, status, views.RotationPage(p))
}

func (s *Server) rotationLive(w http.ResponseWriter, r *http.Request) error {
	rot, err := s.Rotations.Get(r.Context(), chi.URLParam(r, "rotation"))
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.RotationLive(s.rotationLiveProps(rot)))
}

func (s *Server) rotationLiveProps(rot console.Rotation) views.RotationLiveProps {
	now := s.Now()
	p := views.RotationLiveProps{Now: now, State: string(rot.State)}
	switch rot.State {
	case console.RotationOverlap:
		p.Poll = ui.RotationLiveURL(rot.ID)
		p.Left = ui.Span(rot.EndsAt.Sub(now)) + " left"
		p.Lines = []string{"Both keys are accepted and share the tenant's limits. Answers to the old key carry Deprecation and Sunset headers.",
			"The old key ends on " + ui.Absolute(rot.EndsAt) + " by itself; gateways need no push for that."}
		if !now.Before(rot.EndsAt) {
			p.Left = "the overlap has run out"
			p.Lines = []string{"The old key is refused since " + ui.Absolute(rot.EndsAt) + ". The rotation is closed with the next pass of the console."}
		}
	case console.RotationCompleted:
		p.Lines = []string{"The overlap ran out and the old key is refused."}
	case console.RotationForced:
		p.Lines = []string{"The overlap was ended early and the old key is refused."}
	case console.RotationCancelled:
		p.Lines = []string{"The new key was revoked; the old one goes on as before."}
	}
	return p
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
	return s.told(w, r, ui.RotationURL(id, ""), "extend", change)
}
