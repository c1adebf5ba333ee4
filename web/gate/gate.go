package gate

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/problem"
	"github.com/headgate/headgate/policy"
)

const (
	// MinToken is the shortest token, in characters: it stands against guessing
	// by itself.
	MinToken = 32
	// maxBeat bounds a heartbeat, in bytes: they are some hundreds, and up to 4 Ki
	// with the reason for a refusal.
	maxBeat = 8 << 10
	// maxAtOnce bounds the requests that are answered at once.
	maxAtOnce = 64
	// stampHeader carries the stamp, also when the policy has not changed.
	stampHeader = "Headgate-Stamp"
)

// Puller is what the door asks; *console.Pull is one.
type Puller interface {
	Policy(ctx context.Context, replica, known string) (console.Pulled, error)
	Beat(ctx context.Context, h policy.Heartbeat) (live int, err error)
}

// Config is what the door needs.
type Config struct {
	Pull   Puller
	Tokens []string // one, or two while it is being changed; at least MinToken characters each
	Log    *slog.Logger
	Now    func() time.Time
}

// CheckToken says what is wrong with a token, "" when nothing is.
func CheckToken(token string) string {
	switch {
	case len(token) < MinToken:
		return fmt.Sprintf("must have %d or more characters", MinToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "must have no spaces, and ASCII characters alone"
	}
	return ""
}

// door is the handler's state.
type door struct {
	Config
	hashes [][sha256.Size]byte
	tries  *tries
	slots  chan struct{}
}

// New returns the handler, to be mounted at /gateway/v1, or an error that lists
// every problem of c.
func New(c Config) (http.Handler, error) {
	var bad []error
	if c.Pull == nil || c.Log == nil || c.Now == nil {
		bad = append(bad, errors.New("gate: Pull, Log and Now are all needed"))
	}
	if n := len(c.Tokens); n < 1 || n > 2 {
		bad = append(bad, fmt.Errorf("gate: %d tokens: 1 or 2 are needed", n))
	}
	d := &door{Config: c, tries: newTries(), slots: make(chan struct{}, maxAtOnce)}
	for i, t := range c.Tokens {
		if problem := CheckToken(t); problem != "" {
			bad = append(bad, fmt.Errorf("gate: token %d %s", i+1, problem))
		}
		d.hashes = append(d.hashes, sha256.Sum256([]byte(t)))
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(d.known, d.bounded)
	r.Get("/policy", d.policy)
	r.Post("/heartbeat", d.heartbeat)
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) {
		problem.Write(w, http.StatusNotFound, "There is nothing here.", 0)
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, _ *http.Request) {
		problem.Write(w, http.StatusMethodNotAllowed, "This is asked in another way.", 0)
	})
	return r, nil
}

// known lets callers in that have the token. Wrong ones are bounded by address,
// so that somebody who tries costs neither time nor room in the log.
func (d *door) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if d.hasToken(r.Header.Values("Authorization")) {
			next.ServeHTTP(w, r)
			return
		}
		wait, first := d.tries.wrong(r.RemoteAddr, d.Now())
		if first {
			d.Log.WarnContext(r.Context(), "a gateway has no good token", "address", r.RemoteAddr)
		}
		if wait > 0 {
			problem.Write(w, http.StatusTooManyRequests, "Too many wrong tokens came from this address.", wait)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="headgate gateways"`)
		problem.Write(w, http.StatusUnauthorized, "This needs the gateways' token.", 0)
	})
}

// hasToken compares in constant time; lengths are hidden by the hash.
func (d *door) hasToken(headers []string) bool {
	if len(headers) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || len(token) > 4096 {
		return false
	}
	got, ok := sha256.Sum256([]byte(token)), 0
	for _, want := range d.hashes {
		ok |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return ok == 1
}

// bounded turns away what is too much at once: gateways come again.
func (d *door) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case d.slots <- struct{}{}:
			defer func() { <-d.slots }()
			next.ServeHTTP(w, r)
		default:
			problem.Write(w, http.StatusServiceUnavailable, "Too many gateways ask at once.", time.Second)
		}
	})
}

func (d *door) policy(w http.ResponseWriter, r *http.Request) {
	replica := r.URL.Query().Get("replica")
	if replica != "" && !policy.ValidID(replica) {
		problem.Write(w, http.StatusUnprocessableEntity, "replica: this is not the id of a gateway.", 0)
		return
	}
	known := r.Header.Get("If-None-Match")
	told, err := d.Pull.Policy(r.Context(), replica, known)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	w.Header().Set("ETag", told.ETag)
	if told.Stamp != "" {
		w.Header().Set(stampHeader, base64.StdEncoding.EncodeToString([]byte(told.Stamp)))
	}
	if told.Body == nil {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(told.Body)))
	_, _ = w.Write(told.Body) // the gateway went away: it asks again
}

func (d *door) heartbeat(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBeat))
	if err != nil {
		problem.Write(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("A heartbeat has at most %d bytes.", maxBeat), 0)
		return
	}
	var h policy.Heartbeat
	if err := json.Unmarshal(raw, &h); err != nil {
		problem.Write(w, http.StatusBadRequest, "This is no heartbeat.", 0)
		return
	}
	live, err := d.Pull.Beat(r.Context(), h)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, "{\"live\": %d}\n", live)
}

// statuses are those of what gateways can do wrong, or meet.
func statuses() map[console.Code]int {
	return map[console.Code]int{
		console.CodeNotFound: http.StatusNotFound, console.CodeInvalid: http.StatusUnprocessableEntity,
		console.CodeUnavailable: http.StatusServiceUnavailable,
	}
}

// fail answers an error of the service.
func (d *door) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	text, wait := "Something went wrong.", time.Duration(0)
	if e, ok := errors.AsType[*console.Error](err); ok {
		text = e.Public
		for _, f := range e.Fields {
			text = f.Field + ": " + f.Message
		}
		if known, ok := statuses()[e.Code]; ok {
			status = known
		}
		if status == http.StatusServiceUnavailable {
			wait = console.RetryLater * time.Second
		}
	}
	if status == http.StatusInternalServerError && r.Context().Err() == nil {
		d.Log.ErrorContext(r.Context(), "a gateway could not be answered", "error", err)
	}
	problem.Write(w, status, text, wait)
}
