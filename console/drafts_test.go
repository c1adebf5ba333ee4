package console_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func TestDrafts_NeedANameAndAreListedLastChangedFirst(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, name := range []string{"", strings.Repeat("x", 121), "two\nlines"} {
		_, err := e.policies.CreateDraft(e.ctx, owner, name, nil)
		fieldOf(t, name, err, "name")
	}
	var drafts []console.Draft
	for _, name := range []string{"a", "b", "c"} {
		e.clock.add(time.Second)
		d, err := e.policies.CreateDraft(e.ctx, owner, name, document("10"))
		if err != nil {
			t.Fatal(err)
		}
		drafts = append(drafts, d)
	}
	e.clock.add(time.Second)
	if _, err := e.policies.SaveDraft(e.ctx, owner, drafts[0].ID, drafts[0].ETag, document("20")); err != nil {
		t.Fatal(err)
	}
	list, err := e.policies.ListDrafts(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name)
		if d.Source != "" {
			t.Error("a list loads sources")
		}
	}
	if !slices.Equal(names, []string{"a", "c", "b"}) {
		t.Errorf("drafts %v", names)
	}
}

func TestDrafts_EachChangeHasItsEventWithoutTheSource(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d, err := e.policies.CreateDraft(e.ctx, owner, "d", document("10"))
	if err != nil {
		t.Fatal(err)
	}
	if d, err = e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, document("20")); err != nil {
		t.Fatal(err)
	}
	e.publish(t, "10", 0)
	if d, err = e.policies.RebaseDraft(e.ctx, owner, d.ID, d.ETag); err != nil || d.Base != 1 {
		t.Fatalf("draft %+v (%v)", d, err)
	}
	if d, err = e.policies.RenameDraft(e.ctx, owner, d.ID, d.ETag, "e"); err != nil || d.Name != "e" {
		t.Fatalf("draft %+v (%v)", d, err)
	}
	if err := e.policies.DeleteDraft(e.ctx, owner, d.ID, d.ETag); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.policies.DeleteDraft(e.ctx, owner, d.ID, d.ETag), console.CodeNotFound)
	if got := e.actions(t); !slices.Equal(got, []string{"draft.create", "policy.publish", "draft.save", "draft.rebase", "draft.rename", "draft.delete"}) {
		t.Fatalf("actions %v", got)
	}
	for _, ev := range e.events(t) {
		if ev.Object == "draft" && ev.ObjectID != d.ID || bytes.Contains(ev.After, []byte("everything")) || bytes.Contains(ev.Before, []byte("everything")) {
			t.Errorf("event %s of %s: %s → %s", ev.Action, ev.ObjectID, ev.Before, ev.After)
		}
	}
}

func TestPolicies_ValidateSaysWhatItCouldNotCheck(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.store.Close()
	doc, report := e.policies.Validate(e.ctx, document("10"))
	if doc == nil || !report.OK() || len(report.Warnings) == 0 || report.Warnings[len(report.Warnings)-1].Path != "plans" {
		t.Fatalf("report %+v", report)
	}
}

func TestLists_CursorOfAnotherListIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for range 3 {
		e.tenant(t, "A")
	}
	_, tenants, err := e.tenants.List(e.ctx, console.TenantQuery{Page: console.Page{Limit: 1}})
	if err != nil || tenants == "" {
		t.Fatalf("cursor %q (%v)", tenants, err)
	}
	page := console.Page{After: tenants}
	_, _, err = e.policies.Versions(e.ctx, page)
	fieldOf(t, "versions", err, "cursor")
	_, _, err = e.audit.List(e.ctx, console.AuditQuery{Page: page})
	fieldOf(t, "audit", err, "cursor")
	_, _, err = e.keys.ListKeys(e.ctx, console.KeyQuery{Page: console.Page{After: "no cursor"}})
	fieldOf(t, "keys", err, "cursor")
}

// brokenRand is a source of randomness that has none.
type brokenRand struct{}

var errNoRandomness = errors.New("no randomness")

func (brokenRand) Read([]byte) (int, error) { return 0, errNoRandomness }

func TestDeps_WithoutRandomnessNothingIsMade(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	out := e.issue(t, ten.ID)
	before := e.actions(t)
	d := e.deps
	d.Rand = brokenRand{}
	for name, act := range map[string]func() error{
		"tenant": func() error {
			_, err := console.NewTenants(d).Create(e.ctx, owner, console.NewTenant{Name: "B", Plan: "free"})
			return err
		},
		"credential": func() error {
			_, err := console.NewKeys(d).IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "n", Environment: "live"})
			return err
		},
		"rotation": func() error {
			_, err := console.NewRotations(d).Start(e.ctx, owner, out.Credential.ID, console.NewRotation{Reason: "r"})
			return err
		},
		"draft": func() error { _, err := console.NewPolicies(d).CreateDraft(e.ctx, owner, "d", nil); return err },
		"operator": func() error {
			_, err := console.NewOperators(d).Create(e.ctx, owner, console.NewOperator{Email: "a@example.com", Name: "A", Role: console.RoleViewer})
			return err
		},
	} {
		if err := act(); !errors.Is(err, errNoRandomness) || console.CodeOf(err) != console.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := e.actions(t); !slices.Equal(after, before) {
		t.Errorf("events %v, before %v", after, before)
	}
}
