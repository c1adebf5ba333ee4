package web

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) adoptForm(w http.ResponseWriter, r *http.Request) error {
	return s.renderAdopt(w, r, http.StatusOK, form.New(nil))
}

func (s *Server) renderAdopt(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	h := s.Fleet.Health(r.Context())
	return s.render(w, r, status, views.Adopt(views.AdoptProps{Frame: s.titled(r, "Adopt"), Ours: h.Version, Theirs: h.Behind, Form: f,
		CanAdopt: can(r, console.PermPublish)}))
}

// adopt takes over the version that Redis holds and the database lacks.
func (s *Server) adopt(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "reason")
	v, err := s.Rollouts.Adopt(r.Context(), actor(r), f.Get("reason"))
	if err != nil {
		status := s.takeReview(f, err)
		if status == 0 {
			return err
		}
		return s.renderAdopt(w, r, status, f)
	}
	return s.redirect(w, r, ui.VersionURL(v.Number), fmt.Sprintf("v%d is taken over from Redis; history goes on from there.", v.Number))
}
