package console

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	// pullFresh is how long what the database said serves all gateways that ask.
	pullFresh = 200 * time.Millisecond
	// restamp is how old a stamp or a canary's record may be when it is given out.
	restamp = 30 * time.Second
	// countFresh is how old the number of replicas may be that one is told.
	countFresh = time.Second
)

// Pull answers gateways that cannot reach Redis: it gives them the signed policy
// and takes their heartbeats. It needs the database alone, and while that is away
// it gives out what it gave out last. It is safe for concurrent use.
type Pull struct {
	d Deps

	mu      sync.Mutex // guards what follows; held while the database is asked
	asked   time.Time  // of the machine's clock, for its age alone
	head    headRef
	answers map[string]*answer // by ETag: of the head, and of the head with its canary
	stamp   string
	stamped time.Time

	counting   sync.Mutex // guards what follows
	countedAt  time.Time  // of the machine's clock
	live, rows int
}

// answer is one answer as it is sent.
type answer struct {
	body []byte
	at   time.Time // when it was signed
}

// Pulled is what a gateway is told.
type Pulled struct {
	Body  []byte // JSON of a policy.Pulled; nil when nothing has changed since the ETag that it knows
	ETag  string
	Stamp string // JSON of a policy.Stamp
}

// NewPull returns the service.
func NewPull(d Deps) *Pull { return &Pull{d: d.withDefaults(), answers: map[string]*answer{}} }

// Policy says what a replica is to enforce: the version in force and, for a
// replica of a canary, the one on trial. known is the ETag that it has, "" for
// none. It is CodeNotFound before the first publication.
func (s *Pull) Policy(ctx context.Context, replica, known string) (Pulled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	down := s.ask(ctx)
	if s.head.Number == 0 {
		if down != nil {
			return Pulled{}, down
		}
		return Pulled{}, &Error{Code: CodeNotFound, Public: "Nothing has been published yet."}
	}
	trial := s.head.Canary
	if trial != nil && !contains(trial.Replicas, replica) {
		trial = nil
	}
	out := Pulled{ETag: s.etag(trial), Stamp: s.stampNow(down == nil)}
	if out.ETag == known {
		return out, nil
	}
	var err error
	out.Body, err = s.answer(ctx, out.ETag, trial)
	return out, err
}

func contains(ids []string, id string) bool {
	for _, have := range ids {
		if have == id {
			return true
		}
	}
	return false
}

// ask reads which version is in force, at most every pullFresh. On failure the
// last known one stays.
func (s *Pull) ask(ctx context.Context) error {
	if !s.asked.IsZero() && time.Since(s.asked) < pullFresh {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	head, err := s.d.headRef(ctx)
	if err != nil {
		return err
	}
	if head.Number < s.head.Number {
		return nil // an older database; gateways would refuse it
	}
	s.head, s.asked = head, time.Now()
	return nil
}

// etag names what is told.
func (s *Pull) etag(trial *Rollout) string {
	parts := []string{strconv.FormatInt(s.head.Number, 10), strings.TrimPrefix(s.head.Digest, "sha256:"), policy.SignerID(s.d.public())}
	if trial != nil {
		parts = append(parts, "canary", strconv.FormatInt(trial.Version, 10))
	}
	return `"` + strings.Join(parts, "-") + `"`
}

// stampNow is a stamp that is not old, as long as the database vouches for it.
func (s *Pull) stampNow(vouched bool) string {
	now := s.d.now()
	if vouched && (s.stamp == "" || now.Sub(s.stamped) > restamp || !strings.Contains(s.stamp, s.head.Digest)) {
		raw, err := json.Marshal(policy.SignStamp(s.d.Signer, s.d.Deployment, s.head.Number, s.head.Digest, now))
		if err == nil { // plain fields: it cannot fail
			s.stamp, s.stamped = string(raw), now
		}
	}
	return s.stamp
}

// answer makes an answer, or gives the one that it made before.
func (s *Pull) answer(ctx context.Context, etag string, trial *Rollout) ([]byte, error) {
	now := s.d.now()
	if a := s.answers[etag]; a != nil && (trial == nil || now.Sub(a.at) < restamp) {
		return a.body, nil
	}
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	signed, err := s.d.signVersion(ctx, s.head.Number)
	if err != nil {
		return nil, err
	}
	told := policy.Pulled{Policy: signed}
	if trial != nil {
		tried, err := s.d.signVersion(ctx, trial.Version)
		if err != nil {
			return nil, err
		}
		c := policy.SignCanary(s.d.Signer, s.d.Deployment, tried, trial.Base, trial.Replicas, now)
		told.Canary, told.CanaryBody = &c, tried.Body
	}
	raw, err := json.Marshal(told)
	if err != nil {
		return nil, fmt.Errorf("encode version %d: %w", s.head.Number, err)
	}
	for known := range s.answers {
		if !strings.HasPrefix(known, s.etag(nil)[:len(s.etag(nil))-1]) {
			delete(s.answers, known) // of another head
		}
	}
	s.answers[etag] = &answer{body: raw, at: now}
	return raw, nil
}

// Beat takes a heartbeat of a replica that cannot reach Redis. It returns the
// number of replicas that are not gone, as far as it is known. It is
// CodeUnavailable for a replica that nobody has heard of while there are too
// many already: whoever has the token could make up any number of them.
func (s *Pull) Beat(ctx context.Context, h policy.Heartbeat) (live int, err error) {
	if problem := beatProblem(h); problem != "" {
		return 0, invalid(FieldError{Field: "id", Message: problem})
	}
	h.At = time.Time{}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		var rows int
		if live, rows, err = s.counted(ctx, tx); err != nil {
			return err
		}
		if rows >= maxRoster {
			known, err := tx.HasBeat(ctx, h.ID)
			if err != nil {
				return err
			}
			if !known {
				return &Error{Code: CodeUnavailable, Public: "There are too many gateways to take another one.", RetryAfter: RetryLater}
			}
		}
		return tx.PutBeats(ctx, BeatHTTPS, []Beat{{Heartbeat: h, Via: BeatHTTPS}})
	})
	return max(live, 1), err
}

// counted is how many replicas and rows there were within the last second or
// so. A fleet that lost Redis comes all at once: it must not be counted anew for
// each.
func (s *Pull) counted(ctx context.Context, tx Tx) (live, rows int, err error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	if !s.countedAt.IsZero() && time.Since(s.countedAt) < countFresh {
		return s.live, s.rows, nil
	}
	if live, rows, err = tx.CountBeats(ctx, GoneAfter, rosterShown); err == nil {
		s.live, s.rows, s.countedAt = live, rows, time.Now()
	}
	return live, rows, err
}

func beatProblem(h policy.Heartbeat) string {
	switch {
	case !policy.ValidID(h.ID) || h.ID == "index":
		return "This is not the id of a gateway."
	case h.Boot == "" || len(h.Boot) > 64:
		return "This gateway says no boot, or one of more than 64 characters."
	case h.Version < 0:
		return "This gateway says a negative version."
	}
	return ""
}
