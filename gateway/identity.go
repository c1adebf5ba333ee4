package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
)

// rescue bounds the lookups of keys from addresses that are over the limit of
// refused credentials: a good key behind a shared address gets through, guessing
// costs at most this many lookups, whatever the number of addresses.
func rescue() policy.InvalidLimit {
	return policy.InvalidLimit{Rate: policy.Rate{Tokens: 5, Period: time.Second}, Burst: 5}
}

// identify finds the tenant of a request on an api_key route and fills it in.
// false: the verdict has become a refusal.
func (g *Gateway) identify(ctx context.Context, in *Inbound, v *Verdict) (policy.TenantRecord, bool) {
	if in.Tenant != "" {
		v.Tenant = in.Tenant
		if in.Replay != nil {
			v.Credential = in.Replay.Credential
		}
		return g.tenant(ctx, in.Tenant, v)
	}
	rules := v.Policy.Compiled.Document.Credentials
	key, err := in.Key, error(nil)
	if key == "" {
		key, err = credentialOf(in.Header, rules.Headers)
	}
	switch {
	case errors.Is(err, errAmbiguousCredential):
		g.invalid.charge(v.Subject, rules.Invalid, g.cfg.Now())
		v.refuse(CodeAmbiguousCredential, usage.OutcomeInvalid)
		return policy.TenantRecord{}, false
	case err != nil:
		v.refuse(CodeMissingCredential, usage.OutcomeUnauthorized)
		return policy.TenantRecord{}, false
	}
	record, ok := g.verify(ctx, key, rules.Invalid, v)
	if !ok {
		return policy.TenantRecord{}, false
	}
	v.Tenant, v.Credential = record.Tenant, record.Credential
	v.Retiring = record.State == policy.KeyRetiring
	v.RetiringAt, v.NotAfter = record.RetiringAt, record.NotAfter
	return g.tenant(ctx, record.Tenant, v)
}

// verify looks a key up and compares it. The order is: shape and checksum, which
// cost nothing; the limit of refused credentials; the directory.
func (g *Gateway) verify(ctx context.Context, key string, rule policy.InvalidLimit, v *Verdict) (policy.KeyRecord, bool) {
	now := g.cfg.Now()
	parsed, err := apikey.Parse(key)
	wait, over := g.invalid.over(v.Subject, rule, now)
	if over && (err != nil || !g.mayLookUp(parsed.KID, now)) {
		v.tooManyInvalid(wait)
		return policy.KeyRecord{}, false
	}
	if err != nil {
		g.refuseCredential(CodeMalformedCredential, rule, v)
		return policy.KeyRecord{}, false
	}
	record, err := g.cfg.Directory.Key(ctx, parsed.KID)
	g.metrics.lookup(err)
	if err != nil && !errors.Is(err, feed.ErrUnknown) {
		g.unavailable(v)
		return policy.KeyRecord{}, false
	}
	if err != nil {
		record = policy.KeyRecord{}
	}
	v.kid, v.keyRefused = record.KID, true
	switch g.standing(&record, parsed, key, v.Client, now) {
	case keyAccepted:
		v.keyRefused = false
		return record, true
	case keyBrownout: // nobody guesses: it is not charged to the address
		v.refuse(CodeInvalidCredential, usage.OutcomeUnauthorized)
		return policy.KeyRecord{}, false
	case keyWrong:
		v.kid, v.keyRefused = "", false
	case keyStopped:
	}
	g.refuseCredential(CodeInvalidCredential, rule, v)
	return policy.KeyRecord{}, false
}

// refuseCredential books a refused key. What an address over its limit learns is
// that it is over, whatever the key.
func (g *Gateway) refuseCredential(code Code, rule policy.InvalidLimit, v *Verdict) {
	now := g.cfg.Now()
	if g.invalid.charge(v.Subject, rule, now) {
		v.refuse(code, usage.OutcomeUnauthorized)
		return
	}
	wait, _ := g.invalid.over(v.Subject, rule, now)
	v.tooManyInvalid(wait)
}

func (v *Verdict) tooManyInvalid(wait time.Duration) {
	v.RetryAfterSecs = max(int64((wait+time.Second-1)/time.Second), 1)
	v.refuse(CodeTooManyInvalid, usage.OutcomeUnauthorized)
}

// mayLookUp reports whether a key from an address that is over its limit may be
// looked up all the same: when that asks nobody, or within the rescue rate.
func (g *Gateway) mayLookUp(kid string, now time.Time) bool {
	if c, ok := g.cfg.Directory.(interface {
		Cached(kid string) (policy.KeyRecord, bool)
	}); ok {
		if _, hit := c.Cached(kid); hit {
			return true
		}
	}
	if _, over := g.rescued.over("", rescue(), now); over {
		return false
	}
	g.rescued.charge("", rescue(), now)
	return true
}

// tenant looks the tenant up and checks that it may call at all.
func (g *Gateway) tenant(ctx context.Context, id string, v *Verdict) (policy.TenantRecord, bool) {
	record, err := g.cfg.Directory.Tenant(ctx, id)
	g.metrics.lookup(err)
	switch {
	case errors.Is(err, feed.ErrUnknown):
		v.refuse(CodeInvalidCredential, usage.OutcomeUnauthorized)
	case err != nil:
		g.unavailable(v)
	case record.State == policy.TenantActive:
		return record, true
	case record.State == policy.TenantSuspended:
		v.refuse(CodeTenantSuspended, usage.OutcomeSuspended)
	default:
		v.refuse(CodeInvalidCredential, usage.OutcomeUnauthorized)
	}
	return policy.TenantRecord{}, false
}

// unavailable refuses because the directory cannot tell. Nothing is remembered
// and nobody is charged: the key may well be good.
func (g *Gateway) unavailable(v *Verdict) {
	v.RetryAfterSecs = g.jitter()
	v.refuse(CodeIdentityUnavailable, usage.OutcomeUnavailable)
}

// redisTime corrects the own clock by its distance to Redis', which all replicas
// share, so that a key ends everywhere at once.
func (g *Gateway) redisTime(now time.Time) time.Time {
	return now.Add(-time.Duration(g.clockOffset.Load()))
}

// header is a convenience for doors that got single values.
func header(values map[string]string) http.Header {
	h := make(http.Header, len(values))
	for name, value := range values {
		h.Add(name, value) // two spellings of one name are two lines of it
	}
	return h
}
