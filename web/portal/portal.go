package portal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	views "github.com/headgate/headgate/views/portal"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/session"
)

// Base is the address that members' pages begin with.
const Base = "/t"

// Deps are what the pages stand on. Every one is needed.
type Deps struct {
	Portal      *console.Portal
	Members     *console.Members
	Sessions    *console.MemberSessions
	Asks        *console.Asks
	Alerts      *console.Alerts
	Overrides   *console.Overrides
	Ledger      *console.Ledger
	Quotas      *console.Quotas
	Rotations   *console.Rotations
	Fleet       *console.Fleet
	Activity    *console.Activity
	Idempotency *console.Idempotency
	// InForce is the policy in force; nil when nothing was published.
	InForce func(context.Context) (*policy.Compiled, error)
	// StatusOf is the status of a service's error.
	StatusOf func(console.Code) int
	// RequestID is the id of a request, for the audit trail and the log.
	RequestID     func(context.Context) string
	Log           *slog.Logger
	Now           func() time.Time
	PublicURL     *url.URL // for links that are sent to people
	SecureCookies bool
}

func (d Deps) problems() error {
	var errs []error
	for what, there := range map[string]bool{
		"Portal": d.Portal != nil, "Members": d.Members != nil, "Sessions": d.Sessions != nil, "Asks": d.Asks != nil, "Alerts": d.Alerts != nil, "Overrides": d.Overrides != nil, "Ledger": d.Ledger != nil, "Quotas": d.Quotas != nil,
		"Rotations": d.Rotations != nil, "Fleet": d.Fleet != nil, "Activity": d.Activity != nil, "Idempotency": d.Idempotency != nil,
		"InForce": d.InForce != nil, "StatusOf": d.StatusOf != nil, "RequestID": d.RequestID != nil, "Log": d.Log != nil, "Now": d.Now != nil, "PublicURL": d.PublicURL != nil,
	} {
		if !there {
			errs = append(errs, errors.New("portal: "+what+" is missing"))
		}
	}
	return errors.Join(errs...)
}

// Server answers the tenant's own pages.
type Server struct {
	Deps
	sessions *session.Store[console.Member]
	members  http.Handler // under Base
	looks    http.Handler // of operators
}

// New checks its dependencies and builds the pages.
func New(d Deps) (*Server, error) {
	if err := d.problems(); err != nil {
		return nil, err
	}
	s := &Server{Deps: d}
	s.sessions = session.New(session.Config[console.Member]{Rows: d.Sessions, Name: "hgt", Secure: d.SecureCookies, Passive: isPoll})
	s.members, s.looks = s.memberRouter(), s.lookRouter()
	return s, nil
}

// isPoll reports whether a page asks for a part of itself by its own clock.
func isPoll(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("HX-Request") != "" && strings.HasSuffix(r.URL.Path, "/now")
}

// visit is who asks, as read from the rows for this request.
type visit struct {
	actor    console.Actor
	tenant   console.Tenant
	base     string
	operator string // who looks, when it is an operator
	back     string
	flash    string
	noRows   bool // sessions cannot be read
}

type visitKey struct{}

func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

func (v *visit) can(p console.Permission) bool { return v.operator == "" && v.actor.Role.Can(p) }

// url is one of the pages.
func (v *visit) url(parts ...string) string { return views.Frame{Base: v.base}.URL(parts...) }

// ServeHTTP answers members, under Base.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.members.ServeHTTP(w, r) }

// Look is an operator who looks at a tenant's pages.
type Look struct {
	Actor    console.Actor // the operator
	TenantID string
	Base     string // address of the first page
	Back     string
}

// Look answers an operator with one of the tenant's pages, read-only. Path is the
// page's address after the first one's: "", "/keys" …
func (s *Server) Look(w http.ResponseWriter, r *http.Request, l Look, path string) {
	a := l.Actor
	v := &visit{operator: a.Name, base: l.Base, back: l.Back}
	a.TenantID, a.Role = l.TenantID, console.RoleTenantViewer
	v.actor = a
	r = stripped(r.WithContext(context.WithValue(r.Context(), visitKey{}, v)), path)
	s.looks.ServeHTTP(w, r)
}

// stripped is the request with another path, for a router of its own.
func stripped(r *http.Request, path string) *http.Request {
	if path == "" {
		path = "/"
	}
	r2 := r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, (*chi.Context)(nil)))
	u := *r.URL
	u.Path, u.RawPath = path, ""
	r2.URL = &u
	return r2
}

// handler answers a request or returns the error that the error edge tells.
type handler func(w http.ResponseWriter, r *http.Request, v *visit) error

// memberRouter are all pages of members, each behind what it takes.
func (s *Server) memberRouter() http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.GetHead, s.authenticate)
	r.NotFound(s.page(console.PermOwnTenant, absent))
	r.MethodNotAllowed(s.page(console.PermOwnTenant, absent))
	r.Get("/signin", s.door(s.signInForm))
	r.Post("/signin", s.door(s.signIn))
	r.Post("/signout", s.door(s.signOut))
	r.Get("/invite/{secret}", s.door(s.inviteForm))
	r.Post("/invite/{secret}", s.door(s.accept))
	r.Get("/link/{secret}", s.door(s.linkForm))
	r.Post("/link/{secret}", s.door(s.useLink))
	s.reads(r)
	s.writes(r)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.ServeHTTP(w, stripped(req, strings.TrimSuffix(strings.TrimPrefix(req.URL.Path, Base), "/")))
	})
}

// lookRouter is what operators see: every page, and nothing that changes.
func (s *Server) lookRouter() http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.GetHead)
	r.NotFound(s.page(console.PermOwnTenant, absent))
	r.MethodNotAllowed(s.page(console.PermOwnTenant, absent))
	s.reads(r)
	return r
}

// reads are the pages that change nothing.
func (s *Server) reads(r chi.Router) {
	view := func(path string, h handler) { r.Get(path, s.page(console.PermOwnTenant, h)) }
	view("/", s.now)
	view("/now", s.nowLive)
	view("/usage", s.usage)
	view("/usage.csv", s.usageCSV)
	view("/keys", s.keyList)
	view("/keys/{kid}", s.keyPage)
	view("/rotations/{rotation}", s.rotationPage)
	view("/limits", s.limits)
	view("/members", s.memberList)
	view("/asks", s.askList)
	view("/alerts", s.alertList)
	view("/try", s.try)
}

// writes are the forms and acts.
func (s *Server) writes(r chi.Router) {
	keys := func(h handler) http.HandlerFunc { return s.page(console.PermOwnKeys, h) }
	r.Get("/keys/new", keys(s.keyNew))
	r.Post("/keys", keys(s.keyCreate))
	r.Post("/keys/{kid}/revoke", keys(s.keyRevoke))
	r.Get("/credentials/{credential}/rotate", keys(s.rotationNew))
	r.Post("/credentials/{credential}/rotate", keys(s.rotationStart))
	r.Post("/rotations/{rotation}/extend", keys(s.rotationExtend))
	r.Post("/rotations/{rotation}/end", keys(s.rotationEnd))
	r.Post("/rotations/{rotation}/cancel", keys(s.rotationCancel))
	people := func(path string, h handler) { r.Post(path, s.page(console.PermOwnMembers, h)) }
	people("/members", s.invite)
	people("/members/{member}/role", s.setRole)
	people("/members/{member}/remove", s.removeMember)
	people("/members/{member}/uninvite", s.uninvite)
	people("/asks", s.ask)
	people("/alerts", s.alertAdd)
	people("/alerts/{alert}/remove", s.alertRemove)
	people("/alerts/channels", s.channelAdd)
	people("/alerts/channels/{channel}/test", s.channelTest)
	people("/alerts/channels/{channel}/rotate", s.channelRotate)
	people("/alerts/channels/{channel}/remove", s.channelRemove)
}

func absent(http.ResponseWriter, *http.Request, *visit) error {
	return &console.Error{Code: console.CodeNotFound, Public: "There is nothing here."}
}

// page lets a handler answer those who may.
func (s *Server) page(p console.Permission, h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := visitOf(r)
		switch {
		case v == nil || v.actor.TenantID == "" && !v.noRows:
			s.askToSignIn(w, r)
			return
		case v.noRows:
			s.fail(w, r, &console.Error{Code: console.CodeUnavailable, Public: "These pages cannot be used at the moment. Calls to the API are not concerned."})
			return
		case !v.actor.Role.Can(p):
			s.fail(w, r, &console.Error{Code: console.CodeForbidden, Public: "Your role does not allow this. Ask an admin of your organisation."})
			return
		}
		var err error
		if v.tenant, err = s.Portal.Tenant(r.Context(), v.actor); err == nil {
			err = h(w, r, v)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	}
}

// door is a handler for everybody. What goes wrong there is told the same to
// those who are signed in.
func (s *Server) door(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r, visitOf(r)); err != nil {
			s.fail(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, &visit{base: Base})), err)
		}
	}
}

// authenticate reads who is signed in, from the rows, on each request.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{base: Base}
		cur, ok, err := s.sessions.Current(r)
		if err != nil {
			s.Log.ErrorContext(r.Context(), "load member's session", "request_id", s.RequestID(r.Context()), "error", err)
			v.noRows = true
		}
		if ok && err == nil {
			v.actor = cur.Owner.Actor(session.Peer(r), s.RequestID(r.Context()))
			if r.Method == http.MethodGet && r.Header.Get("HX-Request") == "" {
				if v.flash, err = s.sessions.Take(w, r, "flash"); err != nil {
					s.Log.WarnContext(r.Context(), "take flash", "request_id", s.RequestID(r.Context()), "error", err)
				}
			}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	})
}

func (s *Server) askToSignIn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Redirect", Base+"/signin")
	} else if r.Method == http.MethodGet || r.Method == http.MethodHead {
		http.Redirect(w, r, Base+"/signin", http.StatusSeeOther)
		return
	}
	s.fail(w, r, &console.Error{Code: console.CodeUnauthenticated, Public: "Please sign in and try again. Nothing was changed."})
}

// frame is what stands around a page.
func (s *Server) frame(v *visit, title, current string) views.Frame {
	f := views.Frame{
		Title: title, Tenant: v.tenant.Name, Member: v.actor.Name, Role: string(v.actor.Role), Base: v.base, Current: current,
		Operator: v.operator, Back: v.back, Now: s.Now(),
	}
	if v.flash != "" {
		f.Flash.Kind, f.Flash.Text, _ = strings.Cut(v.flash, ":")
	}
	return f
}

// render writes a component, which is rendered to memory first.
func (s *Server) render(w http.ResponseWriter, r *http.Request, status int, c templ.Component) error {
	var b bytes.Buffer
	if err := c.Render(r.Context(), &b); err != nil {
		return fmt.Errorf("render %s: %w", r.URL.Path, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Add("Vary", "HX-Request")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client went away: nothing to tell anyone
	return nil
}

// redirect answers a form that succeeded.
func (s *Server) redirect(w http.ResponseWriter, r *http.Request, path, flash string) error {
	if flash != "" {
		if err := s.sessions.Put(w, r, "flash", "ok:"+flash); err != nil {
			return err
		}
	}
	http.Redirect(w, r, path, http.StatusSeeOther) //nolint:gosec // G710: a path of ours
	return nil
}

// fail is the error edge: the public text for the user, the cause for the log.
// The page for what is absent is the same whatever was asked for.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, message := http.StatusInternalServerError, "Something went wrong on our side."
	if e, ok := errors.AsType[*console.Error](err); ok && e.Code != console.CodeInternal {
		status, message = s.StatusOf(e.Code), e.Public
		for _, f := range e.Fields {
			message += " " + f.Message
		}
		if e.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(e.RetryAfter))
		}
	}
	v := visitOf(r)
	p := views.ProblemProps{Title: http.StatusText(status), Message: message}
	if status == http.StatusNotFound && v != nil && v.actor.TenantID != "" {
		p.Message = "There is nothing here."
	}
	if status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", fmt.Sprint(console.RetryLater))
	}
	s.logFailure(r, v, status, err)
	if v != nil && v.actor.TenantID != "" {
		p.Inside, p.Frame = true, s.frame(v, p.Title, "none")
		p.Frame.Flash = ui.Flash{}
	}
	if err := s.render(w, r, status, views.Problem(p)); err != nil {
		s.Log.ErrorContext(r.Context(), "render error page", "request_id", s.RequestID(r.Context()), "error", err)
		http.Error(w, message, status)
	}
}

func (s *Server) logFailure(r *http.Request, v *visit, status int, err error) {
	args := []any{"request_id", s.RequestID(r.Context()), "method", r.Method, "status", status, "error", err.Error()}
	if v != nil {
		args = append(args, "actor", v.actor.ID, "tenant", v.actor.TenantID)
	}
	switch {
	case status == http.StatusForbidden:
		s.Log.WarnContext(r.Context(), "authz_denied", args...)
	case status >= 500:
		s.Log.ErrorContext(r.Context(), "request failed", args...)
	default:
		s.Log.DebugContext(r.Context(), "request refused", args...)
	}
}
