package console_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// The job ends those whose time is over to the microsecond, and no others.
func TestOverrides_ExpiryEndsThoseWhoseTimeIsOverAndNoOthers(t *testing.T) {
	t.Parallel()
	e, s, a := lawful(t)
	b := e.tenant(t, "Borg")
	begun := e.clock.now()
	ends := map[string]time.Time{}
	for _, ten := range []string{a.ID, b.ID} {
		for i, limit := range []string{"plan.requests", "shared:search", "plan.quota"} {
			set, err := s.Boost(e.ctx, owner, ten, console.NewBoost{Limit: limit, FactorMilli: 2000, For: time.Duration(i+1) * time.Hour, Reason: "r"})
			if err != nil {
				t.Fatal(err)
			}
			ends[set.Override.ID] = *set.Override.ExpiresAt
		}
	}
	open, err := s.Set(e.ctx, owner, a.ID, console.NewOverride{Limit: "plan.requests", Rate: "70/minute", Reason: "for good"})
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{time.Hour - time.Microsecond, time.Hour, 2*time.Hour - time.Microsecond, 2 * time.Hour, 3 * time.Hour, 1000 * time.Hour} {
		e.clock.add(begun.Add(after).Sub(e.clock.now()))
		if err := s.Expire(e.ctx); err != nil {
			t.Fatal(err)
		}
		for id, end := range ends {
			got, err := s.Get(e.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if over := !e.clock.now().Before(end); over != (got.EndedAt != nil) || over && !got.EndedAt.Equal(end) {
				t.Errorf("after %v: %s ends %v, ended %v", after, got.Limit, end, got.EndedAt)
			}
		}
		if got, err := s.Get(e.ctx, open.Override.ID); err != nil || got.EndedAt != nil {
			t.Errorf("after %v: what has no end ended at %v (%v)", after, got.EndedAt, err)
		}
	}
	if n := count(e.actions(t), "boost.expire"); n != 6 {
		t.Errorf("%d events tell of 6 ends", n)
	}
}

func count(all []string, what string) (n int) {
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

// Consoles that run the job at once end each one once, with one event.
func TestOverrides_TwoConsolesEndEachOnce(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	tenants := []string{ten.ID}
	for i := range 5 {
		tenants = append(tenants, e.tenant(t, fmt.Sprintf("T%d", i)).ID)
	}
	for _, id := range tenants {
		if _, err := s.Boost(e.ctx, owner, id, console.NewBoost{Limit: "plan.requests", FactorMilli: 2000, For: time.Hour, Reason: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	seqs := map[string]int64{}
	for _, id := range tenants {
		seqs[id] = recordSeq(t, e, id)
	}
	e.clock.add(time.Hour)
	var both sync.WaitGroup
	for range 3 {
		other := console.NewOverrides(e.deps)
		both.Go(func() {
			if err := other.Expire(e.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if n := count(e.actions(t), "boost.expire"); n != len(tenants) {
		t.Errorf("%d events, want %d", n, len(tenants))
	}
	for _, id := range tenants {
		if now := recordSeq(t, e, id); now != seqs[id]+1 {
			t.Errorf("%s went from %d to %d", id, seqs[id], now)
		}
	}
}

// Of several who set the same limit at once, one holds; the others are kept as
// replaced ones, each by the one that came next.
func TestOverrides_OfThoseSetAtOnceOneHolds(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	const writers = 8
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			in := console.NewOverride{Limit: "plan.requests", Rate: fmt.Sprintf("%d/minute", 70+i), Reason: "r", Lower: true}
			if _, err := s.Set(e.ctx, owner, ten.ID, in); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	live, ended, err := s.OfTenant(e.ctx, ten.ID, 50)
	if err != nil || len(live) != 1 || len(ended) != writers-1 {
		t.Fatalf("%d hold, %d ended (%v)", len(live), len(ended), err)
	}
	var next []string // who took whose place
	for _, o := range ended {
		next = append(next, o.EndReason)
	}
	slices.Sort(next)
	if len(slices.Compact(next)) != writers-1 || !slices.Contains(next, "Replaced by "+live[0].ID+".") {
		t.Errorf("replaced: %q", next)
	}
	if got := inForce(t, e, s, ten.ID, "plan.requests").Now(); got.OverrideID != live[0].ID {
		t.Errorf("in force is %+v, and %s holds", got, live[0].ID)
	}
}

// A value and a boost of one limit do not take each other's place.
func TestOverrides_ValueAndBoostOfOneLimitHoldTogether(t *testing.T) {
	t.Parallel()
	e, s, ten := lawful(t)
	if _, err := s.Boost(e.ctx, owner, ten.ID, console.NewBoost{Limit: "plan.requests", FactorMilli: 3000, For: time.Hour, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	for i, rate := range []string{"100/minute", "200/minute"} {
		if _, err := s.Set(e.ctx, owner, ten.ID, console.NewOverride{Limit: "plan.requests", Rate: rate, Reason: "r"}); err != nil {
			t.Fatal(err)
		}
		want := []string{"300/minute, burst 300", "600/minute, burst 600"}[i]
		if l := inForce(t, e, s, ten.ID, "plan.requests"); len(l.Steps) != 3 || l.Now().Value.Rate+", burst "+fmt.Sprint(l.Now().Value.Burst) != want {
			t.Errorf("with %s: %+v, want %s", rate, l.Now(), want)
		}
	}
	if _, err := s.Clear(e.ctx, owner, ten.ID, "plan.requests", "r"); err != nil {
		t.Fatal(err)
	}
	if l := inForce(t, e, s, ten.ID, "plan.requests"); len(l.Steps) != 2 || l.Now().Source != "boost" {
		t.Errorf("the boost went with the value: %+v", l.Steps)
	}
}
