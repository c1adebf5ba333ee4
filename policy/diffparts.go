package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// user compares who a user is and how many gateways there are.
func (d *differ) user() {
	b, a := d.before, d.after
	var before, after User
	if b.User != nil {
		before = *b.User
	}
	if a.User != nil {
		after = *a.User
	}
	d.value("user.header", "header that names the user", before.Header, after.Header, EffectNeutral)
	d.value("user.jwt", "token that names the user", jwtText(before.JWT), jwtText(after.JWT), EffectNeutral)
	d.value("replicas_expected", "expected number of gateways", wholeIf(b.ReplicasExpected), wholeIf(a.ReplicasExpected),
		opposite(moreIsLooser(b.ReplicasExpected, a.ReplicasExpected)))
}

func jwtText(j *UserJWT) string {
	if j == nil {
		return ""
	}
	text := "claim " + j.Claim + ", keys " + j.JWKSFile
	if j.Issuer != "" {
		text += ", issuer " + j.Issuer
	}
	if j.Audience != "" {
		text += ", audience " + j.Audience
	}
	return text
}

// wholeIf is "" for a number that was not given.
func wholeIf(v int64) string {
	if v == 0 {
		return ""
	}
	return whole(v)
}

func (d *differ) counts(path, what string, b, a Counts) {
	d.value(path+".counts", what+", counts", string(b), string(a),
		moreIsLooser(asNumber(b == CountsRequests), asNumber(a == CountsRequests)))
}

func (d *differ) mode(path, what string, b, a LimitMode) {
	d.value(path+".mode", what+", mode", string(b), string(a), moreIsLooser(asNumber(b == ModeShadow), asNumber(a == ModeShadow)))
}

func endText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return momentText(*t)
}

// endEffect compares how long a limit holds.
func endEffect(before, after *time.Time) string {
	switch {
	case before == nil && after == nil:
		return EffectNeutral
	case before == nil:
		return EffectLooser
	case after == nil:
		return EffectTighter
	}
	return opposite(moreIsLooser(before.UnixMicro(), after.UnixMicro()))
}

// quota compares the quotas of one plan.
func (d *differ) quota(path, where string, b, a *Quota) {
	from, what := len(d.changes), where+": quota"
	switch {
	case b == nil && a == nil:
	case b == nil || a == nil:
		effect := EffectTighter
		if q := cmp.Or(a, b); q.Mode == ModeShadow {
			effect = EffectNeutral
		} else if a == nil {
			effect = EffectLooser
		}
		d.value(path, what, quotaText(b), quotaText(a), effect)
	default:
		d.value(path+".amount", what, whole(b.Amount), whole(a.Amount), moreIsLooser(b.Amount, a.Amount))
		d.counts(path, what, b.Counts, a.Counts)
		d.period(path, what, b, a)
		d.value(path+".over", what+", beyond the amount", string(b.Over), string(a.Over),
			moreIsLooser(asNumber(b.Over == OverBill), asNumber(a.Over == OverBill)))
		d.value(path+".max", what+", bound", wholeIf(b.Max), wholeIf(a.Max), moreIsLooser(b.capacity(), a.capacity()))
		d.mode(path, what, b.Mode, a.Mode)
	}
	d.concerns(from, QuotaID)
}

// period compares where periods begin. A counter belongs to the start of its
// period, so other starts are new counters.
func (d *differ) period(path, what string, b, a *Quota) {
	d.value(path+".period", what+", period", string(b.Period), string(a.Period), EffectNewBucket)
	d.value(path+".alignment", what+", alignment", string(b.Alignment), string(a.Alignment), EffectNewBucket)
	d.value(path+".time_zone", what+", time zone", b.TimeZone, a.TimeZone, EffectNewBucket)
}

// capacity is the number of units at which requests are refused.
func (q *Quota) capacity() int64 {
	switch {
	case q.Over == OverBlock:
		return q.Amount
	case q.Max == 0:
		return MaxUnits
	}
	return q.Max
}

func quotaText(q *Quota) string {
	if q == nil {
		return ""
	}
	text := fmt.Sprintf("quota %d a %s, counting %s", q.Amount, q.Period, q.Counts)
	if q.Period == PeriodLifetime {
		text = fmt.Sprintf("quota %d in all, counting %s", q.Amount, q.Counts)
	}
	text += ", " + string(q.Alignment) + " in " + q.TimeZone + ", over: " + string(q.Over)
	if q.Max != 0 {
		text += " up to " + whole(q.Max)
	}
	if q.Mode == ModeShadow {
		text += ", shadow"
	}
	return text
}

// concurrency compares the concurrency limits of one route.
func (d *differ) concurrency(path, where, id string, b, a *Concurrency) {
	from, what := len(d.changes), where+": concurrency"
	switch {
	case b == nil && a == nil:
	case b == nil || a == nil:
		d.value(path, what, concurrencyText(b), concurrencyText(a), concurrencyEffect(b, a))
	default:
		d.value(path+".per", what+", counted per", b.Per.Text(), a.Per.Text(), EffectNewBucket)
		d.value(path+".max", what+", at once", whole(b.Max), whole(a.Max), moreIsLooser(b.Max, a.Max))
		d.value(path+".lease", what+", lease", periodText(b.Lease), periodText(a.Lease), EffectNeutral)
		d.mode(path, what, b.Mode, a.Mode)
	}
	d.concerns(from, id)
}

func concurrencyEffect(b, a *Concurrency) string {
	switch {
	case a != nil && a.Mode == ModeEnforce:
		return EffectTighter
	case b != nil && b.Mode == ModeEnforce:
		return EffectLooser
	}
	return EffectNeutral
}

func concurrencyText(c *Concurrency) string {
	if c == nil {
		return ""
	}
	text := whole(c.Max) + " at once per " + c.Per.Text() + ", lease " + periodText(c.Lease)
	if c.Mode == ModeShadow {
		text += ", shadow"
	}
	return text
}

// cost compares how the cost of a request is found.
func (d *differ) cost(path, where string, b, a Route) {
	what := where + ", cost"
	if b.GraphQL != nil && a.GraphQL != nil {
		d.graphQL(path+".graphql", what, b.GraphQL, a.GraphQL)
		return
	}
	effect := EffectNeutral
	if b.GraphQL == nil && a.GraphQL == nil {
		effect = opposite(moreIsLooser(b.Cost, a.Cost))
	}
	d.value(path, what, costText(b), costText(a), effect)
}

func costText(r Route) string {
	switch {
	case r.GraphQL != nil:
		return "of the GraphQL query, at most " + whole(r.GraphQL.Max)
	case r.SettleHeader != "":
		return whole(r.Cost) + " reserved, settled by " + r.SettleHeader
	}
	return whole(r.Cost)
}

func (d *differ) graphQL(path, what string, b, a *GraphQLCost) {
	d.value(path+".max", what+", at most", whole(b.Max), whole(a.Max), moreIsLooser(b.Max, a.Max))
	d.value(path+".default_list_size", what+", items of a list of unknown size", whole(b.DefaultListSize), whole(a.DefaultListSize),
		opposite(moreIsLooser(b.DefaultListSize, a.DefaultListSize)))
	d.value(path+".list_arguments", what+", arguments that size a list", sortedText(b.ListArguments), sortedText(a.ListArguments), EffectNeutral)
	d.value(path+".max_depth", what+", levels", whole(b.MaxDepth), whole(a.MaxDepth), moreIsLooser(b.MaxDepth, a.MaxDepth))
	d.value(path+".max_breadth", what+", fields of a selection", whole(b.MaxBreadth), whole(a.MaxBreadth), moreIsLooser(b.MaxBreadth, a.MaxBreadth))
	for _, name := range weightNames(b, a) {
		before, beforeText := b.weight(name)
		after, afterText := a.weight(name)
		d.value(field(path+".weights", name), what+", weight of "+name, beforeText, afterText, opposite(moreIsLooser(before, after)))
	}
}

// weight is that of a field, and its text, which is "" for the default.
func (g *GraphQLCost) weight(name string) (int64, string) {
	w, ok := g.Weights[name]
	if !ok {
		return 1, ""
	}
	return w, whole(w)
}

// weightNames are the names that either has, sorted.
func weightNames(b, a *GraphQLCost) []string {
	names := slices.Concat(sortedKeys(b.Weights), sortedKeys(a.Weights))
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}
