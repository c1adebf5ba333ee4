package console_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// canaryFeed is a fakeFeed that carries canaries and can be read back.
type canaryFeed struct {
	*fakeFeed
	mu     *sync.Mutex
	canary *policy.Canary
}

func newCanaryFeed(f *fakeFeed) *canaryFeed { return &canaryFeed{fakeFeed: f, mu: new(sync.Mutex)} }

func (f *canaryFeed) PutCanary(_ context.Context, p policy.SignedPolicy, c policy.Canary) (string, error) {
	defer f.lock()()
	if f.down != nil {
		return "", f.down
	}
	if f.head.Version >= p.Version {
		return "went-back", nil
	}
	f.canary = &c
	f.policies[p.Version] = p
	f.ring()
	return "published", nil
}

func (f *canaryFeed) DropCanary(context.Context) error {
	defer f.lock()()
	f.canary = nil
	f.ring()
	return f.down
}

func (f *canaryFeed) PublishPolicy(ctx context.Context, p policy.SignedPolicy) (string, error) {
	result, err := f.fakeFeed.PublishPolicy(ctx, p)
	defer f.lock()()
	if err == nil && f.canary != nil && f.canary.Version <= p.Version && f.head.Version == p.Version {
		f.canary = nil
	}
	return result, err
}

func (f *canaryFeed) State(ctx context.Context) (policy.FeedState, error) {
	s, err := f.fakeFeed.State(ctx)
	defer f.lock()()
	if f.canary != nil {
		s.Canary, s.CanaryTag = f.canary.Version, f.canary.Tag()
	}
	return s, err
}

func (f *canaryFeed) ReadPolicy(context.Context) (policy.SignedPolicy, error) {
	defer f.lock()()
	return f.head, f.down
}

// trial is an env with a fleet of six, an enforced version and a relay.
type trial struct {
	*env
	feed     *canaryFeed
	rollouts *console.Rollouts
	base     console.Version
}

var fleetIDs = []string{"gw_a", "gw_b", "gw_c", "gw_d", "gw_e", "gw_f"}

func newTrial(t *testing.T) *trial {
	t.Helper()
	e := newEnv(t)
	tr := &trial{env: e, feed: newCanaryFeed(e.feed)}
	e.deps.Feed = tr.feed
	e.policies, e.fleet = console.NewPolicies(e.deps), console.NewFleet(e.deps)
	tr.rollouts = console.NewRollouts(e.deps, e.fleet)
	tr.base = e.publish(t, "10", e.publish(t, "9", 0).Number)
	e.feed.set(func() {
		for i, id := range fleetIDs {
			h := e.feed.beat(id, tr.base.Number, tr.base.Digest, 0)
			h.Zone, h.Boot = []string{"north", "south", "south"}[i%3], "boot"
			e.feed.beats = append(e.feed.beats, h)
		}
	})
	e.relay(t)
	e.feed.until(t, "the first version", func() bool { return e.feed.head.Version == tr.base.Number })
	return tr
}

// start begins a canary of the next version.
func (tr *trial) start(t *testing.T, plan console.CanaryPlan) (console.Version, console.Rollout) {
	t.Helper()
	v, err := tr.policies.Publish(tr.ctx, owner, document("40"), nil, tr.head(t), console.PublishOptions{Note: "try", Canary: &plan})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.rollouts.Current(tr.ctx)
	if err != nil || r == nil {
		t.Fatalf("no canary runs: %v", err)
	}
	return v, *r
}

func (tr *trial) head(t *testing.T) int64 {
	t.Helper()
	v, _, err := tr.policies.Head(tr.ctx)
	if err != nil {
		t.Fatal(err)
	}
	return v.Number
}

// enforce has replicas report a version.
func (tr *trial) enforce(v console.Version, ids ...string) {
	tr.each(ids, func(h *policy.Heartbeat) { h.Version, h.Digest = v.Number, v.Digest })
}

func (tr *trial) each(ids []string, change func(*policy.Heartbeat)) {
	tr.env.feed.set(func() {
		for i := range tr.env.feed.beats {
			if slices.Contains(ids, tr.env.feed.beats[i].ID) {
				change(&tr.env.feed.beats[i])
			}
		}
	})
}

var plan = console.CanaryPlan{Count: 2, Hold: time.Minute}

func TestCanary_ReachesItsReplicasAloneAndThenAll(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, r := tr.start(t, plan)
	if len(r.Replicas) != 2 || r.Base != tr.base.Number || r.State != console.RolloutRunning || v.Number != tr.base.Number+1 {
		t.Fatalf("canary %+v of version %d", r, v.Number)
	}
	tr.env.feed.until(t, "offer", func() bool { return tr.feed.canary != nil })
	tr.env.feed.set(func() {
		c := *tr.feed.canary
		if tr.env.feed.head.Version != tr.base.Number || c.Version != v.Number || !slices.Equal(c.Replicas, r.Replicas) || c.Base != tr.base.Number {
			t.Errorf("head %d, canary %+v", tr.env.feed.head.Version, c)
		}
	})
	if head := tr.head(t); head != tr.base.Number {
		t.Fatalf("v%d is in force", head)
	}
	tr.enforce(v, r.Replicas...)
	p, err := tr.fleet.Publication(tr.ctx, v.Number)
	if err != nil || !p.Canary || !p.Done() || p.Of != 2 || !slices.Equal(p.Targets, r.Replicas) || len(p.Rows) != len(fleetIDs) {
		t.Fatalf("publication %+v, %v", p, err)
	}
	if h := tr.fleet.Health(tr.ctx); h.OnCanary != 2 || h.InSync != 4 || h.Of != 6 || h.Rollout == nil || h.Behind != 0 {
		t.Errorf("health %+v", h)
	}
	_, err = tr.rollouts.Promote(tr.ctx, owner, v.Number, "")
	wantCode(t, err, console.CodeConflict) // not held long enough
	tr.clock.add(time.Minute)
	got, err := tr.rollouts.Promote(tr.ctx, owner, v.Number, "good")
	if err != nil || got.Number != v.Number || tr.head(t) != v.Number {
		t.Fatalf("promoted %d, %v", got.Number, err)
	}
	tr.env.feed.until(t, "promotion", func() bool { return tr.env.feed.head.Version == v.Number && tr.feed.canary == nil })
	ended, err := tr.rollouts.Get(tr.ctx, v.Number)
	if err != nil || ended.State != console.RolloutPromoted || ended.Successor != v.Number || ended.EndReason != "good" || ended.By != owner.Name {
		t.Errorf("ended as %+v, %v", ended, err)
	}
	if last := tr.events(t)[0]; last.Action != "policy.promote" || last.ObjectID != fmt.Sprint(v.Number) {
		t.Errorf("last event is %s %s", last.Action, last.ObjectID)
	}
	_, err = tr.rollouts.Stop(tr.ctx, owner, v.Number, "too late")
	wantCode(t, err, console.CodeConflict)
}

func TestCanary_StoppedGivesAllAHigherVersionWithTheOldContent(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, _ := tr.start(t, plan)
	_, err := tr.rollouts.Stop(tr.ctx, as(console.RoleViewer), v.Number, "no")
	wantCode(t, err, console.CodeForbidden)
	_, err = tr.rollouts.Stop(tr.ctx, owner, v.Number, "")
	wantCode(t, err, console.CodeInvalid)
	after, err := tr.rollouts.Stop(tr.ctx, owner, v.Number, "it refuses too much")
	if err != nil {
		t.Fatal(err)
	}
	if after.Number != v.Number+1 || after.Digest != tr.base.Digest || after.Kind != console.KindRollback || after.RollbackOf != tr.base.Number {
		t.Fatalf("followed by %+v", after)
	}
	tr.env.feed.until(t, "end", func() bool { return tr.env.feed.head.Version == after.Number && tr.feed.canary == nil })
	// The number on trial is never given again, and a second canary may follow.
	next, r := tr.start(t, plan)
	if next.Number != after.Number+1 || r.Base != after.Number {
		t.Errorf("the next one is %d on %d", next.Number, r.Base)
	}
}

func TestCanary_WhileItRunsOnlyWhatEndsItIsPublished(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, _ := tr.start(t, plan)
	_, err := tr.policies.Publish(tr.ctx, owner, document("77"), nil, tr.base.Number, console.PublishOptions{})
	wantCode(t, err, console.CodeConflict)
	_, err = tr.policies.Publish(tr.ctx, owner, document("77"), nil, tr.base.Number, console.PublishOptions{Canary: &plan})
	wantCode(t, err, console.CodeConflict)
	back, err := tr.policies.Rollback(tr.ctx, owner, 1, console.PublishOptions{Note: "all of it"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.rollouts.Get(tr.ctx, v.Number)
	if err != nil || r.State != console.RolloutStopped || r.Successor != back.Number || back.Number <= v.Number {
		t.Fatalf("canary %+v, %v; rolled back as %d", r, err, back.Number)
	}
}

func TestCanary_PicksTheSameReplicasAndLeavesOneOut(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, first := tr.start(t, plan)
	if _, err := tr.rollouts.Stop(tr.ctx, owner, v.Number, "again"); err != nil {
		t.Fatal(err)
	}
	v, second := tr.start(t, plan)
	if !slices.Equal(first.Replicas, second.Replicas) {
		t.Errorf("first %v, then %v", first.Replicas, second.Replicas)
	}
	if _, err := tr.rollouts.Stop(tr.ctx, owner, v.Number, "again"); err != nil {
		t.Fatal(err)
	}
	v, zone := tr.start(t, console.CanaryPlan{Zone: "north", Hold: time.Minute})
	if !slices.Equal(zone.Replicas, []string{"gw_a", "gw_d"}) {
		t.Errorf("zone north: %v", zone.Replicas)
	}
	if _, err := tr.rollouts.Stop(tr.ctx, owner, v.Number, "again"); err != nil {
		t.Fatal(err)
	}
	for field, bad := range map[string]console.CanaryPlan{
		"canary.count":            {Count: 6, Hold: time.Minute},
		"canary.zone":             {Zone: "west", Hold: time.Minute},
		"canary.hold":             {Count: 1, Hold: time.Second},
		"canary.max_refused_rise": {Count: 1, Hold: time.Minute, MaxRefusedRise: 2},
	} {
		_, err := tr.policies.Publish(tr.ctx, owner, document("41"), nil, tr.head(t), console.PublishOptions{Canary: &bad})
		e := errorWith(t, err, console.CodeInvalid)
		if len(e.Fields) != 1 || e.Fields[0].Field != field {
			t.Errorf("%s: %+v", field, e.Fields)
		}
	}
}

// harms are what a canary is stopped for.
func harms() map[string]func(*policy.Heartbeat) {
	return map[string]func(*policy.Heartbeat){
		"refuses it": func(h *policy.Heartbeat) {
			h.NACK = &policy.NACK{Version: 3, Code: policy.NACKInvalid, Detail: "routes[0]"}
		},
		"gone silent":           func(h *policy.Heartbeat) { h.At = h.At.Add(-7 * time.Second) },
		"decides without Redis": func(h *policy.Heartbeat) { h.Mode, h.Cause = policy.ModeDegraded, "timeout" },
		"refused 30.0 % against 1.0 %": func(h *policy.Heartbeat) {
			h.Refused += 290
		},
	}
}

func TestCanary_AGuardStopsWhatHarms(t *testing.T) {
	t.Parallel()
	for want, harm := range harms() {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t)
			v, r := tr.start(t, console.CanaryPlan{Count: 1, Hold: time.Minute, Promote: true})
			tr.enforce(v, r.Replicas...)
			tr.clock.add(10 * time.Second)
			guard := func() {
				t.Helper()
				if err := tr.rollouts.Guard(tr.ctx); err != nil {
					t.Fatal(err)
				}
			}
			guard()
			tr.each(fleetIDs, func(h *policy.Heartbeat) { h.Decisions, h.Refused = h.Decisions+1000, h.Refused+10 })
			guard()
			if cur, err := tr.rollouts.Current(tr.ctx); err != nil || cur == nil {
				t.Fatalf("stopped without harm: %v", err)
			}
			tr.each(r.Replicas, harm)
			guard()
			got, err := tr.rollouts.Get(tr.ctx, v.Number)
			if err != nil || got.State != console.RolloutStopped || !strings.Contains(got.EndReason, want) || got.By != "headgate" {
				t.Fatalf("canary %+v, %v", got, err)
			}
			tr.env.feed.until(t, "end", func() bool { return tr.env.feed.head.Version == got.Successor })
		})
	}
}

func TestCanary_PromotesItselfWhenItHasHeldAndNotInAnOutage(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, r := tr.start(t, console.CanaryPlan{Count: 1, Hold: time.Minute, Promote: true})
	guard := func() {
		t.Helper()
		if err := tr.rollouts.Guard(tr.ctx); err != nil {
			t.Fatal(err)
		}
	}
	tr.clock.add(2 * time.Minute)
	guard() // its replica does not enforce it yet
	tr.enforce(v, r.Replicas...)
	tr.env.feed.set(func() { tr.env.feed.down = errors.New("refused") })
	guard()
	if cur, err := tr.rollouts.Current(tr.ctx); err != nil || cur == nil {
		t.Fatalf("ended blindly: %v", err)
	}
	tr.env.feed.set(func() { tr.env.feed.down = nil })
	guard()
	tr.pass(time.Minute)
	guard()
	got, err := tr.rollouts.Get(tr.ctx, v.Number)
	if err != nil || got.State != console.RolloutPromoted || tr.head(t) != v.Number {
		t.Fatalf("canary %+v, %v", got, err)
	}
}

func TestCanary_IsNotPromotedOverATenantsPlan(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	without := []byte(strings.Replace(string(document("40")), "  pro:\n    limits: [{name: requests, per: tenant, counts: requests, rate: 600/minute, burst: 100}]\n", "", 1))
	v, err := tr.policies.Publish(tr.ctx, owner, without, nil, tr.base.Number, console.PublishOptions{Canary: &console.CanaryPlan{Count: 1, Hold: time.Minute, Promote: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.tenants.Create(tr.ctx, owner, console.NewTenant{Name: "late", Plan: "pro"}); err != nil {
		t.Fatal(err)
	}
	r, err := tr.rollouts.Get(tr.ctx, v.Number)
	if err != nil {
		t.Fatal(err)
	}
	tr.enforce(v, r.Replicas...)
	tr.guard(t, v.Number)
	tr.pass(2 * time.Minute)
	got := tr.guard(t, v.Number)
	if got.State != console.RolloutStopped || !strings.Contains(got.EndReason, "pro") {
		t.Fatalf("canary %+v", got)
	}
}

func TestCanary_R11_ComesBackAfterAFlush(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, _ := tr.start(t, plan)
	tr.env.feed.until(t, "offer", func() bool { return tr.feed.canary != nil })
	tr.env.feed.set(func() { tr.feed.canary = nil })
	tr.env.feed.lose()
	tr.env.feed.until(t, "all of it again", func() bool {
		return tr.env.feed.head.Version == tr.base.Number && tr.feed.canary != nil && tr.feed.canary.Version == v.Number
	})
}

func TestCanary_C08_OfTwoThatEndItOneDoes(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	v, _ := tr.start(t, plan)
	tr.clock.add(time.Minute)
	results := make([]error, 6)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			if i%2 == 0 {
				_, results[i] = tr.rollouts.Stop(tr.ctx, owner, v.Number, "stop")
			} else {
				_, results[i] = tr.rollouts.Promote(tr.ctx, owner, v.Number, "")
			}
		})
	}
	all.Wait()
	done := 0
	for _, err := range results {
		if err == nil {
			done++
		} else {
			wantCode(t, err, console.CodeConflict)
		}
	}
	if done != 1 {
		t.Errorf("%d of them ended it", done)
	}
}

func TestAdopt_P03_HistoryGoesOnAfterARestore(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	// What the gateways had before the restore: twelve versions more.
	lost := policy.SignPolicy(tr.deps.Signer, testDeployment, 13, "", newest(t, "90"), tr.clock.now())
	tr.env.feed.set(func() { tr.env.feed.head, tr.env.feed.policies[13] = lost, lost })
	tr.clock.add(time.Minute)
	if h := tr.fleet.Health(tr.ctx); h.Behind != 13 {
		t.Fatalf("health %+v", h)
	}
	_, err := tr.rollouts.Adopt(tr.ctx, as(console.RoleEditor), "restored")
	wantCode(t, err, console.CodeForbidden)
	v, err := tr.rollouts.Adopt(tr.ctx, owner, "restored from last night")
	if err != nil || v.Number != 13 || v.Kind != console.KindAdopt || v.Digest != lost.Digest || len(v.Changes) == 0 {
		t.Fatalf("adopted %+v, %v", v, err)
	}
	if tr.head(t) != 13 {
		t.Fatalf("v%d is in force", tr.head(t))
	}
	_, err = tr.rollouts.Adopt(tr.ctx, owner, "twice")
	wantCode(t, err, console.CodeConflict)
	next := tr.publish(t, "91", 13)
	if next.Number != 14 || next.Parent != lost.Digest {
		t.Fatalf("the next is %+v", next)
	}
	tr.clock.add(time.Minute)
	if h := tr.fleet.Health(tr.ctx); h.Behind != 0 {
		t.Errorf("health %+v", h)
	}
}

// newest is the canonical form of a document with this burst.
func newest(t *testing.T, burst string) []byte {
	t.Helper()
	doc, report := policy.Parse(document(burst))
	if !report.OK() {
		t.Fatal(report)
	}
	return doc.Canonical()
}

func TestAdopt_A23_TakesOnlyWhatThisConsoleSigned(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	forged := policy.SignPolicy(otherKey(), testDeployment, 1<<52, "", newest(t, "90"), tr.clock.now())
	tr.env.feed.set(func() { tr.env.feed.head = forged })
	_, err := tr.rollouts.Adopt(tr.ctx, owner, "restored")
	wantCode(t, err, console.CodeConflict)
	// Nor does it use up the numbers.
	if v := tr.publish(t, "20", tr.base.Number); v.Number != tr.base.Number+1 {
		t.Errorf("the next version is %d", v.Number)
	}
}

// otherKey is a key that no gateway trusts.
func otherKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}
