package gateway

import (
	"hash/fnv"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/limiter"
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
	headerUser       = "X-Headgate-User"
	headerShadow     = "X-Headgate-Shadow"

	// In the form that net/http keeps names in, so that setting them costs nothing.
	fieldPolicies  = "Ratelimit-Policy"
	fieldLimits    = "Ratelimit"
	fieldLimit     = "Ratelimit-Limit"
	fieldRemaining = "Ratelimit-Remaining"
	fieldReset     = "Ratelimit-Reset"
)

// fieldSet sets fields of a header. Their values lie in one array, where net/http makes
// one for each.
type fieldSet struct {
	h    http.Header
	over http.Header // loses what is set; nil: none
	room []string
}

// Set sets a field.
func (f *fieldSet) Set(name, value string) {
	name = http.CanonicalHeaderKey(name)
	delete(f.over, name)
	f.h[name] = f.value(value)
}

// Add adds a line to a field.
func (f *fieldSet) Add(name, value string) {
	name = http.CanonicalHeaderKey(name)
	if had := f.h[name]; len(had) > 0 {
		f.h[name] = append(had, value)
		return
	}
	f.h[name] = f.value(value)
}

func (f *fieldSet) value(text string) []string {
	if len(f.room) == cap(f.room) {
		f.room = make([]string, 0, 10)
	}
	n := len(f.room)
	f.room = append(f.room, text)
	return f.room[n : n+1 : n+1]
}

// maxInteger is the largest integer of a structured field (RFC 9651, 3.3.1).
const maxInteger = 999_999_999_999_999

// writeHeaders puts what the verdict says into h: the limits' fields unless there
// are no numbers to tell, Retry-After on refusals, the rotation's fields on
// answers to a key that is being replaced.
func (g *Gateway) writeHeaders(h FieldSink, v *Verdict) {
	h.Set(headerRequestID, v.RequestID)
	if !v.Allowed && (v.Status == http.StatusTooManyRequests || v.Status == http.StatusServiceUnavailable) {
		h.Set("Cache-Control", "no-store")
		if s := v.retryAfter(); s > 0 {
			h.Set("Retry-After", strconv.FormatInt(s, 10))
		}
	}
	if v.tells() {
		writeLimits(h, v)
		if g.cfg.LegacyHeaders {
			writeLegacy(h, v)
		}
	}
	if v.Allowed && v.Retiring {
		writeRetiring(h, v, g.cfg.Now())
	}
	if v.Status == http.StatusUnauthorized && v.Policy != nil {
		h.Set("Www-Authenticate", challenge(v.Policy.Compiled.Document.Credentials.Headers))
	}
}

// retryAfter is the whole number of seconds to wait, at least 1; 0 when there is
// no moment to name.
func (v *Verdict) retryAfter() int64 {
	switch {
	case v.Allowed:
		return 0
	case v.Reason == limiter.ReasonConcurrency: // nobody knows when a place gets free
		return 1
	case v.RetryAfterMicros > 0:
		return max(ceilDiv(v.RetryAfterMicros, 1e6), 1)
	}
	return v.RetryAfterSecs
}

// retryAfterMillis is exact: one less is not enough. 0 when it is not known.
func (v *Verdict) retryAfterMillis() int64 {
	if v.Allowed || v.RetryAfterMicros <= 0 || v.Reason == limiter.ReasonConcurrency {
		return 0
	}
	return ceilDiv(v.RetryAfterMicros, 1000)
}

// writeLimits writes RateLimit-Policy and RateLimit (IETF draft, RFC 9651 lists
// of strings): every limit whose numbers are known by its id, in the order of
// evaluation. Ids of limits need no escaping.
func writeLimits(h FieldSink, v *Verdict) {
	policies, limits := make([]byte, 0, 288), make([]byte, 0, 128)
	for i := range v.Limits {
		l := &v.Limits[i]
		if l.Unknown {
			continue
		}
		policies = appendItem(policies, l.ID)
		policies = appendParam(policies, ";q=", min(l.Quota, maxInteger))
		switch {
		case l.Kind == LimitConcurrency:
			policies = append(policies, `;qu="concurrent-requests"`...)
		case l.Window > 0:
			policies = appendParam(policies, ";w=", min(l.Window, maxInteger))
		}
		if l.Kind == LimitRate && l.Burst != l.Quota {
			policies = appendParam(policies, ";rl-burst=", min(l.Burst, maxInteger))
		}
		limits = appendItem(limits, l.ID)
		left, next := v.hint(l)
		if limits = appendParam(limits, ";r=", left); next > 0 {
			limits = appendParam(limits, ";t=", next)
		}
	}
	if len(policies) > 0 {
		n := len(policies)
		text := string(append(policies, limits...)) // one for both
		h.Set(fieldPolicies, text[:n])
		h.Set(fieldLimits, text[n:])
	}
}

func appendItem(b []byte, id string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	return append(append(append(b, '"'), id...), '"')
}

func appendParam(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

// hint is what is left of a limit and the seconds until there is more. The end of
// a quota's period is the same for many callers, so that they are told it up to
// 5 % later; a refusal's Retry-After is exact and stays above it. And of a quota
// no more is told than the rates let through until then: a caller that believed
// in a month's rest a second before its end would be refused at once.
func (v *Verdict) hint(l *LimitState) (left, next int64) {
	left, next = min(l.Remaining, l.Quota, maxInteger), ceilDiv(l.NextMicros, 1e6)
	if l.Kind != LimitQuota || next == 0 {
		return left, next
	}
	for i := range v.Limits {
		if r := &v.Limits[i]; r.Kind == LimitRate && !r.Unknown && r.Window > 0 && r.Quota <= maxInteger/max(next, 1) {
			left = min(left, r.Remaining+ceilDiv(r.Quota*next, r.Window))
		}
	}
	if wait := v.retryAfter(); wait == 0 {
		next += next * int64(v.spread()) / 2000
	}
	return left, next
}

// spread is a number from 0 to 99 that stays with a caller.
func (v *Verdict) spread() uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(v.Tenant))
	return h.Sum32() % 100
}

// Tightest is the limit that the older fields tell of, with what is left of it
// and the seconds until there is more, or until this request could be paid for.
// nil: there is nothing to tell.
func (v *Verdict) Tightest() (l *LimitState, left, reset int64) {
	i := v.tightest()
	if i < 0 || v.Limits[i].Unknown || !v.tells() {
		return nil, 0, 0
	}
	l = &v.Limits[i]
	left, next := v.hint(l)
	if reset = max(next, ceilDiv(l.WaitMicros, 1e6)); l.Refused && reset == 0 {
		reset = v.retryAfter()
	}
	return l, left, reset
}

// tells reports whether callers are told of limits at all.
func (v *Verdict) tells() bool {
	return len(v.Limits) > 0 && !v.abuse() && v.Code != CodeCostExceedsBurst
}

// writeLegacy writes the older fields for the tightest limit.
func writeLegacy(h FieldSink, v *Verdict) {
	l, left, reset := v.Tightest()
	if l == nil {
		return
	}
	b := strconv.AppendInt(make([]byte, 0, 3*20), min(l.Quota, maxInteger), 10)
	first := len(b)
	b = strconv.AppendInt(b, left, 10)
	second := len(b)
	text := string(strconv.AppendInt(b, reset, 10)) // one for all three
	h.Set(fieldLimit, text[:first])
	h.Set(fieldRemaining, text[first:second])
	h.Set(fieldReset, text[second:])
}

// writeRetiring tells a caller that its key is being replaced: since when
// (Deprecation, RFC 9745) and until when it works (Sunset, RFC 8594).
func writeRetiring(h FieldSink, v *Verdict, now time.Time) {
	since := now
	if v.RetiringAt != nil {
		since = *v.RetiringAt
	}
	h.Set("Deprecation", "@"+strconv.FormatInt(since.Unix(), 10))
	if v.NotAfter != nil {
		h.Set("Sunset", v.NotAfter.UTC().Format(http.TimeFormat))
	}
}
