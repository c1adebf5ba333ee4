package console_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// fieldOf fails unless err is CodeInvalid with one problem, at the field.
func fieldOf(t *testing.T, what string, err error, field string) {
	t.Helper()
	if got := errorWith(t, err, console.CodeInvalid); len(got.Fields) != 1 || got.Fields[0].Field != field {
		t.Errorf("%s: %v, want a problem at %s", what, got, field)
	}
}

func TestReasons_WhatTakesAccessAwaySaysWhyOrDoesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	plain, rotated := e.issue(t, ten.ID), e.issue(t, ten.ID)
	r := e.rotate(t, rotated.Credential.ID, dayLong).Rotation
	kid := plain.KeyVersion.KID
	acts := map[string]func(reason string) error{
		"suspend tenant": func(s string) error { _, err := e.tenants.Suspend(e.ctx, owner, ten.ID, s); return err },
		"delete tenant":  func(s string) error { _, err := e.tenants.Delete(e.ctx, owner, ten.ID, s); return err },
		"revoke key":     func(s string) error { _, err := e.keys.Revoke(e.ctx, owner, kid, s); return err },
		"suspend key":    func(s string) error { _, err := e.keys.Suspend(e.ctx, owner, kid, s); return err },
		"start": func(s string) error {
			_, err := e.rotations.Start(e.ctx, owner, plain.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: s})
			return err
		},
		"extend": func(s string) error { _, err := e.rotations.Extend(e.ctx, owner, r.ID, time.Hour, s); return err },
		"end":    func(s string) error { _, err := e.rotations.End(e.ctx, owner, r.ID, s); return err },
		"cancel": func(s string) error { _, err := e.rotations.Cancel(e.ctx, owner, r.ID, s); return err },
	}
	before := len(e.events(t))
	for name, act := range acts {
		for _, reason := range []string{"", " \n\t ", strings.Repeat("x", 501), "a\x00b", "\u202egnp.exe"} {
			fieldOf(t, name, act(reason), "reason")
		}
	}
	if after := len(e.events(t)); after != before {
		t.Errorf("%d events of acts without a reason", after-before)
	}
	if k := e.key(t, kid); k.State != policy.KeyActive || k.Seq != plain.KeyVersion.Seq {
		t.Errorf("key %+v", k)
	}
	if got, err := e.rotations.Get(e.ctx, r.ID); err != nil || got.State != console.RotationOverlap || got.Extensions != 0 {
		t.Errorf("rotation %+v (%v)", got, err)
	}
	if got, err := e.tenants.Get(e.ctx, ten.ID); err != nil || !reflect.DeepEqual(got, ten) {
		t.Errorf("tenant %+v (%v)", got, err)
	}
}

func TestReasons_AreInTheAuditTrailAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	out := e.issue(t, ten.ID)
	r := e.rotate(t, out.Credential.ID, dayLong).Rotation
	if _, err := e.rotations.End(e.ctx, owner, r.ID, "  they asked:\n“now”  "); err != nil {
		t.Fatal(err)
	}
	if ev := e.events(t)[0]; ev.Action != "rotation.end" || ev.Reason != "they asked:\n“now”" {
		t.Errorf("event %+v", ev)
	}
	if _, err := e.tenants.Delete(e.ctx, owner, ten.ID, "left us"); err != nil {
		t.Fatal(err)
	}
	for _, ev := range e.events(t)[:2] { // the revoked key, then the tenant
		if ev.Reason != "left us" {
			t.Errorf("event %+v", ev)
		}
	}
}

func TestReasons_ResumingNeedsNone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	kid := e.issue(t, ten.ID).KeyVersion.KID
	if _, err := e.keys.Suspend(e.ctx, owner, kid, "look"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.keys.Resume(e.ctx, owner, kid, ""); err != nil {
		t.Fatal(err)
	}
	_, err := e.keys.Resume(e.ctx, owner, kid, strings.Repeat("x", 501))
	fieldOf(t, "resume", err, "reason")
	if _, err := e.tenants.Suspend(e.ctx, owner, ten.ID, "unpaid"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.tenants.Resume(e.ctx, owner, ten.ID, ""); err != nil {
		t.Fatal(err)
	}
}

func TestNotes_OfPublicationsAreOptionalAndBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if _, err := e.policies.Publish(e.ctx, owner, document("10"), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := e.policies.Publish(e.ctx, owner, document("20"), nil, 1, console.PublishOptions{Note: strings.Repeat("n", 2001)})
	fieldOf(t, "publish", err, "note")
	v, err := e.policies.Publish(e.ctx, owner, document("20"), nil, 1, console.PublishOptions{Note: strings.Repeat("n", 2000)})
	if err != nil || len(v.Note) != 2000 {
		t.Fatalf("note of %d (%v)", len(v.Note), err)
	}
	_, err = e.policies.Rollback(e.ctx, owner, 1, console.PublishOptions{Note: "a\x00"})
	fieldOf(t, "roll back", err, "note")
	if v, err := e.policies.Rollback(e.ctx, owner, 1, console.PublishOptions{}); err != nil || v.Number != 3 {
		t.Fatalf("version %+v (%v)", v, err)
	}
}
