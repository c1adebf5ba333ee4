package web

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views/ui"
)

// pageRoutes are overview, tenants, keys, rotations, gateways and a tenant's own
// page. What is polled stands under /live/ and at /strip; it is a part of a
// page, never a page.
func (s *Server) pageRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, ui.OverviewURL(), http.StatusSeeOther)
	})
	view.Get("/strip", s.page(s.strip))
}
