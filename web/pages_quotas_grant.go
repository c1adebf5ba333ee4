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

func (s *Server) grantForm(w http.ResponseWriter, r *http.Request) error {
	return s.grantFormWith(w, r, http.StatusOK, form.New(nil))
}

// grantFormWith asks for units to give once, beside what is left.
func (s *Server) grantFormWith(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	t, err := s.Tenants.Get(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	p := views.BoostFormProps{Frame: s.titled(r, "Grant units to "+t.Name), Form: f, TenantName: t.Name, Action: ui.TenantURL(t.ID, "grant"), Back: ui.TenantURL(t.ID, "")}
	q, err := s.Quotas.Standing(r.Context(), actor(r), t.ID)
	switch {
	case err == nil:
		p.Now = "Left now: " + ui.Int(q.Left()) + " " + countsWord(q.Counts) + "."
	case !console.IsNotFound(err):
		return err
	}
	return s.render(w, r, status, views.GrantForm(p))
}

func (s *Server) grantGive(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "tenant")
	f := form.Parse(r, "units", "reason")
	units, err := strconv.ParseInt(f.Get("units"), 10, 64)
	if err != nil {
		f.Fail("units", "A whole number.")
		return s.grantFormWith(w, r, http.StatusUnprocessableEntity, f)
	}
	given, err := s.Quotas.Grant(r.Context(), actor(r), id, console.NewQuotaGrant{Units: units, Reason: f.Get("reason")})
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.grantFormWith(w, r, status, f)
		}
		return err
	}
	return s.told(w, r, ui.TenantURL(id, ""), "grant", given.Change)
}
