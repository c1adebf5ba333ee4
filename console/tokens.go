package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy/apikey"
)

// IssueToken makes a token for the JSON API with the operator's own rights. It
// is returned once, as hg_ops_…. Operators may issue their own; an owner anyone's.
func (s *Operators) IssueToken(ctx context.Context, actor Actor, operatorID, name string, expiresAt *time.Time) (token string, row APIToken, err error) {
	if actor.ID != operatorID {
		if err := actor.need(PermManageOperators); err != nil {
			return "", APIToken{}, err
		}
	}
	var p problems
	now := s.d.now()
	row = APIToken{OperatorID: operatorID, Name: p.name("name", name), CreatedAt: now, ExpiresAt: expiresAt}
	if expiresAt != nil {
		p.future("expires_at", *expiresAt, now)
	}
	if err := p.err(); err != nil {
		return "", APIToken{}, err
	}
	secret, kid, err := apikey.Generate(apikey.Ops, s.d.Rand)
	if err != nil {
		return "", APIToken{}, err
	}
	row.KID, row.Digest = kid, apikey.Digest(secret.Reveal())
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		o, err := tx.Operator(ctx, operatorID)
		if err != nil {
			return err
		}
		if o.DisabledAt != nil {
			return conflict("The operator is disabled.")
		}
		if err := tx.InsertToken(ctx, row); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "token.issue", object: "token", objectID: kid, after: tokenView{operatorID, row.Name, row.ExpiresAt, false},
		})
	})
	if err != nil {
		return "", APIToken{}, err
	}
	return secret.Reveal(), row, nil
}

// ListTokens returns an operator's tokens, the newest first.
func (s *Operators) ListTokens(ctx context.Context, operatorID string) (out []APIToken, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Tokens(ctx, operatorID)
		return err
	})
	return out, err
}

// RevokeToken ends a token. Operators may end their own; an owner anyone's.
func (s *Operators) RevokeToken(ctx context.Context, actor Actor, kid string) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		t, o, err := tx.Token(ctx, kid)
		if err != nil {
			return err
		}
		if o.ID != actor.ID && actor.need(PermManageOperators) != nil {
			return notFound("token")
		}
		now := s.d.now()
		if ok, err := tx.RevokeToken(ctx, kid, now); err != nil || !ok {
			return firstError(err, conflict("The token is revoked already."))
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "token.revoke", object: "token", objectID: kid,
			before: tokenView{o.ID, t.Name, t.ExpiresAt, false}, after: tokenView{o.ID, t.Name, t.ExpiresAt, true},
		})
	})
}

// Authenticate turns an API token into an actor with the operator's present
// role. A token that is malformed, unknown, expired, revoked or of a disabled
// operator is CodeUnauthenticated, with one and the same text.
func (s *Operators) Authenticate(ctx context.Context, token string) (Actor, error) {
	bad := &Error{Code: CodeUnauthenticated, Public: "The API token is not valid."}
	parsed, err := apikey.Parse(token)
	if err != nil || parsed.Environment != apikey.Ops {
		return Actor{}, bad
	}
	now := s.d.now()
	var t APIToken
	var o Operator
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		t, o, err = tx.Token(ctx, parsed.KID)
		return err
	})
	if err != nil && !IsNotFound(err) {
		return Actor{}, err
	}
	known := err == nil
	digest := t.Digest
	if !known {
		digest = dummyDigest // as much work as for a known one
	}
	if !apikey.Equal(digest, token) || !known || o.DisabledAt != nil || t.RevokedAt != nil || t.ExpiresAt != nil && !t.ExpiresAt.After(now) {
		return Actor{}, bad
	}
	if now.Sub(orNever(t.LastUsedAt)) >= seenEvery {
		s.d.noteUse(ctx, func(tx Tx) error { return tx.SeeToken(ctx, t.KID, now) })
	}
	return Actor{ID: o.ID, Name: o.Name, Role: o.Role, Via: ViaAPI}, nil
}

const dummyDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func orNever(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
