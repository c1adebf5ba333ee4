package policy

import "math/bits"

// Limit gives the numbers of a rate limit that hold at a time of Redis' clock, in
// Unix µs: boost over override over the limit's own. A boost multiplies what
// would hold without it, as far as that can be counted. A limit that is shared by
// tenants (per global or ip) has its own numbers for everyone.
func (o *Overrides) Limit(l *CompiledLimit, nowMicros int64) (Numbers, Provenance) {
	n := l.Numbers
	p := Provenance{Source: l.Source, ExpiresMicros: l.ExpiresMicros, Unlimited: l.Unlimited}
	if o == nil || l.Per == PerGlobal || l.Per == PerIP {
		return n, p
	}
	own := o.of[l.Hash]
	if r := own.override; r.holds(nowMicros) {
		p.follow(r, SourceOverride)
		switch {
		case r.unlimited:
			n, p.Unlimited = Numbers{}, true
		case r.rate:
			n, p.Unlimited = r.numbers, false
		case n.Tokens > 0: // neither unlimited nor blocked
			n.Burst = min(*r.burst, maxBurst(n))
		}
	}
	if r := own.boost; r.holds(nowMicros) && !p.Unlimited {
		p.follow(r, SourceBoost)
		n = n.boosted(r.factor)
	}
	return n, p
}

// Quota gives a quota's amount and max that hold at a time of Redis' clock, in
// Unix µs. A max of 0 is no bound.
func (o *Overrides) Quota(q *CompiledQuota, nowMicros int64) (amount, most int64, p Provenance) {
	amount, most, p = q.Amount, q.Max, Provenance{Source: q.Source}
	if o == nil {
		return amount, most, p
	}
	own := o.of[q.Hash]
	if r := own.override; r.holds(nowMicros) {
		p.follow(r, SourceOverride)
		if r.unlimited {
			amount, most, p.Unlimited = 0, 0, true
		}
		if r.amount != nil {
			amount = *r.amount
		}
		if r.most != nil {
			most = *r.most
		}
	}
	if r := own.boost; r.holds(nowMicros) && !p.Unlimited {
		p.follow(r, SourceBoost)
		amount, most = times(amount, r.factor, MaxAmount), times(most, r.factor, MaxAmount)
	}
	if most != 0 {
		most = max(most, amount) // of two values from two places
	}
	return amount, most, p
}

// Slots gives the places of a concurrency limit that hold at a time of Redis'
// clock, in Unix µs.
func (o *Overrides) Slots(c *CompiledConcurrency, nowMicros int64) (most int64, p Provenance) {
	most, p = c.Max, Provenance{Source: c.Source}
	if o == nil || c.Per == PerGlobal || c.Per == PerIP {
		return most, p
	}
	own := o.of[c.Hash]
	if r := own.override; r.holds(nowMicros) {
		p.follow(r, SourceOverride)
		if p.Unlimited = r.unlimited; p.Unlimited {
			most = 0
		} else {
			most = *r.most
		}
	}
	if r := own.boost; r.holds(nowMicros) && !p.Unlimited {
		p.follow(r, SourceBoost)
		most = times(most, r.factor, MaxConcurrency)
	}
	return most, p
}

// follow says that a ruling holds now, and that something else does as soon as
// it or what it stands on ends.
func (p *Provenance) follow(r *ruling, source string) {
	p.Source, p.Reason = source, r.reason
	if r.expiresMicros != 0 && (p.ExpiresMicros == 0 || r.expiresMicros < p.ExpiresMicros) {
		p.ExpiresMicros = r.expiresMicros
	}
}

// times is v×thousandths/1000, rounded down and at most a bound.
func times(v, thousandths, most int64) int64 {
	high, low := bits.Mul64(uint64(v), uint64(thousandths))
	if high >= 1000 {
		return most
	}
	product, _ := bits.Div64(high, low, 1000)
	return int64(min(product, uint64(most)))
}

// boosted multiplies rate and burst by so many thousandths. Where the exact
// product cannot be counted below MaxUnits, first the burst and then the rate are
// lower than it, and never lower than n.
func (n Numbers) boosted(thousandths int64) Numbers {
	if n.Blocked() {
		return n
	}
	burst := times(n.Burst, thousandths, maxStored)
	up, down := reduce(thousandths, 1000)
	tokens, down := reduce(n.Tokens, down)
	up, period := reduce(up, n.Period)
	if high, low := bits.Mul64(uint64(tokens), uint64(up)); high == 0 && low <= maxStored && period <= maxStored/down {
		out := Numbers{Tokens: int64(low), Period: period * down}
		if out.Burst = min(burst, maxBurst(out)); out.Burst >= n.Burst {
			return out
		}
	}
	room := min(MaxUnits-1-n.Full(), maxStored)
	out := Numbers{Tokens: times(n.Tokens, thousandths, room), Period: n.Period}
	out.Tokens, out.Period = reduce(out.Tokens, out.Period)
	out.Burst = min(burst, maxBurst(out))
	return out
}

func reduce(a, b int64) (int64, int64) {
	g := gcd(a, b)
	return a / g, b / g
}
