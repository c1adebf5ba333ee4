package web

import (
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) reviewList(w http.ResponseWriter, r *http.Request) error {
	return s.renderReviews(w, r, http.StatusOK, form.New(nil), 0)
}

// renderReviews shows what waits for somebody else; f is the form of the review
// of version failed, with what was wrong with it.
func (s *Server) renderReviews(w http.ResponseWriter, r *http.Request, status int, f *form.Form, failed int64) error {
	waiting, err := s.Policies.Waiting(r.Context(), actor(r))
	if err != nil {
		return err
	}
	reviews, err := s.Policies.Reviews(r.Context(), false)
	if err != nil {
		return err
	}
	p := views.ReviewsProps{Frame: s.titled(r, "Reviews"), Now: s.Now(), Rules: can(r, console.PermManageRules), Form: f, FormOf: failed}
	for _, x := range waiting {
		row := views.WaitingRow{Name: x.Draft.Name, URL: ui.DraftURL(x.Draft.ID) + "/review", Author: x.Draft.Author, UpdatedAt: x.Draft.UpdatedAt, Mine: x.Mine}
		for _, n := range x.Needed {
			row.Needed = append(row.Needed, neededRow(n))
		}
		p.Waiting = append(p.Waiting, row)
	}
	for _, x := range reviews {
		row := reviewRow(r, x)
		if x.ClosedBy == "" {
			p.Open = append(p.Open, row)
		} else if len(p.Closed) < shownChanges {
			p.Closed = append(p.Closed, row)
		}
	}
	return s.render(w, r, status, views.Reviews(p))
}

func reviewRow(r *http.Request, x console.Review) views.ReviewRow {
	row := views.ReviewRow{Version: x.Version, Author: x.Author, Reason: x.Reason, At: x.At, ClosedBy: x.ClosedBy, Note: x.Note}
	if x.ClosedAt != nil {
		row.ClosedAt = *x.ClosedAt
	}
	for _, n := range x.Missing {
		row.Missing = append(row.Missing, neededRow(n))
	}
	switch me := actor(r); {
	case !me.Role.Can(console.PermApprove):
		row.WhyNot = "A publisher or an owner other than " + x.Author + " can close it."
	case me.ID == x.AuthorID:
		row.WhyNot = "You published it: somebody else has to look at it."
	default:
		row.CanClose = true
	}
	return row
}

func (s *Server) reviewClose(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "note")
	n, err := strconv.ParseInt(chi.URLParam(r, "version"), 10, 64)
	if err != nil {
		return &console.Error{Code: console.CodeNotFound, Public: "There is no such review."}
	}
	if err := s.Policies.CloseReview(r.Context(), actor(r), n, f.Get("note")); err != nil {
		status := s.takeReview(f, err)
		if status == 0 {
			return err
		}
		return s.renderReviews(w, r, status, f, n)
	}
	return s.redirect(w, r, ui.ReviewsURL(), "The review of v"+strconv.FormatInt(n, 10)+" is closed.")
}
