package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// told are the actions about a draft, the oldest first, with the number of saves
// that a summary tells.
func (e *env) told(t *testing.T, draft string) []string {
	t.Helper()
	var out []string
	events := e.events(t)
	slices.Reverse(events)
	for _, ev := range events {
		if ev.ObjectID != draft && ev.Object != "policy" {
			continue
		}
		text := ev.Action
		if _, saves, ok := strings.Cut(string(ev.After), `"saves":`); ok {
			text += " ×" + strings.Trim(saves, "}")
		}
		out = append(out, text+" "+ev.Actor)
	}
	return out
}

// save saves a draft n times as somebody, each time with something else.
func (e *env) save(t *testing.T, who console.Actor, d console.Draft, n int) console.Draft {
	t.Helper()
	for range n {
		var err error
		e.clock.add(5 * time.Second)
		d, err = e.policies.SaveDraft(e.ctx, who, d.ID, d.ETag, document(fmt.Sprint(e.clock.now().Unix()%100_000)))
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func TestI16_RunsOfSavesAreToldByTheirFirstAndOneSummary(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob := e.person(t, "Ann", console.RoleEditor), e.person(t, "Bob", console.RolePublisher)
	d := e.draft(t, ann, document("10"))
	d = e.save(t, ann, d, 50)
	want := []string{"draft.create Ann"}
	check := func(more ...string) {
		t.Helper()
		if want = append(want, more...); !slices.Equal(e.told(t, d.ID), want) {
			t.Fatalf("trail %q\nwant %q", e.told(t, d.ID), want)
		}
	}
	check()
	// another person's save: what was there before it is told first
	d = e.save(t, bob, d, 3)
	check("draft.save ×50 Ann", "draft.save Bob")
	// an approval rests on the content, so that is told first
	eve := e.person(t, "Eve", console.RoleOwner)
	e.approve(t, eve, d.ID)
	check("draft.save ×2 Bob", "draft.approve Eve")
	// a run is over after ten minutes
	d = e.save(t, ann, d, 1)
	check()
	e.clock.add(11 * time.Minute)
	d = e.save(t, ann, d, 1)
	check("draft.save ×1 Ann", "draft.save Ann")
	// what nobody asks about is told by itself
	d = e.save(t, ann, d, 2)
	e.clock.add(10*time.Minute + time.Second)
	if err := e.jobs.Sweep(e.ctx); err != nil {
		t.Fatal(err)
	}
	check("draft.save ×2 Ann")
	d = e.save(t, bob, d, 2)
	if _, err := e.policies.PublishDraft(e.ctx, bob, d.ID, d.ETag, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	check("draft.save Bob", "draft.save ×1 Bob", "policy.publish Bob")
	if _, _, problem, err := e.audit.Verify(e.ctx); err != nil || problem != nil {
		t.Fatalf("trail %+v (%v)", problem, err)
	}
}

// Each summary begins where the event before it ended: no change of the content
// is between two rows of the trail.
func TestI16_SummariesOfSavesLeaveNothingOut(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann, bob := e.person(t, "Ann", console.RoleEditor), e.person(t, "Bob", console.RoleEditor)
	d := e.draft(t, ann, document("10"))
	for i := range 12 {
		who := []console.Actor{ann, bob}[i/3%2]
		d = e.save(t, who, d, 1+i%4)
		if i%5 == 4 {
			e.clock.add(20 * time.Minute)
		}
	}
	if err := e.policies.DeleteDraft(e.ctx, bob, d.ID, d.ETag); err != nil {
		t.Fatal(err)
	}
	events := e.events(t)
	slices.Reverse(events)
	last := ""
	for _, ev := range events {
		if ev.ObjectID != d.ID {
			continue
		}
		if before := digestIn(string(ev.Before)); before != last {
			t.Fatalf("%s by %s begins at %q, the one before ended at %q", ev.Action, ev.Actor, before, last)
		}
		last = digestIn(string(ev.After))
	}
	if last != "" {
		t.Fatalf("the trail ends at %q", last)
	}
}

// digestIn is the source's digest in a view.
func digestIn(view string) string {
	_, rest, _ := strings.Cut(view, `"source_digest":"`)
	digest, _, _ := strings.Cut(rest, `"`)
	return digest
}

func TestDrafts_SavingWhatIsThereChangesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d := e.draft(t, owner, document("10"))
	e.clock.add(time.Hour)
	same, err := e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, document("10"))
	if err != nil || same.ETag != d.ETag || !same.UpdatedAt.Equal(d.UpdatedAt) {
		t.Fatalf("draft %+v (%v)", same, err)
	}
	if got := e.actions(t); len(got) != 1 {
		t.Fatalf("actions %v", got)
	}
}

func TestR088_C06_StaleSaveIsRefusedWithBothValues(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d := e.draft(t, owner, document("10"))
	theirs, err := e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, document("20"))
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"save": func() error {
			_, err := e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, document("30"))
			return err
		},
		"tests":  func() error { _, err := e.policies.SaveTests(e.ctx, owner, d.ID, d.ETag, []byte(suite)); return err },
		"rename": func() error { _, err := e.policies.RenameDraft(e.ctx, owner, d.ID, d.ETag, "x"); return err },
		"rebase": func() error { _, err := e.policies.RebaseDraft(e.ctx, owner, d.ID, d.ETag); return err },
		"merge":  func() error { _, _, err := e.policies.MergeDraft(e.ctx, owner, d.ID, d.ETag); return err },
		"delete": func() error { return e.policies.DeleteDraft(e.ctx, owner, d.ID, d.ETag) },
		"schedule": func() error {
			_, err := e.policies.ScheduleDraft(e.ctx, owner, d.ID, d.ETag, e.clock.now().Add(time.Hour), console.PublishOptions{})
			return err
		},
		"publish": func() error {
			_, err := e.policies.PublishDraft(e.ctx, owner, d.ID, d.ETag, console.PublishOptions{})
			return err
		},
	} {
		got := errorWith(t, call(), console.CodeConflict)
		if now, ok := got.Detail.(console.Draft); !ok || now.Source != theirs.Source || now.ETag != theirs.ETag {
			t.Errorf("%s: detail %+v", name, got.Detail)
		}
	}
	if now, err := e.policies.GetDraft(e.ctx, d.ID); err != nil || now != theirs {
		t.Fatalf("draft %+v (%v)", now, err)
	}
}

func TestR088_TwoPublishersFromOneBaseLoseNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.publish(t, "10", 0)
	ann, bob := e.person(t, "Ann", console.RolePublisher), e.person(t, "Bob", console.RolePublisher)
	a := e.draft(t, ann, []byte(strings.Replace(string(document("10")), "rate: 600/minute", "rate: 700/minute", 1)))
	b := e.draft(t, bob, document("20"))
	if _, err := e.policies.PublishDraft(e.ctx, ann, a.ID, a.ETag, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := e.policies.PublishDraft(e.ctx, bob, b.ID, b.ETag, console.PublishOptions{})
	got := errorWith(t, err, console.CodeConflict)
	stale, ok := got.Detail.(console.StaleBase)
	if !ok || stale.Base != 1 || stale.Head != 2 || len(stale.Changes) != 1 || stale.Changes[0].LimitID != "plan.requests" {
		t.Fatalf("detail %+v", got.Detail)
	}
	r := e.ready(t, b.ID)
	if !r.Stale() || len(r.Theirs) != 1 || len(r.Mine) != 1 || len(r.Clashes) != 0 {
		t.Fatalf("theirs %+v, mine %+v, clashes %v", r.Theirs, r.Mine, r.Clashes)
	}
	merged, clashes, err := e.policies.MergeDraft(e.ctx, bob, b.ID, b.ETag)
	if err != nil || len(clashes) != 0 || merged.Base != 2 {
		t.Fatalf("draft %+v, clashes %v (%v)", merged, clashes, err)
	}
	v, err := e.policies.PublishDraft(e.ctx, bob, b.ID, merged.ETag, console.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := v.Document()
	if err != nil || doc.Plans["pro"].Limits[0].Rate.Tokens != 700 || doc.Routes[0].Limits[0].Burst != 20 {
		t.Fatalf("document %s (%v)", doc.YAML(), err)
	}
}

func TestMerge_KeepsMineWhereBothChangedAndSaysSo(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.proven(prover{})
	e.publish(t, "10", 0)
	d := e.draft(t, owner, document("20"))
	withTests := strings.Replace(suite, "a call", "any call", 1)
	if _, err := e.policies.Publish(e.ctx, owner, document("30"), []byte(withTests), 1, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	merged, clashes, err := e.policies.MergeDraft(e.ctx, owner, d.ID, d.ETag)
	if err != nil || len(clashes) != 1 || !strings.Contains(clashes[0], "all") || merged.Tests != withTests {
		t.Fatalf("draft %+v, clashes %v (%v)", merged, clashes, err)
	}
	doc, report := policy.ParseLoose([]byte(merged.Source))
	if doc == nil || doc.Routes[0].Limits[0].Burst != 20 {
		t.Fatalf("report %v", report)
	}
	again, clashes, err := e.policies.MergeDraft(e.ctx, owner, d.ID, merged.ETag)
	if err != nil || len(clashes) != 0 || again.ETag != merged.ETag {
		t.Fatalf("a second time: %+v, %v (%v)", again, clashes, err)
	}
	if merged, err = e.policies.SaveTests(e.ctx, owner, d.ID, merged.ETag, []byte(suite)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.policies.Publish(e.ctx, owner, document("30"), nil, 2, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.policies.Publish(e.ctx, owner, document("30"), []byte(strings.Replace(suite, "a call", "one call", 1)), 3, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	merged, clashes, err = e.policies.MergeDraft(e.ctx, owner, d.ID, merged.ETag)
	if err != nil || !slices.Equal(clashes, []string{"tests"}) || merged.Tests != suite {
		t.Fatalf("tests %q, clashes %v (%v)", merged.Tests, clashes, err)
	}
	if merged, err = e.policies.SaveDraft(e.ctx, owner, d.ID, merged.ETag, []byte("a: [")); err != nil {
		t.Fatal(err)
	}
	_, _, err = e.policies.MergeDraft(e.ctx, owner, d.ID, merged.ETag)
	wantCode(t, err, console.CodeInvalid)
}
