package console

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// limit is a limit as a tenant on a plan meets it, with what the tenant has of
// its own; nil when it meets no such limit, or one whose time is over.
func (l *law) limit(plan, id string, own []TenantOverride, now time.Time) *LimitInForce {
	if q := l.Quotas[plan]; q != nil && id == policy.QuotaID {
		return quotaInForce(q, own, now)
	}
	if m := l.routes[id]; m != nil && m.slots != nil {
		return slotsInForce(m, own, now)
	} else if m != nil {
		return rateInForce(m.rate, m.names, own, now)
	}
	for _, list := range [][]policy.CompiledLimit{l.Global, l.Plans[plan]} {
		for i := range list {
			if list[i].ID == id {
				return rateInForce(&list[i], nil, own, now)
			}
		}
	}
	return nil
}

// layers are the override and the boost of one limit that hold now.
type layers struct {
	parts []TenantOverride // the override before the boost
}

func layersOf(id string, own []TenantOverride, now time.Time) layers {
	var out layers
	for _, boost := range []bool{false, true} {
		for _, o := range own {
			if o.Limit == id && o.IsBoost() == boost && o.Live(now) {
				if _, err := policy.CompileOverrides([]policy.Override{o.Override}); err == nil { // gateways pass over others
					out.parts = append(out.parts, o)
				}
				break
			}
		}
	}
	return out
}

// upTo compiles the first n of the layers.
func (l layers) upTo(n int) *policy.Overrides {
	list := make([]policy.Override, n)
	for i := range list {
		list[i] = l.parts[i].Override
	}
	out, _ := policy.CompileOverrides(list) // each is right, and they are of two kinds
	return out
}

// steps are the policy's own value and what each layer makes of it.
func (l layers) steps(source string, value func(*policy.Overrides, []TenantOverride) (LimitValue, policy.Provenance), text func(LimitValue) string) (steps []LimitStep, expires *time.Time) {
	for n := range len(l.parts) + 1 {
		v, p := value(l.upTo(n), l.parts[:n])
		step := LimitStep{Source: source, Value: v, Text: text(v)}
		if n > 0 {
			o := l.parts[n-1]
			step.Source, step.OverrideID, step.ExpiresAt, step.Reason, step.Author = p.Source, o.ID, o.ExpiresAt, o.Reason, o.Author
			if o.IsBoost() {
				if p.Source != policy.SourceBoost { // nothing to raise: it is unlimited
					step.Source = policy.SourceBoost
				}
				step.Text = "×" + FactorText(o.FactorMilli) + ": " + step.Text
			}
		}
		steps = append(steps, step)
		expires = nil
		if p.ExpiresMicros != 0 {
			at := time.UnixMicro(p.ExpiresMicros).UTC()
			expires = &at
		}
	}
	return steps, expires
}

// FactorText writes thousandths the short way: 2000 is "2", 1500 "1.5".
func FactorText(milli int64) string {
	s := strconv.FormatFloat(float64(milli)/1000, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func rateInForce(l *policy.CompiledLimit, routes []string, own []TenantOverride, now time.Time) *LimitInForce {
	at := now.UnixMicro()
	if l.Expired(at) {
		return nil
	}
	out := &LimitInForce{
		ID: l.ID, Kind: LimitRate, Routes: routes, Per: string(l.Per), Counts: string(l.Counts), Shadow: l.Shadow, Own: ownable(l.Per),
	}
	value := func(o *policy.Overrides, parts []TenantOverride) (LimitValue, policy.Provenance) {
		n, p := o.Limit(l, at)
		if p.Unlimited {
			return LimitValue{Unlimited: true, Rate: "unlimited"}, p
		}
		return LimitValue{Rate: rateText(n, spokenPeriod(l, parts)), Burst: n.Burst, numbers: n}, p
	}
	out.Steps, out.Expires = layersOf(l.ID, own, now).steps(l.Source, value, func(v LimitValue) string {
		if v.Unlimited || v.numbers.Blocked() {
			return v.Rate
		}
		return fmt.Sprintf("%s, burst %d", v.Rate, v.Burst)
	})
	return out
}

// spokenPeriod is the period that people speak of: the override's, or the policy's.
func spokenPeriod(l *policy.CompiledLimit, parts []TenantOverride) time.Duration {
	for _, o := range parts {
		if r, err := policy.ParseRate(o.Rate); err == nil && !r.Unlimited && !r.Blocked() {
			return r.Period
		}
	}
	return l.Rate.Period
}

// rateText writes numbers per a period, if that can be done without a fraction.
func rateText(n policy.Numbers, period time.Duration) string {
	if n.Blocked() {
		return "0"
	}
	r := policy.Rate{Tokens: n.Tokens, Period: time.Duration(n.Period) * time.Microsecond}
	if period > 0 {
		high, low := bits.Mul64(uint64(n.Tokens), uint64(period.Microseconds()))
		if high < uint64(n.Period) {
			if whole, rest := bits.Div64(high, low, uint64(n.Period)); rest == 0 && whole <= 1<<48 {
				r = policy.Rate{Tokens: int64(whole), Period: period}
			}
		}
	}
	return r.String()
}

func quotaInForce(q *policy.CompiledQuota, own []TenantOverride, now time.Time) *LimitInForce {
	out := &LimitInForce{
		ID: q.ID, Kind: LimitQuota, Per: string(policy.PerTenant), Counts: string(q.Counts), Shadow: q.Shadow, Own: true,
		Period: string(q.Period), Over: string(q.Over),
	}
	value := func(o *policy.Overrides, _ []TenantOverride) (LimitValue, policy.Provenance) {
		amount, most, p := o.Quota(q, now.UnixMicro())
		return LimitValue{Unlimited: p.Unlimited, Amount: amount, Max: most, bills: q.Over == policy.OverBill}, p
	}
	out.Steps, out.Expires = layersOf(q.ID, own, now).steps(q.Source, value, func(v LimitValue) string {
		text := fmt.Sprintf("%d a %s", v.Amount, q.Period)
		switch {
		case v.Unlimited:
			return "unlimited"
		case q.Period == policy.PeriodLifetime:
			text = fmt.Sprintf("%d in all", v.Amount)
		}
		if v.bills && v.Max > 0 {
			text += fmt.Sprintf(", more is billed up to %d", v.Max)
		} else if v.bills {
			text += ", more is billed"
		}
		return text
	})
	return out
}

func slotsInForce(m *metOnRoutes, own []TenantOverride, now time.Time) *LimitInForce {
	c := m.slots
	out := &LimitInForce{ID: c.ID, Kind: LimitConcurrency, Routes: m.names, Per: string(c.Per), Shadow: c.Shadow, Own: ownable(c.Per)}
	value := func(o *policy.Overrides, _ []TenantOverride) (LimitValue, policy.Provenance) {
		most, p := o.Slots(c, now.UnixMicro())
		return LimitValue{Unlimited: p.Unlimited, Max: most}, p
	}
	out.Steps, out.Expires = layersOf(c.ID, own, now).steps(c.Source, value, func(v LimitValue) string {
		if v.Unlimited {
			return "unlimited"
		}
		return fmt.Sprintf("%d at once", v.Max)
	})
	return out
}

// Blocked reports whether the value of a rate limit admits nothing.
func (v LimitValue) Blocked() bool { return v.Rate == "0" }

// Below reports whether anything is less than in another value of the same limit.
func (v LimitValue) Below(other LimitValue) bool {
	switch {
	case v.Unlimited:
		return false
	case other.Unlimited:
		return true
	case v.Rate != "":
		return slower(v.numbers, other.numbers) || v.Burst < other.Burst
	}
	return v.Amount < other.Amount || v.bound() < other.bound()
}

// bound is how much there is at the very most, of a quota or at once.
func (v LimitValue) bound() int64 {
	if v.bills && v.Max == 0 {
		return policy.MaxAmount
	}
	return max(v.Max, v.Amount)
}

// slower reports whether fewer tokens come in a time.
func slower(a, b policy.Numbers) bool {
	if a.Tokens == 0 || b.Tokens == 0 {
		return a.Tokens < b.Tokens
	}
	ah, al := bits.Mul64(uint64(a.Tokens), uint64(b.Period))
	bh, bl := bits.Mul64(uint64(b.Tokens), uint64(a.Period))
	return ah < bh || ah == bh && al < bl
}

// PerMinute is what a rate limit admits a minute in the long run; 0 for another
// kind, for unlimited and for one that admits nothing.
func (v LimitValue) PerMinute() float64 {
	if v.Unlimited || v.numbers.Tokens == 0 || v.numbers.Period == 0 {
		return 0
	}
	return float64(v.numbers.Tokens) * float64(time.Minute/time.Microsecond) / float64(v.numbers.Period)
}
