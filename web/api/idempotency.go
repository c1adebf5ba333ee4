package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/headgate/headgate/console"
)

// Repeatable is the header of requests that make something.
type Repeatable struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"A repeat with the same key has no second effect"`
}

// once runs make at most once for an idempotency key. A repeat gets what the
// first one answered; where that held a secret, it gets 409 and never the
// secret. request is what the key stands for: another request under the same
// key is refused. public is the answer as it may be remembered.
func once[O any](ctx context.Context, a *API, scope string, in Repeatable, request any, secret bool, public func(*O) any, make func() (*O, error)) (*O, error) {
	if in.IdempotencyKey == "" {
		return make()
	}
	b, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	actor := actorOf(ctx)
	fresh, earlier, err := a.Idempotency.Claim(ctx, actor, scope, in.IdempotencyKey, hex.EncodeToString(sum[:]))
	if console.IsNotFound(err) { // given back between claiming and reading: the other request failed
		return nil, newProblem(http.StatusConflict, "A request with this idempotency key has just failed. Try again.").as("idempotency-conflict")
	}
	if err != nil {
		return nil, err
	}
	if !fresh {
		return repeated[O](earlier, secret)
	}
	out, err := make()
	if err != nil {
		// Where nobody knows what was done, the key stays taken.
		if console.HadNoEffect(err) {
			if rerr := a.Idempotency.Release(ctx, actor, scope, in.IdempotencyKey); rerr != nil {
				a.Log.WarnContext(ctx, "release idempotency key", "request_id", requestID(ctx), "error", rerr)
			}
		}
		return nil, err
	}
	answer, err := json.Marshal(public(out))
	if err == nil {
		err = a.Idempotency.Finish(ctx, actor, scope, in.IdempotencyKey, answer)
	}
	if err != nil { // what was asked for is done, so the answer counts
		a.Log.WarnContext(ctx, "remember answer for idempotency key", "request_id", requestID(ctx), "error", err)
	}
	return out, nil
}

func repeated[O any](earlier []byte, secret bool) (*O, error) {
	switch {
	case earlier == nil:
		return nil, newProblem(http.StatusConflict, "A request with this idempotency key is still running, or was cut short.").as("idempotency-conflict")
	case secret:
		p := newProblem(http.StatusConflict, "A request with this idempotency key was answered already. Its secret was shown once and is kept nowhere.").as("idempotency-conflict")
		p.Earlier = earlier
		return nil, p
	}
	out := new(O)
	if err := json.Unmarshal(earlier, out); err != nil {
		return nil, err
	}
	return out, nil
}
