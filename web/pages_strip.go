package web

import (
	"net/http"

	"github.com/headgate/headgate/views/ui"
)

// strip is the part of the frame that each open page asks for every two seconds.
func (s *Server) strip(w http.ResponseWriter, r *http.Request) error {
	return s.render(w, r, http.StatusOK, ui.StripFragment(s.facts(r)))
}
