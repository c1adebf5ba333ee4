// Package session keeps the sessions of the console's pages: a gorilla
// sessions.Store over the rows that console.Sessions holds. The cookie carries
// nothing but a random id, of which the row has the hash, so that a session is
// ended by deleting its row and a leaked table signs nobody in. Operators and
// tenants' members have a store each, with cookies of their own.
//
// It imports console for the rows' shape and nothing else of this module; it
// must not import db or any database driver.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"

	"github.com/gorilla/sessions"

	"github.com/headgate/headgate/console"
)

// Rows are the session rows of owners U. console.Sessions implements it for
// operators, console.MemberSessions for tenants' members.
type Rows[U any] interface {
	// Create makes a row for an owner and returns the id for the cookie. It
	// answers CodeUnauthenticated when the owner is no longer the one given.
	Create(ctx context.Context, o U, ip, userAgent string, data []byte) (id string, row console.Session, err error)
	// Touch finds the row of a cookie's id with its owner as of now. It
	// answers CodeUnauthenticated for ids that are unknown, ended or too old.
	Touch(ctx context.Context, id string) (console.Session, U, error)
	// Peek is Touch without counting as activity.
	Peek(ctx context.Context, id string) (console.Session, U, error)
	// Save replaces a row's data and never creates a row.
	Save(ctx context.Context, id string, data []byte) error
	// Delete ends a session.
	Delete(ctx context.Context, id string) error
}

// Config is what a Store needs.
type Config[U any] struct {
	Rows Rows[U]
	// Name is the cookie's, without prefix; "" means headgate.
	Name string
	// Secure gives the cookie the Secure attribute and the __Host- prefix.
	Secure bool
	// Passive names requests that do not count as activity, such as a page that
	// asks for itself anew: they must not keep a forgotten session alive. May be nil.
	Passive func(*http.Request) bool
}

// Store is a gorilla sessions.Store. It is safe for concurrent use.
type Store[U any] struct {
	rows    Rows[U]
	name    string
	secure  bool
	passive func(*http.Request) bool
}

var _ sessions.Store = (*Store[console.Operator])(nil)

// New returns a store.
func New[U any](c Config[U]) *Store[U] {
	if c.Name == "" {
		c.Name = "headgate"
	}
	if c.Passive == nil {
		c.Passive = func(*http.Request) bool { return false }
	}
	return &Store[U]{rows: c.Rows, name: c.Name, secure: c.Secure, passive: c.Passive}
}

// Keys under which a loaded session carries what must never be written back.
type (
	keyOwner  struct{}
	keyRow    struct{}
	keyLoaded struct{}
)

// CookieName is the cookie's name: with __Host- before it where cookies are secure.
func (s *Store[U]) CookieName() string {
	if s.secure {
		return "__Host-" + s.name
	}
	return s.name
}

func (s *Store[U]) options() *sessions.Options {
	return &sessions.Options{Path: "/", Secure: s.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// Get returns the request's session, loaded at most once a request.
func (s *Store[U]) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(s, name)
}

// New loads the session that the request's cookie names. An id that no row
// knows is never adopted: the session is then new and has no id.
func (s *Store[U]) New(r *http.Request, name string) (*sessions.Session, error) {
	sess := sessions.NewSession(s, name)
	sess.Options, sess.IsNew = s.options(), true
	c, err := r.Cookie(name)
	if err != nil || len(c.Value) < 26 || len(c.Value) > 64 {
		return sess, nil //nolint:nilerr // no cookie is no error: nobody is signed in
	}
	find := s.rows.Touch
	if s.passive(r) {
		find = s.rows.Peek
	}
	row, op, err := find(r.Context(), c.Value)
	if code := console.CodeOf(err); code == console.CodeUnauthenticated || code == console.CodeNotFound {
		return sess, nil
	}
	if err != nil {
		return sess, fmt.Errorf("load session: %w", err)
	}
	values := map[string]any{}
	if len(row.Data) > 0 {
		if err := json.Unmarshal(row.Data, &values); err != nil {
			return sess, fmt.Errorf("read session data: %w", err)
		}
	}
	loaded := make(map[string]any, len(values))
	for k, v := range values {
		sess.Values[k], loaded[k] = v, v
	}
	sess.Values[keyLoaded{}], sess.Values[keyOwner{}], sess.Values[keyRow{}] = loaded, op, row
	sess.ID, sess.IsNew = c.Value, false
	return sess, nil
}

// Save writes a session and, when it is new, its cookie. A negative
// Options.MaxAge ends it. A session that was ended meanwhile stays ended.
func (s *Store[U]) Save(r *http.Request, w http.ResponseWriter, sess *sessions.Session) error {
	if sess.Options.MaxAge < 0 {
		return s.end(r, w, sess)
	}
	values := map[string]any{}
	for k, v := range sess.Values {
		if name, ok := k.(string); ok {
			values[name] = v
		}
	}
	if sess.ID != "" && reflect.DeepEqual(sess.Values[keyLoaded{}], values) {
		return nil
	}
	data, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("write session data: %w", err)
	}
	if sess.ID != "" {
		if err := s.rows.Save(r.Context(), sess.ID, data); err != nil {
			return fmt.Errorf("save session: %w", err)
		}
		sess.Values[keyLoaded{}] = values
		return nil
	}
	owner, ok := sess.Values[keyOwner{}].(U)
	if !ok {
		return errors.New("save session: a session without an owner is not kept")
	}
	id, row, err := s.rows.Create(r.Context(), owner, Peer(r), r.UserAgent(), data)
	if err != nil {
		return fmt.Errorf("create session: %w", err)
	}
	sess.ID, sess.Values[keyRow{}] = id, row
	http.SetCookie(w, sessions.NewCookie(sess.Name(), id, sess.Options))
	return nil
}

func (s *Store[U]) end(r *http.Request, w http.ResponseWriter, sess *sessions.Session) error {
	if sess.ID != "" {
		if err := s.rows.Delete(r.Context(), sess.ID); err != nil {
			return fmt.Errorf("end session: %w", err)
		}
	}
	http.SetCookie(w, sessions.NewCookie(sess.Name(), "", sess.Options))
	return nil
}

// Current is the signed-in session of a request, if it has one.
type Current[U any] struct {
	Owner U // as its row is now
	Row   console.Session
	ID    string // of the cookie
}

// Current returns who is signed in; false for nobody. An error means that it
// cannot be told.
func (s *Store[U]) Current(r *http.Request) (Current[U], bool, error) {
	sess, err := s.Get(r, s.CookieName())
	if err != nil || sess.IsNew {
		return Current[U]{}, false, err
	}
	owner, _ := sess.Values[keyOwner{}].(U)
	row, _ := sess.Values[keyRow{}].(console.Session)
	return Current[U]{Owner: owner, Row: row, ID: sess.ID}, true, nil
}

// SignIn ends the session that the request came with, if any, and starts a new
// one under a new id.
func (s *Store[U]) SignIn(w http.ResponseWriter, r *http.Request, o U) error {
	if old, ok, err := s.Current(r); err != nil {
		return err
	} else if ok {
		if err := s.rows.Delete(r.Context(), old.ID); err != nil {
			return fmt.Errorf("end session before sign-in: %w", err)
		}
	}
	sess := sessions.NewSession(s, s.CookieName())
	sess.Options, sess.IsNew = s.options(), true
	sess.Values[keyOwner{}] = o
	return s.Save(r, w, sess)
}

// SignOut ends the request's session and takes its cookie away.
func (s *Store[U]) SignOut(w http.ResponseWriter, r *http.Request) error {
	sess, err := s.Get(r, s.CookieName())
	if err != nil {
		return err
	}
	sess.Options.MaxAge = -1
	return s.Save(r, w, sess)
}

// Put sets one value of the session and saves it; "" removes it. Without a
// session it does nothing.
func (s *Store[U]) Put(w http.ResponseWriter, r *http.Request, name, value string) error {
	sess, err := s.Get(r, s.CookieName())
	if err != nil || sess.IsNew {
		return err
	}
	if value == "" {
		delete(sess.Values, name)
	} else {
		sess.Values[name] = value
	}
	return s.Save(r, w, sess)
}

// Take removes one value of the session and returns it, "" when there is none.
func (s *Store[U]) Take(w http.ResponseWriter, r *http.Request, name string) (string, error) {
	sess, err := s.Get(r, s.CookieName())
	if err != nil || sess.IsNew {
		return "", err
	}
	value, _ := sess.Values[name].(string)
	if value == "" {
		return "", nil
	}
	delete(sess.Values, name)
	return value, s.Save(r, w, sess)
}

// Peer is the address of the connection itself, "" when there is none. Forwarded
// headers are never believed: the console trusts no proxy.
func Peer(r *http.Request) string {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return ap.Addr().Unmap().WithZone("").String()
}
