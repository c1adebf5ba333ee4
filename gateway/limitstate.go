package gateway

import (
	"math"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// LimitKind says what a limit counts.
type LimitKind string

// Kinds of limits.
const (
	LimitRate        LimitKind = "rate"
	LimitConcurrency LimitKind = "concurrency"
	LimitQuota       LimitKind = "quota"
)

// LimitState is one limit after the decision.
type LimitState struct {
	Kind LimitKind
	ID   string // scoped name: "plan.requests"
	// Quota is what the limit lets through in Window: tokens, units of a quota's
	// period, or places of a concurrency limit.
	Quota  int64
	Window int64 // whole seconds; 0 for places and for a quota without an end
	Burst  int64 // tokens of a rate's bucket
	// Remaining is what is left: whole tokens, units or places.
	Remaining  int64
	NextMicros int64 // until there is more; 0 when full, never or not known
	WaitMicros int64 // until it can pay for this request; 0 when it could
	Cost       int64 // of this request
	Refused    bool  // no place, or no units left, for this request
	Blocked    bool  // admits nothing ever
	Overage    bool  // admitted beyond a quota's amount
	Overflow   bool  // counted together with others: too many identifiers
	Unknown    bool  // nobody asked: there are no numbers to tell
	Shadow     bool  // counted and reported; refuses nobody
	Unlimited  bool  // an override: nothing is counted
	From       policy.Provenance
}

// violated reports whether the limit refused, or would have if it is a shadow.
func (l *LimitState) violated() bool { return l.WaitMicros > 0 || l.Blocked || l.Refused }

// further is the number of requests of this cost that the limit still pays for.
func (l *LimitState) further() int64 { return l.Remaining / max(l.Cost, 1) }

// rateState describes a rate limit with the numbers in force, before the decision.
func rateState(l *policy.CompiledLimit, n policy.Numbers, from policy.Provenance, cost int64) LimitState {
	q, w := quotaOf(l.Rate)
	if n != l.Numbers {
		q, w = quotaOf(rateOf(n, l.Rate.Period))
	}
	return LimitState{
		Kind: LimitRate, ID: l.ID, Quota: q, Window: w, Burst: n.Burst, Cost: cost, Blocked: n.Blocked(), Shadow: l.Shadow, From: from,
	}
}

// rateOf tells numbers as a rate over the period that the limit was written
// with, where that is a whole number of tokens.
func rateOf(n policy.Numbers, period time.Duration) policy.Rate {
	micros := period.Microseconds()
	if n.Period > 0 && micros > 0 && micros%n.Period == 0 {
		if times := micros / n.Period; n.Tokens <= math.MaxInt64/times {
			return policy.Rate{Tokens: n.Tokens * times, Period: period}
		}
	}
	return policy.Rate{Tokens: n.Tokens, Period: time.Duration(n.Period) * time.Microsecond}
}

// charged takes in what the store knows of the bucket.
func (l *LimitState) charged(level limiter.Level, n policy.Numbers) {
	l.Unknown, l.Overflow, l.Refused = level.Unknown, level.Overflow, level.Never
	if !l.Unknown {
		l.Remaining, l.NextMicros, l.WaitMicros = max(level.Remaining(n), 0), level.NextMicros(n), level.WaitMicros
	}
}

// placed takes in what the store knows of the places.
func (l *LimitState) placed(level limiter.SlotLevel) {
	l.Remaining, l.Refused = max(l.Quota-level.Active, 0), level.Refused
}

// used takes in what the store knows of the quota's counter.
func (l *LimitState) used(level limiter.QuotaLevel, q *limiter.Quota, now int64) {
	l.Remaining, l.Refused, l.Overage = max(q.Amount-level.Used, 0), level.Refused, level.Overage
	if q.End > now && level.Used > 0 {
		l.NextMicros = q.End - now
	}
	if l.Refused && q.End > now {
		l.WaitMicros = q.End - now
	}
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

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
