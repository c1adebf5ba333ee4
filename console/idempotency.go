package console

import (
	"context"
	"time"
)

// idempotencyFor is how long a key is remembered.
const idempotencyFor = 24 * time.Hour

// Idempotency remembers which requests were made, so that a repeated one has no
// second effect.
type Idempotency struct{ d Deps }

// NewIdempotency returns the idempotency service.
func NewIdempotency(d Deps) *Idempotency { return &Idempotency{d.withDefaults()} }

// Claim takes a key for an actor and a scope ("tenants.create"); fingerprint is
// a hash of the request. fresh is true for the first; otherwise earlier is what
// Finish stored, nil while the first still runs or when it died. A repeat with
// another fingerprint is CodeInvalid.
func (s *Idempotency) Claim(ctx context.Context, actor Actor, scope, key, fingerprint string) (fresh bool, earlier []byte, err error) {
	if key == "" || len(key) > 255 || !printable(key) {
		return false, nil, invalid(FieldError{Field: "idempotency_key", Message: "Between 1 and 255 printable characters without blanks."})
	}
	k := IdempotencyKey{ActorID: actor.ID, Scope: scope, Key: key}
	var known string
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		if fresh, err = tx.ClaimIdempotencyKey(ctx, k, fingerprint, now, now.Add(idempotencyFor)); err != nil || fresh {
			return err
		}
		known, earlier, err = tx.IdempotencyAnswer(ctx, k)
		return err
	})
	if err == nil && !fresh && known != fingerprint {
		err = invalid(FieldError{Field: "idempotency_key", Message: "This key was used for another request."})
	}
	return fresh, earlier, err
}

// Finish stores the answer to give to repeats; never a secret. It does so also
// when the client has gone meanwhile: that is when it asks again.
func (s *Idempotency) Finish(ctx context.Context, actor Actor, scope, key string, answer []byte) error {
	k := IdempotencyKey{ActorID: actor.ID, Scope: scope, Key: key}
	ctx = context.WithoutCancel(ctx)
	return s.d.Store.InTx(ctx, func(tx Tx) error { return tx.FinishIdempotencyKey(ctx, k, append([]byte{}, answer...)) })
}

// Release gives a key back after a request that had no effect, so that it can
// be made again; also when the client has gone meanwhile.
func (s *Idempotency) Release(ctx context.Context, actor Actor, scope, key string) error {
	k := IdempotencyKey{ActorID: actor.ID, Scope: scope, Key: key}
	ctx = context.WithoutCancel(ctx)
	return s.d.Store.InTx(ctx, func(tx Tx) error { return tx.ReleaseIdempotencyKey(ctx, k) })
}
