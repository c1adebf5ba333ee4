package console_test

import (
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

func (w *watched) brownout(in console.NewBrownout) (console.Brownout, error) {
	in.Reason = "who is left?"
	b, _, err := w.rotations.StartBrownout(w.ctx, owner, w.started.Rotation.ID, in)
	return b, err
}

// recordOf is a key's record as gateways get it.
func (e *env) recordOf(t *testing.T, kid string) policy.KeyRecord {
	t.Helper()
	relay := console.NewRelay(e.deps, e.store)
	run(t, relay.Run)
	want := e.key(t, kid).Seq
	var rec policy.KeyRecord
	e.feed.until(t, "the record of "+kid, func() bool {
		signed, ok := e.feed.records[kid]
		return ok && signed.Seq >= want
	})
	e.feed.set(func() {
		signed := e.feed.records[kid]
		if err := policy.VerifyRecord([]ed25519.PublicKey{e.public}, testDeployment, signed); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal(signed.Body, &rec); err != nil {
			t.Error(err)
		}
	})
	return rec
}

func TestBrownouts_TravelInTheOldKeysRecordAndEndByThemselves(t *testing.T) {
	t.Parallel()
	w := newWatched(t, dayLong)
	b, err := w.brownout(console.NewBrownout{Network: "198.51.100.77", For: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if b.Network != "198.51.100.0/24" || b.KID != w.old || !b.Until.Equal(w.clock.now().Add(30*time.Second)) || !b.Running(w.clock.now()) {
		t.Fatalf("brown-out %+v", b)
	}
	rec := w.recordOf(t, w.old)
	if rec.Brownout == nil || rec.Brownout.Network != b.Network || !rec.Brownout.Until.Equal(b.Until) || !rec.Brownout.From.Equal(b.From) {
		t.Fatalf("record %+v", rec)
	}
	if _, err := w.brownout(console.NewBrownout{}); console.CodeOf(err) != console.CodeConflict {
		t.Fatalf("a second one while it runs: %v", err)
	}
	w.wait(30 * time.Second)
	if _, err := w.rotations.StopBrownout(w.ctx, owner, w.started.Rotation.ID); console.CodeOf(err) != console.CodeConflict {
		t.Fatalf("stopping what has ended by itself: %v", err)
	}
	if b, err = w.brownout(console.NewBrownout{}); err != nil || b.Network != "" || b.Until.Sub(b.From) != policy.MaxBrownout {
		t.Fatalf("the next one: %+v, %v", b, err)
	}
	w.clock.add(time.Second)
	if _, err := w.rotations.StopBrownout(w.ctx, owner, w.started.Rotation.ID); err != nil {
		t.Fatal(err)
	}
	if k := w.key(t, w.old); k.Brownout != nil || k.State != policy.KeyRetiring {
		t.Fatalf("after stopping: %+v", k)
	}
	list, err := w.rotations.Brownouts(w.ctx, w.started.Rotation.ID)
	if err != nil || len(list) != 2 || list[0].StoppedAt == nil || list[0].Author != "Ann" || list[1].StoppedAt != nil {
		t.Fatalf("list %+v, %v", list, err)
	}
	if got := w.actions(t); !slices.Equal(got[len(got)-3:], []string{"rotation.brownout", "rotation.brownout", "rotation.brownout-stop"}) {
		t.Fatalf("actions %v", got)
	}
}

func TestBrownouts_ARotationHasTenAndNoMore(t *testing.T) {
	t.Parallel()
	w := newWatched(t, dayLong)
	for range console.MaxBrownouts {
		if _, err := w.brownout(console.NewBrownout{For: time.Second}); err != nil {
			t.Fatal(err)
		}
		w.wait(time.Minute)
	}
	if _, err := w.brownout(console.NewBrownout{}); console.CodeOf(err) != console.CodeConflict || !strings.Contains(err.Error(), "10") {
		t.Fatalf("the eleventh: %v", err)
	}
}

func TestBrownouts_BadInputNamesTheField(t *testing.T) {
	t.Parallel()
	w := newWatched(t, dayLong)
	for field, in := range map[string]console.NewBrownout{
		"network":  {Network: "198.51.100.0/25"},
		"network ": {Network: "198.51.100.7/24"},
		"network2": {Network: "everybody"},
		"network3": {Network: "2001:db8::/32"},
		"network4": {Network: "fe80::1%eth0"},
		"for":      {For: 61 * time.Second},
		"for ":     {For: -time.Second},
		"for2":     {For: time.Millisecond},
	} {
		_, err := w.brownout(in)
		if e := errorWith(t, err, console.CodeInvalid); !strings.HasPrefix(field, e.Fields[0].Field) {
			t.Errorf("%s: %+v", field, e.Fields)
		}
	}
	if _, _, err := w.rotations.StartBrownout(w.ctx, owner, w.started.Rotation.ID, console.NewBrownout{}); console.CodeOf(err) != console.CodeInvalid {
		t.Errorf("without a reason: %v", err)
	}
	if b, err := w.brownout(console.NewBrownout{Network: "2001:db8:1:2::9"}); err != nil || b.Network != "2001:db8:1::/48" {
		t.Errorf("an address of version 6: %+v, %v", b, err)
	}
}

func TestBrownouts_EndWithTheirRotation(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*watched) error{
		"ended": func(w *watched) error {
			_, err := w.rotations.End(w.ctx, owner, w.started.Rotation.ID, "r")
			return err
		},
		"cancelled": func(w *watched) error {
			_, err := w.rotations.Cancel(w.ctx, owner, w.started.Rotation.ID, "r")
			return err
		},
		"revoked": func(w *watched) error {
			_, err := w.keys.Revoke(w.ctx, owner, w.old, "leak")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t, dayLong)
			if _, err := w.brownout(console.NewBrownout{}); err != nil {
				t.Fatal(err)
			}
			w.clock.add(time.Second)
			if err := end(w); err != nil {
				t.Fatal(err)
			}
			list, err := w.rotations.Brownouts(w.ctx, w.started.Rotation.ID)
			if k := w.key(t, w.old); err != nil || k.Brownout != nil || len(list) != 1 || list[0].StoppedAt == nil {
				t.Fatalf("key %+v, brown-outs %+v, %v", k, list, err)
			}
			_, err = w.brownout(console.NewBrownout{})
			wantCode(t, err, console.CodeConflict)
		})
	}
}

func TestBrownouts_NeedManageKeysAndARetiringKey(t *testing.T) {
	t.Parallel()
	w := newWatched(t, dayLong)
	in := console.NewBrownout{Reason: "r"}
	member := console.Actor{ID: "mem_" + strings.Repeat("a", 16), Name: "M", Role: console.RoleTenantAdmin, Via: console.ViaPortal, TenantID: w.started.Rotation.TenantID}
	for name, actor := range map[string]console.Actor{"viewer": as(console.RoleViewer), "publisher": as(console.RolePublisher), "member": member} {
		if _, _, err := w.rotations.StartBrownout(w.ctx, actor, w.started.Rotation.ID, in); console.CodeOf(err) != console.CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.rotations.StopBrownout(w.ctx, actor, w.started.Rotation.ID); console.CodeOf(err) != console.CodeForbidden {
			t.Errorf("%s stops: %v", name, err)
		}
	}
	if _, err := w.keys.Suspend(w.ctx, owner, w.old, "r"); err != nil {
		t.Fatal(err)
	}
	_, err := w.brownout(console.NewBrownout{})
	wantCode(t, err, console.CodeConflict)
	_, _, err = w.rotations.StartBrownout(w.ctx, owner, "rot_aaaaaaaaaaaaaaaa", in)
	wantCode(t, err, console.CodeNotFound)
}
