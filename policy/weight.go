package policy

import "math/big"

// weight is what a change means: to callers, and to whoever reviews it.
type weight struct{ effect, risk string }

// weigh gives an effect the risk that it has by itself.
func weigh(effect string) weight {
	if effect == EffectNeutral {
		return weight{effect, RiskLow}
	}
	return weight{effect, RiskMedium}
}

// neutral is a change that callers cannot notice.
func neutral() weight { return weigh(EffectNeutral) }

// freshBucket is a change that begins a new count.
func freshBucket() weight { return weigh(EffectNewBucket) }

// high is the same effect, at high risk when that is so.
func (w weight) high(so bool) weight {
	if so {
		w.risk = RiskHigh
	}
	return w
}

// atLeastMedium is for a change that can be noticed although its effect is
// neither tighter nor looser.
func (w weight) atLeastMedium() weight {
	if w.risk == RiskLow {
		w.risk = RiskMedium
	}
	return w
}

// unless takes tighter and looser, and the risk, from a change of a limit that
// refuses nobody, before or after.
func (w weight) unless(looks bool) weight {
	switch {
	case !looks:
		return w
	case w.effect == EffectNewBucket:
		return weight{EffectNewBucket, RiskLow}
	}
	return neutral()
}

// A cut to half, or a rise to ten times, is taken for a slip until somebody says
// that it is meant.
const (
	suspiciousCut  = 2
	suspiciousRise = 10
)

// amounts weighs numbers of which more admits more: 0 admits nothing.
func amounts(before, after int64) weight {
	w := weigh(moreIsLooser(before, after))
	switch w.effect {
	case EffectTighter:
		return w.high(after <= before/suspiciousCut)
	case EffectLooser:
		return w.high(before <= after/suspiciousRise)
	}
	return w
}

// costs weighs numbers of which more admits fewer requests.
func costs(before, after int64) weight { return amounts(after, before) }

// rates weighs what two rates admit over a long time, exactly.
func rates(before, after Rate) weight {
	w := weigh(rateEffect(before, after))
	if w.effect == EffectNeutral {
		return w
	}
	if before.Unlimited || after.Unlimited || before.Blocked() || after.Blocked() {
		return w.high(true)
	}
	b, a := perTime(before, after), perTime(after, before)
	if w.effect == EffectTighter {
		return w.high(multiple(a, suspiciousCut).Cmp(b) <= 0)
	}
	return w.high(multiple(b, suspiciousRise).Cmp(a) <= 0)
}

// perTime is what a rate admits in the product of both periods.
func perTime(of, beside Rate) *big.Int {
	return new(big.Int).Mul(big.NewInt(of.Tokens), big.NewInt(int64(beside.Period)))
}

func multiple(n *big.Int, by int64) *big.Int { return new(big.Int).Mul(n, big.NewInt(by)) }

// addedLimit weighs a limit that was not there before.
func addedLimit(l Limit) weight {
	return weigh(addedEffect(l)).high(addedEffect(l) == EffectTighter && (l.Rate.Blocked() || l.Burst == 0))
}

// removedLimit weighs a limit that is no longer there.
func removedLimit(l Limit) weight {
	effect := opposite(addedEffect(l))
	return weigh(effect).high(effect != EffectNeutral)
}

// modes weighs whether a limit refuses. blocks says that it would admit nothing,
// bounded that it would refuse anybody at all.
func modes(before, after LimitMode, bounded, blocks bool) weight {
	w := weigh(moreIsLooser(asNumber(before == ModeShadow), asNumber(after == ModeShadow)))
	if !bounded {
		return neutral()
	}
	return w.high(w.effect == EffectLooser || (w.effect == EffectTighter && blocks))
}
