package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
)

const (
	// maxCells bounds the table of changes, maxRows what is told of it.
	maxCells = 100_000
	maxRows  = 500
	// maxTenants bounds the tenants that are told apart.
	maxTenants = 1_000_000

	minuteMicros = 60_000_000
)

// folder adds up what the sides made of the log.
type folder struct {
	c        *comparer
	sum      decisionlog.Comparison
	cells    map[cellKey]*cell
	beyond   int64 // changes that found no cell
	refused  map[string]struct{}
	admitted map[string]struct{}
	against  against
	unknown  map[string]int64 // decisions without a caller, by route
	lacks    map[string]int64 // by dimension
	// unknownLive counts decisions without a caller by the live version.
	unknownLive int64
	costs       int64 // decisions whose cost is not known
	from, to    int64 // that the log covers
	told        float64
}

type cellKey struct {
	tenant, route, limit string
	refused              bool
}

// cell is a row while it grows.
type cell struct {
	row    decisionlog.Row
	minute int64 // the minute that is being counted
	count  int64
}

func newFolder(c *comparer, live *policy.Compiled) *folder {
	from, to, _ := c.log.Bounds()
	return &folder{
		c: c, cells: map[cellKey]*cell{}, refused: map[string]struct{}{}, admitted: map[string]struct{}{}, against: newAgainst(live, c.quotas),
		unknown: map[string]int64{}, lacks: map[string]int64{}, from: from.UnixMicro(), to: to.UnixMicro(),
	}
}

func (f *folder) chunk(c *chunk) {
	for i := range c.entries {
		if e := &c.entries[i]; e.Kind == decisionlog.KindDecision {
			f.entry(e, &c.live[i], &c.draft[i])
		}
	}
	if f.c.progress == nil || f.to <= f.from {
		return
	}
	last := c.entries[len(c.entries)-1].At
	if share := min(1, float64(last-f.from)/float64(f.to-f.from)); share >= f.told+0.01 {
		f.told = share
		f.c.progress(share)
	}
}

func (f *folder) entry(e *decisionlog.Entry, live, draft *outcome) {
	if f.sum.Entries++; f.sum.From == 0 {
		f.sum.From = e.At
	}
	f.sum.To = max(f.sum.To, e.At)
	f.against.entry(e, live)
	if draft.lacks != "" {
		f.lacks[draft.lacks]++
	}
	if draft.costs {
		f.costs++
	}
	switch {
	case draft.unknown:
		f.unknown[draft.route]++
	case live.unknown: // an older version decided it, without asking who calls
		f.unknownLive++
	case live.allowed && draft.allowed:
		f.sum.Both.Admitted++
	case live.allowed:
		f.sum.Refused.Requests++
		f.change(f.refused, e, cellKey{e.Tenant, or(e.Route, draft.route), draft.by, true})
	case draft.allowed:
		f.sum.Admitted.Requests++
		f.change(f.admitted, e, cellKey{e.Tenant, or(e.Route, live.route), live.by, false})
	default:
		f.sum.Both.Refused++
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// change counts a decision that comes out otherwise. Entries come in order of time.
func (f *folder) change(tenants map[string]struct{}, e *decisionlog.Entry, key cellKey) {
	if e.Tenant != "" && len(tenants) < maxTenants {
		tenants[e.Tenant] = struct{}{}
	}
	c := f.cells[key]
	if c == nil {
		if len(f.cells) >= maxCells {
			f.beyond++
			return
		}
		c = &cell{row: decisionlog.Row{Tenant: key.tenant, Route: key.route, Limit: key.limit, Refused: key.refused, First: e.At}}
		f.cells[key] = c
	}
	c.row.Requests++
	c.row.Last = e.At
	if minute := e.At - e.At%minuteMicros; minute != c.minute {
		c.minute, c.count = minute, 0
	}
	if c.count++; c.count > c.row.Peak {
		c.row.Peak, c.row.PeakAt = c.count, c.minute
	}
}

func (f *folder) result(draft *side) decisionlog.Comparison {
	out := &f.sum
	if out.Entries == 0 {
		out.From, out.To = f.from, f.to
	}
	s := &f.c.skipped
	out.Skipped, out.Dropped, out.Sample = s.sampled+s.degraded+s.tenantless+s.left, f.c.log.dropped, f.c.sample
	out.Refused.Tenants, out.Admitted.Tenants = int64(len(f.refused)), int64(len(f.admitted))
	out.Notes = append([]string{}, f.c.judging.notes...)
	f.noteSkipped()
	f.noteUnknown()
	if f.beyond > 0 {
		f.notef("The table holds the first %d combinations of tenant, route and limit; %d changes of others are in the sums only.", maxCells, f.beyond)
	}
	out.Differs = f.against.tell(f)
	out.Notes = append(out.Notes, draft.notes()...)
	f.rows()
	return *out
}

func (f *folder) notef(format string, args ...any) {
	f.sum.Notes = append(f.sum.Notes, fmt.Sprintf(format, args...))
}

func (f *folder) noteSkipped() {
	s := &f.c.skipped
	for _, n := range []struct {
		count int64
		why   string
	}{
		{s.sampled, "%d entries are of callers whose other requests are not in the log, and are left out."},
		{s.degraded, "%d decisions were made without Redis, by the fail mode, and are left out."},
		{s.tenantless, "%d decisions are of tenants that there are no longer, and are left out."},
		{s.left, "%d refusals were by limits that are left out, and are left out with them."},
		{f.c.log.dropped, "%d decisions did not fit into the log of their gateway."},
	} {
		if n.count > 0 {
			f.notef(n.why, n.count)
		}
	}
}

func (f *folder) noteUnknown() {
	for _, route := range slices.Sorted(maps.Keys(f.unknown)) {
		f.notef("%d requests meet route %s in the draft, which wants to know who calls; the log does not say it, so they are not judged.", f.unknown[route], route)
	}
	if f.unknownLive > 0 {
		f.notef("%d requests meet a route that asks who calls since a later version; the log does not say it, so they are not judged.", f.unknownLive)
	}
	if n := f.c.log.unjudged; n > 0 && f.c.judging.opens {
		f.notef("%d requests came to no limiter, for want of a route or a key. The log has only their number: whom of them the draft would let in is not known.", n)
	}
	if f.costs > 0 {
		f.notef("%d requests meet a route of the draft that computes their cost from a query, which the log does not have: they cost what they did.", f.costs)
	}
	for _, name := range slices.Sorted(maps.Keys(f.lacks)) {
		f.notef("The log does not have %s: %d requests count as ones without it.", name, f.lacks[name])
	}
}

// rows sorts the table, the largest changes first.
func (f *folder) rows() {
	out := &f.sum
	out.Rows = make([]decisionlog.Row, 0, min(len(f.cells), maxRows))
	all := slices.SortedFunc(maps.Values(f.cells), func(a, b *cell) int {
		return cmp.Or(cmp.Compare(b.row.Requests, a.row.Requests), strings.Compare(a.row.Tenant, b.row.Tenant), strings.Compare(a.row.Route, b.row.Route),
			strings.Compare(a.row.Limit, b.row.Limit), cmp.Compare(a.row.First, b.row.First))
	})
	for _, c := range all[:min(len(all), maxRows)] {
		out.Rows = append(out.Rows, c.row)
	}
	out.MoreRows = len(all) - len(out.Rows)
}
