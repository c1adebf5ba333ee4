package console

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	defaultTop = 10
	maxTop     = 200
	// minuteRange is the longest range that is told by minutes.
	minuteRange = 24 * time.Hour
	// keysRange is the longest one in which the keys of all tenants are compared.
	keysRange = 48 * time.Hour
	maxAsks   = 20_000
)

// reporting is a report being made.
type reporting struct {
	q      UsageQuery
	family UsageFamily
	read   UsageRead
	zone   *time.Location
	out    UsageReport
}

// Report tells what was used.
func (s *Ledger) Report(ctx context.Context, actor Actor, q UsageQuery) (UsageReport, error) {
	if err := actor.needOf(q.TenantID, PermView, PermOwnTenant); err != nil {
		return UsageReport{}, err
	}
	r, err := s.newReport(q)
	if err != nil {
		return UsageReport{}, err
	}
	r.out.Through = s.through(ctx)
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if err := r.groups(ctx, tx, s); err != nil {
			return err
		}
		return r.totals(ctx, tx)
	})
	return r.out, err
}

// newReport checks a query and plans from which sums it is answered.
func (s *Ledger) newReport(q UsageQuery) (*reporting, error) {
	r := &reporting{q: q, zone: time.UTC}
	p := q.problems()
	if q.Zone != "" {
		zone, err := policy.LoadZone(q.Zone)
		if err != nil {
			p.add("zone", "This is no time zone. Write an IANA name such as Europe/Berlin or UTC.")
		} else {
			r.zone = zone
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if q.Top <= 0 {
		q.Top = defaultTop
	}
	r.q.Top = min(q.Top, maxTop)
	if r.q.By == "" {
		r.q.By = ByRequests
	}
	now := s.d.now()
	r.out.At = now
	if q.Step == StepMinute {
		r.out.From, r.out.To = floorTo(q.From, time.Minute), ceilTo(q.To, time.Minute)
		if r.out.From.Before(now.Add(-s.keep.Minutes)) {
			return nil, invalid(FieldError{Field: "step", Message: fmt.Sprintf("Minutes are kept for %d days. Ask for hours.", int(s.keep.Minutes/(24*time.Hour)))})
		}
	} else {
		r.out.From, r.out.To = floorTo(q.From, quarterHour), ceilTo(q.To, quarterHour)
	}
	if !r.steps() {
		return nil, invalid(FieldError{Field: "step", Message: fmt.Sprintf("That is more than %d steps. Choose a longer step or a shorter range.", maxSpanSteps)})
	}
	r.plan()
	return r, nil
}

// problems lists what is wrong with a query.
func (q *UsageQuery) problems() *problems {
	p := new(problems)
	if !q.From.Before(q.To) || q.From.Year() < 1970 || q.To.Year() > 9000 {
		p.add("from", "The range must begin before it ends.")
	}
	switch q.Step {
	case StepNone, StepHour, StepDay, StepMonth:
	case StepMinute:
		if q.To.Sub(q.From) > minuteRange {
			p.add("step", "Minutes are told for a day at most. Ask for hours.")
		}
	default:
		p.add("step", "It must be minute, hour, day or month.")
	}
	switch q.By {
	case "", ByRequests, ByCost, ByRefused:
	default:
		p.add("by", "It must be requests, cost or refused.")
	}
	narrow := q.KID != "" || q.Route != "" || q.Outcome != ""
	switch q.Group {
	case GroupNone, GroupTenant, GroupRoute, GroupOutcome:
	case GroupKey:
		if q.TenantID == "" && q.KID == "" && q.To.Sub(q.From) > keysRange {
			p.add("group", "Keys of all tenants are told for two days at most. Name a tenant, or choose a shorter range.")
		}
	case GroupPlan:
		if narrow || q.Step == StepMinute {
			p.add("group", "Plans cannot be told by route, key, outcome or minutes.")
		}
	case GroupGateway:
		if q.TenantID != "" || q.KID != "" || q.Plan != "" || q.Step == StepMinute {
			p.add("group", "Gateways are told for all tenants together, and not by minutes.")
		}
	default:
		p.add("group", "It must be tenant, route, key, plan, outcome or gateway.")
	}
	if q.Plan != "" && (narrow || q.Step == StepMinute || (q.Group != GroupNone && q.Group != GroupTenant && q.Group != GroupPlan)) {
		p.add("plan", "A plan goes with groups by tenant or plan alone, and not with minutes.")
	}
	return p
}

// steps finds where each step begins; false when they are too many.
func (r *reporting) steps() bool {
	if r.q.Step == StepNone {
		r.out.Starts = []time.Time{r.out.From.In(r.zone)}
	} else {
		span := UsageSpan{From: r.out.From, To: r.out.To, Step: string(r.q.Step), Zone: r.zone}
		for t := span.floor(r.out.From.In(r.zone)); t.Before(r.out.To); t = span.Next(t) {
			if len(r.out.Starts) == maxSpanSteps {
				return false
			}
			r.out.Starts = append(r.out.Starts, t)
		}
	}
	r.out.Steps = make([]UsageSums, len(r.out.Starts))
	return true
}

// plan chooses the smallest sums that can answer.
func (r *reporting) plan() {
	coarsest := 24 * time.Hour
	for _, t := range r.out.Starts[1:] {
		for t.Unix()%int64(coarsest/time.Second) != 0 {
			coarsest = map[time.Duration]time.Duration{24 * time.Hour: time.Hour, time.Hour: quarterHour, quarterHour: time.Second}[coarsest]
		}
	}
	q := &r.q
	all, narrow := q.TenantID == "" && q.Plan == "" && q.KID == "", q.KID != "" || q.Route != "" || q.Outcome != ""
	switch {
	case q.Step == StepMinute:
		r.family = UsageOfAll
	case q.Group == GroupGateway, all && (q.Group == GroupNone || q.Group == GroupRoute || q.Group == GroupOutcome):
		r.family = UsageOfFleet
	case !narrow && (q.Group == GroupNone || q.Group == GroupTenant || q.Group == GroupPlan):
		r.family = UsageOfTenants
	default:
		r.family = UsageOfAll
	}
	if r.family != UsageOfTenants && coarsest == time.Hour {
		coarsest = quarterHour
	}
	r.read = UsageRead{
		Cover: coverOf(r.out.From, r.out.To, coarsest), Starts: r.out.Starts, Group: q.Group, By: q.By, Top: q.Top,
		Route: q.Route, Outcome: q.Outcome, Plan: q.Plan,
	}
	r.out.Source = "days"
	if c := r.read.Cover; c.From != c.HoursFrom || c.HoursTo != c.To || r.family != UsageOfTenants && (c.From != c.DaysFrom || c.DaysTo != c.To) {
		r.out.Source = "quarters"
	} else if c.HoursFrom != c.DaysFrom || c.DaysTo != c.HoursTo {
		r.out.Source = "hours"
	}
	if q.Step == StepMinute {
		r.read.Cover = UsageCover{From: r.out.From, HoursFrom: r.out.To, DaysFrom: r.out.To, DaysTo: r.out.To, HoursTo: r.out.To, To: r.out.To, Minutes: true}
		r.out.Source = "minutes"
	}
	if q.TenantID != "" {
		r.read.TenantIDs = []string{q.TenantID}
	}
	if q.KID != "" {
		r.read.KIDs = []string{q.KID}
	}
}

// groups finds the largest groups and their steps. Totals are read after them, so that
// what comes meanwhile makes the rest larger and never negative.
func (r *reporting) groups(ctx context.Context, tx Tx, ledger *Ledger) error {
	if r.q.Group == GroupNone {
		return nil
	}
	top, count, told, err := r.top(ctx, tx, ledger)
	if err != nil {
		return err
	}
	at := make(map[string]int, len(top))
	keys := make([]string, len(top))
	for i, c := range top {
		r.out.Groups = append(r.out.Groups, UsageLine{Key: c.Key, Total: c.UsageSums, Steps: make([]UsageSums, len(r.out.Starts))})
		at[c.Key], keys[i] = i, c.Key
	}
	r.out.RestCount = max(count-len(top), 0)
	r.out.Rest.Steps = make([]UsageSums, len(r.out.Starts))
	if len(top) == 0 {
		return nil
	}
	if err := r.names(ctx, tx, keys); err != nil {
		return err
	}
	if len(r.out.Starts) == 1 && told {
		for i := range r.out.Groups {
			r.out.Groups[i].Steps[0] = r.out.Groups[i].Total
		}
		return nil
	}
	read := r.read
	switch r.q.Group {
	case GroupTenant:
		read.TenantIDs = keys
	case GroupKey:
		read.KIDs = keys
	}
	cells, err := tx.UsageCells(ctx, r.family, read)
	for i := range r.out.Groups {
		r.out.Groups[i].Total = UsageSums{}
	}
	for _, c := range cells {
		if i, ok := at[c.Key]; ok && c.Step < len(r.out.Starts) {
			r.out.Groups[i].Steps[c.Step].Add(c.UsageSums)
			r.out.Groups[i].Total.Add(c.UsageSums)
		}
	}
	if !told {
		sortLines(r.out.Groups, r.q.By)
	}
	return err
}

// top finds the largest groups and how many there are. When told is false, what they
// used is still to be read.
func (r *reporting) top(ctx context.Context, tx Tx, ledger *Ledger) (top []UsageCell, count int, told bool, err error) {
	read := r.read
	read.Starts = r.out.Starts[:1]
	if r.q.Step != StepMinute {
		read.Cover = coverOf(r.out.From, r.out.To, 24*time.Hour)
	}
	if r.family != UsageOfFleet {
		return ledger.largest(ctx, tx, r.family, read)
	}
	cells, err := tx.UsageCells(ctx, r.family, read)
	sortCells(cells, r.q.By)
	return cells[:min(len(cells), r.q.Top)], len(cells), true, err
}

func (r *reporting) names(ctx context.Context, tx Tx, keys []string) error {
	named := tx.TenantNames
	switch {
	case r.q.Unnamed:
		return nil
	case r.q.Group == GroupTenant:
	case r.q.Group == GroupKey:
		named = tx.KeyNames
	default:
		return nil
	}
	names, err := named(ctx, keys)
	for i := range r.out.Groups {
		r.out.Groups[i].Name = names[r.out.Groups[i].Key]
	}
	return err
}

// totals reads the sums of all groups together, by step.
func (r *reporting) totals(ctx context.Context, tx Tx) error {
	read, family := r.read, r.family
	read.Group = GroupNone
	if r.q.TenantID == "" && r.q.Plan == "" && r.q.KID == "" && r.q.Step != StepMinute && family != UsageOfFleet {
		family = UsageOfFleet // by far the smallest
	}
	cells, err := tx.UsageCells(ctx, family, read)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if c.Step < len(r.out.Steps) {
			r.out.Steps[c.Step].Add(c.UsageSums)
		}
		r.out.Total.Add(c.UsageSums)
	}
	if r.q.Group == GroupNone {
		return nil
	}
	r.out.Rest.Total = r.out.Total
	copy(r.out.Rest.Steps, r.out.Steps)
	for _, g := range r.out.Groups {
		r.out.Rest.Total.take(g.Total)
		for i := range g.Steps {
			r.out.Rest.Steps[i].take(g.Steps[i])
		}
	}
	return nil
}

// Last24h tells the last 24 hours of some tenants, at most 200, in one statement.
func (s *Ledger) Last24h(ctx context.Context, tenantIDs []string) (map[string]TenantDay, error) {
	if len(tenantIDs) > maxTop {
		return nil, invalid(FieldError{Field: "tenant", Message: fmt.Sprintf("At most %d tenants at once.", maxTop)})
	}
	out := make(map[string]TenantDay, len(tenantIDs))
	if len(tenantIDs) == 0 {
		return out, nil
	}
	now := s.d.now()
	to := floorTo(now, time.Hour).Add(time.Hour)
	from := to.Add(-24 * time.Hour)
	starts := make([]time.Time, 24)
	for i := range starts {
		starts[i] = from.Add(time.Duration(i) * time.Hour)
	}
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		cells, err := tx.UsageCells(ctx, UsageOfTenants, UsageRead{Cover: coverOf(from, to, time.Hour), Starts: starts, Group: GroupTenant, TenantIDs: tenantIDs})
		if err != nil {
			return err
		}
		for _, c := range cells {
			day := out[c.Key]
			day.Total.Add(c.UsageSums)
			if c.Step < len(day.Hours) {
				day.Hours[c.Step].Add(c.UsageSums)
			}
			out[c.Key] = day
		}
		last, err := tx.LastUsed(ctx, tenantIDs, now.Add(-s.keep.Quarters), now.Add(-s.keep.Days))
		for id, at := range last {
			day := out[id]
			day.Last = at
			out[id] = day
		}
		return err
	})
	return out, err
}

// Since is when the ledger began: when the first gateway told of usage. It is far in the
// future while none has.
func (s *Ledger) Since(ctx context.Context) (since time.Time, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		since, err = tx.UsageSince(ctx, corrections().Replica)
		return err
	})
	return since, err
}

// Sums tells what tenants used, in the order of the asks, everything committed
// included.
func (s *Ledger) Sums(ctx context.Context, asks []LedgerAsk) (sums []UsageSums, err error) {
	if len(asks) > maxAsks {
		return nil, fmt.Errorf("sums of usage: %d asks, at most %d", len(asks), maxAsks)
	}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		sums, err = tx.UsageSums(ctx, asks)
		return err
	})
	return sums, err
}
