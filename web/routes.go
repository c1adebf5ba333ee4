package web

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/static"
	"github.com/headgate/headgate/web/api"
)

// handler puts the door (middlewares) and the routes together.
func (s *Server) handler() (http.Handler, error) {
	r, err := s.router()
	if err != nil {
		return nil, err
	}
	internal := s.refusal(http.StatusInternalServerError, "Something went wrong on our side.")
	crossSite := func(w http.ResponseWriter, r *http.Request) {
		s.Log.WarnContext(r.Context(), "cross_site_denied", "request_id", requestID(r.Context()), "method", r.Method,
			"path", clip(r.URL.Path), "origin", clip(r.Header.Get("Origin")), "sec_fetch_site", clip(r.Header.Get("Sec-Fetch-Site")))
		s.refuse(w, r, http.StatusForbidden, "This request came from another site. Nothing was changed.")
	}
	ours := hostsOf(s.public)
	var h http.Handler = r
	h = middleware.Compress(5, "text/html", "application/json", "application/problem+json")(h)
	h = readForms(s.refuse)(h)
	h = sameOrigin(ours, crossSite)(h)
	h = onlyHost(ours, s.refusal(http.StatusMisdirectedRequest, "This console does not answer for that host name."))(h)
	h = s.gates(h)
	h = noTrace(s.methodNotAllowed)(h)
	h = recoverTo(s.Log, internal)(h)
	h = alive(h)
	h = protect(s.public.Scheme == "https", ours.trustworthy())(h)
	return identify(h), nil
}

// alive answers liveness probes before any check of names: they come by address.
func alive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" && safeMethod(r.Method) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// gates answers gateways and partners that report leaks: they come by any name,
// with a token or signature of their own and never with a session.
func (s *Server) gates(next http.Handler) http.Handler {
	if s.Gate == nil && s.LeakPartner == nil {
		return next
	}
	door := chi.NewRouter()
	door.NotFound(next.ServeHTTP)
	if s.Gate != nil {
		door.Mount("/gateway/v1", s.Gate)
	}
	if s.LeakPartner != nil {
		door.Handle("/leaks/partner", s.LeakPartner)
	}
	return door
}

func (s *Server) router() (chi.Router, error) {
	r := chi.NewRouter()
	r.Use(middleware.GetHead)
	r.NotFound(s.authenticate(http.HandlerFunc(s.notFound)).ServeHTTP)
	r.MethodNotAllowed(s.authenticate(http.HandlerFunc(s.methodNotAllowed)).ServeHTTP)
	files := static.Handler()
	r.With(s.open()).Get(static.Prefix+"*", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/unknown/") {
			s.notFound(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})
	programs, err := api.New(api.Deps{Alerts: s.Alerts, Advisor: s.Advisor, Capacities: s.Capacities, Members: s.Members, Asks: s.Asks, PublicURL: s.public.String(), Tenants: s.Tenants, Overrides: s.Overrides, Lockouts: s.Lockouts, Explain: s.Explain, Keys: s.Keys, Rotations: s.Rotations, Policies: s.Policies, Rollouts: s.Rollouts, Fleet: s.Fleet,
		Operators: s.Operators, Audit: s.Audit, Idempotency: s.Idempotency, Bulk: s.Bulk, Exports: s.Exports, Ledger: s.Ledger, Quotas: s.Quotas, Leaks: s.Leaks, KeyUse: s.KeyUse, LeakToken: s.LeakToken, Log: s.Log, Now: s.Now})
	if err != nil {
		return nil, err
	}
	r.With(s.open()).Handle("/api/*", programs) // each operation has its own permission
	own, err := s.newPortal()
	if err != nil {
		return nil, err
	}
	r.Group(func(r chi.Router) {
		r.Use(s.authenticate)
		s.doorRoutes(r)
		s.policyRoutes(r)
		s.auditRoutes(r)
		s.pageRoutes(r)
		s.selfRoutes(r, own)
	})
	return r, checkRoutes(r)
}

// doorRoutes are sign-in, sign-out and one's own sessions.
func (s *Server) doorRoutes(r chi.Router) {
	r.With(s.open()).Get("/signin", s.page(s.signInForm))
	r.With(s.open()).Post("/signin", s.page(s.signIn))
	r.With(s.open()).Post("/signout", s.page(s.signOut))
	r.With(s.open()).Get("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("User-agent: *\nDisallow: /\n"))
	})
	own := r.With(s.require(console.PermOwnSessions))
	own.Get("/settings/sessions", s.page(s.sessionList))
	own.Post("/settings/sessions/end-others", s.page(s.sessionsEndOthers))
}

// policyRoutes are the policy in force, drafts, versions.
func (s *Server) policyRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/policy", s.page(s.policyLive))
	view.Get("/policy/export", s.page(s.policyExport))
	view.Get("/policy/drafts", s.page(s.draftList))
	view.Get("/policy/drafts/{draft}", s.page(s.orVersion(s.draftEdit)))
	view.Get("/policy/drafts/{draft}/parts/{kind}", s.page(s.orVersion(s.draftPart)))
	view.Get("/policy/drafts/{draft}/parts/{kind}/{key}", s.page(s.orVersion(s.draftPart)))
	view.Get("/policy/drafts/{draft}/beside", s.page(s.draftBeside))
	view.Get("/policy/drafts/{draft}/source", s.page(s.orVersion(s.draftSource)))
	view.Get("/policy/drafts/{draft}/tests", s.page(s.orVersion(s.draftTests)))
	view.Get("/policy/drafts/{draft}/simulate", s.page(s.orVersion(s.draftSimulate)))
	view.Get("/live/policy/drafts/{draft}/trials/{trial}", s.page(s.trialLive))
	view.Get("/policy/drafts/{draft}/review", s.page(s.orVersion(s.draftReview)))
	view.Get("/policy/adopt", s.page(s.adoptForm))
	view.Get("/policy/reviews", s.page(s.reviewList))
	view.Get("/policy/versions", s.page(s.versionList))
	view.Get("/policy/versions/{version}", s.page(s.versionPage))
	view.Get("/policy/versions/{version}/status", s.page(s.versionStatus))
	view.Get("/policy/versions/{version}/diff", s.page(s.versionDiff))

	edit := r.With(s.require(console.PermEditDrafts))
	edit.Get("/routes/new", s.page(s.routeNew))
	edit.Post("/routes/new", s.page(s.routeMake))
	edit.Post("/policy/drafts", s.page(s.draftCreate))
	edit.Post("/policy/drafts/{draft}/parts/{kind}", s.page(s.partSave))
	edit.Post("/policy/drafts/{draft}/parts/{kind}/{key}", s.page(s.partSave))
	edit.Post("/policy/drafts/{draft}/add", s.page(s.draftAdd))
	edit.Get("/policy/drafts/{draft}/import", s.page(s.draftImport))
	edit.Post("/policy/drafts/{draft}/import", s.page(s.draftImportRoutes))
	edit.Post("/policy/drafts/{draft}/source", s.page(s.draftSaveSource))
	edit.Post("/policy/drafts/{draft}/tests", s.page(s.draftSaveTests))
	edit.Post("/policy/drafts/{draft}/simulate", s.page(s.draftTry))
	edit.Post("/policy/drafts/{draft}/comments", s.page(s.draftComment))
	edit.Post("/policy/drafts/{draft}/merge", s.page(s.draftMerge))
	edit.Post("/policy/drafts/{draft}/rebase", s.page(s.draftRebase))
	edit.Post("/policy/drafts/{draft}/rename", s.page(s.draftRename))
	edit.Post("/policy/drafts/{draft}/delete", s.page(s.draftDelete))

	approve := r.With(s.require(console.PermApprove))
	approve.Post("/policy/drafts/{draft}/approve", s.page(s.draftApprove))
	approve.Post("/policy/drafts/{draft}/withdraw", s.page(s.draftWithdraw))
	approve.Post("/policy/reviews/{version}/close", s.page(s.reviewClose))

	rules := r.With(s.require(console.PermManageRules))
	rules.Get("/settings/rules", s.page(s.ruleList))
	rules.Post("/settings/rules", s.page(s.ruleSave))

	publish := r.With(s.require(console.PermPublish))
	publish.Post("/policy/drafts/{draft}/publish", s.page(s.draftPublish))
	publish.Post("/policy/drafts/{draft}/unschedule", s.page(s.draftUnschedule))
	publish.Post("/policy/adopt", s.page(s.adopt))
	publish.Post("/policy/versions/{version}/promote", s.page(s.versionPromote))
	publish.Post("/policy/versions/{version}/stop", s.page(s.versionStop))
	publish.Post("/policy/versions/{version}/rollback", s.page(s.versionRollback))
}

func (s *Server) auditRoutes(r chi.Router) {
	r.With(s.require(console.PermViewAudit)).Get("/audit", s.page(s.auditList))
}
