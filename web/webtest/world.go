// Package webtest is what tests of the console's doors stand on: all services
// over a real PostgreSQL, a Feed in memory that plays Redis and the gateways,
// an operator of each role, and clients that are signed in or carry a token.
//
// Only tests import it. It imports web, console, db, policy, usage and
// internal/testkit.
package webtest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/replay"
	"github.com/headgate/headgate/web"
)

// Origin is the console's public URL in tests.
const Origin = "https://console.example"

// Password is every operator's.
const Password = "correct horse battery staple"

// World is one console with its database and its feed.
type World struct {
	DSN       string
	Web       web.Deps
	Handler   http.Handler
	Feed      *Feed
	Decisions *Decisions
	Probe     *Probe
	KeyUse    *KeyUse
	Usage     *UsageFeed // through which the ledger hears of usage
	State     *State     // of the limiter
	Notes     *Notes     // what alerts would have sent
	Operators map[console.Role]console.Operator
	Tokens    map[console.Role]string
	Log       *Buffer

	mu     sync.Mutex
	offset time.Duration
}

// Buffer is a log that tests read while it is written.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String is all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Now is the world's clock.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.offset)
}

// Advance moves the world's clock.
func (w *World) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset += d
}

// New makes a world that ends with the test.
func New(t testing.TB) *World {
	t.Helper()
	return On(t, testkit.Postgres(t))
}

// On is New with a database that is there already. The options are those of its connections.
func On(t testing.TB, dsn string, options ...db.Option) *World {
	t.Helper()
	w := &World{DSN: dsn, Decisions: &Decisions{}, Probe: &Probe{}, Operators: map[console.Role]console.Operator{}, Tokens: map[console.Role]string{}, Log: &Buffer{}}
	w.Feed, w.KeyUse, w.Notes, w.State = NewFeed(w.Now), NewKeyUse(w.Now), &Notes{}, NewState(w.Now)
	ctx, cancel := context.WithCancel(context.Background())
	store, err := db.Open(ctx, w.DSN, 8, options...)
	must(t, err)
	log := slog.New(slog.NewJSONHandler(w.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d := console.Deps{Store: store, Feed: w.Feed, Signer: ed25519.NewKeyFromSeed(make([]byte, 32)), Deployment: "test", Now: w.Now, Log: log}
	relay := console.NewRelay(d, store)
	d.Nudge = relay.Nudge
	w.Usage = &UsageFeed{Feed: w.Feed}
	heard := d
	heard.Feed = w.Usage
	activity, operators := console.NewActivity(d), console.NewOperators(d)
	d.KeyUse = w.KeyUse
	d.Prover, d.Decisions, d.Traffic, d.Passwords = replay.Engine{}, w.Decisions, activity.Live(), operators
	fleet := console.NewFleet(d)
	policies, rollouts := console.NewPolicies(d), console.NewRollouts(d, fleet)
	var running sync.WaitGroup
	running.Go(func() { _ = relay.Run(ctx) })
	running.Go(func() { _ = fleet.Run(ctx) })
	bulk := console.NewBulkJobs(d)
	running.Go(func() { _ = bulk.Run(ctx) })
	running.Go(func() { _ = policies.RunTrials(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); store.Close() })
	capacities, ledger := console.NewCapacities(d), console.NewLedger(heard, console.UsageRetention{})
	w.Web = web.Deps{Tenants: console.NewTenants(d), Keys: console.NewKeys(d), Rotations: console.NewRotations(d),
		Policies: policies, Rollouts: rollouts, Effects: console.NewEffects(d, fleet, activity.Live()), Fleet: fleet, Operators: operators, Audit: console.NewAudit(d),
		Activity: activity, Sessions: console.NewSessions(d), Idempotency: console.NewIdempotency(d),
		Bulk: bulk, Exports: console.NewExports(d),
		Members: console.NewMembers(d), MemberSessions: console.NewMemberSessions(d), Asks: console.NewAsks(d, console.NewOverrides(d)), Portal: console.NewPortal(d, store),
		Explain: console.NewExplainer(d, fleet, activity.Live(), w.Probe),
		Advisor: console.NewAdvisor(d, policies, capacities), Capacities: capacities,
		Ledger: ledger, Quotas: console.NewQuotas(d, ledger), Overrides: console.NewOverrides(d), Lockouts: console.NewLockouts(d, fleet, w.State), KeyUse: d.KeyUse, Leaks: console.NewLeaks(d, console.LeakRules{}),
		Alerts: console.NewAlerts(d, console.AlertConfig{Fleet: fleet, Live: activity.Live(), Notifier: w.Notes, PublicURL: Origin}),
		Log:    log, Now: w.Now, Environment: "test", Deployment: "test", PublicURL: Origin, SecureCookies: true}
	w.Handler, err = web.New(w.Web)
	must(t, err)
	for _, role := range console.Roles() {
		op, err := w.Web.Operators.Create(ctx, console.SystemActor(), console.NewOperator{Email: string(role) + "@example.com", Name: string(role), Role: role})
		must(t, err)
		w.Operators[role] = op
		w.Tokens[role], _, err = w.Web.Operators.IssueToken(ctx, console.SystemActor(), op.ID, "test", nil)
		must(t, err)
	}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Actor is an operator of the role, as the pages see one.
func (w *World) Actor(role console.Role) console.Actor {
	op := w.Operators[role]
	return console.Actor{ID: op.ID, Name: op.Name, Role: role, Via: console.ViaConsole, IP: "192.0.2.1", RequestID: "test"}
}

// Client makes requests as a browser does, or as a program with a token.
type Client struct {
	t       testing.TB
	w       *World
	Cookies []*http.Cookie
	Token   string
	Header  http.Header // further headers of each request
}

// Anonymous is a browser that is not signed in.
func (w *World) Anonymous(t testing.TB) *Client { return &Client{t: t, w: w, Header: http.Header{}} }

// As is a browser that an operator of the role is signed in with.
func (w *World) As(t testing.TB, role console.Role) *Client {
	t.Helper()
	id, _, err := w.Web.Sessions.Create(context.Background(), w.Operators[role], "192.0.2.1", "test", nil)
	must(t, err)
	c := w.Anonymous(t)
	c.Cookies = []*http.Cookie{{Name: "__Host-headgate", Value: id, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}}
	return c
}

// API is a program with the token of an operator of the role.
func (w *World) API(t testing.TB, role console.Role) *Client {
	c := w.Anonymous(t)
	c.Token = w.Tokens[role]
	return c
}

// Answer is a response with its body read.
type Answer struct {
	*http.Response
	Text string
}

// Do makes one request.
func (c *Client) Do(method, target, contentType string, body io.Reader) Answer {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, target, body)
	r.Host, r.RemoteAddr = strings.TrimPrefix(Origin, "https://"), "192.0.2.1:1234"
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for k, v := range c.Header {
		if r.Header[k] = v; k == "Host" {
			r.Host = v[0]
		}
	}
	for _, cookie := range c.Cookies {
		r.AddCookie(cookie)
	}
	rec := httptest.NewRecorder()
	c.w.Handler.ServeHTTP(rec, r)
	res := rec.Result()
	for _, set := range res.Cookies() {
		c.keep(set)
	}
	return Answer{Response: res, Text: rec.Body.String()}
}

func (c *Client) keep(set *http.Cookie) {
	for i, old := range c.Cookies {
		if old.Name == set.Name {
			c.Cookies[i] = set
			return
		}
	}
	c.Cookies = append(c.Cookies, set)
}

// Get asks for a page.
func (c *Client) Get(target string) Answer {
	c.t.Helper()
	return c.Do(http.MethodGet, target, "", http.NoBody)
}

// Post sends a form as a browser on our own pages does.
func (c *Client) Post(target string, fields url.Values) Answer {
	c.t.Helper()
	if c.Header.Get("Sec-Fetch-Site") == "" && c.Header.Get("Origin") == "" {
		c.Header.Set("Sec-Fetch-Site", "same-origin")
		c.Header.Set("Origin", Origin)
	}
	return c.Do(http.MethodPost, target, "application/x-www-form-urlencoded", strings.NewReader(fields.Encode()))
}

// JSON sends a JSON body.
func (c *Client) JSON(method, target, body string) Answer {
	c.t.Helper()
	return c.Do(method, target, "application/json", strings.NewReader(body))
}
