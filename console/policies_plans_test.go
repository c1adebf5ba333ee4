package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// withoutFree is lawDocument without the plan free.
func withoutFree(t *testing.T) string {
	t.Helper()
	from, to := strings.Index(lawDocument, "  free:\n"), strings.Index(lawDocument, "  pro:\n")
	if from < 0 || to < from {
		t.Fatal("the document has no plans free and pro")
	}
	return lawDocument[:from] + lawDocument[to:]
}

func TestPublish_R054_PlanInUseIsNotDroppedAndSaysWhoIsOnIt(t *testing.T) {
	t.Parallel()
	e, _, first := lawful(t)
	publish := func() (string, error) {
		_, err := e.policies.Publish(e.ctx, owner, []byte(withoutFree(t)), nil, 1, console.PublishOptions{ConfirmTypedOnly: true})
		if err == nil {
			return "", nil
		}
		return fmt.Sprintf("%+v", errorWith(t, err, console.CodeInvalid)), err
	}
	text, _ := publish()
	if want := fmt.Sprintf("is dropped, but 1 tenant is on it: Acme (%s)", first.ID); !strings.Contains(text, want) || strings.Contains(text, " more") {
		t.Errorf("one tenant: %s", text)
	}
	var last console.Tenant
	for i := range 4 {
		e.clock.add(time.Second) // the newest are named
		last = e.tenant(t, fmt.Sprintf("Tenant %d", i))
	}
	text, _ = publish()
	if !strings.Contains(text, "but 5 tenants are on it: ") || !strings.Contains(text, " and 2 more") || !strings.Contains(text, last.ID) {
		t.Errorf("five tenants: %s", text)
	}
	// Those who are gone hold nothing up, and those who moved neither.
	pro := "pro"
	all, _, err := e.tenants.List(e.ctx, console.TenantQuery{Page: console.Page{Limit: 50}})
	if err != nil || len(all) != 5 {
		t.Fatalf("%d tenants (%v)", len(all), err)
	}
	for i, ten := range all {
		if i%2 == 0 {
			_, err = e.tenants.Delete(e.ctx, owner, ten.ID, "left")
		} else {
			_, err = e.tenants.Update(e.ctx, owner, ten.ID, console.TenantPatch{Plan: &pro})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if text, err = publish(); err != nil {
		t.Errorf("nobody is on it: %s", text)
	}
}

func TestPublish_SuspendedTenantsAreOnTheirPlan(t *testing.T) {
	t.Parallel()
	e, _, ten := lawful(t)
	if _, err := e.tenants.Suspend(e.ctx, owner, ten.ID, "unpaid"); err != nil {
		t.Fatal(err)
	}
	_, report := e.policies.Validate(e.ctx, []byte(withoutFree(t)))
	if len(report.Problems) != 1 || report.Problems[0].Path != "plans" || !strings.Contains(report.Problems[0].Message, ten.ID) {
		t.Errorf("problems %+v", report.Problems)
	}
}
