package web

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) draftList(w http.ResponseWriter, r *http.Request) error {
	return s.renderDrafts(w, r, http.StatusOK, form.New(nil))
}

func (s *Server) renderDrafts(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	drafts, err := s.Policies.ListDrafts(r.Context())
	if err != nil {
		return err
	}
	head, _, err := s.Policies.Head(r.Context())
	if err != nil {
		return err
	}
	p := views.DraftsProps{Frame: s.titled(r, "Drafts"), Now: s.Now(), Head: head.Number, CanEdit: can(r, console.PermEditDrafts), Form: f}
	schedules, err := s.Policies.Schedules(r.Context())
	if err != nil {
		return err
	}
	when := map[string]console.Schedule{}
	for _, sc := range schedules {
		when[sc.Draft] = sc
	}
	for _, d := range drafts {
		row := views.DraftRow{ID: d.ID, Name: d.Name, Base: d.Base, Behind: d.Base != head.Number, Author: d.Author, UpdatedAt: d.UpdatedAt}
		if sc, ok := when[d.ID]; ok {
			row.Scheduled, row.Suspended = sc.At, sc.Suspended
		}
		p.Rows = append(p.Rows, row)
	}
	return s.render(w, r, status, views.Drafts(p))
}

func (s *Server) draftCreate(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "name", "source")
	var src []byte
	if f.Get("source") != "" {
		src = []byte(f.Raw("source"))
	} else if _, ok, err := s.Policies.Head(r.Context()); err != nil {
		return err
	} else if !ok {
		src = []byte(starterPolicy)
	}
	d, err := s.Policies.CreateDraft(r.Context(), actor(r), f.Get("name"), src)
	if status := s.take(f, err); status != 0 {
		return s.renderDrafts(w, r, status, f)
	}
	if err != nil {
		return err
	}
	return s.redirect(w, r, ui.DraftURL(d.ID), "")
}

func (s *Server) draftRename(w http.ResponseWriter, r *http.Request) error {
	f, id := form.Parse(r, "etag", "name"), chi.URLParam(r, "draft")
	d, err := s.Policies.RenameDraft(r.Context(), actor(r), id, f.Get("etag"), f.Get("name"))
	if err == nil {
		return s.redirect(w, r, ui.DraftURL(d.ID), "Renamed.")
	}
	status := s.take(f, err)
	if status == 0 {
		return err
	}
	e, lerr := s.loadEditor(r.Context(), id)
	if lerr != nil {
		return lerr
	}
	e.message = "Not renamed. " + firstOf(f.Error("name"), f.Message)
	return s.renderIndex(w, r, status, e, form.New(nil))
}

// starterPolicy is what the first draft of a deployment begins with.
const starterPolicy = `apiVersion: headgate/v1
plans:
  free:
    limits:
      - {name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}
routes:
  - name: everything-else
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 60/minute, burst: 60}}
`

func (s *Server) draftHead(r *http.Request, e *editor, tab string) views.DraftHead {
	h := views.DraftHead{
		Frame: s.titled(r, "Draft "+e.draft.Name), ID: e.draft.ID, Name: e.draft.Name, Base: e.draft.Base, Head: e.head.Number,
		ETag: e.draft.ETag, Author: e.draft.Author, UpdatedAt: e.draft.UpdatedAt, Now: s.Now(), Tab: tab, Message: e.message,
		CanEdit: can(r, console.PermEditDrafts), CanPublish: can(r, console.PermPublish), Conflict: diffRows(e.conflict),
	}
	h.Problems, h.ProblemCount = problemRows(e, e.report.Problems), len(e.report.Problems)
	h.Warnings, h.WarningCount = problemRows(e, e.report.Warnings), len(e.report.Warnings)
	return h
}

// shownProblems bounds the problems that are listed on a page.
const shownProblems = 50

func problemRows(e *editor, problems []policy.Problem) []views.ProblemRow {
	var rows []views.ProblemRow
	for _, p := range problems[:min(len(problems), shownProblems)] {
		rows = append(rows, problemRow(e, p))
	}
	return rows
}

// problemRow is a problem with the address of the field that it concerns.
func problemRow(e *editor, p policy.Problem) views.ProblemRow {
	row := views.ProblemRow{Path: p.Path, Line: p.Line, Message: p.Message, URL: ui.DraftURL(e.draft.ID)}
	sec, field := locate(p.Path)
	switch {
	case p.Path == "":
		row.Path, row.URL = "document", row.URL+"/source"
	case e.doc == nil:
		row.URL += "/source"
	case sec.exists(e.doc):
		if row.URL = partURL(e, sec); field != "" {
			row.URL += "#f-" + field
		}
	}
	return row
}
