package session_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/session"
)

// rows are session rows in memory.
type rows struct {
	data            map[string][]byte
	touched, peeked int
	fail            error
}

func (r *rows) Create(_ context.Context, o console.Operator, ip, agent string, data []byte) (string, console.Session, error) {
	id := rand.Text()
	r.data[id] = data
	return id, console.Session{OperatorID: o.ID, IP: ip, UserAgent: agent, Data: data}, r.fail
}

func (r *rows) Touch(_ context.Context, id string) (console.Session, console.Operator, error) {
	r.touched++
	data, ok := r.data[id]
	if r.fail != nil {
		return console.Session{}, console.Operator{}, r.fail
	}
	if !ok {
		return console.Session{}, console.Operator{}, &console.Error{Code: console.CodeUnauthenticated}
	}
	return console.Session{Data: data}, console.Operator{ID: "opr_a", Role: console.RoleOwner}, nil
}

func (r *rows) Peek(ctx context.Context, id string) (console.Session, console.Operator, error) {
	r.touched--
	r.peeked++
	return r.Touch(ctx, id)
}

func (r *rows) Save(_ context.Context, id string, data []byte) error {
	if _, ok := r.data[id]; ok {
		r.data[id] = data
	}
	return r.fail
}

func (r *rows) Delete(_ context.Context, id string) error { delete(r.data, id); return r.fail }

func newStore() (*session.Store[console.Operator], *rows) {
	r := &rows{data: map[string][]byte{}}
	return session.New(session.Config[console.Operator]{Rows: r, Secure: true, Passive: func(r *http.Request) bool { return r.URL.Path == "/poll" }}), r
}

// request is a request that brings the cookie of an earlier answer.
func request(path string, from *httptest.ResponseRecorder) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	if from != nil {
		for _, c := range from.Result().Cookies() {
			r.AddCookie(c)
		}
	}
	return r
}

func signIn(t *testing.T, s *session.Store[console.Operator], from *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	if err := s.SignIn(w, request("/signin", from), console.Operator{ID: "opr_a"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSignIn_RotatesTheIdAndEndsTheOldSession(t *testing.T) {
	t.Parallel()
	s, r := newStore()
	first := signIn(t, s, nil)
	second := signIn(t, s, first)
	if len(r.data) != 1 {
		t.Errorf("%d sessions, want the new one only", len(r.data))
	}
	if _, ok, err := s.Current(request("/", first)); ok || err != nil {
		t.Errorf("the old cookie: %v %v", ok, err)
	}
	cur, ok, err := s.Current(request("/", second))
	if !ok || err != nil || cur.Owner.ID != "opr_a" || cur.ID == "" {
		t.Errorf("current = %+v %v %v", cur, ok, err)
	}
}

func TestNew_UnknownIdsAreNeverAdopted(t *testing.T) {
	t.Parallel()
	s, r := newStore()
	for _, value := range []string{"AAAAAAAAAAAAAAAAAAAAAAAAAA", "short", ""} {
		req := request("/", nil)
		req.AddCookie(&http.Cookie{Name: s.CookieName(), Value: value})
		if _, ok, err := s.Current(req); ok || err != nil {
			t.Errorf("%q: %v %v", value, ok, err)
		}
		if err := s.Put(httptest.NewRecorder(), req, "flash", "x"); err != nil || len(r.data) != 0 {
			t.Errorf("%q: a session was made of it: %v %v", value, r.data, err)
		}
	}
}

func TestSave_EndedSessionStaysEnded(t *testing.T) {
	t.Parallel()
	s, r := newStore()
	w := signIn(t, s, nil)
	req := request("/", w)
	if _, ok, _ := s.Current(req); !ok {
		t.Fatal("not signed in")
	}
	clear(r.data) // ended by somebody else while the request runs
	if err := s.Put(httptest.NewRecorder(), req, "flash", "x"); err != nil || len(r.data) != 0 {
		t.Errorf("the session came back: %v %v", r.data, err)
	}
}

func TestTake_GivesAValueOnce(t *testing.T) {
	t.Parallel()
	s, _ := newStore()
	w := signIn(t, s, nil)
	if err := s.Put(httptest.NewRecorder(), request("/", w), "flash", "ok:Saved."); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"ok:Saved.", ""} {
		if got, err := s.Take(httptest.NewRecorder(), request("/", w), "flash"); got != want || err != nil {
			t.Errorf("take %d = %q %v", i, got, err)
		}
	}
}

func TestSignOut_DeletesRowAndCookie(t *testing.T) {
	t.Parallel()
	s, r := newStore()
	out := httptest.NewRecorder()
	if err := s.SignOut(out, request("/", signIn(t, s, nil))); err != nil || len(r.data) != 0 {
		t.Errorf("%v %v", r.data, err)
	}
	if c := out.Result().Cookies(); len(c) != 1 || c[0].MaxAge >= 0 || c[0].Value != "" {
		t.Errorf("cookies = %v", c)
	}
}

func TestPassive_RequestsDoNotCountAsActivity(t *testing.T) {
	t.Parallel()
	s, r := newStore()
	w := signIn(t, s, nil)
	r.touched = 0
	for range 3 {
		if _, ok, _ := s.Current(request("/poll", w)); !ok {
			t.Fatal("not signed in")
		}
	}
	if r.touched != 0 || r.peeked != 3 {
		t.Errorf("touched %d, peeked %d", r.touched, r.peeked)
	}
}

func TestCurrent_DatabaseAwayIsAnErrorAndNotSignedOut(t *testing.T) {
	t.Parallel()
	s, r := newStore()
	w := signIn(t, s, nil)
	r.fail = &console.Error{Code: console.CodeUnavailable, Cause: errors.New("connection refused")}
	if _, ok, err := s.Current(request("/", w)); ok || err == nil {
		t.Errorf("ok %v, err %v", ok, err)
	}
}

func TestCookieName_PrefixOnlyWhereSecure(t *testing.T) {
	t.Parallel()
	for secure, want := range map[bool]string{true: "__Host-headgate", false: "headgate"} {
		if got := session.New(session.Config[console.Operator]{Rows: &rows{}, Secure: secure}).CookieName(); got != want {
			t.Errorf("secure %v: %s", secure, got)
		}
	}
}
