package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views/ui"
)

// confirmPrefix begins the fields that confirm something.
const confirmPrefix = "confirm."

// maxConfirmations bounds the fields that confirm something.
const maxConfirmations = 100

// publishInput reads the form that publishes. The password is not kept: it is
// typed again after a failed attempt.
func publishInput(r *http.Request) (f *form.Form, o console.PublishOptions) {
	names := []string{"etag", "note", "act", "at", "strategy", "count", "zone", "hold", "promote", "rise", "reason"}
	for name := range r.PostForm {
		if strings.HasPrefix(name, confirmPrefix) && len(names) < maxConfirmations {
			names = append(names, name)
		}
	}
	f = form.Parse(r, names...)
	o = console.PublishOptions{Note: f.Get("note"), Confirmed: map[string]string{}}
	for name := range f.Value {
		if code, ok := strings.CutPrefix(name, confirmPrefix); ok && f.Get(name) != "" {
			o.Confirmed[code] = f.Get(name)
		}
	}
	if o.Note == "" {
		f.Fail("note", "Say why; it stands beside the version for ever.")
	}
	o.Canary = takeCanary(f)
	if f.Get("act") == "break-glass" {
		o.BreakGlass = &console.BreakGlass{Reason: f.Get("reason"), Password: r.PostForm.Get("password")}
		if o.BreakGlass.Reason == "" {
			f.Fail("reason", "Say why it cannot wait; somebody else will read it.")
		}
		if o.BreakGlass.Password == "" {
			f.Fail("password", "Your password is asked again.")
		}
	}
	return f, o
}

// takeCanary reads who gets a version first; nil for all at once.
func takeCanary(f *form.Form) *console.CanaryPlan {
	plan := &console.CanaryPlan{Promote: f.Get("promote") == "yes"}
	switch f.Get("strategy") {
	case "count":
		if plan.Count = int(takeInt(f, "count")); plan.Count < 1 {
			f.Fail("count", "Must be 1 or more.")
		}
	case "zone":
		if plan.Zone = f.Get("zone"); plan.Zone == "" {
			f.Fail("zone", "Choose a zone.")
		}
	default:
		return nil
	}
	var err error
	if plan.Hold, err = time.ParseDuration(f.Get("hold")); err != nil {
		f.Fail("hold", "Must be a time, such as 5m.")
	}
	plan.MaxRefusedRise = float64(takeInt(f, "rise")) / 100
	return plan
}

// nameFields puts a service's field problems where this form has its fields.
func nameFields(f *form.Form) {
	for from, to := range map[string]string{"canary.count": "count", "canary.zone": "zone", "canary.hold": "hold", "canary.max_refused_rise": "rise",
		"break_glass.reason": "reason", "break_glass.password": "password", "canary": "strategy"} {
		if p := f.Error(from); p != "" {
			f.Fail(to, p)
		}
	}
}

// draftPublish publishes a draft, now or later, within the rules or by
// break-glass.
func (s *Server) draftPublish(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "draft")
	f, o := publishInput(r)
	if f.Get("act") == "schedule" {
		return s.draftSchedule(w, r, id, f, o)
	}
	var v console.Version
	var err error
	if f.OK() {
		v, err = s.Policies.PublishDraft(r.Context(), actor(r), id, f.Get("etag"), o)
	}
	if err != nil || !f.OK() {
		return s.publishFails(w, r, id, f, err)
	}
	s.settle(r.Context(), v.Number)
	text := fmt.Sprintf("v%d is published.", v.Number)
	if o.Canary != nil {
		text = fmt.Sprintf("v%d goes to a few gateways first.", v.Number)
	}
	return s.redirect(w, r, ui.VersionURL(v.Number), text)
}

// publishFails shows the page again with what is wrong beside the fields.
func (s *Server) publishFails(w http.ResponseWriter, r *http.Request, id string, f *form.Form, err error) error {
	status := http.StatusUnprocessableEntity
	if err != nil {
		if status = s.takeReview(f, err); status == 0 {
			return err
		}
		f.Message = "Not published. " + f.Message
		nameFields(f)
	}
	e, lerr := s.loadEditor(r.Context(), id)
	if lerr != nil {
		return lerr
	}
	return s.renderReview(w, r, status, e, reviewForms{publish: f})
}

func (s *Server) draftSchedule(w http.ResponseWriter, r *http.Request, id string, f *form.Form, o console.PublishOptions) error {
	at, perr := time.Parse(localTime, f.Get("at"))
	if perr != nil {
		f.Fail("at", "Must be a time in UTC, such as 2026-12-01T06:00.")
	}
	var sc console.Schedule
	var err error
	if f.OK() {
		sc, err = s.Policies.ScheduleDraft(r.Context(), actor(r), id, f.Get("etag"), at, o)
	}
	if err != nil || !f.OK() {
		return s.publishFails(w, r, id, f, err)
	}
	return s.redirect(w, r, ui.DraftURL(id)+"/review", "Scheduled for "+ui.Absolute(sc.At)+".")
}

func (s *Server) draftUnschedule(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "draft")
	if err := s.Policies.Unschedule(r.Context(), actor(r), id); err != nil {
		return err
	}
	return s.redirect(w, r, ui.DraftURL(id)+"/review", "The schedule is taken back.")
}

// confirmationsOf are what a refusal asks to be confirmed.
func confirmationsOf(err error) []console.Confirmation {
	if ce, ok := errors.AsType[*console.Error](err); ok {
		if list, ok := ce.Detail.([]console.Confirmation); ok {
			return list
		}
	}
	return nil
}

// problemsOf are the problems of the document that a refusal tells.
func problemsOf(err error) []string {
	var out []string
	if ce, ok := errors.AsType[*console.Error](err); ok {
		if report, ok := ce.Detail.(policy.Report); ok && !report.OK() {
			out = append(out, report.Error())
		}
	}
	return out
}
