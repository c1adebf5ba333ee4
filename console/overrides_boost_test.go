package console_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func TestBoosts_SupportRaisesALittleForADay(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	support, admin := as(console.RoleSupport), as(console.RoleKeyAdmin)
	boost := func(a console.Actor, factor int64, length time.Duration) error {
		_, err := s.Boost(e.ctx, a, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: factor, For: length, Reason: "ticket 1", Lower: true})
		return err
	}
	for _, c := range []struct {
		who    console.Actor
		factor int64
		length time.Duration
		want   console.Code
	}{
		{support, 2001, time.Hour, console.CodeForbidden},
		{support, 2000, 24*time.Hour + time.Second, console.CodeForbidden},
		{as(console.RoleViewer), 1500, time.Hour, console.CodeForbidden},
		{as(console.RolePublisher), 1500, time.Hour, console.CodeForbidden},
		{admin, 10_001, time.Hour, console.CodeInvalid},
		{admin, 2000, 30*24*time.Hour + time.Second, console.CodeInvalid},
		{admin, 1000, time.Hour, console.CodeInvalid},
		{admin, 2000, 59 * time.Second, console.CodeInvalid},
		{support, 2000, 24 * time.Hour, ""},
		{admin, 10_000, 30 * 24 * time.Hour, ""},
		{support, 2000, time.Hour, console.CodeForbidden}, // it would take the place of the larger one
	} {
		if got := console.CodeOf(boost(c.who, c.factor, c.length)); got != c.want {
			t.Errorf("%s, %d, %v: %q, want %q", c.who.Role, c.factor, c.length, got, c.want)
		}
	}
	_, err := s.EndBoost(e.ctx, support, ten.ID, "plan.requests", "r")
	wantCode(t, err, console.CodeForbidden)
	if _, err := s.EndBoost(e.ctx, admin, ten.ID, "plan.requests", "r"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Set(e.ctx, support, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: "70/minute", Reason: "r"})
	wantCode(t, err, console.CodeForbidden)
	if e.actions(t)[len(e.actions(t))-1] != "boost.end" {
		t.Errorf("actions %v", e.actions(t))
	}
}

func TestBoosts_SupportCannotMakeADayLonger(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	support, admin := as(console.RoleSupport), as(console.RoleKeyAdmin)
	set, err := s.Boost(e.ctx, support, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 1500, For: time.Hour, Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	begun := e.clock.now()
	to := func(a console.Actor, at time.Time) error {
		_, err := s.Extend(e.ctx, a, set.Override.ID, console.Extension{Until: &at, Reason: "r"})
		return err
	}
	e.clock.add(30 * time.Minute)
	if err := to(support, begun.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, to(support, begun.Add(24*time.Hour+time.Second)), console.CodeForbidden)
	wantCode(t, to(admin, begun), console.CodeInvalid)
	wantCode(t, to(admin, begun.Add(31*24*time.Hour)), console.CodeInvalid)
	if err := to(admin, begun.Add(29*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, to(support, begun.Add(2*time.Hour)), console.CodeForbidden) // not theirs any more
	_, err = s.Extend(e.ctx, admin, set.Override.ID, console.Extension{Reason: "for good"})
	fieldOf(t, "a boost for good", err, "until")
	_, err = s.Extend(e.ctx, admin, set.Override.ID, console.Extension{Until: new(begun.Add(time.Hour))})
	fieldOf(t, "without a reason", err, "reason")
	_, err = s.Extend(e.ctx, admin, "ovr_none", console.Extension{Until: new(begun.Add(time.Hour)), Reason: "r"})
	wantCode(t, err, console.CodeNotFound)
	value, err := s.Set(e.ctx, admin, ten.ID, console.NewOverride{Limit: "plan.quota", Amount: new(int64(2000)), Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Extend(e.ctx, support, value.Override.ID, console.Extension{Until: new(begun.Add(time.Hour)), Reason: "r"})
	wantCode(t, err, console.CodeForbidden)
	at := begun.Add(90 * 24 * time.Hour)
	if _, err := s.Extend(e.ctx, admin, value.Override.ID, console.Extension{Until: &at, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Extend(e.ctx, admin, value.Override.ID, console.Extension{Reason: "for good"})
	if err != nil || got.Override.ExpiresAt != nil || got.Override.Amount == nil {
		t.Fatalf("%+v (%v)", got, err)
	}
}

func TestBoosts_OfWhatCannotBeRaisedAreRefused(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	for _, in := range []console.NewOverride{{Limit: "plan.requests", Rate: "0"}, {Limit: "plan.quota", Rate: "unlimited"}} {
		in.Reason, in.Lower = "r", true
		if _, err := s.Set(e.ctx, owner, ten.ID, in); err != nil {
			t.Fatal(err)
		}
		_, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: in.Limit, FactorMilli: 2000, For: time.Hour, Reason: "r"})
		fieldOf(t, in.Limit+" "+in.Rate, err, "limit")
	}
	boost := func(factor int64, lower bool) error {
		_, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: "shared:search", FactorMilli: factor, For: time.Hour, Reason: "r", Lower: lower})
		return err
	}
	if err := boost(4000, false); err != nil {
		t.Fatal(err)
	}
	fieldOf(t, "a smaller one in its place", boost(3000, false), "confirm.lower")
	if err := boost(3000, true); err != nil {
		t.Fatal(err)
	}
}
