package console_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// overrideActs are all ways to change what holds for a tenant. Each needs the
// tenant to have a value for plan.quota and a boost of plan.requests.
func overrideActs(e *env, s *console.Overrides, tenant, value, boost string) map[string]func(console.Actor) error {
	soon := e.clock.now().Add(2 * time.Hour)
	return map[string]func(console.Actor) error{
		"set": func(a console.Actor) error {
			_, err := s.Set(e.ctx, a, tenant, console.NewOverride{Limit: "shared:search", Rate: "900/minute", Reason: "r"})
			return err
		},
		"clear": func(a console.Actor) error {
			_, err := s.Clear(e.ctx, a, tenant, "plan.quota", "r")
			return err
		},
		"extend a value": func(a console.Actor) error {
			_, err := s.Extend(e.ctx, a, value, console.Extension{Until: &soon, Reason: "r"})
			return err
		},
		"small boost": func(a console.Actor) error {
			_, err := s.Boost(e.ctx, a, tenant, console.NewBoost{Limit: "plan.requests", FactorMilli: 2000, For: 24 * time.Hour, Reason: "r"})
			return err
		},
		"large boost": func(a console.Actor) error {
			_, err := s.Boost(e.ctx, a, tenant, console.NewBoost{Limit: "plan.requests", FactorMilli: 5000, For: 48 * time.Hour, Reason: "r"})
			return err
		},
		"extend a boost": func(a console.Actor) error {
			_, err := s.Extend(e.ctx, a, boost, console.Extension{Until: &soon, Reason: "r"})
			return err
		},
		"end a boost": func(a console.Actor) error {
			_, err := s.EndBoost(e.ctx, a, tenant, "plan.requests", "r")
			return err
		},
	}
}

// boostsAlone are the acts that support may do, too.
func boostsAlone() map[string]bool {
	return map[string]bool{"small boost": true, "extend a boost": true, "end a boost": true}
}

// withBoth is a tenant with a value of its own and a small boost.
func withBoth(t *testing.T) (e *env, s *console.Overrides, tenant, value, boost string) {
	t.Helper()
	e, s, ten := lawful(t)
	v, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.quota", Amount: new(int64(2000)), Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 1500, For: time.Hour, Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	return e, s, ten.ID, v.Override.ID, b.Override.ID
}

// Who may not do a thing changes nothing by trying.
func TestOverrides_B5_RolesThatMayNotChangeNothing(t *testing.T) {
	t.Parallel()
	e, s, tenant, value, boost := withBoth(t)
	before, events := recordSeq(t, e, tenant), len(e.events(t))
	roles := append(console.Roles(), console.RoleTenantViewer, console.RoleTenantAdmin, console.Role("root"), console.Role(""))
	refused := 0
	for name, act := range overrideActs(e, s, tenant, value, boost) {
		for _, role := range roles {
			manages := role == console.RoleKeyAdmin || role == console.RoleOwner
			if manages || role == console.RoleSupport && boostsAlone()[name] {
				continue
			}
			refused++
			if got := console.CodeOf(act(as(role))); got != console.CodeForbidden {
				t.Errorf("%s as %q: %q, want %q", name, role, got, console.CodeForbidden)
			}
		}
	}
	if want := len(roles)*7 - 2*7 - 3; refused != want {
		t.Errorf("%d cells, want %d", refused, want)
	}
	if now := recordSeq(t, e, tenant); now != before || len(e.events(t)) != events {
		t.Errorf("the record went from %d to %d, the trail from %d to %d events", before, now, events, len(e.events(t)))
	}
}

// The other half of the table: who may, does, and each act is one step of the
// tenant's record and one event by whoever did it.
func TestOverrides_RolesThatMayDoAndAreWrittenDown(t *testing.T) {
	t.Parallel()
	for _, role := range []console.Role{console.RoleSupport, console.RoleKeyAdmin, console.RoleOwner} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			e, s, tenant, value, boost := withBoth(t)
			actor := as(role)
			actor.Name = "Bo of " + string(role)
			acts := overrideActs(e, s, tenant, value, boost)
			for _, step := range []struct{ act, event string }{
				{"extend a boost", "boost.extend"}, {"extend a value", "override.extend"}, {"small boost", "boost.set"},
				{"large boost", "boost.set"}, {"end a boost", "boost.end"}, {"set", "override.set"}, {"clear", "override.end"},
			} {
				if role == console.RoleSupport && !boostsAlone()[step.act] {
					continue
				}
				seq, events := recordSeq(t, e, tenant), len(e.events(t))
				if err := acts[step.act](actor); err != nil {
					t.Fatalf("%s: %v", step.act, err)
				}
				all := e.events(t)
				if recordSeq(t, e, tenant) != seq+1 || len(all) != events+1 {
					t.Errorf("%s: record %d → %d, events %d → %d", step.act, seq, recordSeq(t, e, tenant), events, len(all))
				}
				if ev := all[0]; ev.Action != step.event || ev.Actor != actor.Name || ev.TenantID != tenant || ev.Reason != "r" {
					t.Errorf("%s: event %+v", step.act, ev)
				}
			}
		})
	}
}

func recordSeq(t *testing.T, e *env, tenant string) int64 {
	t.Helper()
	ten, err := e.tenants.Get(e.ctx, tenant)
	if err != nil {
		t.Fatal(err)
	}
	return ten.Seq
}

// A member of a tenant reaches overrides by asking, never by these.
func TestOverrides_A05_MembersHaveNoWayIn(t *testing.T) {
	t.Parallel()
	e, s, tenant, value, boost := withBoth(t)
	for _, via := range []string{console.ViaPortal, console.ViaConsole, console.ViaAPI} {
		member := console.Actor{ID: "mem_aaaaaaaaaaaaaaaa", Name: "M", Role: console.RoleTenantAdmin, TenantID: tenant, Via: via}
		for name, act := range overrideActs(e, s, tenant, value, boost) {
			if got := console.CodeOf(act(member)); got != console.CodeForbidden {
				t.Errorf("%s by a member via %s: %q", name, via, got)
			}
		}
	}
}

// Every act on what is not there, of a tenant that is not there, or without a
// reason is refused by its own code, whoever does it.
func TestOverrides_ActsOnWhatIsNotThereAreRefused(t *testing.T) {
	t.Parallel()
	e, s, tenant, value, boost := withBoth(t)
	soon := e.clock.now().Add(time.Hour)
	for name, c := range map[string]struct {
		err  error
		code console.Code
	}{
		"clear of another limit":    {second(s.Clear(e.ctx, owner, tenant, "plan.requests", "r")), console.CodeNotFound},
		"clear of an unknown limit": {second(s.Clear(e.ctx, owner, tenant, "plan.nothing", "r")), console.CodeNotFound},
		"clear without a reason":    {second(s.Clear(e.ctx, owner, tenant, "plan.quota", " ")), console.CodeInvalid},
		"clear of another tenant's": {second(s.Clear(e.ctx, owner, "ten_none", "plan.quota", "r")), console.CodeNotFound},
		"end of a value as a boost": {second(s.EndBoost(e.ctx, owner, tenant, "plan.quota", "r")), console.CodeNotFound},
		"end without a reason":      {second(s.EndBoost(e.ctx, owner, tenant, "plan.requests", "")), console.CodeInvalid},
		"boost without a reason":    {second(s.Boost(e.ctx, owner, tenant, console.NewBoost{Limit: "plan.requests", FactorMilli: 2000, For: time.Hour})), console.CodeInvalid},
		"boost of an unknown limit": {second(s.Boost(e.ctx, owner, tenant, console.NewBoost{Limit: "plan.request", FactorMilli: 2000, For: time.Hour, Reason: "r"})), console.CodeInvalid},
		"boost of a larger one":     {second(s.Boost(e.ctx, owner, tenant, console.NewBoost{Limit: "plan.requests", FactorMilli: 1200, For: time.Hour, Reason: "r"})), console.CodeInvalid},
		"extend into the past":      {second(s.Extend(e.ctx, owner, value, console.Extension{Until: new(e.clock.now()), Reason: "r"})), console.CodeInvalid},
		"extend without a reason":   {second(s.Extend(e.ctx, owner, boost, console.Extension{Until: &soon})), console.CodeInvalid},
		"extend of nothing":         {second(s.Extend(e.ctx, owner, "ovr_none", console.Extension{Until: &soon, Reason: "r"})), console.CodeNotFound},
		"no such override":          {second(s.Get(e.ctx, "ovr_none")), console.CodeNotFound},
	} {
		wantCodeNamed(t, name, c.err, c.code)
	}
	live, ended, err := s.OfTenant(e.ctx, tenant, 10)
	if err != nil || len(live) != 2 || len(ended) != 0 {
		t.Errorf("afterwards %d hold and %d ended (%v)", len(live), len(ended), err)
	}
}
