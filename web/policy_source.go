package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) draftSource(w http.ResponseWriter, r *http.Request) error {
	d, err := s.Policies.GetDraft(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	e, err := s.editorOf(r.Context(), d, true)
	if err != nil {
		return err
	}
	return s.renderSource(w, r, http.StatusOK, e, e.draft.Source, "")
}

func (s *Server) renderSource(w http.ResponseWriter, r *http.Request, status int, e *editor, source, stored string) error {
	return s.render(w, r, status, views.DraftSource(views.DraftSourceProps{Head: s.draftHead(r, e, "source"), Source: source, Stored: stored}))
}

func (s *Server) draftSaveSource(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag", "source")
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	src := f.Raw("source")
	d, err := s.Policies.SaveDraft(r.Context(), actor(r), e.draft.ID, f.Get("etag"), []byte(src))
	switch ce, _ := errors.AsType[*console.Error](err); {
	case err == nil:
	case ce != nil && ce.Code == console.CodeConflict:
		e.message = "Someone saved this draft since you opened it. Yours is in the editor, the stored one below it. Saving again replaces the stored one."
		return s.renderSource(w, r, http.StatusConflict, e, src, e.draft.Source)
	case ce != nil && ce.Code == console.CodeInvalid:
		if report, ok := ce.Detail.(policy.Report); ok {
			e.report = report
		}
		e.message = "Not saved. " + ce.Public
		return s.renderSource(w, r, http.StatusUnprocessableEntity, e, src, "")
	default:
		return err
	}
	// A draft may be saved with problems; the page then says so, with 422.
	if e, err = s.editorOf(r.Context(), d, true); err != nil {
		return err
	}
	if !e.report.OK() {
		e.message = fmt.Sprintf("Saved, with %s. It cannot be published like this.", counted(len(e.report.Problems), "problem"))
		return s.renderSource(w, r, http.StatusUnprocessableEntity, e, d.Source, "")
	}
	return s.redirect(w, r, ui.DraftURL(d.ID)+"/source", "Saved.")
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// many is the word for one or for any other number.
func many[N int | int64](n N, one, others string) string {
	if n == 1 {
		return one
	}
	return others
}

func (s *Server) draftDelete(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag")
	if err := s.Policies.DeleteDraft(r.Context(), actor(r), chi.URLParam(r, "draft"), f.Get("etag")); err != nil {
		return err
	}
	return s.redirect(w, r, ui.DraftsURL(), "Draft deleted.")
}
