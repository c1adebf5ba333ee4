package policy

import "strings"

func (d *decoder) limits(path string, n *node, into *[]Limit, most int) {
	d.list(path, n, "limits", most, func(p string, n *node) { *into = append(*into, d.limit(p, n)) })
}

func (d *decoder) limit(path string, n *node) Limit {
	l := Limit{Counts: CountsCost, Mode: ModeEnforce, Sync: SyncExact}
	burst := d.burst(&l.Burst)
	d.fields(path, n, reads{
		"name":        func(p string, n *node) { d.text(p, n, &l.Name) },
		"description": func(p string, n *node) { d.text(p, n, &l.Description) },
		"per":         func(p string, n *node) { d.per(p, n, &l.Per) },
		"counts":      func(p string, n *node) { d.counts(p, n, &l.Counts) },
		"rate":        func(p string, n *node) { d.rate(p, n, &l.Rate) },
		"burst":       burst.read,
		"mode":        func(p string, n *node) { d.mode(p, n, &l.Mode) },
		"sync":        func(p string, n *node) { choice(d, p, n, &l.Sync, []LimitSync{SyncExact, SyncLeased}) },
		"expires_at":  func(p string, n *node) { d.moment(p, n, &l.ExpiresAt) },
	})
	burst.finish(l.Rate)
	return l
}

func (d *decoder) counts(path string, n *node, into *Counts) {
	choice(d, path, n, into, []Counts{CountsCost, CountsRequests})
}

func (d *decoder) mode(path string, n *node, into *LimitMode) {
	choice(d, path, n, into, []LimitMode{ModeEnforce, ModeShadow})
}

// per reads a dimension, or a list of dimensions that are combined. Whether they
// make sense is for validation to say.
func (d *decoder) per(path string, n *node, into *Per) {
	var words []string
	switch n.kind {
	case kindText:
		words = d.dimension(path, n, words)
	case kindList:
		d.list(path, n, "dimensions", MaxDimensions, func(p string, n *node) { words = d.dimension(p, n, words) })
		if len(n.items) == 0 {
			d.problem(path, n, "is an empty list: name at least one dimension")
		}
	default:
		d.wrongKind(path, n, "a dimension such as tenant, or a list of dimensions")
	}
	if n.kind == kindList && len(words) < len(n.items) {
		d.unread[path] = true
	}
	*into = Per(strings.Join(words, ",")).spelledOnce()
}

// dimension appends a word, unless it would be taken for several.
func (d *decoder) dimension(path string, n *node, words []string) []string {
	var s string
	d.text(path, n, &s)
	switch {
	case d.unread[path]:
		return words
	case s == "":
		d.problem(path, n, "is empty: it must be one of %s", perWords)
		return words
	case strings.Contains(s, ","):
		d.problem(path, n, "%q must be a list: write [%s]", clip(s), clip(strings.Join(strings.Fields(strings.ReplaceAll(s, ",", " ")), ", ")))
		return words
	}
	return append(words, s)
}

// burstReader reads a burst, whose default depends on the rate beside it.
type burstReader struct {
	d    *decoder
	into *int64
	path string
	n    *node
}

func (d *decoder) burst(into *int64) *burstReader { return &burstReader{d: d, into: into} }

func (b *burstReader) read(path string, n *node) { b.path, b.n = path, n }

// finish is called when the rate is known.
func (b *burstReader) finish(r Rate) {
	switch {
	case b.n == nil:
		*b.into = r.DefaultBurst()
	case r.Unlimited:
		b.d.problem(b.path, b.n, "means nothing beside the rate unlimited: leave it out")
	default:
		*b.into = 0 // no default hides what could not be read
		b.d.whole(b.path, b.n, b.into, 0, maxStored)
	}
}

func (d *decoder) quota(path string, n *node, q *Quota) {
	q.Counts, q.Alignment, q.TimeZone, q.Over, q.Mode = CountsCost, AlignCalendar, DefaultTimeZone, OverBlock, ModeEnforce
	d.fields(path, n, reads{
		"amount":    func(p string, n *node) { d.whole(p, n, &q.Amount, 0, MaxAmount) },
		"counts":    func(p string, n *node) { d.counts(p, n, &q.Counts) },
		"period":    func(p string, n *node) { choice(d, p, n, &q.Period, quotaPeriods()) },
		"alignment": func(p string, n *node) { choice(d, p, n, &q.Alignment, []Alignment{AlignCalendar, AlignAnniversary}) },
		"time_zone": func(p string, n *node) { d.text(p, n, &q.TimeZone) },
		"over":      func(p string, n *node) { choice(d, p, n, &q.Over, []QuotaOver{OverBlock, OverBill}) },
		"max":       func(p string, n *node) { d.whole(p, n, &q.Max, 1, MaxAmount) },
		"mode":      func(p string, n *node) { d.mode(p, n, &q.Mode) },
	})
	d.needs(path, n, "amount", "whole units a period; leave the quota out for none")
}

func (d *decoder) concurrency(path string, n *node, c *Concurrency) {
	c.Mode = ModeEnforce
	d.fields(path, n, reads{
		"per":   func(p string, n *node) { d.per(p, n, &c.Per) },
		"max":   func(p string, n *node) { d.whole(p, n, &c.Max, 1, MaxConcurrency) },
		"lease": func(p string, n *node) { d.duration(p, n, &c.Lease) },
		"mode":  func(p string, n *node) { d.mode(p, n, &c.Mode) },
	})
}

// needs tells that a field is missing whose zero value means something.
func (d *decoder) needs(path string, n *node, name, what string) {
	if n.kind != kindMap {
		return
	}
	if child, _ := n.child(name); child == nil {
		d.found.add(Problem{Path: field(path, name), Line: n.line, Message: "is missing: " + what})
	}
}
