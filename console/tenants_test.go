package console_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

func TestTenants_CreatedTenantIsFoundAsItWasMade(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	made, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "  Acme GmbH ", ExternalID: "c-1", Plan: "free", TimeZone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != "Acme GmbH" || !strings.HasPrefix(made.ID, "ten_") || len(made.ID) != 20 || made.State != policy.TenantActive {
		t.Fatalf("made %+v", made)
	}
	got, err := e.tenants.Get(e.ctx, made.ID)
	if err != nil || !reflect.DeepEqual(got, made) {
		t.Fatalf("got %+v, want %+v (%v)", got, made, err)
	}
}

func TestTenants_BadInputNamesEachField(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "\u202eevil", ExternalID: strings.Repeat("x", 121), Plan: "No Plan", TimeZone: "Mars/Phobos"})
	got := errorWith(t, err, console.CodeInvalid)
	var fields []string
	got.EachField(func(field, _ string) bool { fields = append(fields, field); return true })
	if want := []string{"name", "external_id", "plan", "time_zone"}; !slices.Equal(fields, want) {
		t.Fatalf("fields %v, want %v", fields, want)
	}
}

func TestTenants_TakenExternalIDIsAConflictAtItsField(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	in := console.NewTenant{Name: "A", ExternalID: "same", Plan: "free"}
	if _, err := e.tenants.Create(e.ctx, owner, in); err != nil {
		t.Fatal(err)
	}
	_, err := e.tenants.Create(e.ctx, owner, in)
	if got := errorWith(t, err, console.CodeConflict); len(got.Fields) != 1 || got.Fields[0].Field != "external_id" {
		t.Fatalf("fields %v", got.Fields)
	}
}

func TestTenants_PlanMustBeInThePolicyInForce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.publish(t, "10", 0)
	_, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "A", Plan: "gold"})
	wantCode(t, err, console.CodeInvalid)
	made := e.tenant(t, "B")
	gold := "gold"
	_, err = e.tenants.Update(e.ctx, owner, made.ID, console.TenantPatch{Plan: &gold})
	wantCode(t, err, console.CodeInvalid)
}

func TestTenants_UpdateKeepsWhatIsNotNamed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	made, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "A", ExternalID: "x", Plan: "free", TimeZone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	name := "B"
	got, err := e.tenants.Update(e.ctx, owner, made.ID, console.TenantPatch{Name: &name})
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "B" || got.ExternalID != "x" || got.Plan != "free" || got.TimeZone != "Europe/Berlin" || got.Seq != made.Seq+1 {
		t.Fatalf("got %+v", got)
	}
	same, err := e.tenants.Update(e.ctx, owner, made.ID, console.TenantPatch{Name: &name})
	if err != nil || same.Seq != got.Seq {
		t.Fatalf("an update without a change has an effect: %+v (%v)", same, err)
	}
}

func TestTenants_SuspendAndResumeAreChangesThatTravel(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	made := e.tenant(t, "A")
	_, err := e.tenants.Suspend(e.ctx, owner, made.ID, " ")
	wantCode(t, err, console.CodeInvalid)
	c, err := e.tenants.Suspend(e.ctx, owner, made.ID, "unpaid")
	if err != nil || c.OutboxID == 0 {
		t.Fatalf("change %+v (%v)", c, err)
	}
	got, _ := e.tenants.Get(e.ctx, made.ID)
	if got.State != policy.TenantSuspended || got.Reason != "unpaid" {
		t.Fatalf("got %+v", got)
	}
	_, err = e.tenants.Suspend(e.ctx, owner, made.ID, "again")
	wantCode(t, err, console.CodeConflict)
	if _, err := e.tenants.Resume(e.ctx, owner, made.ID, ""); err != nil {
		t.Fatal(err)
	}
	if got, _ = e.tenants.Get(e.ctx, made.ID); got.State != policy.TenantActive || got.Reason != "" {
		t.Fatalf("got %+v", got)
	}
}

func TestTenants_DeleteRevokesEveryKeyAndIsFinal(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	made := e.tenant(t, "A")
	first, second := e.issue(t, made.ID), e.issue(t, made.ID)
	if _, err := e.rotations.Start(e.ctx, owner, second.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.tenants.Delete(e.ctx, owner, made.ID, "left"); err != nil {
		t.Fatal(err)
	}
	if k := e.key(t, first.KeyVersion.KID); k.State != policy.KeyRevoked || k.RevokeReason != console.RevokeOffboarding {
		t.Fatalf("key %+v", k)
	}
	if n, _ := e.keys.Count(e.ctx); n != 0 {
		t.Fatalf("%d live keys of a deleted tenant", n)
	}
	if open, _ := e.rotations.List(e.ctx, true); len(open) != 0 {
		t.Fatalf("open rotations %v", open)
	}
	_, err := e.tenants.Resume(e.ctx, owner, made.ID, "")
	wantCode(t, err, console.CodeConflict)
	_, err = e.keys.IssueCredential(e.ctx, owner, made.ID, console.NewCredential{Name: "n", Environment: "live"})
	wantCode(t, err, console.CodeConflict)
	if list, _, _ := e.tenants.List(e.ctx, console.TenantQuery{}); len(list) != 0 {
		t.Fatalf("a deleted tenant is listed: %v", list)
	}
}

// Every row is shown once, also when rows are added and renamed in between.
func TestTenants_PagesShowEachRowOnceWhileRowsChange(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	want := map[string]bool{}
	for i := range 23 {
		want[e.tenant(t, fmt.Sprintf("T%02d", i)).ID] = true // all at the same time of the fake clock
	}
	seen := map[string]int{}
	page := console.Page{Limit: 5}
	for {
		items, next, err := e.tenants.List(e.ctx, console.TenantQuery{Page: page})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			seen[it.ID]++
			renamed := "renamed " + it.ID
			if _, err := e.tenants.Update(e.ctx, owner, it.ID, console.TenantPatch{Name: &renamed}); err != nil {
				t.Fatal(err)
			}
		}
		if next == "" {
			break
		}
		page.After = next
	}
	for id := range want {
		if seen[id] != 1 {
			t.Errorf("tenant %s was shown %d times", id, seen[id])
		}
	}
}

func TestTenants_ListFilters(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.tenant(t, "100% Acme_Corp"), e.tenant(t, "Beta")
	if _, err := e.tenants.Suspend(e.ctx, owner, b.ID, "r"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q    console.TenantQuery
		want []string
	}{
		"words of the name":  {console.TenantQuery{Q: "acme_"}, []string{a.ID}},
		"signs are no words": {console.TenantQuery{Q: "100%"}, []string{a.ID}},
		"no word at all":     {console.TenantQuery{Q: "%"}, nil},
		"middle of a word":   {console.TenantQuery{Q: "cme"}, nil},
		"whole id":           {console.TenantQuery{Q: b.ID}, []string{b.ID}},
		"state":              {console.TenantQuery{State: policy.TenantSuspended}, []string{b.ID}},
		"plan nobody is on":  {console.TenantQuery{Plan: "pro"}, nil},
		"quote is no syntax": {console.TenantQuery{Q: "' OR 1=1 --"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			items, _, err := e.tenants.List(e.ctx, c.q)
			var got []string
			for _, it := range items {
				got = append(got, it.ID)
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Fatalf("got %v, want %v (%v)", got, c.want, err)
			}
		})
	}
}

func TestTenants_ForeignCursorIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, _, err := e.tenants.List(e.ctx, console.TenantQuery{Page: console.Page{After: "x"}})
	wantCode(t, err, console.CodeInvalid)
}

func TestTenants_LookAtATenantsPageIsAnEvent(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	made := e.tenant(t, "A")
	if _, err := e.tenants.RecordView(e.ctx, as(console.RoleViewer), made.ID); err != nil {
		t.Fatal(err)
	}
	if got := e.events(t)[0]; got.Action != "tenant.view-as" || got.TenantID != made.ID || got.Actor != "Ann" {
		t.Fatalf("event %+v", got)
	}
	_, err := e.tenants.RecordView(e.ctx, owner, "ten_unknown")
	wantCode(t, err, console.CodeNotFound)
}
