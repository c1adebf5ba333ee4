package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func measuredKnee() console.NewCapacity {
	return console.NewCapacity{
		Route: "everything", Target: "GET http://127.0.0.1:8080/v1/items", KneeMilli: 2000, BeyondMilli: 2100, Plateau: 10 * time.Millisecond,
		P99: 12 * time.Millisecond, Ended: "knee", Why: "between 2 and 2.1", Method: "a ramp",
		Steps: []console.CapacityStep{{RPSMilli: 1000, Sent: 3, P50US: 9000, P99US: 10_000, Good: true}, {RPSMilli: 2100, Sent: 6, P99US: 90_000, Why: "p99"}},
	}
}

func (a *advised) known(t *testing.T) console.KnownCapacity {
	t.Helper()
	all, err := a.capacities.Known(a.ctx)
	if err != nil {
		t.Fatal(err)
	}
	return all["everything"]
}

func TestCapacities_KeepWhatWasMeasuredByWhomAndWhen(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	in := measuredKnee()
	in.MeasuredAt, in.Note = a.clock.now().Add(-time.Minute), " quiet night "
	c, err := a.capacities.Store(a.ctx, as(console.RoleEditor), in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.capacities.Get(a.ctx, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.KneeMilli != 2000 || got.BeyondMilli != 2100 || got.P99 != 12*time.Millisecond || got.Plateau != 10*time.Millisecond || got.Author != "Ann" || got.Version != 1 ||
		got.Note != "quiet night" || !got.MeasuredAt.Equal(in.MeasuredAt) || len(got.Steps) != 2 || got.Steps[1] != in.Steps[1] || got.Target != in.Target {
		t.Errorf("%+v", got)
	}
	events, _, err := a.audit.List(a.ctx, console.AuditQuery{Object: "route"})
	if err != nil || len(events) != 1 || events[0].Action != "capacity.measure" || events[0].ObjectID != "everything" || !strings.Contains(string(events[0].After), "2000") {
		t.Errorf("the trail has %+v, %v", events, err)
	}
	if _, err := a.capacities.Get(a.ctx, "cap_"+strings.Repeat("a", 16)); !console.IsNotFound(err) {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestCapacities_AreListedNewestFirstPageByPage(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	for i := range 3 {
		a.clock.add(time.Second)
		in := measuredKnee()
		in.BeyondMilli, in.KneeMilli = 0, int64(1000*(i+1))
		if in.Ended = "errors"; i == 2 {
			in.Ended = "max-rps"
		}
		if _, err := a.capacities.Store(a.ctx, owner, in); err != nil {
			t.Fatal(err)
		}
	}
	first, next, err := a.capacities.List(a.ctx, "everything", console.Page{Limit: 2})
	if err != nil || len(first) != 2 || first[0].KneeMilli != 3000 || next == "" {
		t.Fatalf("%+v, %q, %v", first, next, err)
	}
	rest, next, err := a.capacities.List(a.ctx, "", console.Page{Limit: 2, After: next})
	if err != nil || len(rest) != 1 || rest[0].KneeMilli != 1000 || next != "" {
		t.Errorf("%+v, %q, %v", rest, next, err)
	}
	if none, _, err := a.capacities.List(a.ctx, "other", console.Page{}); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	if k := a.known(t); k.KneeMilli != 3000 || !k.AtLeast {
		t.Errorf("%+v", k)
	}
	if _, _, err := a.capacities.List(a.ctx, "", console.Page{After: "x"}); console.CodeOf(err) != console.CodeInvalid {
		t.Errorf("a cursor of something else: %v", err)
	}
}

func TestCapacities_GoStaleWithTheRouteAndWithTime(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	store := func() {
		t.Helper()
		if _, err := a.capacities.Store(a.ctx, owner, measuredKnee()); err != nil {
			t.Fatal(err)
		}
	}
	store()
	if k := a.known(t); k.Stale != "" || k.AtLeast {
		t.Errorf("at once: %+v", k)
	}
	plan := strings.Replace(string(document("10000")), "60/minute", "70/minute", 1)
	if _, err := a.policies.Publish(a.ctx, owner, []byte(plan), nil, 1, console.PublishOptions{Note: "plan"}); err != nil {
		t.Fatal(err)
	}
	if k := a.known(t); k.Stale != "" {
		t.Errorf("after a change of a plan: %q", k.Stale)
	}
	a.publish(t, "10001", 2)
	if k := a.known(t); !strings.Contains(k.Stale, "changed since, in v3") {
		t.Errorf("after a change of the route: %q", k.Stale)
	}
	a.publish(t, "10000", 3) // as it was when it was measured, and changed since all the same
	if k := a.known(t); !strings.Contains(k.Stale, "v4") {
		t.Errorf("after the change was taken back: %q", k.Stale)
	}
	a.clock.add(time.Second)
	store()
	if k := a.known(t); k.Stale != "" || k.Version != 4 {
		t.Errorf("measured anew: %+v", k)
	}
	a.clock.add(90*24*time.Hour + time.Second)
	if k := a.known(t); !strings.Contains(k.Stale, "90 days") {
		t.Errorf("after 90 days: %q", k.Stale)
	}
	again := console.NewCapacities(a.deps) // another console, that has read nothing yet
	if all, err := again.Known(a.ctx); err != nil || !strings.Contains(all["everything"].Stale, "90 days") {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestCapacities_RefuseWhatCannotBe(t *testing.T) {
	t.Parallel()
	a := newAdvised(t)
	for field, spoil := range map[string]func(*console.NewCapacity){
		"route":        func(c *console.NewCapacity) { c.Route = "nothing" },
		"target":       func(c *console.NewCapacity) { c.Target = "" },
		"ended":        func(c *console.NewCapacity) { c.Ended = "well" },
		"knee_milli":   func(c *console.NewCapacity) { c.KneeMilli = -1 },
		"beyond_milli": func(c *console.NewCapacity) { c.BeyondMilli = 2000 },
		"plateau_us":   func(c *console.NewCapacity) { c.Plateau = -1 },
		"p99_us":       func(c *console.NewCapacity) { c.P99 = 2 * time.Hour },
		"measured_at":  func(c *console.NewCapacity) { c.MeasuredAt = a.clock.now().Add(-25 * time.Hour) },
		"steps":        func(c *console.NewCapacity) { c.Steps = make([]console.CapacityStep, 201) },
		"method":       func(c *console.NewCapacity) { c.Method = " " },
		"note":         func(c *console.NewCapacity) { c.Note = strings.Repeat("x", 501) },
	} {
		in := measuredKnee()
		spoil(&in)
		_, err := a.capacities.Store(a.ctx, owner, in)
		if console.CodeOf(err) != console.CodeInvalid || !strings.Contains(err.Error(), "["+field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, role := range []console.Role{console.RoleViewer, console.RoleSupport, console.RoleKeyAdmin, console.RoleAuditor} {
		if _, err := a.capacities.Store(a.ctx, as(role), measuredKnee()); console.CodeOf(err) != console.CodeForbidden {
			t.Errorf("%s: %v", role, err)
		}
	}
	if all, _, err := a.capacities.List(a.ctx, "", console.Page{}); err != nil || len(all) != 0 {
		t.Errorf("something was stored: %+v, %v", all, err)
	}
}
