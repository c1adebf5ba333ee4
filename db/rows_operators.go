package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

func operatorOf(r gen.Operator) console.Operator {
	return console.Operator{
		ID: r.ID, Email: r.Email, Name: r.Name, Role: console.Role(r.Role), PasswordHash: r.PasswordHash, CreatedAt: r.CreatedAt, DisabledAt: r.DisabledAt,
	}
}

// InsertOperator implements console.OperatorRows.
func (t tx) InsertOperator(ctx context.Context, o console.Operator) error {
	return t.q.InsertOperator(ctx, gen.InsertOperatorParams{
		ID: o.ID, Email: o.Email, Name: o.Name, Role: string(o.Role), PasswordHash: o.PasswordHash, CreatedAt: o.CreatedAt,
	})
}

// UpdateOperator implements console.OperatorRows.
func (t tx) UpdateOperator(ctx context.Context, o console.Operator) error {
	return t.q.UpdateOperator(ctx, gen.UpdateOperatorParams{
		ID: o.ID, Name: o.Name, Role: string(o.Role), PasswordHash: o.PasswordHash, DisabledAt: o.DisabledAt,
	})
}

// Operator implements console.OperatorRows.
func (t tx) Operator(ctx context.Context, id string) (console.Operator, error) {
	r, err := t.q.GetOperator(ctx, id)
	return operatorOf(r), absent(err, "operator")
}

// LockOperator implements console.OperatorRows.
func (t tx) LockOperator(ctx context.Context, id string) (console.Operator, error) {
	r, err := t.q.LockOperator(ctx, id)
	return operatorOf(r), absent(err, "operator")
}

// OperatorByEmail implements console.OperatorRows.
func (t tx) OperatorByEmail(ctx context.Context, email string) (console.Operator, error) {
	r, err := t.q.GetOperatorByEmail(ctx, email)
	return operatorOf(r), absent(err, "operator")
}

// Operators implements console.OperatorRows.
func (t tx) Operators(ctx context.Context) ([]console.Operator, error) {
	rows, err := t.q.ListOperators(ctx)
	return each(rows, operatorOf), err
}

func sessionOf(r gen.Session) console.Session {
	return console.Session{
		Hash: r.Hash, OperatorID: r.OperatorID, Data: r.Data, IP: r.IP, UserAgent: r.UserAgent, CreatedAt: r.CreatedAt, SeenAt: r.SeenAt, ExpiresAt: r.ExpiresAt,
	}
}

// InsertSession implements console.SessionRows.
func (t tx) InsertSession(ctx context.Context, s console.Session) error {
	return t.q.InsertSession(ctx, gen.InsertSessionParams{
		Hash: s.Hash, OperatorID: s.OperatorID, Data: s.Data, IP: s.IP, UserAgent: s.UserAgent, CreatedAt: s.CreatedAt, SeenAt: s.SeenAt, ExpiresAt: s.ExpiresAt,
	})
}

// Session implements console.SessionRows.
func (t tx) Session(ctx context.Context, hash string, now, idleSince time.Time) (console.Session, console.Operator, error) {
	r, err := t.q.GetSession(ctx, gen.GetSessionParams{Hash: hash, Now: now, IdleSince: idleSince})
	return sessionOf(r.Session), operatorOf(r.Operator), absent(err, "session")
}

// SeeSession implements console.SessionRows.
func (t tx) SeeSession(ctx context.Context, hash string, now time.Time) error {
	return t.q.SeeSession(ctx, gen.SeeSessionParams{Hash: hash, Now: now})
}

// SaveSession implements console.SessionRows.
func (t tx) SaveSession(ctx context.Context, hash string, data []byte) error {
	return t.q.SaveSession(ctx, gen.SaveSessionParams{Hash: hash, Data: data})
}

// Sessions implements console.SessionRows.
func (t tx) Sessions(ctx context.Context, operatorID string, now, idleSince time.Time) ([]console.Session, error) {
	rows, err := t.q.ListSessions(ctx, gen.ListSessionsParams{OperatorID: operatorID, Now: now, IdleSince: idleSince})
	return each(rows, sessionOf), err
}

// DeleteSession implements console.SessionEnds.
func (t tx) DeleteSession(ctx context.Context, hash string) error {
	return t.q.DeleteSession(ctx, hash)
}

// DeleteSessionsOf implements console.SessionEnds.
func (t tx) DeleteSessionsOf(ctx context.Context, operatorID, keepHash string) (int64, error) {
	return t.q.DeleteSessionsOf(ctx, gen.DeleteSessionsOfParams{OperatorID: operatorID, KeepHash: keepHash})
}

// DeleteDeadSessions implements console.SessionEnds.
func (t tx) DeleteDeadSessions(ctx context.Context, now, idleSince time.Time) error {
	return t.q.DeleteDeadSessions(ctx, gen.DeleteDeadSessionsParams{Now: now, IdleSince: idleSince})
}

func tokenOf(r gen.APIToken) console.APIToken {
	return console.APIToken{
		KID: r.KID, OperatorID: r.OperatorID, Name: r.Name, Digest: r.Digest, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
		RevokedAt: r.RevokedAt, LastUsedAt: r.LastUsedAt,
	}
}

// InsertToken implements console.TokenRows.
func (t tx) InsertToken(ctx context.Context, v console.APIToken) error {
	return t.q.InsertToken(ctx, gen.InsertTokenParams{
		KID: v.KID, OperatorID: v.OperatorID, Name: v.Name, Digest: v.Digest, CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt,
	})
}

// Token implements console.TokenRows.
func (t tx) Token(ctx context.Context, kid string) (console.APIToken, console.Operator, error) {
	r, err := t.q.GetToken(ctx, kid)
	return tokenOf(r.APIToken), operatorOf(r.Operator), absent(err, "token")
}

// Tokens implements console.TokenRows.
func (t tx) Tokens(ctx context.Context, operatorID string) ([]console.APIToken, error) {
	rows, err := t.q.ListTokens(ctx, operatorID)
	return each(rows, tokenOf), err
}

// RevokeToken implements console.TokenRows.
func (t tx) RevokeToken(ctx context.Context, kid string, now time.Time) (bool, error) {
	n, err := t.q.RevokeToken(ctx, gen.RevokeTokenParams{KID: kid, Now: &now})
	return n == 1, err
}

// SeeToken implements console.TokenRows.
func (t tx) SeeToken(ctx context.Context, kid string, now time.Time) error {
	return t.q.SeeToken(ctx, gen.SeeTokenParams{KID: kid, Now: &now})
}

// ClaimIdempotencyKey implements console.IdempotencyRows.
func (t tx) ClaimIdempotencyKey(ctx context.Context, k console.IdempotencyKey, fingerprint string, now, expires time.Time) (bool, error) {
	n, err := t.q.ClaimIdempotencyKey(ctx, gen.ClaimIdempotencyKeyParams{
		ActorID: k.ActorID, Scope: k.Scope, Key: k.Key, Fingerprint: fingerprint, CreatedAt: now, ExpiresAt: expires,
	})
	return n == 1, err
}

// IdempotencyAnswer implements console.IdempotencyRows.
func (t tx) IdempotencyAnswer(ctx context.Context, k console.IdempotencyKey) (string, []byte, error) {
	r, err := t.q.GetIdempotencyKey(ctx, gen.GetIdempotencyKeyParams{ActorID: k.ActorID, Scope: k.Scope, Key: k.Key})
	return r.Fingerprint, r.Answer, absent(err, "idempotency key")
}

// FinishIdempotencyKey implements console.IdempotencyRows.
func (t tx) FinishIdempotencyKey(ctx context.Context, k console.IdempotencyKey, answer []byte) error {
	return t.q.FinishIdempotencyKey(ctx, gen.FinishIdempotencyKeyParams{ActorID: k.ActorID, Scope: k.Scope, Key: k.Key, Answer: answer})
}

// ReleaseIdempotencyKey implements console.IdempotencyRows.
func (t tx) ReleaseIdempotencyKey(ctx context.Context, k console.IdempotencyKey) error {
	return t.q.ReleaseIdempotencyKey(ctx, gen.ReleaseIdempotencyKeyParams{ActorID: k.ActorID, Scope: k.Scope, Key: k.Key})
}

// DeleteExpiredIdempotencyKeys implements console.IdempotencyRows.
func (t tx) DeleteExpiredIdempotencyKeys(ctx context.Context, now time.Time) error {
	return t.q.DeleteExpiredIdempotencyKeys(ctx, now)
}
