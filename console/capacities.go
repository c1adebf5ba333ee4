package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of what is stored of a measurement.
const (
	capacityFresh    = 90 * 24 * time.Hour // after it, a figure is stale
	capacityLate     = 24 * time.Hour      // how old a ramp may be when it is told
	capacityAhead    = 10 * time.Minute    // how far its clock may be ahead
	maxCapacitySteps = 200
	maxCapacityMilli = 1_000_000_000 // a million requests a second
	maxCapacityTime  = time.Hour
	maxTarget        = 500
)

// CapacityEnds are the words for how a ramp may end, as package knee has them.
func CapacityEnds() []string {
	return []string{"knee", "max-rps", "errors", "p99", "stalled", "refused", "interrupted", "behind"}
}

// Capacity is what a route was measured to take. Rates are thousandths of a request
// a second.
type Capacity struct {
	ID          string // cap_…
	Route       string
	Target      string // the URL that was asked, without its query
	Version     int64  // the policy in force when it was stored; 0 for none
	KneeMilli   int64  // the highest rate that was answered as well as the lowest; 0: none was
	BeyondMilli int64  // the lowest that was not; 0: none was met, and the route takes more
	Plateau     time.Duration
	P99         time.Duration // at the knee
	Ended       string        // one of CapacityEnds
	Why         string        // the end, for people
	Method      string
	Note        string
	Steps       []CapacityStep // absent in lists
	MeasuredAt  time.Time
	AuthorID    string
	Author      string
	CreatedAt   time.Time
}

// CapacityStep is one rate that was tried.
type CapacityStep struct {
	RPSMilli int64  `json:"rps_milli"`
	Sent     int64  `json:"sent"`
	Failed   int64  `json:"failed"`
	Refused  int64  `json:"refused"`
	P50US    int64  `json:"p50_us"`
	P99US    int64  `json:"p99_us"`
	Good     bool   `json:"good"`
	Why      string `json:"why,omitempty"`
}

// NewCapacity is a measurement as it is told.
type NewCapacity struct {
	Route, Target, Note    string
	KneeMilli, BeyondMilli int64
	Plateau, P99           time.Duration
	Ended, Why, Method     string
	Steps                  []CapacityStep
	MeasuredAt             time.Time // zero: now
}

// KnownCapacity is the newest measurement of a route, and whether it still says something.
type KnownCapacity struct {
	Capacity
	Stale string // why it says little now; "" while it is fresh
	// AtLeast says that no knee was met: the route takes this much or more.
	AtLeast bool
}

// CapacityRows keeps measurements.
type CapacityRows interface {
	InsertCapacity(ctx context.Context, c Capacity) error
	Capacity(ctx context.Context, id string) (Capacity, error)
	// Capacities lists the newest first, without steps; route "" is every one.
	Capacities(ctx context.Context, route string, after Cursor, limit int) ([]Capacity, error)
	// NewestCapacities lists the newest of each route, without steps.
	NewestCapacities(ctx context.Context) ([]Capacity, error)
}

// Capacities keeps what routes were measured to take. A measurement is never changed:
// a later one replaces it.
type Capacities struct {
	d       Deps
	laws    lawCache
	history routeHistory
}

// NewCapacities returns the service.
func NewCapacities(d Deps) *Capacities { return &Capacities{d: d.withDefaults()} }

// Store keeps a measurement of a route of the policy in force. It needs PermEditDrafts.
func (s *Capacities) Store(ctx context.Context, actor Actor, in NewCapacity) (out Capacity, err error) {
	if err := actor.need(PermEditDrafts); err != nil {
		return out, err
	}
	now := s.d.now()
	if in.MeasuredAt.IsZero() {
		in.MeasuredAt = now
	}
	if err := in.check(now); err != nil {
		return out, err
	}
	out = Capacity{
		Route: in.Route, Target: in.Target, KneeMilli: in.KneeMilli, BeyondMilli: in.BeyondMilli, Plateau: in.Plateau.Truncate(time.Microsecond),
		P99: in.P99.Truncate(time.Microsecond), Ended: in.Ended, Why: in.Why, Method: in.Method, Note: in.Note, Steps: in.Steps,
		MeasuredAt: in.MeasuredAt.UTC().Truncate(time.Microsecond), AuthorID: actor.ID, Author: actor.Name, CreatedAt: now,
	}
	if out.ID, err = s.d.newID("cap"); err != nil {
		return out, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		have, err := s.laws.inForce(ctx, tx)
		if err != nil {
			return err
		}
		if have == nil || !have.hasRoute(in.Route) {
			return invalid(FieldError{"route", "The policy in force has no route of this name."})
		}
		out.Version = have.version
		if err := tx.InsertCapacity(ctx, out); err != nil {
			return fmt.Errorf("insert capacity of %s: %w", in.Route, err)
		}
		return s.d.record(ctx, tx, actor, now, event{action: "capacity.measure", object: "route", objectID: in.Route, after: capacityView(out), reason: in.Note})
	})
	return out, err
}

// capacityView is what the audit trail tells of a measurement.
func capacityView(c Capacity) any {
	return struct {
		ID          string `json:"id"`
		Target      string `json:"target"`
		KneeMilli   int64  `json:"knee_milli"`
		BeyondMilli int64  `json:"beyond_milli"`
		P99US       int64  `json:"p99_us"`
		Ended       string `json:"ended"`
	}{c.ID, c.Target, c.KneeMilli, c.BeyondMilli, c.P99.Microseconds(), c.Ended}
}

// check lists every problem, and trims texts.
func (in *NewCapacity) check(now time.Time) error {
	var p problems
	in.Route = p.text("route", in.Route, maxName, true)
	in.Target = p.text("target", in.Target, maxTarget, true)
	in.Note = p.text("note", in.Note, maxReason, false)
	in.Why = p.text("why", in.Why, maxReason, false)
	in.Method = p.text("method", in.Method, maxReason, true)
	if !slices.Contains(CapacityEnds(), in.Ended) {
		p.add("ended", "Must be one of %v.", CapacityEnds())
	}
	for field, v := range map[string]int64{"knee_milli": in.KneeMilli, "beyond_milli": in.BeyondMilli} {
		if v < 0 || v > maxCapacityMilli {
			p.add(field, "Must be 0 to %d thousandths of a request a second.", int64(maxCapacityMilli))
		}
	}
	if in.BeyondMilli != 0 && in.BeyondMilli <= in.KneeMilli {
		p.add("beyond_milli", "Must be above knee_milli, or 0 for a knee that was not met.")
	}
	for field, v := range map[string]time.Duration{"plateau_us": in.Plateau, "p99_us": in.P99} {
		if v < 0 || v > maxCapacityTime {
			p.add(field, "Must be 0 to an hour.")
		}
	}
	if in.MeasuredAt.Before(now.Add(-capacityLate)) || in.MeasuredAt.After(now.Add(capacityAhead)) {
		p.add("measured_at", "Must lie in the last 24 hours.")
	}
	if len(in.Steps) > maxCapacitySteps {
		p.add("steps", "At most %d.", maxCapacitySteps)
	}
	slices.SortStableFunc(p, func(a, b FieldError) int { return strings.Compare(a.Field, b.Field) })
	for i := range in.Steps {
		in.Steps[i].Why = p.text("steps", in.Steps[i].Why, maxReason, false)
	}
	return p.err()
}

// Get returns one measurement with its steps.
func (s *Capacities) Get(ctx context.Context, id string) (c Capacity, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		c, err = tx.Capacity(ctx, id)
		return err
	})
	return c, err
}

// List lists measurements, the newest first; route "" is every one's.
func (s *Capacities) List(ctx context.Context, route string, page Page) (items []Capacity, next string, err error) {
	return paged(ctx, s.d.Store, page, func(tx Tx, after Cursor, limit int) ([]Capacity, error) {
		return tx.Capacities(ctx, route, after, limit)
	}, func(c Capacity) Cursor { return Cursor{c.MeasuredAt, c.ID} })
}

// Known is the newest measurement of each route that has one, by route.
func (s *Capacities) Known(ctx context.Context) (map[string]KnownCapacity, error) {
	out := map[string]KnownCapacity{}
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		all, err := tx.NewestCapacities(ctx)
		if err != nil || len(all) == 0 {
			return err
		}
		if err := s.history.follow(ctx, tx, all); err != nil {
			return err
		}
		now := s.d.now()
		for _, c := range all {
			out[c.Route] = KnownCapacity{Capacity: c, Stale: s.history.stale(c, now), AtLeast: c.BeyondMilli == 0 && c.Ended == "max-rps"}
		}
		return nil
	})
	return out, err
}
