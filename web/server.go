package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/a-h/templ"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/session"
)

// Deps are what the pages stand on. Every service is needed.
type Deps struct {
	Tenants   *console.Tenants
	Keys      *console.Keys
	Rotations *console.Rotations
	Policies  *console.Policies
	Rollouts  *console.Rollouts
	Effects   *console.Effects
	Fleet     *console.Fleet
	Operators *console.Operators
	Audit     *console.Audit
	Activity  *console.Activity
	Sessions  *console.Sessions

	Idempotency *console.Idempotency

	// Overrides gives tenants values of their own; KeyUse tells who uses keys, nil:
	// nobody knows, and pages say so.
	Overrides *console.Overrides
	KeyUse    console.KeyUseSource

	// Explain says why somebody is refused.
	Explain *console.Explainer

	// Advisor tells how limits are used; Capacities keeps what routes were measured to take.
	Advisor    *console.Advisor
	Capacities *console.Capacities

	// Lockouts tells who is refused now, and ends it.
	Lockouts *console.Lockouts

	// Members, MemberSessions, Asks and Portal are of the tenants' own pages.
	Members        *console.Members
	MemberSessions *console.MemberSessions
	Asks           *console.Asks
	Portal         *console.Portal

	// Bulk does what concerns many at once; Exports writes lists as files.
	Bulk    *console.Bulk
	Exports *console.Exports

	// Ledger is the record of what was used.
	Ledger *console.Ledger
	Quotas *console.Quotas

	// Leaks finds and contains keys that got out. LeakToken lets scanners report
	// them by the API, "" lets none; LeakPartner takes signed reports, nil: there is
	// no such door.
	Leaks       *console.Leaks
	LeakToken   string
	LeakPartner http.Handler

	// Alerts says what is told to whom.
	Alerts *console.Alerts

	// Gate is the door for gateways that cannot reach Redis; nil: there is none.
	Gate http.Handler

	Log *slog.Logger
	Now func() time.Time

	Environment string // label on every page, such as "production"
	Deployment  string // name that signatures carry
	PublicURL   string // the one origin the console answers for, such as https://console.example
	// SecureCookies makes the session cookie Secure with the __Host- prefix. It
	// is off only where the console is served over plain HTTP on one machine.
	SecureCookies bool
}

func (d Deps) problems() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("web: "+what+" is missing"))
		}
	}
	need(d.Tenants != nil, "Tenants")
	need(d.Keys != nil, "Keys")
	need(d.Rotations != nil, "Rotations")
	need(d.Policies != nil, "Policies")
	need(d.Fleet != nil, "Fleet")
	need(d.Operators != nil, "Operators")
	need(d.Audit != nil, "Audit")
	need(d.Activity != nil, "Activity")
	need(d.Sessions != nil, "Sessions")
	need(d.Idempotency != nil, "Idempotency")
	need(d.Overrides != nil, "Overrides")
	need(d.Lockouts != nil, "Lockouts")
	need(d.Explain != nil, "Explain")
	need(d.Advisor != nil, "Advisor")
	need(d.Capacities != nil, "Capacities")
	need(d.Members != nil, "Members")
	need(d.MemberSessions != nil, "MemberSessions")
	need(d.Asks != nil, "Asks")
	need(d.Portal != nil, "Portal")
	need(d.Bulk != nil, "Bulk")
	need(d.Exports != nil, "Exports")
	need(d.Leaks != nil, "Leaks")
	need(d.Ledger != nil, "Ledger")
	need(d.Alerts != nil, "Alerts")
	need(d.Log != nil, "Log")
	need(d.Now != nil, "Now")
	return errors.Join(errs...)
}

// Server answers the console's pages and its JSON API.
type Server struct {
	Deps
	public   *url.URL
	sessions *session.Store[console.Operator]
	pages    pageCache
	reads    readCache
	reviews  reviewCache
	alerts   alertCache

	ledgerState  standingCache
	overviewSeen overviewLook
	// large lets one large document in at a time: reading one costs memory.
	large chan struct{}
}

// ParsePublicURL reads the one origin that a console answers for.
func ParsePublicURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" ||
		u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, errors.New("must be http(s)://host[:port]")
	}
	return u, nil
}

// New checks its dependencies and builds the handler of the whole console. It
// refuses to start when a route has no permission.
func New(d Deps) (http.Handler, error) {
	if err := d.problems(); err != nil {
		return nil, err
	}
	public, err := ParsePublicURL(d.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("web: public URL %w", err)
	}
	s := &Server{Deps: d, public: public, large: make(chan struct{}, 1)}
	s.sessions = session.New(session.Config[console.Operator]{Rows: d.Sessions, Secure: d.SecureCookies, Passive: isPoll})
	return s.handler()
}

// handler answers a request or returns the error that the error edge tells.
type handler func(w http.ResponseWriter, r *http.Request) error

// page adapts a handler to net/http; it is the only way that handlers are mounted.
func (s *Server) page(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// render writes a component. It is rendered to memory first: a component that
// fails becomes a 500 page, never half of one.
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

// redirect answers a form that succeeded: 303 to a path of ours, where the text
// of flash, if any, is shown once.
func (s *Server) redirect(w http.ResponseWriter, r *http.Request, path, flash string) error {
	if flash != "" {
		if err := s.setFlash(w, r, ui.Flash{Kind: "ok", Text: flash}); err != nil {
			return err
		}
	}
	http.Redirect(w, r, path, http.StatusSeeOther) //nolint:gosec // G710: a path of ours, or one that passed safeNext
	return nil
}

// signedIn is who makes a request, as read from the rows for this request.
type signedIn struct {
	operator console.Operator
	session  string // hash of the session
	id       string // of the session, as in the cookie
	flash    string // shown once, on this page
}

func signedInFrom(ctx context.Context) (*signedIn, bool) {
	in, ok := ctx.Value(ctxSignedIn).(*signedIn)
	return in, ok
}

// actor is who acts, for services. Anonymous requests give an actor without
// role, which may do nothing.
func actor(r *http.Request) console.Actor {
	a := console.Actor{Via: console.ViaConsole, IP: session.Peer(r), RequestID: requestID(r.Context())}
	if in, ok := signedInFrom(r.Context()); ok {
		a.ID, a.Name, a.Role = in.operator.ID, in.operator.Name, in.operator.Role
	}
	return a
}

// can reports whether whoever asks has the permission; pages hide by it what
// they would be refused.
func can(r *http.Request, p console.Permission) bool { return actor(r).Role.Can(p) }
