package portal

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	views "github.com/headgate/headgate/views/portal"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) rotationNew(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.rotationForm(w, r, v, http.StatusOK, form.New(map[string]string{"overlap": "168h", "token": form.NewToken()}))
}

func (s *Server) rotationForm(w http.ResponseWriter, r *http.Request, v *visit, status int, f *form.Form) error {
	c, all, err := s.Portal.Credential(r.Context(), v.actor, chi.URLParam(r, "credential"))
	if err != nil {
		return err
	}
	p := views.RotateProps{Frame: s.frame(v, "Rotate "+c.Name, "keys"), Form: f, ID: c.ID, Name: c.Name, Overlaps: overlaps(all.Rules.MaxOverlap)}
	for _, k := range c.Versions {
		if k.State != policy.KeyActive {
			continue
		}
		p.Old = masked(c.Environment, k.KID)
		if k.NotAfter != nil {
			p.OldEnds = "The old key ends by itself on " + ui.Absolute(*k.NotAfter) + "; the overlap never goes past that."
		}
		if row := keyRow(v, all, c, k); row.Use == "" {
			p.UsedLately = "It was last used " + ui.Ago(s.Now(), row.LastUsed) + " from " + row.LastFrom + "."
		}
	}
	return s.render(w, r, status, views.Rotate(p))
}

// overlaps are the presets that the tenant's rules allow.
func overlaps(most time.Duration) []ui.Option {
	var out []ui.Option
	for _, d := range console.Overlaps() {
		if d > most {
			continue
		}
		label := ui.Span(d)
		if d == 0 {
			label = "now: the old key ends at once"
		}
		out = append(out, ui.Option{Value: spell(d), Label: label})
	}
	return out
}

func spell(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	return strconv.Itoa(int(d.Hours())) + "h"
}

// rotationStart makes the new key and shows it in this answer alone.
func (s *Server) rotationStart(w http.ResponseWriter, r *http.Request, v *visit) error {
	f := form.Parse(r, "overlap", "reason", "token")
	overlap, err := time.ParseDuration(f.Get("overlap"))
	if err != nil {
		f.Fail("overlap", "Choose one of the overlaps.")
		return s.rotationForm(w, r, v, http.StatusUnprocessableEntity, f)
	}
	const scope = "portal.rotations"
	if err := s.claim(r, v, scope, f, "overlap", "reason"); err != nil {
		return err
	}
	started, err := s.Portal.StartRotation(r.Context(), v.actor, chi.URLParam(r, "credential"), console.NewRotation{Overlap: overlap, Reason: f.Get("reason")})
	s.claimed(r, v, scope, f.Get("token"), err)
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.rotationForm(w, r, v, status, f)
		}
		return err
	}
	rot := started.Rotation
	old := masked(started.KeyVersion.Environment, rot.OldKID)
	p := views.SecretProps{Title: "New key of " + rot.CredentialName, Next: v.url("rotations", rot.ID), Overlap: "The old key, " + old + ", has ended."}
	if rot.Open() {
		p.Overlap = "The old key, " + old + ", works until " + ui.Absolute(rot.EndsAt) + ". Both share your limits."
	}
	return s.secret(w, r, v, started.Secret.Reveal(), started.Change, p)
}

func (s *Server) rotationPage(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.rotationPageWith(w, r, v, http.StatusOK, views.RotationProps{})
}

// rotationPageWith shows a rotation; p holds the problem of an act that failed.
func (s *Server) rotationPageWith(w http.ResponseWriter, r *http.Request, v *visit, status int, p views.RotationProps) error {
	rot, err := s.Portal.Rotation(r.Context(), v.actor, chi.URLParam(r, "rotation"))
	if err != nil {
		return err
	}
	all, err := s.Portal.Keys(r.Context(), v.actor)
	if err != nil {
		return err
	}
	e, err := s.Rotations.Evidence(r.Context(), v.actor, rot.ID)
	if err != nil {
		return err
	}
	p.Frame, p.ID, p.Name, p.State = s.frame(v, "Rotation of "+rot.CredentialName, "keys"), rot.ID, rot.CredentialName, string(e.Shown)
	p.OldKey, p.NewKey, p.Started, p.Ends, p.Age = rot.OldKID, rot.NewKID, rot.StartedAt, rot.EndsAt, s.useAge(e.Age)
	p.CanAct = rot.Open() && v.can(console.PermOwnKeys) && all.Rules.MayRotate
	p.CanExtend = p.CanAct && rot.Extensions == 0
	p.Ready, p.ReadyKind, p.Left = s.rotationWords(rot, e)
	for _, o := range e.Sources {
		fresh := views.SourceRow{Network: o.Network, Agent: o.Agent, Last: at(o.NewLast), Requests: ui.Int(o.NewRequests), Refused: "–"}
		old := views.SourceRow{Network: o.Network, Agent: o.Agent, Last: at(o.OldLast), Requests: ui.Int(o.OldRequests), Refused: ui.Int(o.OldRefused)}
		if o.Stand == console.SourceOld || o.Stand == console.SourceBoth {
			p.Old = append(p.Old, named(old))
		}
		if o.NewLast != nil {
			p.New = append(p.New, named(fresh))
		}
	}
	return s.render(w, r, status, views.Rotation(p))
}

// rotationWords says how a rotation stands, and how long both keys work.
func (s *Server) rotationWords(rot console.Rotation, e console.Evidence) (text, kind, left string) {
	switch {
	case rot.State == console.RotationCancelled:
		return "Cancelled: the new key was revoked, the old one goes on.", "warn", ""
	case !rot.Open():
		return "Over: the old key is refused.", "ok", ""
	}
	left = "Both keys work until " + ui.Absolute(rot.EndsAt) + ", for " + ui.Span(rot.EndsAt.Sub(s.Now())) + " more."
	switch {
	case e.Ready:
		return "Ready: nobody uses the old key any more. You can end it.", "ok", left
	case e.Overdue:
		return "Hurry: the old key is still used and ends soon. " + e.WhyNot, "bad", left
	}
	return "Not ready. " + e.WhyNot, "warn", left
}

func (s *Server) rotationEnd(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.rotationAct(w, r, v, "end", "The old key is ended", "refused", func(id string, f *form.Form) (console.Change, error) {
		return s.Portal.EndRotation(r.Context(), v.actor, id, f.Get("reason"))
	})
}

func (s *Server) rotationCancel(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.rotationAct(w, r, v, "cancel", "Cancelled, the new key is revoked", "refused", func(id string, f *form.Form) (console.Change, error) {
		return s.Portal.CancelRotation(r.Context(), v.actor, id, f.Get("reason"))
	})
}

func (s *Server) rotationExtend(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.rotationAct(w, r, v, "extend", "Extended", "known", func(id string, f *form.Form) (console.Change, error) {
		by, err := time.ParseDuration(f.Get("by"))
		if err != nil {
			by = 0 // which is refused as too short
		}
		return s.Portal.ExtendRotation(r.Context(), v.actor, id, by, f.Get("reason"))
	})
}

func (s *Server) rotationAct(w http.ResponseWriter, r *http.Request, v *visit, name, did, verb string, do func(string, *form.Form) (console.Change, error)) error {
	id := chi.URLParam(r, "rotation")
	f := form.Parse(r, "reason", "by")
	change, err := do(id, f)
	if err != nil {
		status := s.take(f, err)
		if status == 0 {
			return err
		}
		p := views.RotationProps{Act: name, Problem: f.Message, Reason: f.Raw("reason")}
		for _, field := range []string{"reason", "by"} {
			if text := f.Error(field); text != "" {
				p.Problem = text
				break
			}
		}
		return s.rotationPageWith(w, r, v, status, p)
	}
	text, _ := s.converged(r.Context(), change, verb)
	return s.redirect(w, r, v.url("rotations", id), did+": "+text+".")
}
