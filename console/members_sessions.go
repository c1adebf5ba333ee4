package console

import (
	"context"
	"crypto/rand"
)

// MemberSessions keeps members' signed-in browsers, by the rules of Sessions.
// They end with a change of role or password, with removal, and when the tenant
// is suspended.
type MemberSessions struct{ d Deps }

// NewMemberSessions returns the service.
func NewMemberSessions(d Deps) *MemberSessions { return &MemberSessions{d.withDefaults()} }

// Create makes a session for a member as they were when they signed in, and
// returns its id, for the cookie alone.
func (s *MemberSessions) Create(ctx context.Context, m Member, ip, userAgent string, data []byte) (id string, row Session, err error) {
	id = rand.Text()
	now := s.d.now()
	row = Session{
		Hash: sessionHash(id), OperatorID: m.ID, Data: append([]byte{}, data...), IP: ip, UserAgent: shorten(userAgent, 400),
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(SessionAbsolute),
	}
	over := &Error{Code: CodeUnauthenticated, Public: "Please sign in."}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		// The lock waits for a change that is under way, which ends all sessions.
		if _, err := active(ctx, tx, m.TenantID); err != nil {
			return err
		}
		if err := tx.InsertMemberSession(ctx, m.TenantID, row); err != nil {
			return err
		}
		is, err := tx.Member(ctx, m.TenantID, m.ID)
		if err == nil && (is.PasswordHash != m.PasswordHash || is.Role != m.Role || is.DisabledAt != nil) {
			return over
		}
		return err
	})
	if err != nil {
		return "", Session{}, err
	}
	return id, row, nil
}

// Touch finds a session by its cookie id and counts as use; see Sessions.Touch.
func (s *MemberSessions) Touch(ctx context.Context, id string) (Session, Member, error) {
	return s.find(ctx, id, true)
}

// Peek is Touch without counting as use.
func (s *MemberSessions) Peek(ctx context.Context, id string) (Session, Member, error) {
	return s.find(ctx, id, false)
}

func (s *MemberSessions) find(ctx context.Context, id string, use bool) (row Session, m Member, err error) {
	over := &Error{Code: CodeUnauthenticated, Public: "Please sign in."}
	if len(id) != sessionIDLength {
		return Session{}, Member{}, over
	}
	now := s.d.now()
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		row, m, err = tx.MemberSession(ctx, sessionHash(id), now, now.Add(-SessionIdle))
		return err
	})
	if IsNotFound(err) {
		return Session{}, Member{}, over
	}
	if err == nil && use && now.Sub(row.SeenAt) >= seenEvery {
		row.SeenAt = now
		s.d.noteUse(ctx, func(tx Tx) error { return tx.SeeMemberSession(ctx, row.Hash, now) })
	}
	return row, m, err
}

// Save replaces the data of a session. It never makes one.
func (s *MemberSessions) Save(ctx context.Context, id string, data []byte) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error { return tx.SaveMemberSession(ctx, sessionHash(id), data) })
}

// Delete ends a session by its cookie id.
func (s *MemberSessions) Delete(ctx context.Context, id string) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error { return tx.DeleteMemberSession(ctx, sessionHash(id)) })
}
