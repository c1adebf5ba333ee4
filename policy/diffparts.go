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
	before, after := cmp.Or(b.User, &User{}), cmp.Or(a.User, &User{})
	w := freshBucket().high(true)
	if b.User == nil || a.User == nil {
		w = neutral() // without a user no limit counts users
	}
	d.value("user.header", "header that names the user", before.Header, after.Header, w)
	if before.JWT != nil && after.JWT != nil {
		d.jwt(before.JWT, after.JWT)
	} else {
		d.value("user.jwt", "token that names the user", jwtText(before.JWT), jwtText(after.JWT), w)
	}
	gateways := costs(b.ReplicasExpected, a.ReplicasExpected)
	gateways.risk = RiskMedium
	d.value("replicas_expected", "expected number of gateways", wholeIf(b.ReplicasExpected), wholeIf(a.ReplicasExpected), gateways)
}

// jwt compares which tokens are believed and whom they name.
func (d *differ) jwt(b, a *UserJWT) {
	check := func(before, after string) weight {
		return weigh(moreIsLooser(asNumber(before == ""), asNumber(after == ""))).high(true)
	}
	d.value("user.jwt.jwks_file", "keys of the token that names the user", b.JWKSFile, a.JWKSFile, neutral().high(true))
	d.value("user.jwt.claim", "claim that names the user", b.Claim, a.Claim, freshBucket().high(true))
	d.value("user.jwt.issuer", "issuer of the token that names the user", b.Issuer, a.Issuer, check(b.Issuer, a.Issuer))
	d.value("user.jwt.audience", "audience of the token that names the user", b.Audience, a.Audience, check(b.Audience, a.Audience))
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

func (d *differ) counts(path, what string, b, a Counts, looks bool) {
	d.value(path+".counts", what+", counts", string(b), string(a),
		weigh(moreIsLooser(asNumber(b == CountsRequests), asNumber(a == CountsRequests))).unless(looks))
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

// ends weighs the end of a limit: an earlier one is a limit that goes, when
// nobody looks, or at once when the time is over already.
func ends(before, after *time.Time) weight {
	w := weigh(endEffect(before, after))
	return w.high(w.effect == EffectLooser)
}

// quota compares the quotas of one plan.
func (d *differ) quota(path, where string, b, a *Quota) {
	from, what := len(d.changes), where+": quota"
	switch {
	case b == nil && a == nil:
	case b == nil:
		d.value(path, what, "", quotaText(a), weigh(EffectTighter).high(a.capacity() == 0).unless(a.Mode == ModeShadow))
	case a == nil:
		d.value(path, what, quotaText(b), "", weigh(EffectLooser).high(true).unless(b.Mode == ModeShadow))
		if b.Mode != ModeShadow {
			d.gone(CutLimit, path, QuotaID, what+" is gone (was "+quotaText(b)+")")
		}
	default:
		d.quotas(path, what, b, a)
	}
	d.concerns(from, QuotaID)
}

func (d *differ) quotas(path, what string, b, a *Quota) {
	looks := b.Mode == ModeShadow || a.Mode == ModeShadow
	d.value(path+".amount", what, whole(b.Amount), whole(a.Amount), amounts(b.Amount, a.Amount).unless(looks))
	d.counts(path, what, b.Counts, a.Counts, looks)
	// A counter belongs to the start of its period, so other starts are new counters.
	d.value(path+".period", what+", period", string(b.Period), string(a.Period), freshBucket().high(perDayCut(b, a)).unless(looks))
	d.value(path+".alignment", what+", alignment", string(b.Alignment), string(a.Alignment), freshBucket().unless(looks))
	d.value(path+".time_zone", what+", time zone", b.TimeZone, a.TimeZone, freshBucket().unless(looks))
	over := weigh(moreIsLooser(asNumber(b.Over == OverBill), asNumber(a.Over == OverBill)))
	d.value(path+".over", what+", beyond the amount", string(b.Over), string(a.Over), over.high(amounts(b.capacity(), a.capacity()).risk == RiskHigh).unless(looks))
	d.value(path+".max", what+", bound", wholeIf(b.Max), wholeIf(a.Max), amounts(b.capacity(), a.capacity()).unless(looks))
	d.value(path+".mode", what+", mode", string(b.Mode), string(a.Mode), modes(b.Mode, a.Mode, true, a.capacity() == 0))
	d.cutQuota(path, what, b, a)
}

// perDayCut reports whether another period leaves a suspicious share of what was
// admitted a day, or adds a suspicious one: minute for hour is a common slip.
func perDayCut(b, a *Quota) bool {
	before, after := b.perDay(), a.perDay()
	if before == after {
		return false
	}
	return before == unlimited || after == unlimited || after <= before/suspiciousCut || after >= before*suspiciousRise
}

// perDay is about what a quota admits a day.
func (q *Quota) perDay() float64 {
	if q.capacity() == MaxUnits {
		return unlimited
	}
	return float64(q.capacity()) / float64(q.Period.days())
}

// days is about how long a period is: far longer than any other for one that never ends.
func (p QuotaPeriod) days() int64 {
	switch p {
	case PeriodDay:
		return 1
	case PeriodWeek:
		return 7
	case PeriodMonth:
		return 30
	case PeriodYear:
		return 365
	case PeriodLifetime:
		return 36500
	}
	return 1
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
	case b == nil:
		d.value(path, what, "", concurrencyText(a), weigh(EffectTighter).unless(a.Mode == ModeShadow))
	case a == nil:
		d.value(path, what, concurrencyText(b), "", weigh(EffectLooser).high(true).unless(b.Mode == ModeShadow))
		if b.Mode != ModeShadow {
			d.gone(CutLimit, path, id, what+" is gone (was "+concurrencyText(b)+")")
		}
	default:
		looks := b.Mode == ModeShadow || a.Mode == ModeShadow
		d.value(path+".per", what+", counted per", b.Per.Text(), a.Per.Text(), freshBucket().high(true).unless(looks))
		d.value(path+".max", what+", at once", whole(b.Max), whole(a.Max), amounts(b.Max, a.Max).unless(looks))
		d.value(path+".lease", what+", lease", periodText(b.Lease), periodText(a.Lease), neutral().atLeastMedium().unless(looks))
		d.value(path+".mode", what+", mode", string(b.Mode), string(a.Mode), modes(b.Mode, a.Mode, true, false))
		if !looks {
			d.cut(path+".max", id, what, "at once", float64(b.Max), float64(a.Max))
		}
	}
	d.concerns(from, id)
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
	switch {
	case b.GraphQL != nil && a.GraphQL != nil:
		d.graphQL(path+".graphql", what, b.GraphQL, a.GraphQL)
	case b.GraphQL == nil && a.GraphQL == nil && b.SettleHeader == a.SettleHeader:
		d.value(path, what, costText(b), costText(a), costs(b.Cost, a.Cost))
		d.cut(path, "", where+" at its new cost", "requests of 1000 tokens", 1000/float64(b.Cost), 1000/float64(a.Cost))
	case b.GraphQL == nil && a.GraphQL == nil:
		d.value(path, what, costText(b), costText(a), costs(b.Cost, a.Cost).atLeastMedium())
	default: // what a request will cost hangs on the request
		d.value(path, what, costText(b), costText(a), neutral().atLeastMedium())
	}
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
	d.value(path+".max", what+", at most", whole(b.Max), whole(a.Max), amounts(b.Max, a.Max))
	d.value(path+".default_list_size", what+", items of a list of unknown size", whole(b.DefaultListSize), whole(a.DefaultListSize),
		costs(b.DefaultListSize, a.DefaultListSize))
	d.value(path+".list_arguments", what+", arguments that size a list", sortedText(b.ListArguments), sortedText(a.ListArguments), neutral().atLeastMedium())
	d.value(path+".max_depth", what+", levels", whole(b.MaxDepth), whole(a.MaxDepth), amounts(b.MaxDepth, a.MaxDepth))
	d.value(path+".max_breadth", what+", fields of a selection", whole(b.MaxBreadth), whole(a.MaxBreadth), amounts(b.MaxBreadth, a.MaxBreadth))
	for _, name := range weightNames(b, a) {
		d.value(field(path+".weights", name), what+", weight of "+name, b.weightText(name), a.weightText(name), costs(b.weight(name), a.weight(name)))
	}
}

func (g *GraphQLCost) weightText(name string) string {
	w, ok := g.Weights[name]
	if !ok {
		return ""
	}
	return whole(w)
}

// weight is what a field costs, whether it has a weight of its own or not: that of
// the field in any type, else the highest that some type gives to it, else 1.
func (g *GraphQLCost) weight(name string) int64 {
	_, plain, _ := strings.Cut(name, ".")
	for _, known := range []string{name, "*." + plain} {
		if w, ok := g.Weights[known]; ok {
			return w
		}
	}
	highest, found := int64(0), false
	for other, w := range g.Weights {
		if _, f, _ := strings.Cut(other, "."); f == plain {
			highest, found = max(highest, w), true
		}
	}
	if !found {
		return 1
	}
	return highest
}

// weightNames are the names that either has, sorted.
func weightNames(b, a *GraphQLCost) []string {
	names := slices.Concat(sortedKeys(b.Weights), sortedKeys(a.Weights))
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names)
}
