package console_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

func told(t *testing.T, p console.Pulled) policy.Pulled {
	t.Helper()
	var out policy.Pulled
	if err := json.Unmarshal(p.Body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// pulled asks until the answer is of a version: what the database says serves
// all who ask for a moment.
func (tr *trial) pulled(t *testing.T, s *console.Pull, replica string, version int64, onTrial bool) policy.Pulled {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		p, err := s.Policy(tr.ctx, replica, "")
		if err != nil {
			t.Fatal(err)
		}
		if out := told(t, p); out.Policy.Version == version && (out.Canary != nil) == onTrial {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is told %s", replica, p.Body)
		}
		<-time.After(5 * time.Millisecond) // it is asked again, as gateways do
	}
}

func TestPull_GivesTheHeadToAllAndTheCanaryToItsReplicas(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	s := console.NewPull(tr.deps)
	keys := []ed25519.PublicKey{tr.public}
	first := tr.pulled(t, s, "gw_a", tr.base.Number, false)
	if err := policy.VerifyPolicy(keys, testDeployment, first.Policy); err != nil {
		t.Fatal(err)
	}
	v, r := tr.start(t, plan)
	inside := tr.pulled(t, s, r.Replicas[0], tr.base.Number, true)
	if err := policy.VerifyCanary(keys, testDeployment, *inside.Canary); err != nil || !inside.Canary.Names(r.Replicas[0]) {
		t.Fatalf("%v, %+v", err, inside.Canary)
	}
	onTrial := inside.Canary.Policy()
	onTrial.Body = inside.CanaryBody
	if err := policy.VerifyPolicy(keys, testDeployment, onTrial); err != nil || onTrial.Version != v.Number {
		t.Fatalf("%v, version %d", err, onTrial.Version)
	}
	tr.pulled(t, s, "gw_stranger", tr.base.Number, false)
	after, err := tr.rollouts.Stop(tr.ctx, owner, v.Number, "enough")
	if err != nil {
		t.Fatal(err)
	}
	tr.pulled(t, s, r.Replicas[0], after.Number, false)
}

func TestPull_SaysThatNothingChangedAndVouchesForIt(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	s := console.NewPull(tr.deps)
	first, err := s.Policy(tr.ctx, "gw_a", "")
	if err != nil {
		t.Fatal(err)
	}
	tr.clock.add(time.Minute)
	again, err := s.Policy(tr.ctx, "gw_a", first.ETag)
	if err != nil || again.Body != nil || again.ETag != first.ETag {
		t.Fatalf("%+v, %v", again, err)
	}
	var stamp policy.Stamp
	if err := json.Unmarshal([]byte(again.Stamp), &stamp); err != nil {
		t.Fatal(err)
	}
	if err := policy.VerifyStamp([]ed25519.PublicKey{tr.public}, testDeployment, stamp); err != nil || stamp.Version != tr.base.Number || !stamp.Issued.Equal(tr.clock.now()) {
		t.Errorf("stamp %+v, %v", stamp, err)
	}
}

func TestPull_RepeatsItselfWhileTheDatabaseIsAwayAndKnowsNothingAtFirst(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	away := &awayStore{Store: tr.store}
	deps := tr.deps
	deps.Store = away
	s := console.NewPull(deps)
	first, err := s.Policy(tr.ctx, "gw_a", "")
	if err != nil {
		t.Fatal(err)
	}
	away.down.Store(true)
	<-time.After(250 * time.Millisecond) // longer than an answer of the database serves
	tr.clock.add(time.Hour)
	again, err := s.Policy(tr.ctx, "gw_b", "")
	if err != nil || string(again.Body) != string(first.Body) {
		t.Fatalf("%v", err)
	}
	if again.Stamp != first.Stamp {
		t.Error("it vouches for what it cannot know")
	}
	_, err = console.NewPull(deps).Policy(tr.ctx, "gw_a", "")
	wantCode(t, err, console.CodeUnavailable)
	_, err = console.NewPull(newEnv(t).deps).Policy(tr.ctx, "gw_a", "")
	wantCode(t, err, console.CodeNotFound)
}

func TestBeat_WithoutRedisTheFleetIsKnownFromTheReplicasThemselves(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	tr.fleet.Health(tr.ctx) // it has heard of all six
	v := tr.publish(t, "50", tr.base.Number)
	tr.env.feed.set(func() { tr.env.feed.down = errors.New("refused") })
	if p, err := tr.fleet.Publication(tr.ctx, v.Number); err != nil || p.Known || p.Done() {
		t.Fatalf("before any of them told: %+v, %v", p, err)
	}
	tr.clock.add(4 * time.Second) // what Redis said last is older than what they say now
	s := console.NewPull(tr.deps)
	beat := func(id string, v console.Version) {
		t.Helper()
		live, err := s.Beat(tr.ctx, policy.Heartbeat{ID: id, Boot: "b", Version: v.Number, Digest: v.Digest})
		if err != nil || live < 6 {
			t.Fatalf("%d live, %v", live, err)
		}
	}
	beat("gw_a", v)
	if p, err := tr.fleet.Publication(tr.ctx, v.Number); err != nil || !p.Known || p.On != 1 || p.Of != 6 || p.Done() {
		t.Fatalf("one of six: %+v, %v", p, err)
	}
	for _, id := range fleetIDs {
		beat(id, v)
	}
	if c := tr.fleet.WaitVersion(tr.ctx, v.Number, time.Minute); !c.Done() || c.Of != 6 {
		t.Fatalf("convergence %+v", c)
	}
	tr.clock.add(3 * time.Second)
	if h := tr.fleet.Health(tr.ctx); h.RedisUp || !h.FleetKnown || h.ViaConsole != 6 || h.InSync != 6 {
		t.Errorf("health %+v", h)
	}
	// A console that starts now knows all of them, from the database.
	if c := console.NewFleet(tr.deps).WaitVersion(tr.ctx, v.Number, time.Minute); !c.Done() || c.Of != 6 {
		t.Errorf("a new console: %+v", c)
	}
	for field, bad := range map[string]policy.Heartbeat{
		"no id": {Boot: "b"}, "id": {ID: "a/b", Boot: "b"}, "index": {ID: "index", Boot: "b"}, "boot": {ID: "gw_a"}, "version": {ID: "gw_a", Boot: "b", Version: -1},
	} {
		if _, err := s.Beat(tr.ctx, bad); console.CodeOf(err) != console.CodeInvalid {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestFleet_WhatIsNotOnDiskDoesNotCount(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	tr.each([]string{"gw_a"}, func(h *policy.Heartbeat) { h.Unsaved = true })
	p, err := tr.fleet.Publication(tr.ctx, tr.base.Number)
	if err != nil || p.Done() || p.On != 5 || p.Of != 6 {
		t.Fatalf("publication %+v, %v", p, err)
	}
	tr.each([]string{"gw_a"}, func(h *policy.Heartbeat) { h.Unsaved, h.Digest = false, "sha256:other" })
	if p, err := tr.fleet.Publication(tr.ctx, tr.base.Number); err != nil || p.On != 5 {
		t.Fatalf("another digest: %+v, %v", p, err)
	}
	tr.each([]string{"gw_a"}, func(h *policy.Heartbeat) { h.Version = 1000 })
	if p, err := tr.fleet.Publication(tr.ctx, tr.base.Number); err != nil || p.On != 5 {
		t.Fatalf("a version that nobody committed: %+v, %v", p, err)
	}
}

// awayStore is a database that can be away.
type awayStore struct {
	console.Store
	down atomic.Bool
}

func (s *awayStore) Read(ctx context.Context, fn func(console.Tx) error) error {
	if s.down.Load() {
		return &console.Error{Code: console.CodeUnavailable, Public: "away"}
	}
	return s.Store.Read(ctx, fn)
}
