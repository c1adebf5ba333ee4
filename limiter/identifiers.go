package limiter

import "github.com/headgate/headgate/policy"

// IdentifierNumbers are the numbers of the hidden bucket that bounds how many
// distinct subjects of a limit with the numbers n are kept apart: each newcomer
// takes one token. Its burst is half of most, and the other half comes back in
// the time for which a subject is remembered, so at most about most are
// remembered at once. Most must be positive.
func IdentifierNumbers(n policy.Numbers, most int64) policy.Numbers {
	half := max(1, most/2)
	life := UntilFull(0, n) + ForgetMicros
	period := min(life, policy.MaxPeriod.Microseconds(), (policy.MaxUnits-1-half)/half)
	tokens := mulDiv(half, period, life)
	if tokens == 0 {
		tokens, period = 1, min(ceilDiv(life, half), policy.MaxPeriod.Microseconds(), max(1, (policy.MaxUnits-2)/half))
	}
	common := gcd(tokens, period)
	return policy.Numbers{Tokens: tokens / common, Period: period / common, Burst: half}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
