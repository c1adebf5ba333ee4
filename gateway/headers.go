package gateway

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate/policy"
)

// Names of the header fields that we write or drop.
const (
	headerRequestID  = "X-Request-Id"
	headerPolicy     = "X-Headgate-Policy"
	headerDebug      = "X-Headgate-Debug"
	headerTenant     = "X-Headgate-Tenant"
	headerCredential = "X-Headgate-Credential"
	headerStatus     = "X-Headgate-Status"
	headerToken      = "X-Headgate-Decide-Token"
	headerRoute      = "X-Headgate-Route"
	headerLease      = "X-Headgate-Lease"
)

// maxInteger is the largest integer of a structured field (RFC 9651, 3.3.1).
const maxInteger = 999_999_999_999_999

// writeHeaders puts what the verdict says into h: the limits' fields unless there
// are no numbers to tell, Retry-After on refusals, the rotation's fields on
// answers to a key that is being replaced.
func (g *Gateway) writeHeaders(h http.Header, v *Verdict) {
	h.Set(headerRequestID, v.RequestID)
	if !v.Allowed && (v.Status == http.StatusTooManyRequests || v.Status == http.StatusServiceUnavailable) {
		h.Set("Cache-Control", "no-store")
		if s := v.retryAfter(); s > 0 {
			h.Set("Retry-After", strconv.FormatInt(s, 10))
		}
	}
	if len(v.Limits) > 0 && !v.abuse() && v.Code != CodeCostExceedsBurst {
		writeLimits(h, v)
		if g.cfg.LegacyHeaders {
			writeLegacy(h, v)
		}
	}
	if v.Allowed && v.Retiring {
		writeRetiring(h, v, g.cfg.Now())
	}
	if v.Status == http.StatusUnauthorized && v.Policy != nil {
		h.Set("WWW-Authenticate", challenge(v.Policy.Compiled.Document.Credentials.Headers))
	}
}

// retryAfter is the whole number of seconds to wait, at least 1; 0 when there is
// no moment to name.
func (v *Verdict) retryAfter() int64 {
	switch {
	case v.Allowed:
		return 0
	case v.RetryAfterMicros > 0:
		return max(ceilDiv(v.RetryAfterMicros, 1e6), 1)
	}
	return v.RetryAfterSecs
}

// retryAfterMillis is exact: one less is not enough. 0 when it is not known.
func (v *Verdict) retryAfterMillis() int64 {
	if v.Allowed || v.RetryAfterMicros <= 0 {
		return 0
	}
	return ceilDiv(v.RetryAfterMicros, 1000)
}

// writeLimits writes RateLimit-Policy and RateLimit (IETF draft, RFC 9651 lists
// of strings): every limit by its id, in the order of evaluation.
func writeLimits(h http.Header, v *Verdict) {
	policies, limits := httpsfv.List{}, httpsfv.List{}
	for i := range v.Limits {
		l := &v.Limits[i]
		q, w := quotaOf(l.Limit.Rate)
		p := httpsfv.NewItem(l.Limit.ID)
		p.Params.Add("q", q)
		p.Params.Add("w", w)
		if l.Limit.Burst != q {
			p.Params.Add("rl-burst", min(l.Limit.Burst, maxInteger))
		}
		policies = append(policies, p)
		r := httpsfv.NewItem(l.Limit.ID)
		r.Params.Add("r", min(l.Remaining, q))
		if l.NextMicros > 0 {
			r.Params.Add("t", ceilDiv(l.NextMicros, 1e6))
		}
		limits = append(limits, r)
	}
	setField(h, "RateLimit-Policy", policies)
	setField(h, "RateLimit", limits)
}

func setField(h http.Header, name string, list httpsfv.List) {
	if text, err := httpsfv.Marshal(list); err == nil {
		h.Set(name, text)
	}
}

// writeLegacy writes the older fields for the tightest limit. Reset counts
// seconds: until one token more, or until this request could be paid for.
func writeLegacy(h http.Header, v *Verdict) {
	i := v.tightest()
	if i < 0 {
		return
	}
	l := &v.Limits[i]
	q, _ := quotaOf(l.Limit.Rate)
	h.Set("RateLimit-Limit", strconv.FormatInt(q, 10))
	h.Set("RateLimit-Remaining", strconv.FormatInt(min(l.Remaining, q), 10))
	h.Set("RateLimit-Reset", strconv.FormatInt(ceilDiv(max(l.NextMicros, l.WaitMicros), 1e6), 10))
}

// quotaOf tells a rate as tokens per whole seconds: the shortest multiple of its
// period that is whole seconds.
func quotaOf(r policy.Rate) (tokens, seconds int64) {
	period := int64(r.Period / time.Microsecond)
	if period <= 0 {
		return 0, 1
	}
	g := gcd(period, 1e6)
	seconds = period / g
	times := seconds * 1e6 / period
	if times > 0 && r.Tokens > math.MaxInt64/times {
		return maxInteger, min(seconds, maxInteger)
	}
	return min(r.Tokens*times, maxInteger), min(seconds, maxInteger)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// writeRetiring tells a caller that its key is being replaced: since when
// (Deprecation, RFC 9745) and until when it works (Sunset, RFC 8594).
func writeRetiring(h http.Header, v *Verdict, now time.Time) {
	since := now
	if v.RetiringAt != nil {
		since = *v.RetiringAt
	}
	h.Set("Deprecation", "@"+strconv.FormatInt(since.Unix(), 10))
	if v.NotAfter != nil {
		h.Set("Sunset", v.NotAfter.UTC().Format(http.TimeFormat))
	}
}
