package console_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

func TestPolicies_PublishedVersionIsTheHead(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if _, ok, err := e.policies.Head(e.ctx); ok || err != nil {
		t.Fatalf("a head before the first publication (%v)", err)
	}
	v1 := e.publish(t, "10", 0)
	v2 := e.publish(t, "20", v1.Number)
	if v1.Number != 1 || v2.Number != 2 || v2.Parent != v1.Digest || v1.Parent != "" || v2.Kind != console.KindPublish {
		t.Fatalf("v1 %+v, v2 %+v", v1, v2)
	}
	head, ok, err := e.policies.Head(e.ctx)
	if err != nil || !ok || head.Number != 2 || head.Digest != policy.DigestOf(head.Body) || !bytes.Equal(head.Body, v2.Body) {
		t.Fatalf("head %+v (%v)", head, err)
	}
	if len(head.Changes) != 1 || head.Changes[0].LimitID != "route:everything.all" {
		t.Fatalf("changes %+v", head.Changes)
	}
	diff, err := e.policies.Diff(e.ctx, 1, 2)
	if err != nil || !slices.Equal(diff, console.PlainChanges(head.Changes)) {
		t.Fatalf("diff %v (%v)", diff, err)
	}
}

func TestPolicies_StaleBaseIsAConflictThatTellsWhatChanged(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.publish(t, "10", 0)
	e.publish(t, "20", 1)
	_, err := e.policies.Publish(e.ctx, owner, document("30"), nil, 1, console.PublishOptions{})
	got := errorWith(t, err, console.CodeConflict)
	stale, ok := got.Detail.(console.StaleBase)
	if !ok || stale.Base != 1 || stale.Head != 2 || len(stale.Changes) != 1 {
		t.Fatalf("detail %+v", got.Detail)
	}
	_, err = e.policies.Publish(e.ctx, owner, document("30"), nil, 7, console.PublishOptions{})
	wantCode(t, err, console.CodeConflict)
	_, err = e.policies.Publish(e.ctx, owner, document("30"), nil, -1, console.PublishOptions{})
	wantCode(t, err, console.CodeInvalid)
}

func TestPolicies_OfManyPublishersFromOneBaseExactlyOneWins(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.publish(t, "10", 0)
	errs := atOnce(16, func(i int) error {
		_, err := e.policies.Publish(e.ctx, owner, document(string(rune('2'+i%8))+"0"), nil, 1, console.PublishOptions{})
		return err
	})
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if c := console.CodeOf(err); c != console.CodeConflict && c != console.CodeUnavailable {
			t.Errorf("loser got %v", err)
		}
	}
	if head, _, _ := e.policies.Head(e.ctx); won != 1 || head.Number != 2 {
		t.Fatalf("%d publishers won, head %d", won, head.Number)
	}
}

func TestPolicies_NumberIsAboveWhatReplicasKnow(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.feed.set(func() { e.feed.beats = []policy.Heartbeat{{ID: "gw_1", Version: 42}} })
	if v := e.publish(t, "10", 0); v.Number != 43 {
		t.Fatalf("number %d", v.Number)
	}
	e.feed.set(func() { e.feed.down = errors.New("down") })
	if v := e.publish(t, "20", 43); v.Number != 44 {
		t.Fatalf("number %d while Redis is down", v.Number)
	}
}

func TestPolicies_DocumentWithProblemsIsRefusedWithAllOfThem(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	bad := strings.Replace(string(document("10")), "mode: open", "mode: maybe", 1)
	bad = strings.Replace(bad, "identity: api_key", "identity: nobody", 1)
	_, err := e.policies.Publish(e.ctx, owner, []byte(bad), nil, 0, console.PublishOptions{})
	got := errorWith(t, err, console.CodeInvalid)
	if report, ok := got.Detail.(policy.Report); !ok || len(report.Problems) < 2 || len(got.Fields) != len(report.Problems) {
		t.Fatalf("detail %+v", got.Detail)
	}
	for _, src := range []string{"", "{}", "a: [", "routes: []"} {
		_, err := e.policies.Publish(e.ctx, owner, []byte(src), nil, 0, console.PublishOptions{})
		wantCode(t, err, console.CodeInvalid)
	}
	if _, ok, _ := e.policies.Head(e.ctx); ok {
		t.Fatal("something was published")
	}
}

func TestPolicies_PlanInUseIsNotDropped(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.tenant(t, "A") // on free
	without := strings.Replace(string(document("10")), "  free:\n    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]\n", "", 1)
	_, report := e.policies.Validate(e.ctx, []byte(without))
	if report.OK() || report.Problems[0].Path != "plans" {
		t.Fatalf("report %+v", report)
	}
	_, err := e.policies.Publish(e.ctx, owner, []byte(without), nil, 0, console.PublishOptions{})
	wantCode(t, err, console.CodeInvalid)
	if doc, report := e.policies.Validate(e.ctx, document("10")); doc == nil || !report.OK() {
		t.Fatalf("report %+v", report)
	}
}

func TestPolicies_RollbackToAVersionWithoutAPlanInUseIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	only := strings.Replace(string(document("10")), "  pro:\n    limits: [{name: requests, per: tenant, counts: requests, rate: 600/minute, burst: 100}]\n", "", 1)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(only), nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	e.publish(t, "20", 1)
	if _, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "P", Plan: "pro"}); err != nil {
		t.Fatal(err)
	}
	_, err := e.policies.Rollback(e.ctx, owner, 1, console.PublishOptions{})
	wantCode(t, err, console.CodeInvalid)
}

func TestPolicies_VersionsArePagedWithoutBodies(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for i := range int64(5) {
		e.publish(t, string(rune('1'+i))+"0", i)
	}
	var got []int64
	page := console.Page{Limit: 2}
	for {
		items, next, err := e.policies.Versions(e.ctx, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range items {
			got = append(got, v.Number)
			if v.Body != nil {
				t.Fatal("a list loads bodies")
			}
		}
		if page.After = next; next == "" {
			break
		}
	}
	if !slices.Equal(got, []int64{5, 4, 3, 2, 1}) {
		t.Fatalf("versions %v", got)
	}
	_, err := e.policies.Version(e.ctx, 9)
	wantCode(t, err, console.CodeNotFound)
	if diff, err := e.policies.Diff(e.ctx, 0, 1); err != nil || len(diff) == 0 {
		t.Fatalf("diff from nothing %v (%v)", diff, err)
	}
	_, err = e.policies.Diff(e.ctx, 1, 0)
	wantCode(t, err, console.CodeNotFound)
}

func TestDrafts_StartFromTheHeadAndPublish(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	editor := as(console.RoleEditor)
	first, err := e.policies.CreateDraft(e.ctx, editor, "first", nil)
	if err != nil || first.Base != 0 {
		t.Fatalf("draft %+v (%v)", first, err)
	}
	if _, report := e.policies.Validate(e.ctx, []byte(first.Source)); !report.OK() {
		t.Fatalf("the first draft has problems: %v", report.Problems)
	}
	e.publish(t, "10", 0)
	d, err := e.policies.CreateDraft(e.ctx, editor, "more", nil)
	if err != nil || d.Base != 1 || !strings.Contains(d.Source, "everything") {
		t.Fatalf("draft %+v (%v)", d, err)
	}
	d, err = e.policies.SaveDraft(e.ctx, editor, d.ID, d.ETag, document("30"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.policies.PublishDraft(e.ctx, as(console.RolePublisher), d.ID, d.ETag, console.PublishOptions{Note: "from a draft"})
	if err != nil || v.Number != 2 {
		t.Fatalf("version %+v (%v)", v, err)
	}
	_, err = e.policies.GetDraft(e.ctx, d.ID)
	wantCode(t, err, console.CodeNotFound)
	if list, _ := e.policies.ListDrafts(e.ctx); len(list) != 1 || list[0].ID != first.ID {
		t.Fatalf("drafts %v", list)
	}
}

func TestDrafts_StaleETagOverwritesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d, err := e.policies.CreateDraft(e.ctx, owner, "d", document("10"))
	if err != nil {
		t.Fatal(err)
	}
	saved, err := e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, document("20"))
	if err != nil || saved.ETag == d.ETag {
		t.Fatalf("saved %+v (%v)", saved, err)
	}
	for name, fn := range map[string]func() error{
		"save":   func() error { _, err := e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, document("30")); return err },
		"rebase": func() error { _, err := e.policies.RebaseDraft(e.ctx, owner, d.ID, d.ETag); return err },
		"delete": func() error { return e.policies.DeleteDraft(e.ctx, owner, d.ID, d.ETag) },
		"publish": func() error {
			_, err := e.policies.PublishDraft(e.ctx, owner, d.ID, d.ETag, console.PublishOptions{})
			return err
		},
	} {
		if err := fn(); console.CodeOf(err) != console.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := e.policies.GetDraft(e.ctx, d.ID)
	if err != nil || got.Source != string(document("20")) {
		t.Fatalf("draft %+v (%v)", got, err)
	}
	if err := e.policies.DeleteDraft(e.ctx, owner, d.ID, saved.ETag); err != nil {
		t.Fatal(err)
	}
}

func TestDrafts_OfManySavesFromOneETagExactlyOneWins(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d, err := e.policies.CreateDraft(e.ctx, owner, "d", document("10"))
	if err != nil {
		t.Fatal(err)
	}
	won := 0
	for _, err := range atOnce(10, func(int) error {
		_, err := e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, document("20"))
		return err
	}) {
		if err == nil {
			won++
		}
	}
	if won != 1 {
		t.Fatalf("%d saves won", won)
	}
}

func TestDrafts_StaleBaseNeedsARebase(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.publish(t, "10", 0)
	d, err := e.policies.CreateDraft(e.ctx, owner, "d", document("50"))
	if err != nil {
		t.Fatal(err)
	}
	e.publish(t, "20", 1)
	_, err = e.policies.PublishDraft(e.ctx, owner, d.ID, d.ETag, console.PublishOptions{})
	wantCode(t, err, console.CodeConflict)
	d, err = e.policies.RebaseDraft(e.ctx, owner, d.ID, d.ETag)
	if err != nil || d.Base != 2 {
		t.Fatalf("draft %+v (%v)", d, err)
	}
	if _, err := e.policies.PublishDraft(e.ctx, owner, d.ID, d.ETag, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestDrafts_MayBeWrongButNotUnstorable(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	d, err := e.policies.CreateDraft(e.ctx, owner, "d", []byte("not: [yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string][]byte{"invalid UTF-8": {0xff}, "NUL": {'a', 0}, "too large": bytes.Repeat([]byte("a"), 8<<20+1)} {
		if _, err := e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, src); console.CodeOf(err) != console.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := e.policies.SaveDraft(e.ctx, owner, d.ID, d.ETag, []byte("a: 1\r\nb: 2\r\n"))
	if err != nil || got.Source != "a: 1\nb: 2\n" {
		t.Fatalf("source %q (%v)", got.Source, err)
	}
}

// A tenant is never left on a plan that the policy in force lacks, whoever
// commits first.
func TestPolicies_PlanIsNotDroppedUnderANewTenant(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.publish(t, "10", 0)
	ten := e.tenant(t, "on free")
	only := strings.Replace(string(document("20")), "  pro:\n    limits: [{name: requests, per: tenant, counts: requests, rate: 600/minute, burst: 100}]\n", "", 1)
	pro := "pro"
	errs := atOnce(6, func(i int) error {
		var err error
		switch i % 3 {
		case 0:
			_, err = e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "T", Plan: "pro"})
		case 1:
			_, err = e.tenants.Update(e.ctx, owner, ten.ID, console.TenantPatch{Plan: &pro})
		default:
			_, err = e.policies.Publish(e.ctx, owner, []byte(only), nil, 1, console.PublishOptions{})
		}
		return err
	})
	for _, err := range errs {
		if c := console.CodeOf(err); c == console.CodeInternal {
			t.Errorf("error %v", err)
		}
	}
	head, _, err := e.policies.Head(e.ctx)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := head.Document()
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := e.tenants.List(e.ctx, console.TenantQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ten := range list {
		if _, ok := doc.Plans[ten.Plan]; !ok {
			t.Errorf("v%d lacks plan %s of %s", head.Number, ten.Plan, ten.ID)
		}
	}
}

func TestPolicies_C01_GatewaysCannotUseUpVersionNumbers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := e.publish(t, "10", 0)
	e.feed.set(func() {
		e.feed.beats = []policy.Heartbeat{
			e.feed.beat("sane", v.Number+41, v.Digest, 0), e.feed.beat("mad", math.MaxInt64, v.Digest, 0), e.feed.beat("madder", math.MinInt64, v.Digest, 0),
		}
	})
	if got := e.publish(t, "20", v.Number); got.Number != v.Number+42 {
		t.Fatalf("version %d, want %d", got.Number, v.Number+42)
	}
}
