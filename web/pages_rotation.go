package web

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) rotationPage(w http.ResponseWriter, r *http.Request) error {
	return s.rotationPageWith(w, r, http.StatusOK, views.RotationPageProps{})
}

// rotationPageWith shows a rotation; p holds the problem of an act that failed.
func (s *Server) rotationPageWith(w http.ResponseWriter, r *http.Request, status int, p views.RotationPageProps) error {
	ev, err := s.Rotations.Evidence(r.Context(), actor(r), chi.URLParam(r, "rotation"))
	if err != nil {
		return err
	}
	rot := ev.Rotation
	k, err := s.Keys.Get(r.Context(), rot.NewKID)
	if err != nil {
		return err
	}
	brown, err := s.Rotations.Brownouts(r.Context(), rot.ID)
	if err != nil {
		return err
	}
	failed := p.Live
	p.Frame, p.Now = s.titled(r, "Rotation of "+rot.CredentialName), s.Now()
	p.Rotation, p.Extended, p.EndReason = s.rotationRow(rot), rot.Extensions, rot.EndReason
	p.Masked, p.NewMasked = masked(k.Environment, rot.OldKID), masked(k.Environment, rot.NewKID)
	p.CanAct = rot.Open() && can(r, console.PermManageKeys)
	p.Extends = overlaps()[1:]
	if p.By == "" {
		p.By = "24h"
	}
	p.Live = s.rotationLiveProps(r, ev, brown)
	p.Live.Failed, p.Live.Problem, p.Live.Reason = failed.Failed, failed.Problem, failed.Reason
	p.EndEffect, p.CancelEffect = endEffect(ev), cancelEffect(ev)
	for _, b := range brown {
		p.Brownouts = append(p.Brownouts, brownoutRow(p.Now, b))
	}
	return s.render(w, r, status, views.RotationPage(p))
}

func (s *Server) rotationLive(w http.ResponseWriter, r *http.Request) error {
	ev, err := s.Rotations.Evidence(r.Context(), actor(r), chi.URLParam(r, "rotation"))
	if err != nil {
		return err
	}
	var brown []console.Brownout
	if ev.Rotation.Open() {
		if brown, err = s.Rotations.Brownouts(r.Context(), ev.Rotation.ID); err != nil {
			return err
		}
	}
	return s.render(w, r, http.StatusOK, views.RotationLive(s.rotationLiveProps(r, ev, brown)))
}

func (s *Server) rotationLiveProps(r *http.Request, ev console.Evidence, brown []console.Brownout) views.RotationLiveProps {
	now, rot := s.Now(), ev.Rotation
	p := views.RotationLiveProps{Now: now, State: string(ev.Shown), Running: rot.Open(), Ready: ev.Ready, WhyNot: ev.WhyNot, ReadyAt: at(ev.ReadyAt),
		UseAge: useAgeText(now, ev.Age), Lines: rotationLines(now, rot)}
	if rot.Open() {
		p.Poll, p.Left = ui.RotationLiveURL(rot.ID), ui.Span(rot.EndsAt.Sub(now))+" left"
		if !now.Before(rot.EndsAt) {
			p.Left = "the overlap has run out"
		}
	}
	for _, b := range brown {
		if b.Running(now) {
			row := brownoutRow(now, b)
			row.Refused = refusedBy(ev, b.Network)
			p.Brownout = &row
		}
	}
	if rot.Open() && now.Before(rot.EndsAt) && can(r, console.PermManageKeys) {
		p.StopURL = ui.RotationURL(rot.ID, "brownout/stop")
		if p.Brownout == nil && len(brown) < console.MaxBrownouts {
			p.BrownURL = ui.RotationURL(rot.ID, "brownout")
		}
	}
	p.Sources = rotationSources(ev)
	return p
}

// rotationLines say in words what a rotation's state means.
func rotationLines(now time.Time, rot console.Rotation) []string {
	switch rot.State {
	case console.RotationOverlap:
		if !now.Before(rot.EndsAt) {
			return []string{"The old key is refused since " + ui.Absolute(rot.EndsAt) + ". The rotation is closed with the next pass of the console."}
		}
		return []string{"Both keys are accepted and share the tenant's limits. Answers to the old key carry Deprecation and Sunset headers. " +
			"The old key ends on " + ui.Absolute(rot.EndsAt) + " by itself; gateways need no push for that."}
	case console.RotationCompleted:
		return []string{"The old key is refused; nobody was known to use it when it ended, or the overlap ran out."}
	case console.RotationForced:
		return []string{"The overlap was ended early, while the old key was in use or that was not known; it is refused."}
	case console.RotationCancelled:
		return []string{"The new key was revoked; the old one goes on as before."}
	}
	return nil
}

// rotationSources are the sources of both keys as the page shows them. A
// brown-out names a network, so one row of each has its button.
func rotationSources(ev console.Evidence) []views.RotationSource {
	words := map[console.SourceStand][2]string{console.SourceOld: {"warn", "uses the old key"}, console.SourceBoth: {"warn", "uses both keys"},
		console.SourceSwitched: {"ok", "has switched"}, console.SourceNew: {"ok", "new key only"}, console.SourceAwaited: {"warn", "not seen since the start"}}
	seen := map[string]bool{"": true}
	var rows []views.RotationSource
	for _, e := range ev.Sources {
		word := words[e.Stand]
		row := views.RotationSource{Network: e.Network, Agent: e.Agent, Stand: word[0], Word: word[1], OldRequests: ui.Int(e.OldRequests),
			OldRefused: ui.Int(e.OldRefused), NewRequests: ui.Int(e.NewRequests), OldLast: at(e.OldLast), NewLast: at(e.NewLast)}
		if e.OldLast != nil && !seen[e.Network] {
			row.Brown = e.Network
		}
		seen[e.Network] = true
		if row.Network == "" {
			row.Network = "all others"
		}
		rows = append(rows, row)
	}
	return rows
}

// endEffect is what ending the overlap now does, in numbers.
func endEffect(ev console.Evidence) string {
	text := "The old key is refused with 401 on every gateway within a second. "
	switch left := ev.Stragglers(); {
	case ev.Ready:
		text += "Nobody has used it for " + ui.Span(ev.Quiet) + "."
	case ev.Age.Behind || ev.Age.Through.IsZero():
		text += "Who still uses it is unknown now."
	case len(left) == 0:
		text += "Nobody is known to have used it since the rotation began, but that is not long enough to be sure."
	default:
		text += counted(len(left), "source") + many(len(left), " still uses", " still use") + " it and will be refused, such as " + sourceText(left[0].Network, left[0].Agent) + "."
	}
	return text + " This cannot be undone."
}

// cancelEffect is what taking the rotation back does, in numbers.
func cancelEffect(ev console.Evidence) string {
	n := 0
	for _, e := range ev.Sources {
		if e.NewLast != nil {
			n++
		}
	}
	text := "The new key is revoked for good and the old one goes on as before. "
	switch {
	case n > 0:
		text += counted(n, "source") + many(n, " already uses", " already use") + " the new key and will be refused."
	case ev.Age.Behind || ev.Age.Through.IsZero():
		text += "Who already uses the new key is unknown now."
	default:
		text += "Nobody is known to use the new key yet."
	}
	return text
}

func brownoutRow(now time.Time, b console.Brownout) views.BrownoutRow {
	row := views.BrownoutRow{Network: b.Network, From: b.From, Until: b.Until, Stopped: at(b.StoppedAt), Author: b.Author, Reason: b.Reason}
	if b.Running(now) {
		row.Left = fmt.Sprintf("%d s", int(b.Until.Sub(now).Seconds()))
	}
	return row
}

// refusedBy is how often the old key was refused to the sources of a brown-out.
func refusedBy(ev console.Evidence, network string) string {
	var n int64
	for _, e := range ev.Sources {
		if network == "" || e.Network == network {
			n += e.OldRefused
		}
	}
	return ui.Int(n)
}

// brownoutStart refuses the old key to some sources for a short while.
func (s *Server) brownoutStart(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "rotation")
	f := form.Parse(r, "network", "reason")
	_, change, err := s.Rotations.StartBrownout(r.Context(), actor(r), id, console.NewBrownout{Network: f.Get("network"), Reason: f.Get("reason")})
	if err != nil {
		problem, status := s.problemOf(f, err)
		if status == 0 {
			return err
		}
		p := views.RotationPageProps{}
		p.Live.Failed, p.Live.Problem, p.Live.Reason = f.Get("network"), problem, f.Raw("reason")
		return s.rotationPageWith(w, r, status, p)
	}
	return s.told(w, r, ui.RotationURL(id, ""), "brown", change)
}

// brownoutStop ends a brown-out before its time.
func (s *Server) brownoutStop(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "rotation")
	change, err := s.Rotations.StopBrownout(r.Context(), actor(r), id)
	if err != nil {
		return err
	}
	return s.told(w, r, ui.RotationURL(id, ""), "stop", change)
}
