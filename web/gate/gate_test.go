package gate

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

const token = "0123456789abcdef0123456789abcdef"

// fake answers as it is told and keeps what it was given.
type fake struct {
	mu      sync.Mutex
	told    console.Pulled
	err     error
	replica string
	known   string
	beats   []policy.Heartbeat
	hold    chan struct{} // nil: answers at once
	inside  chan struct{}
}

func (f *fake) Policy(_ context.Context, replica, known string) (console.Pulled, error) {
	if f.hold != nil {
		f.inside <- struct{}{}
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replica, f.known = replica, known
	return f.told, f.err
}

func (f *fake) Beat(_ context.Context, h policy.Heartbeat) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats = append(f.beats, h)
	return 12, f.err
}

func newDoor(t *testing.T, f *fake, tokens ...string) http.Handler {
	t.Helper()
	if len(tokens) == 0 {
		tokens = []string{token}
	}
	h, err := New(Config{Pull: f, Tokens: tokens, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Unix(1000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func ask(h http.Handler, method, target, body string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var bearer = []string{"Authorization", "Bearer " + token}

func TestGate_GivesOutThePolicyOrSaysThatNothingChanged(t *testing.T) {
	t.Parallel()
	f := &fake{told: console.Pulled{Body: []byte(`{"policy":{}}`), ETag: `"42-x"`, Stamp: `{"version":42}`}}
	h := newDoor(t, f)
	got := ask(h, http.MethodGet, "/policy?replica=gw_a", "", append(bearer, "If-None-Match", `"41-x"`)...)
	stamp, err := base64.StdEncoding.DecodeString(got.Header.Get("Headgate-Stamp"))
	if got.StatusCode != http.StatusOK || text(t, got) != `{"policy":{}}` || got.Header.Get("ETag") != `"42-x"` || err != nil || string(stamp) != `{"version":42}` {
		t.Fatalf("%d %v", got.StatusCode, got.Header)
	}
	if f.replica != "gw_a" || f.known != `"41-x"` || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("asked for %q with %q, %v", f.replica, f.known, got.Header)
	}
	f.told.Body = nil
	if got := ask(h, http.MethodGet, "/policy", "", bearer...); got.StatusCode != http.StatusNotModified || got.Header.Get("Headgate-Stamp") == "" || text(t, got) != "" {
		t.Errorf("unchanged: %d %v", got.StatusCode, got.Header)
	}
}

func TestGate_TakesHeartbeats(t *testing.T) {
	t.Parallel()
	f := &fake{}
	h := newDoor(t, f)
	got := ask(h, http.MethodPost, "/heartbeat", `{"id":"gw_a","boot":"b","version":3}`, bearer...)
	if got.StatusCode != http.StatusOK || text(t, got) != "{\"live\": 12}\n" || len(f.beats) != 1 || f.beats[0].Version != 3 {
		t.Fatalf("%d, %+v", got.StatusCode, f.beats)
	}
	if got := ask(h, http.MethodPost, "/heartbeat", "hello", bearer...); got.StatusCode != http.StatusBadRequest {
		t.Errorf("no heartbeat: %d", got.StatusCode)
	}
	large := `{"id":"` + strings.Repeat("x", maxBeat) + `"}`
	if got := ask(h, http.MethodPost, "/heartbeat", large, bearer...); got.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(text(t, got), "8192") {
		t.Errorf("a large one: %d", got.StatusCode)
	}
	if len(f.beats) != 1 {
		t.Errorf("%d heartbeats came through", len(f.beats))
	}
}

func TestGate_LetsNobodyInWithoutTheToken(t *testing.T) {
	t.Parallel()
	f := &fake{}
	h := newDoor(t, f, token, strings.ToUpper(token))
	for name, headers := range map[string][]string{
		"none": nil, "empty": {"Authorization", ""}, "wrong": {"Authorization", "Bearer " + token[1:] + "0"}, "longer": {"Authorization", "Bearer " + token + " "},
		"another scheme": {"Authorization", "Basic " + token}, "twice": {"Authorization", "Bearer " + token, "Authorization", "Bearer " + token},
		"a part": {"Authorization", "Bearer " + token[:31]}, "huge": {"Authorization", "Bearer " + strings.Repeat("x", 5000)},
	} {
		for _, path := range []string{"/policy", "/nothing"} {
			got := ask(newDoor(t, f), http.MethodGet, path, "", headers...)
			if got.StatusCode != http.StatusUnauthorized || got.Header.Get("WWW-Authenticate") == "" || got.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s, %s: %d %v", name, path, got.StatusCode, got.Header)
			}
		}
	}
	for _, good := range []string{"Bearer " + token, "bearer " + token, "Bearer " + strings.ToUpper(token)} {
		if got := ask(h, http.MethodGet, "/policy", "", "Authorization", good); got.StatusCode != http.StatusNotModified {
			t.Errorf("%q: %d", good, got.StatusCode)
		}
	}
}

func TestGate_WrongTokensAreBoundedByAddressAndHinderNobodyElse(t *testing.T) {
	t.Parallel()
	h := newDoor(t, &fake{})
	for i := range mostTries + 5 {
		got := ask(h, http.MethodGet, "/policy", "")
		want := http.StatusUnauthorized
		if i >= mostTries {
			want = http.StatusTooManyRequests
		}
		if got.StatusCode != want || want == http.StatusTooManyRequests && got.Header.Get("Retry-After") != "60" {
			t.Fatalf("try %d: %d %v", i+1, got.StatusCode, got.Header)
		}
	}
	if got := ask(h, http.MethodGet, "/policy", "", bearer...); got.StatusCode != http.StatusNotModified {
		t.Errorf("the right token from the same address: %d", got.StatusCode)
	}
}

func TestTries_AreForgottenAfterAMinuteAndTakeBoundedRoom(t *testing.T) {
	t.Parallel()
	tr, now := newTries(), time.Unix(1000, 0)
	for i := range mostAddress + 100 {
		if _, first := tr.wrong(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), now); !first && i < mostAddress {
			t.Fatalf("address %d is not new", i)
		}
	}
	if len(tr.of) > mostAddress+1 {
		t.Errorf("%d addresses are kept", len(tr.of))
	}
	if wait, first := tr.wrong("10.0.0.0:1", now.Add(triesPer)); wait != 0 || !first {
		t.Errorf("after a minute: %v, %v", wait, first)
	}
	if _, first := tr.wrong("no address", now.Add(triesPer)); !first {
		t.Error("an address without a port is not counted apart")
	}
}

func TestGate_TellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{
		http.StatusNotFound:            &console.Error{Code: console.CodeNotFound, Public: "Nothing has been published yet."},
		http.StatusServiceUnavailable:  &console.Error{Code: console.CodeUnavailable, Public: "The database cannot be used at the moment."},
		http.StatusUnprocessableEntity: &console.Error{Code: console.CodeInvalid, Fields: []console.FieldError{{Field: "id", Message: "no"}}},
		http.StatusInternalServerError: errors.New("secret"),
	} {
		got := ask(newDoor(t, &fake{err: err}), http.MethodPost, "/heartbeat", "{}", bearer...)
		if body := text(t, got); got.StatusCode != want || strings.Contains(body, "secret") || !strings.Contains(body, "detail") {
			t.Errorf("%d: %d %s", want, got.StatusCode, body)
		}
		if want == http.StatusServiceUnavailable && got.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	h := newDoor(t, &fake{})
	for _, c := range [][3]string{{http.MethodGet, "/nothing", "404"}, {http.MethodPost, "/policy", "405"}, {http.MethodGet, "/policy?replica=a/b", "422"}} {
		if got := ask(h, c[0], c[1], "", bearer...); fmt.Sprint(got.StatusCode) != c[2] {
			t.Errorf("%s %s: %d, want %s", c[0], c[1], got.StatusCode, c[2])
		}
	}
}

func TestGate_AnswersSoManyAtOnce(t *testing.T) {
	t.Parallel()
	f := &fake{hold: make(chan struct{}), inside: make(chan struct{}, maxAtOnce)}
	h := newDoor(t, f)
	var all sync.WaitGroup
	for range maxAtOnce {
		all.Go(func() { ask(h, http.MethodGet, "/policy", "", bearer...) })
	}
	for range maxAtOnce {
		<-f.inside
	}
	if got := ask(h, http.MethodGet, "/policy", "", bearer...); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") != "1" {
		t.Errorf("one more: %d %v", got.StatusCode, got.Header)
	}
	close(f.hold)
	all.Wait()
}

func TestNew_ListsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Tokens: []string{"short", strings.Repeat("with spaces ", 4)}})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{"Pull, Log and Now", "token 1 must have 32", "token 2 must have no spaces"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	for _, tokens := range [][]string{nil, {token, token, token}} {
		if _, err := New(Config{Pull: &fake{}, Log: slog.Default(), Now: time.Now, Tokens: tokens}); err == nil {
			t.Errorf("%d tokens are accepted", len(tokens))
		}
	}
}

func FuzzHeartbeat(f *testing.F) {
	f.Add([]byte(`{"id":"gw_a","boot":"b"}`))
	f.Add([]byte(`{"version":1e99}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := ask(newDoor(t, &fake{}), http.MethodPost, "/heartbeat", string(body), bearer...)
		if got.StatusCode != http.StatusOK && got.StatusCode != http.StatusBadRequest && got.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", got.StatusCode)
		}
	})
}
