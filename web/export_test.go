package web

import (
	"log/slog"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/session"
)

// Access lists every route of the router that New serves, with its permission.
func Access(d Deps) (map[string]string, error) {
	public, err := url.Parse(d.PublicURL)
	if err != nil {
		return nil, err
	}
	s := &Server{Deps: d, public: public, large: make(chan struct{}, 1), sessions: session.New(session.Config[console.Operator]{Rows: d.Sessions, Secure: d.SecureCookies})}
	r, err := s.router()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	err = chi.Walk(r, func(method, route string, _ http.Handler, chain ...func(http.Handler) http.Handler) error {
		out[method+" "+route] = string(permissionOf(chain))
		return nil
	})
	return out, err
}

// CheckRoutes is the check that keeps the console from starting.
func CheckRoutes(r chi.Routes) error { return checkRoutes(r) }

// SafeNext is where sign-in leads.
func SafeNext(next string) string { return safeNext(next) }

// ApplySection does to a document what the forms of a draft's page do, and
// reports whether all that was typed could be read.
func ApplySection(d *policy.Document, r *http.Request, kind, key string, drop int) bool {
	s := section{kind, key}
	if !s.exists(d) {
		return false
	}
	f := parseSection(r, s)
	dropTyped(f, drop)
	s.apply(d, f)
	if s.Kind == "plan" && f.OK() {
		s.Key = f.Get("name")
	}
	if f.OK() {
		s.addLimit(d)
	}
	for _, sec := range sectionsOf(d) {
		sec.mark(valuesOf(d, sec), policy.Validate(d).Problems)
	}
	return f.OK()
}

// EventText, EventDetail and EventURL are an audited act in words, what it
// changed, and where its object is.
func EventText(e console.AuditEvent) string   { return eventText(e) }
func EventDetail(e console.AuditEvent) string { return eventDetail(e) }
func EventURL(e console.AuditEvent) string    { return eventURL(e) }

// RecoverTo is what stands between a handler that panics and its caller.
func RecoverTo(log *slog.Logger, answer http.HandlerFunc, next http.Handler) http.Handler {
	return recoverTo(log, answer)(next)
}

// LimitFacts are rate and fail mode of each limit, as the overview tells them.
func LimitFacts(c *policy.Compiled) (rates, modes map[string]string) { return limitFacts(c) }
