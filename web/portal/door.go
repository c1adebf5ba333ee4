package portal

import (
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	views "github.com/headgate/headgate/views/portal"
	"github.com/headgate/headgate/web/session"
)

func (s *Server) signInForm(w http.ResponseWriter, r *http.Request, v *visit) error {
	if v.actor.TenantID != "" {
		return s.redirect(w, r, Base, "")
	}
	f := form.New(map[string]string{"tenant": tenantHint(r.URL.Query().Get("tenant"))})
	return s.render(w, r, http.StatusOK, views.SignIn(views.DoorProps{Form: f, Action: Base + "/signin"}))
}

// tenantHint is a tenant's id as it may stand in the address of the sign-in
// page, for people who are members of several tenants; "" for anything else.
func tenantHint(s string) string {
	if len(s) > 40 {
		return ""
	}
	return s
}

func (s *Server) signIn(w http.ResponseWriter, r *http.Request, _ *visit) error {
	f := form.Parse(r, "tenant", "email", "password")
	m, err := s.Members.SignIn(r.Context(), tenantHint(f.Get("tenant")), f.Get("email"), f.Raw("password"), session.Peer(r))
	if err == nil {
		err = s.sessions.SignIn(w, r, m)
	}
	delete(f.Value, "password") // never back to the page
	code := console.CodeOf(err)
	switch code {
	case "":
		return s.redirect(w, r, Base, "")
	case console.CodeUnauthenticated, console.CodeInvalid:
		f.Message = "Email or password is wrong."
		return s.render(w, r, http.StatusUnprocessableEntity, views.SignIn(views.DoorProps{Form: f, Action: Base + "/signin"}))
	case console.CodeForbidden:
		f.Message = "The access of your organisation is suspended. Ask your contact."
		return s.render(w, r, http.StatusForbidden, views.SignIn(views.DoorProps{Form: f, Action: Base + "/signin"}))
	case console.CodeRateLimited:
		f.Message = "Too many attempts. Wait a moment and try again."
		if e, ok := err.(*console.Error); ok && e.RetryAfter > 0 { //nolint:errorlint // services return it bare
			w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
		}
		return s.render(w, r, http.StatusTooManyRequests, views.SignIn(views.DoorProps{Form: f, Action: Base + "/signin"}))
	default:
		return err
	}
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request, _ *visit) error {
	if err := s.sessions.SignOut(w, r); err != nil {
		return err
	}
	return s.redirect(w, r, Base+"/signin", "")
}

func (s *Server) inviteForm(w http.ResponseWriter, r *http.Request, _ *visit) error {
	return s.invitation(w, r, http.StatusOK, form.New(nil))
}

func (s *Server) invitation(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	secret := chi.URLParam(r, "secret")
	i, tenant, err := s.Members.Invited(r.Context(), secret)
	if err != nil {
		return err
	}
	delete(f.Value, "password")
	return s.render(w, r, status, views.Invite(views.DoorProps{Form: f, Action: Base + "/invite/" + secret, Tenant: tenant, Email: i.Email, Role: string(i.Role)}))
}

func (s *Server) accept(w http.ResponseWriter, r *http.Request, _ *visit) error {
	f := form.Parse(r, "name", "password")
	m, err := s.Members.Accept(r.Context(), chi.URLParam(r, "secret"), f.Get("name"), f.Raw("password"), session.Peer(r))
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.invitation(w, r, status, f)
		}
		return err
	}
	if err := s.sessions.SignIn(w, r, m); err != nil {
		return err
	}
	return s.redirect(w, r, Base, "")
}

func (s *Server) linkForm(w http.ResponseWriter, r *http.Request, _ *visit) error {
	return s.render(w, r, http.StatusOK, views.Link(views.DoorProps{Action: Base + "/link/" + chi.URLParam(r, "secret")}))
}

func (s *Server) useLink(w http.ResponseWriter, r *http.Request, _ *visit) error {
	m, err := s.Members.UseLink(r.Context(), chi.URLParam(r, "secret"), session.Peer(r))
	if err != nil {
		return err
	}
	if err := s.sessions.SignIn(w, r, m); err != nil {
		return err
	}
	return s.redirect(w, r, Base, "")
}

// take is form.Take that also takes conflicts and refusals of the whole form. It
// returns the status to render the page with, 0 when err is none of these.
func (s *Server) take(f *form.Form, err error) int {
	switch code := console.CodeOf(err); code {
	case console.CodeInvalid, console.CodeConflict, console.CodeRateLimited:
		if !f.Take(err) {
			f.Message = err.Error()
			if e, ok := err.(*console.Error); ok { //nolint:errorlint // services return it bare
				f.Message = e.Public
			}
		}
		return s.StatusOf(code)
	default:
		return 0
	}
}
