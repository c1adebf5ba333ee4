package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views/ui"
)

// permOpen marks a route that anybody may call. It is not a permission of a
// role; it exists so that a route without any mark can be told apart.
const permOpen console.Permission = "open"

// guard is a handler behind a permission. The start-up check finds it by its type.
type guard struct {
	s    *Server
	perm console.Permission
	next http.Handler
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.perm == permOpen {
		g.next.ServeHTTP(w, r)
		return
	}
	in, ok := signedInFrom(r.Context())
	switch {
	case !ok && r.Context().Value(ctxNoSessions) != nil:
		g.s.refuse(w, r, http.StatusServiceUnavailable, "PostgreSQL cannot be reached, so nobody can be known as signed in and nothing can be shown or changed here. Gateways go on with the policy and the keys that they have.")
	case !ok:
		g.s.askToSignIn(w, r)
	case !in.operator.Role.Can(g.perm):
		err := fmt.Errorf("role %s lacks %s", in.operator.Role, g.perm)
		g.s.fail(w, r, &console.Error{Code: console.CodeForbidden, Public: "Your role does not allow this.", Cause: err})
	default:
		g.next.ServeHTTP(w, r)
	}
}

// require lets only operators through whose role, as it is now, has the
// permission.
func (s *Server) require(p console.Permission) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return &guard{s: s, perm: p, next: next} }
}

// open lets everybody through.
func (s *Server) open() func(http.Handler) http.Handler { return s.require(permOpen) }

// permissionOf is the permission on a chain of middlewares, "" when there is none.
func permissionOf(chain []func(http.Handler) http.Handler) console.Permission {
	for _, mw := range chain {
		if g, ok := mw(http.NotFoundHandler()).(*guard); ok {
			return g.perm
		}
	}
	return ""
}

// checkRoutes refuses a router in which a route has no permission.
func checkRoutes(r chi.Routes) error {
	return chi.Walk(r, func(method, route string, _ http.Handler, chain ...func(http.Handler) http.Handler) error {
		if permissionOf(chain) == "" {
			return fmt.Errorf("web: %s %s has no permission", method, route)
		}
		return nil
	})
}

// authenticate reads who is signed in, from the rows, on each request. It lets
// everybody through: guards refuse.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cur, ok, err := s.sessions.Current(r)
		if err != nil {
			s.Log.ErrorContext(r.Context(), "load session", "request_id", requestID(r.Context()), "error", err)
			r = r.WithContext(context.WithValue(r.Context(), ctxNoSessions, true))
		}
		if !ok || err != nil {
			next.ServeHTTP(w, r)
			return
		}
		in := &signedIn{operator: cur.Owner, session: cur.Row.Hash, id: cur.ID}
		if r.Method == http.MethodGet && r.Header.Get("HX-Request") == "" {
			if in.flash, err = s.sessions.Take(w, r, flashValue); err != nil {
				s.Log.WarnContext(r.Context(), "take flash", "request_id", requestID(r.Context()), "error", err)
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ctxSignedIn, in)))
	})
}

// isPoll reports whether a page asks for a part of itself by its own clock.
func isPoll(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("HX-Request") != "" &&
		(r.URL.Path == "/strip" || strings.HasPrefix(r.URL.Path, "/live/") || strings.HasSuffix(r.URL.Path, "/status"))
}

// flashValue is the session value with the message for the next page: its kind,
// a colon, its text.
const flashValue = "flash"

func (s *Server) setFlash(w http.ResponseWriter, r *http.Request, f ui.Flash) error {
	return s.sessions.Put(w, r, flashValue, f.Kind+":"+f.Text)
}

func parseFlash(s string) ui.Flash {
	kind, text, _ := strings.Cut(s, ":")
	return ui.Flash{Kind: kind, Text: text}
}

// askToSignIn sends a page view to the sign-in page and refuses everything else.
func (s *Server) askToSignIn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Redirect", signInURL(""))
		s.refuse(w, r, http.StatusUnauthorized, "Please sign in.")
		return
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		http.Redirect(w, r, signInURL(r.URL.RequestURI()), http.StatusSeeOther) //nolint:gosec // G710: the path is /signin; where it leads on passes safeNext
		return
	}
	s.refuse(w, r, http.StatusUnauthorized, "Please sign in and try again. Nothing was changed.")
}

func signInURL(next string) string {
	if next = safeNext(next); next == "/" {
		return "/signin"
	}
	return "/signin?next=" + url.QueryEscape(next)
}

var nextPattern = regexp.MustCompile(`^/[A-Za-z0-9_\-./?=&%]*$`)

// safeNext returns where to go after sign-in: a path of ours, or "/" for
// anything else. Escapes that would read as another host once decoded, and
// control characters, are not paths of ours.
func safeNext(next string) string {
	if len(next) > 1024 || !nextPattern.MatchString(next) || strings.HasPrefix(next, "//") {
		return "/"
	}
	u, err := url.Parse(next)
	if err != nil || u.Host != "" || u.Scheme != "" || u.User != nil {
		return "/"
	}
	if strings.HasPrefix(u.Path, "//") || strings.ContainsAny(u.Path, "\\\r\n\t\x00") || strings.HasPrefix(u.Path, "/signin") || strings.Contains(u.Path, "/../") {
		return "/"
	}
	return next
}
