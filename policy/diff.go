package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Diff lists what changes from before to after, in the order of the document and
// within each part what was removed last. Before may be nil: then everything is
// added. The order of routes and of lists carries no meaning and is no change.
// The list is empty if and only if the documents mean the same.
func Diff(before, after *Document) []Change {
	if before == nil {
		before = &Document{APIVersion: after.APIVersion}
	}
	d := &differ{before: before.withDefaults(), after: after.withDefaults()}
	d.compare()
	return d.changes
}

// differ compares two documents that have their defaults filled in.
type differ struct {
	before, after   *Document
	changes         []Change
	cuts            []Cut
	inPlan, inRoute string // what is being compared
}

func (d *differ) compare() {
	b, a := d.before, d.after
	d.value("apiVersion", "apiVersion", b.APIVersion, a.APIVersion, neutral())
	d.value("description", "description", b.Description, a.Description, neutral())
	d.edges()
	d.user()
	d.limits(limitList{"global.limits", "everything together", b.Global.Limits, globalLimitID},
		limitList{"global.limits", "everything together", a.Global.Limits, globalLimitID})
	d.limits(limitList{"shared", "shared", b.Shared, sharedLimitID}, limitList{"shared", "shared", a.Shared, sharedLimitID})
	d.plans()
	d.routes()
}

// change adds a change that weighs something.
func (d *differ) change(w weight, c Change) {
	c.Effect, c.Risk = w.effect, w.risk
	d.changes = append(d.changes, c)
}

// value tells that one value differs; nothing when it does not.
func (d *differ) value(path, what, before, after string, w weight) {
	if before == after {
		return
	}
	c := Change{Path: path, Kind: ChangeChanged, Before: before, After: after}
	switch {
	case before == "":
		c.Kind, c.Text = ChangeAdded, fmt.Sprintf("%s is now %s", what, after)
	case after == "":
		c.Kind, c.Text = ChangeRemoved, fmt.Sprintf("%s is removed (was %s)", what, before)
	default:
		c.Text = fmt.Sprintf("%s: %s → %s", what, before, after)
	}
	d.change(w, c)
}

// rate tells that a rate differs, as people say it: limit per-ip 20/minute → 5/minute.
func (d *differ) rate(path, what string, before, after Rate, w func() weight) {
	if before == after {
		return
	}
	b, a := before.String(), after.String()
	if b == a {
		return
	}
	d.change(w(), Change{Path: path, Kind: ChangeChanged, Before: b, After: a, Text: fmt.Sprintf("%s %s → %s", what, b, a)})
}

// edges compares how callers are told apart. Who is counted as whom changes with
// it, and nobody can say for whom that is tighter.
func (d *differ) edges() {
	b, a := d.before, d.after
	d.value("client_ip.trusted_proxies", "trusted proxies", proxyText(b.ClientIP), proxyText(a.ClientIP), freshBucket().high(true))
	d.value("client_ip.header", "client address header", b.ClientIP.Header, a.ClientIP.Header, freshBucket().high(true))
	d.value("client_ip.ipv6_prefix", "bits of an IPv6 address that name a caller",
		strconv.Itoa(b.ClientIP.IPv6Prefix), strconv.Itoa(a.ClientIP.IPv6Prefix), freshBucket().high(true))
	d.value("credentials.headers", "headers that carry a key", headerText(b.Credentials), headerText(a.Credentials), keyHeaders(b.Credentials, a.Credentials))
	bi, ai := b.Credentials.Invalid, a.Credentials.Invalid
	guard := func(w weight) weight { return w.high(w.effect == EffectLooser) } // it is what slows down guessing
	d.rate("credentials.invalid.rate", "refused credentials per address", bi.Rate, ai.Rate, func() weight { return guard(rates(bi.Rate, ai.Rate)) })
	d.value("credentials.invalid.burst", "burst of refused credentials per address",
		whole(bi.Burst), whole(ai.Burst), guard(amounts(bi.Burst, ai.Burst)))
}

// keyHeaders weighs where a key may stand: callers lose a header, or get one more.
// Another order of the same headers decides only which of two keys counts.
func keyHeaders(b, a Credentials) weight {
	lost := slices.ContainsFunc(b.Headers, func(h CredentialHeader) bool { return !slices.Contains(a.Headers, h) })
	more := slices.ContainsFunc(a.Headers, func(h CredentialHeader) bool { return !slices.Contains(b.Headers, h) })
	switch {
	case lost && more:
		return neutral().high(true)
	case lost:
		return weigh(EffectTighter).high(true)
	case more:
		return weigh(EffectLooser).high(true)
	}
	return neutral().atLeastMedium()
}

func proxyText(c ClientIP) string {
	var texts []string
	for _, p := range c.TrustedProxies {
		texts = append(texts, p.String())
	}
	return sortedText(texts)
}

func headerText(c Credentials) string {
	var texts []string
	for _, h := range c.Headers { // the order is that in which they are looked at
		texts = append(texts, strings.TrimSpace(h.Name+" "+h.Scheme))
	}
	return strings.Join(texts, ", ")
}

func sortedText(list []string) string {
	list = slices.Clone(list)
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func whole(v int64) string { return strconv.FormatInt(v, 10) }

func moreIsLooser(before, after int64) string {
	switch {
	case after > before:
		return EffectLooser
	case after < before:
		return EffectTighter
	}
	return EffectNeutral
}

func opposite(effect string) string {
	switch effect {
	case EffectLooser:
		return EffectTighter
	case EffectTighter:
		return EffectLooser
	}
	return effect
}

// rateEffect compares what two rates admit over a long time, exactly.
func rateEffect(before, after Rate) string {
	switch {
	case before.Unlimited || after.Unlimited:
		return moreIsLooser(asNumber(before.Unlimited), asNumber(after.Unlimited))
	case before.Blocked() || after.Blocked() || before.Period <= 0 || after.Period <= 0:
		return moreIsLooser(before.Tokens, after.Tokens)
	}
	return moreIsLooser(0, int64(perTime(after, before).Cmp(perTime(before, after))))
}

func asNumber(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// limitList is the limits of one place in one of the documents.
type limitList struct {
	path   string
	where  string // for people
	limits []Limit
	id     func(name string) string
}

func (l limitList) find(name string) int {
	return slices.IndexFunc(l.limits, func(have Limit) bool { return have.Name == name })
}

// limits compares the limits of one place. A limit that is gone while a new one
// has the same numbers was renamed.
func (d *differ) limits(before, after limitList) {
	gone := map[int]bool{}
	for i := range before.limits {
		gone[i] = after.find(before.limits[i].Name) < 0
	}
	for i, l := range after.limits {
		path := index(after.path, i)
		if at := before.find(l.Name); at >= 0 {
			d.limit(path, after, before.limits[at], l)
			continue
		}
		id := after.id(l.Name)
		if at := renamedFrom(before.limits, gone, l); at >= 0 {
			gone[at] = false
			old := before.limits[at].Name
			d.change(freshBucket().unless(l.Mode == ModeShadow), Change{Path: path + ".name", LimitID: id, Kind: ChangeRenamed, Before: old, After: l.Name,
				Text: fmt.Sprintf("%s: limit %s is now called %s and counts from a full bucket", after.where, old, l.Name)})
			d.limit(path, after, before.limits[at], l)
			continue
		}
		d.change(addedLimit(l), Change{Path: path, LimitID: id, Kind: ChangeAdded, After: limitText(l),
			Text: fmt.Sprintf("%s: new limit %s, %s", after.where, l.Name, limitText(l))})
	}
	for i, l := range before.limits {
		if gone[i] {
			d.change(removedLimit(l), Change{Path: index(before.path, i), LimitID: before.id(l.Name), Kind: ChangeRemoved, Before: limitText(l),
				Text: fmt.Sprintf("%s: limit %s is removed (was %s)", before.where, l.Name, limitText(l))})
			if addedEffect(l) == EffectTighter {
				d.gone(CutLimit, index(before.path, i), before.id(l.Name), fmt.Sprintf("%s: limit %s is gone (was %s)", before.where, l.Name, limitText(l)))
			}
		}
	}
}

func renamedFrom(limits []Limit, gone map[int]bool, l Limit) int {
	for i, old := range limits {
		if gone[i] && sameNumbers(old, l) {
			return i
		}
	}
	return -1
}

func sameNumbers(a, b Limit) bool {
	return a.Per == b.Per && a.Counts == b.Counts && a.Rate == b.Rate && (a.Rate.Unlimited || a.Burst == b.Burst)
}

func addedEffect(l Limit) string {
	if l.Rate.Unlimited || l.Mode == ModeShadow {
		return EffectNeutral
	}
	return EffectTighter
}

func limitText(l Limit) string {
	text := l.Rate.String() + " per " + l.Per.Text()
	if !l.Rate.Unlimited {
		text += ", burst " + whole(l.Burst)
	}
	if l.Counts == CountsRequests {
		text += ", counting requests"
	}
	if l.Sync == SyncLeased {
		text += ", leased"
	}
	if l.Mode == ModeShadow {
		text += ", shadow"
	}
	if l.ExpiresAt != nil {
		text += ", until " + momentText(*l.ExpiresAt)
	}
	return text
}

// limit compares two limits with the same id.
func (d *differ) limit(path string, in limitList, b, a Limit) {
	if sameLimit(b, a) {
		return
	}
	id, what := in.id(a.Name), in.where+": limit "+a.Name
	from, looks := len(d.changes), b.Mode == ModeShadow || a.Mode == ModeShadow
	bounded, blocks := !b.Rate.Unlimited || !a.Rate.Unlimited, a.Rate.Blocked() || (!a.Rate.Unlimited && a.Burst == 0)
	d.value(path+".description", what+", description", b.Description, a.Description, neutral())
	d.value(path+".per", what+", counted per", b.Per.Text(), a.Per.Text(), freshBucket().high(bounded).unless(looks))
	d.counts(path, what, b.Counts, a.Counts, looks || !bounded)
	d.rate(path+".rate", what, b.Rate, a.Rate, func() weight { return rates(b.Rate, a.Rate).unless(looks) })
	if !a.Rate.Unlimited && !b.Rate.Unlimited {
		d.value(path+".burst", what+", burst", whole(b.Burst), whole(a.Burst), amounts(b.Burst, a.Burst).unless(looks))
	}
	d.value(path+".mode", what+", mode", string(b.Mode), string(a.Mode), modes(b.Mode, a.Mode, bounded, blocks))
	d.value(path+".sync", what+", counted", string(b.Sync), string(a.Sync), neutral())
	d.value(path+".expires_at", what+", end", endText(b.ExpiresAt), endText(a.ExpiresAt), ends(b.ExpiresAt, a.ExpiresAt).unless(looks || !bounded))
	d.concerns(from, id)
	d.cutLimit(path, id, what, b, a)
}

// sameLimit is the quick way past the limits that did not change, which are nearly all.
func sameLimit(a, b Limit) bool {
	ends := a.ExpiresAt == b.ExpiresAt || (a.ExpiresAt != nil && b.ExpiresAt != nil && a.ExpiresAt.Equal(*b.ExpiresAt))
	a.ExpiresAt, b.ExpiresAt = nil, nil
	return ends && a == b
}

// concerns names the limit of the changes since one.
func (d *differ) concerns(from int, id string) {
	for i := from; i < len(d.changes); i++ {
		d.changes[i].LimitID = id
	}
}
