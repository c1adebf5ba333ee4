package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) draftSimulate(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	return s.renderSimulate(w, r, http.StatusOK, e, form.New(map[string]string{"range": "24h"}))
}

// renderSimulate shows the trial that the query string names, or the newest.
func (s *Server) renderSimulate(w http.ResponseWriter, r *http.Request, status int, e *editor, f *form.Form) error {
	p := views.DraftSimulateProps{Head: s.draftHead(r, e, "simulate"), Form: f}
	p.Head.Frame.Title = "Simulate · " + e.draft.Name
	trials, err := s.Policies.Trials(r.Context(), e.draft.ID)
	if err != nil && console.CodeOf(err) != console.CodeUnavailable {
		return err
	}
	if err != nil && f.Message == "" {
		f.Message = publicText(err)
	}
	want := r.URL.Query().Get("trial")
	for i, t := range trials {
		current := t.ID == want || want == "" && i == 0
		if current && p.Trial == nil {
			if t, err = s.Policies.Trial(r.Context(), t.ID); err != nil { // the list leaves results out
				return err
			}
			props, err := s.trialProps(r, t, e.draft)
			if err != nil {
				return err
			}
			p.Trial = &props
			continue // it stands above, where it goes on by itself
		}
		p.Earlier = append(p.Earlier, views.TrialRow{URL: trialURL(e.draft.ID, t.ID), State: t.State, Result: trialText(t), Author: t.Author,
			From: t.From, To: t.To, At: t.At, Outdated: outdated(t, e.draft), Current: current})
	}
	return s.render(w, r, status, views.DraftSimulate(p))
}

func trialURL(draft, trial string) string {
	return ui.DraftURL(draft) + "/simulate?trial=" + url.QueryEscape(trial)
}

// outdated reports whether the draft's text has changed since it was tried.
func outdated(t console.Trial, d console.Draft) bool { return t.At.Before(d.UpdatedAt) }

// trialText is a trial's result in a few words.
func trialText(t console.Trial) string {
	switch {
	case t.State == "failed":
		return t.Problem
	case t.Result == nil && t.State == "done":
		return "open it to see"
	case t.Result == nil:
		return "–"
	case t.Result.Entries == 0:
		return "nothing was tried: the log has no decisions of that time"
	case t.Result.Refused.Requests+t.Result.Admitted.Requests == 0:
		return "nothing comes out otherwise"
	}
	return fmt.Sprintf("%s newly refused, %s newly admitted", ui.Int(t.Result.Refused.Requests), ui.Int(t.Result.Admitted.Requests))
}

// trialLive is the trial alone, as the page asks for it while it runs.
func (s *Server) trialLive(w http.ResponseWriter, r *http.Request) error {
	d, err := s.Policies.GetDraft(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	t, err := s.Policies.Trial(r.Context(), chi.URLParam(r, "trial"))
	if err != nil {
		return err
	}
	if t.Draft != d.ID {
		return &console.Error{Code: console.CodeNotFound, Public: "There is no such simulation of this draft."}
	}
	p, err := s.trialProps(r, t, d)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.Trial(p))
}

func (s *Server) trialProps(r *http.Request, t console.Trial, d console.Draft) (views.TrialProps, error) {
	p := views.TrialProps{Poll: ui.TrialLiveURL(d.ID, t.ID), Now: s.Now(), State: t.State, Percent: int(100 * t.Progress), Problem: t.Problem,
		Against: t.Against, From: t.From, To: t.To, Author: t.Author, At: t.At, Outdated: outdated(t, d)}
	c := t.Result
	if c == nil {
		return p, nil
	}
	p.Refused, p.Admitted = outcome(c.Refused), outcome(c.Admitted)
	p.SameAdmit, p.SameRefuse, p.Decisions = ui.Int(c.Both.Admitted), ui.Int(c.Both.Refused), ui.Int(c.Entries)
	p.Notes, p.MoreRows = judged(c), c.MoreRows
	ids, largest := []string{}, int64(1)
	for _, row := range c.Rows {
		largest = max(largest, row.Requests)
		if row.Tenant != "" && !slices.Contains(ids, row.Tenant) {
			ids = append(ids, row.Tenant)
		}
	}
	names, err := s.Activity.Names(r.Context(), ids)
	if err != nil {
		return p, err
	}
	for _, row := range c.Rows {
		p.Rows = append(p.Rows, trialCell(row, largest, names))
	}
	return p, nil
}

func outcome(c decisionlog.Change) views.OutcomeProps {
	return views.OutcomeProps{Requests: ui.Int(c.Requests), Tenants: tenantsOf(c.Tenants)}
}

func tenantsOf(n int64) string {
	if n == 1 {
		return "1 tenant"
	}
	return ui.Int(n) + " tenants"
}

func trialCell(row decisionlog.Row, largest int64, names map[string]string) views.TrialCell {
	c := views.TrialCell{Tenant: row.Tenant, Route: row.Route, Limit: row.Limit, Refused: row.Refused, Requests: ui.Int(row.Requests),
		Share: int(100 * row.Requests / largest), First: time.UnixMicro(row.First), Last: time.UnixMicro(row.Last), Peak: ui.Int(row.Peak), PeakAt: time.UnixMicro(row.PeakAt)}
	if name, ok := names[row.Tenant]; ok {
		c.Tenant, c.TenantURL = name, ui.TenantURL(row.Tenant, "")
	}
	if row.Tenant == "" {
		c.Tenant = "without a tenant"
	}
	return c
}

// judged says what a comparison could not judge, in the words that it has and in
// numbers.
func judged(c *decisionlog.Comparison) []string {
	var notes []string
	if c.Sample > 0 && c.Sample < decisionlog.Whole {
		notes = append(notes, fmt.Sprintf("The log is a sample: at its thinnest %s of all tenants and addresses are in it whole. Requests are not multiplied up.",
			ui.Percent(100*float64(c.Sample)/float64(decisionlog.Whole))))
	}
	if c.Dropped > 0 {
		notes = append(notes, "Gateways could not log "+ui.Int(c.Dropped)+" decisions of that time.")
	}
	if len(c.Notes) > 0 { // the engine says what it left out, and why
		return append(notes, c.Notes...)
	}
	if c.Skipped > 0 {
		notes = append(notes, ui.Int(c.Skipped)+" decisions were left out.")
	}
	if c.Differs > 0 {
		notes = append(notes, "Replaying the version in force gives another answer than gateways gave for "+ui.Int(c.Differs)+" decisions: take the numbers as an estimate.")
	}
	return notes
}

// draftTry starts a simulation.
func (s *Server) draftTry(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "range", "from", "to")
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	from, to := takeRange(f, s.Now())
	if !f.OK() {
		return s.renderSimulate(w, r, http.StatusUnprocessableEntity, e, f)
	}
	t, err := s.Policies.StartTrial(r.Context(), actor(r), e.draft.ID, from, to)
	if status := s.take(f, err); status != 0 {
		return s.renderSimulate(w, r, status, e, f)
	}
	if err != nil {
		return err
	}
	return s.redirect(w, r, trialURL(e.draft.ID, t.ID), "")
}

// localTime is how a browser writes a datetime-local field.
const localTime = "2006-01-02T15:04"

// takeRange reads a range that is either one of the choices, ending now, or from
// one time in UTC to another.
func takeRange(f *form.Form, now time.Time) (from, to time.Time) {
	if f.Get("range") != "custom" {
		d, err := time.ParseDuration(f.Get("range"))
		if err != nil || d <= 0 {
			f.Fail("range", "Choose how far to look back.")
		}
		return now.Add(-d), now
	}
	var err error
	if from, err = time.Parse(localTime, f.Get("from")); err != nil {
		f.Fail("from", "Must be a time, such as 2026-11-30T14:00.")
	}
	if to, err = time.Parse(localTime, f.Get("to")); err != nil {
		f.Fail("to", "Must be a time, such as 2026-11-30T15:00.")
	}
	if f.OK() && !from.Before(to) {
		f.Fail("to", "Must be later than the beginning.")
	}
	return from, to
}
