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
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
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
	if e, err = s.editorOf(r.Context(), d); err != nil {
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

func (s *Server) draftDelete(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag")
	if err := s.Policies.DeleteDraft(r.Context(), actor(r), chi.URLParam(r, "draft"), f.Get("etag")); err != nil {
		return err
	}
	return s.redirect(w, r, ui.DraftsURL(), "Draft deleted.")
}

func (s *Server) draftReview(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	return s.renderReview(w, r, http.StatusOK, e, form.New(nil))
}

// renderReview shows the draft against the version in force. When the draft's
// base is no longer in force it shows both sides since that base.
func (s *Server) renderReview(w http.ResponseWriter, r *http.Request, status int, e *editor, f *form.Form) error {
	p := views.DraftReviewProps{Head: s.draftHead(r, e, "review"), Form: f, Replicas: s.Fleet.Health(r.Context()).Of}
	live, err := documentOf(e.head)
	if err != nil {
		return err
	}
	if e.doc != nil {
		p.Changes = diffRows(policy.Diff(live, e.doc))
		p.Readable = true
	}
	if e.draft.Base != e.head.Number {
		theirs, err := s.Policies.Diff(r.Context(), e.draft.Base, e.head.Number)
		if err != nil {
			return err
		}
		p.Theirs = diffRows(theirs)
		if base, err := s.documentAt(r, e.draft.Base); err == nil && e.doc != nil {
			p.Mine = diffRows(policy.Diff(base, e.doc))
			_, clashes := mergeDocuments(base, e.doc, live)
			p.Clashes = clashes
			p.CanMerge = live != nil
		}
	}
	return s.render(w, r, status, views.DraftReview(p))
}

// documentOf parses a version; nil for "no version yet".
func documentOf(v console.Version) (*policy.Document, error) {
	if v.Number == 0 {
		return nil, nil //nolint:nilnil // Diff takes nil for the empty document
	}
	return v.Document()
}

func (s *Server) documentAt(r *http.Request, n int64) (*policy.Document, error) {
	if n == 0 {
		return nil, nil //nolint:nilnil // as documentOf
	}
	v, err := s.Policies.Version(r.Context(), n)
	if err != nil {
		return nil, err
	}
	return v.Document()
}

// draftRebase moves a draft onto the version in force. With merge, what others
// published since stays and the draft's own changes go on top; otherwise the
// draft's text stays as it is.
func (s *Server) draftRebase(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag", "how")
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	etag := f.Get("etag")
	if f.Get("how") == "merge" && e.doc != nil {
		if e.message = e.refusal(section{}); e.message != "" {
			return s.renderReview(w, r, http.StatusConflict, e, form.New(nil))
		}
		base, err := s.documentAt(r, e.draft.Base)
		if err != nil {
			return err
		}
		live, err := documentOf(e.head)
		if err != nil {
			return err
		}
		merged, _ := mergeDocuments(base, e.doc, live)
		d, err := s.Policies.SaveDraft(r.Context(), actor(r), e.draft.ID, etag, merged.YAML())
		if err != nil {
			return err
		}
		etag = d.ETag
	}
	d, err := s.Policies.RebaseDraft(r.Context(), actor(r), e.draft.ID, etag)
	if err != nil {
		return err
	}
	return s.redirect(w, r, ui.DraftURL(d.ID)+"/review", fmt.Sprintf("The draft is now based on v%d.", d.Base))
}

func (s *Server) draftPublish(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag", "note")
	id := chi.URLParam(r, "draft")
	if f.Get("note") == "" {
		e, err := s.loadEditor(r.Context(), id)
		if err != nil {
			return err
		}
		f.Fail("note", "Say why; it stands beside the version for ever.")
		return s.renderReview(w, r, http.StatusUnprocessableEntity, e, f)
	}
	v, err := s.Policies.PublishDraft(r.Context(), actor(r), id, f.Get("etag"), console.PublishOptions{Note: f.Get("note")})
	ce, _ := errors.AsType[*console.Error](err)
	if ce != nil && (ce.Code == console.CodeConflict || ce.Code == console.CodeInvalid) {
		e, loadErr := s.loadEditor(r.Context(), id)
		if loadErr != nil {
			return loadErr
		}
		if report, ok := ce.Detail.(policy.Report); ok {
			e.report = report
		}
		status := s.take(f, err)
		if ce.Code == console.CodeInvalid && len(e.report.Problems) > 0 {
			f.Message = fmt.Sprintf("Not published: %s.", counted(len(e.report.Problems), "problem"))
		}
		return s.renderReview(w, r, status, e, f)
	}
	if err != nil {
		return err
	}
	s.settle(r.Context(), v.Number)
	return s.redirect(w, r, ui.VersionURL(v.Number), fmt.Sprintf("v%d is published.", v.Number))
}
