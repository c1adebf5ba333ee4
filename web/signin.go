package web

import (
	"net/http"
	"strconv"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/session"
)

func (s *Server) signInForm(w http.ResponseWriter, r *http.Request) error {
	next := safeNext(r.URL.Query().Get("next"))
	if _, ok := signedInFrom(r.Context()); ok {
		return s.redirect(w, r, next, "")
	}
	f := form.New(map[string]string{"next": next})
	return s.render(w, r, http.StatusOK, views.SignIn(views.SignInProps{Environment: s.Environment, Form: f}))
}

func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "email", "password", "next")
	f.Value["next"] = safeNext(f.Get("next"))
	op, err := s.Operators.SignIn(r.Context(), f.Get("email"), f.Raw("password"), session.Peer(r))
	if err == nil {
		err = s.sessions.SignIn(w, r, op)
	}
	delete(f.Value, "password") // never back to the page
	switch code := console.CodeOf(err); code {
	case "":
	case console.CodeUnauthenticated, console.CodeInvalid, console.CodeRateLimited:
		f.Message = "Email or password is wrong."
		status := http.StatusUnprocessableEntity
		if code == console.CodeRateLimited {
			status = http.StatusTooManyRequests
			f.Message = "Too many attempts. Wait a moment and try again."
			if after := retryAfter(err); after > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(after))
			}
		}
		s.logFailure(r, status, err)
		return s.render(w, r, status, views.SignIn(views.SignInProps{Environment: s.Environment, Form: f}))
	default:
		return err
	}
	http.Redirect(w, r, f.Get("next"), http.StatusSeeOther)
	return nil
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	if err := s.sessions.SignOut(w, r); err != nil {
		return err
	}
	w.Header().Set("Clear-Site-Data", `"cache", "cookies", "storage"`)
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
	return nil
}

func (s *Server) sessionList(w http.ResponseWriter, r *http.Request) error {
	in, _ := signedInFrom(r.Context())
	rows, err := s.Sessions.List(r.Context(), in.operator.ID)
	if err != nil {
		return err
	}
	p := views.SessionsProps{Frame: s.titled(r, "Sessions"), Now: s.Now()}
	for _, row := range rows {
		p.Rows = append(p.Rows, views.SessionRow{IP: row.IP, UserAgent: clip(row.UserAgent), Since: row.CreatedAt,
			Seen: row.SeenAt, Ends: row.ExpiresAt, Current: row.Hash == in.session})
	}
	return s.render(w, r, http.StatusOK, views.Sessions(p))
}

func (s *Server) sessionsEndOthers(w http.ResponseWriter, r *http.Request) error {
	in, _ := signedInFrom(r.Context())
	n, err := s.Sessions.DeleteOf(r.Context(), actor(r), in.operator.ID, in.id)
	if err != nil {
		return err
	}
	return s.redirect(w, r, ui.SessionsURL(), counted(int(n), "other session")+" ended.")
}
