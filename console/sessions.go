package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"
	"unicode/utf8"
)

// Session limits.
const (
	SessionIdle     = 30 * time.Minute
	SessionAbsolute = 12 * time.Hour
)

// sessionIDLength is the length of a session's id: rand.Text, over 128 bits.
const sessionIDLength = 26

// seenEvery is how often a session's and a token's last use is written.
const seenEvery = 15 * time.Second

// Sessions keeps signed-in browsers. The cookie holds a random id; the row
// holds its SHA-256, so that a stolen table opens nothing.
type Sessions struct{ d Deps }

// NewSessions returns the sessions service.
func NewSessions(d Deps) *Sessions { return &Sessions{d.withDefaults()} }

func sessionHash(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

// Create makes a session for an operator as they were when they signed in, and
// returns its id, for the cookie alone. When they have been disabled or given
// another password since, it is CodeUnauthenticated: the change has ended all
// sessions, and this one must not come after it.
func (s *Sessions) Create(ctx context.Context, o Operator, ip, userAgent string, data []byte) (id string, row Session, err error) {
	id = rand.Text()
	now := s.d.now()
	row = Session{
		Hash: sessionHash(id), OperatorID: o.ID, Data: append([]byte{}, data...), IP: ip, UserAgent: shorten(userAgent, 400),
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(SessionAbsolute),
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		// The row's reference to the operator waits for a change that is under way.
		if err := tx.InsertSession(ctx, row); err != nil {
			return err
		}
		is, err := tx.Operator(ctx, o.ID)
		if err == nil && (is.PasswordHash != o.PasswordHash || is.DisabledAt != nil) {
			err = &Error{Code: CodeUnauthenticated, Public: "Please sign in."}
		}
		return err
	})
	if err != nil {
		return "", Session{}, err
	}
	return id, row, nil
}

// Touch finds a session by its cookie id and counts as use. A session that is
// unknown, idle for SessionIdle, older than SessionAbsolute or of a disabled
// operator is CodeUnauthenticated. The operator is read anew each time, so that
// a change of role holds from the next request on.
func (s *Sessions) Touch(ctx context.Context, id string) (Session, Operator, error) {
	return s.find(ctx, id, true)
}

// Peek is Touch without counting as use.
func (s *Sessions) Peek(ctx context.Context, id string) (Session, Operator, error) {
	return s.find(ctx, id, false)
}

func (s *Sessions) find(ctx context.Context, id string, use bool) (row Session, o Operator, err error) {
	over := &Error{Code: CodeUnauthenticated, Public: "Please sign in."}
	if len(id) != sessionIDLength {
		return Session{}, Operator{}, over
	}
	now := s.d.now()
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		row, o, err = tx.Session(ctx, sessionHash(id), now, now.Add(-SessionIdle))
		return err
	})
	if IsNotFound(err) {
		return Session{}, Operator{}, over
	}
	if err == nil && use && now.Sub(row.SeenAt) >= seenEvery {
		row.SeenAt = now
		s.d.noteUse(ctx, func(tx Tx) error { return tx.SeeSession(ctx, row.Hash, now) })
	}
	return row, o, err
}

// noteUse writes when something was used last. A database that can only be read
// must not keep anybody from reading, so that it may fail.
func (d Deps) noteUse(ctx context.Context, see func(Tx) error) {
	if err := d.Store.Read(ctx, see); err != nil {
		d.Log.DebugContext(ctx, "last use was not written", "error", err)
	}
}

// Save replaces the data of a session. It never makes one: what was ended
// stays ended.
func (s *Sessions) Save(ctx context.Context, id string, data []byte) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error { return tx.SaveSession(ctx, sessionHash(id), data) })
}

// Delete ends a session by its cookie id.
func (s *Sessions) Delete(ctx context.Context, id string) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error { return tx.DeleteSession(ctx, sessionHash(id)) })
}

// DeleteOf ends all sessions of an operator but the one with the cookie id
// keep ("" keeps none), and returns how many. Operators may end their own; an
// owner may end anyone's.
func (s *Sessions) DeleteOf(ctx context.Context, actor Actor, operatorID, keep string) (n int64, err error) {
	if actor.ID != operatorID {
		if err := actor.need(PermManageOperators); err != nil {
			return 0, err
		}
	}
	keepHash := ""
	if keep != "" {
		keepHash = sessionHash(keep)
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		if n, err = tx.DeleteSessionsOf(ctx, operatorID, keepHash); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, s.d.now(), event{
			action: "session.end", object: "operator", objectID: operatorID, after: map[string]int64{"ended": n},
		})
	})
	return n, err
}

// List returns an operator's living sessions, the last used first.
func (s *Sessions) List(ctx context.Context, operatorID string) (out []Session, err error) {
	now := s.d.now()
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Sessions(ctx, operatorID, now, now.Add(-SessionIdle))
		return err
	})
	return out, err
}

// shorten cuts s to at most n characters.
func shorten(s string, n int) string {
	if !utf8.ValidString(s) {
		return ""
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
