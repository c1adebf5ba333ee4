package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestPolicy_FromDraftToRollBackInABrowser takes a change all the way: two people
// in two browsers, one of them without scripts. The policy, its tests, the
// simulation on traffic that the gateways logged, the approval that an edit voids,
// the publication on three gateways and the way back.
func TestPolicy_FromDraftToRollBackInABrowser(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	author, other := OpenBrowser(t, d), OpenBrowser(t, d)
	other.WithoutJavaScript()
	author.SignInAs(d.NewOperator("Anna", "publisher"))
	other.SignIn(d)

	// What the draft will be tried on: forty requests at once of one tenant.
	tenant, _ := d.NewTenant("Busy Ltd", "free")
	if admitted := d.asks(t, 40, tenant.Key, "/v1/anything"); admitted != 40 {
		t.Fatalf("%d of 40 were admitted before anything was changed", admitted)
	}
	requireApprovals(other)

	draft := author.NewDraft("a smaller burst")
	mistakesStandBesideTheirFields(t, author, draft)
	problemsHoldUp(author, draft)
	author.SavePart(draft, "plan/free", map[string]string{"l0-count": "20", "l0-unit": "hour", "l0-burst": "20"})
	onFree := 1
	for _, sample := range d.Tenants {
		if sample.Plan == "free" {
			onFree++
		}
	}
	showsRiskAndImpact(author, draft, onFree)
	testsHoldUp(author, draft)
	simulates(t, d, author, draft, tenant)
	approvedBySomebodyElse(t, author, other, draft)
	publishesAndConverges(t, d, author, draft)
	heldTo(t, d, 20)
	rollsBack(t, d, other)
	heldTo(t, d, 60)
}

// requireApprovals sets the rule that whatever becomes tighter needs a second
// person.
func requireApprovals(p *Page) {
	p.t.Helper()
	p.Go("/settings/rules")
	p.Says("No rule: everybody who may publish publishes alone")
	p.Submit(`main button[value="add"]`)
	p.Fill(map[string]string{"when-0": "tighter", "approvals-0": "1"})
	p.Shots("policy-rules")
	p.Submit(`main button.primary`)
	p.Says("Rules saved")
}

// mistakesStandBesideTheirFields types what is no number: the script saves nothing
// and says so beside the field, and so does the form when it is sent.
func mistakesStandBesideTheirFields(t *testing.T, p *Page, draft string) {
	t.Helper()
	p.Go(draft + "/parts/plan/free")
	p.Type("l0-burst", "many")
	p.Says("not saved: the marked fields cannot be read")
	byScript := p.Beside("l0-burst")
	if byScript == "" {
		t.Error("nothing stands beside the field")
	}
	p.Shots("policy-part-mistake")
	p.Submit("#part button.primary")
	if byForm := p.Beside("l0-burst"); byForm != byScript {
		t.Errorf("the form says %q and the script %q", byForm, byScript)
	}
	p.Says("Not saved. Please correct the marked fields.")
	p.Type("l0-burst", "50")
	p.Says("saved")
	p.Becomes(`document.getElementById('autosave').className.includes('ok')`)
	if left := p.Beside("l0-burst"); left != "" {
		t.Errorf("the field is well and still says %q", left)
	}
}

// problemsHoldUp saves what can be read and is no policy.
func problemsHoldUp(p *Page, draft string) {
	p.t.Helper()
	p.Go(draft + "/source")
	good, err := p.value("source")
	p.must(err, "read the source")
	bad := strings.Replace(good, "burst: 50\n", "burst: -1\n", 1)
	if bad == good {
		p.t.Fatalf("the source does not have the burst that was saved:\n%s", good)
	}
	p.Fill(map[string]string{"source": bad})
	p.Submit(`form[action$="/source"] button.primary`)
	p.Says("1 problem")
	p.Says("plans.free.limits[0].burst")
	p.Shots("policy-source-problem")
	p.Go(draft + "/review")
	p.Says("Not ready")
	p.Submit(`main .problems a[href*="/parts/plan/free"]`)
	if beside := p.Beside("l0-burst"); beside == "" {
		p.t.Error("the problem's link leads to a form that says nothing beside the field")
	}
}

// showsRiskAndImpact looks at the semantic diff.
func showsRiskAndImpact(p *Page, draft string, onFree int) {
	p.t.Helper()
	p.Go(draft + "/review")
	p.Says("2 changes: 2 tighter")
	p.Says("High risk")
	p.Says("plan free: limit requests 60/minute → 20/hour")
	p.Says(fmt.Sprintf("%d tenants", onFree))
	p.Shots("policy-review")
}

// testsHoldUp writes a test that fails, sees that it holds publication up, and
// mends it.
func testsHoldUp(p *Page, draft string) {
	p.t.Helper()
	const suite = `tests:
  - name: twenty at once and no more
    given: {plan: free}
    steps:
      - {send: %d, request: GET /v1/anything, expect: admitted}
      - {request: GET /v1/anything, expect: {refused_by: plan.requests, at: 1}}
`
	p.Go(draft + "/tests")
	p.Fill(map[string]string{"source": fmt.Sprintf(suite, 21)})
	p.Submit(`form[action$="/tests"] button.primary`)
	p.Says("fails")
	p.Shots("policy-tests-fail")
	p.Go(draft + "/review")
	p.Says("Not ready")
	p.Says("1 of 1 fail")
	p.Go(draft + "/tests")
	p.Fill(map[string]string{"source": fmt.Sprintf(suite, 20)})
	p.Submit(`form[action$="/tests"] button.primary`)
	p.Says("The test passes")
	p.Submit(`main button[name="score"]`)
	p.Says("small changes are noticed")
	p.Shots("policy-tests-pass")
}

// simulates tries the draft on what was logged: of forty requests at once twenty
// are one too many.
func simulates(t *testing.T, d *Demo, p *Page, draft string, tenant Tenant) {
	t.Helper()
	eventually(t, startWithin, "the gateways' log is there and the simulation says what it must", func() error {
		p.Go(draft + "/simulate")
		p.Fill(map[string]string{"range": "1h"})
		p.Submit("#simulate button.primary")
		p.Says("What the draft would have done")
		if said := p.said("#trial"); !strings.Contains(said, "Newly refused 20 requests of 1 tenant") {
			return fmt.Errorf("it says: %s", said)
		}
		return nil
	})
	said := p.said("#trial")
	for _, want := range []string{tenant.Name, "everything-else", "plan.requests", "Newly admitted 0 requests"} {
		if !strings.Contains(said, want) {
			t.Errorf("the simulation does not say %q: %s", want, said)
		}
	}
	p.Shots("policy-simulate")
	_ = d
}

// approvedBySomebodyElse holds that the author cannot approve, that an edit voids
// an approval, and that it is for exactly one text.
func approvedBySomebodyElse(t *testing.T, author, other *Page, draft string) {
	t.Helper()
	author.Go(draft + "/review")
	author.Says("1 approval by somebody else")
	author.Says("You wrote in this draft: somebody else has to approve it.")
	digest, err := author.value("digest")
	author.must(err, "read the digest")
	author.Expect(http.StatusForbidden)
	if status := author.Post(draft+"/approve", map[string]string{"digest": digest}); status != http.StatusForbidden {
		t.Errorf("the author's own approval is answered %d", status)
	}
	approve := func() {
		other.Go(draft + "/review")
		other.setIn(`form[action$="/approve"] `, "note", "seen")
		other.Shots("policy-approve")
		other.Submit(`form[action$="/approve"] button`)
		other.Says("Take my approval back")
	}
	approve()
	author.Go(draft + "/review")
	author.Says("Ready to publish")
	author.SavePart(draft, "plan/free", map[string]string{"description": "Twenty an hour"})
	author.Go(draft + "/review")
	author.Says("Not ready")
	author.Says("1 approval of an earlier text no longer holds.")
	approve()
}

func publishesAndConverges(t *testing.T, d *Demo, p *Page, draft string) {
	t.Helper()
	p.Go(draft + "/review")
	p.Says("Ready to publish")
	p.Fill(map[string]string{"note": "twenty are enough"})
	publish := `form[action$="/publish"] button.primary`
	p.Submit(publish) // nothing was confirmed
	p.Says("Not published.")
	p.Says("Please confirm")
	p.Shots("policy-confirm")
	p.confirmAll()
	p.Submit(publish)
	if got := p.Path(); got != "/policy/versions/2" {
		t.Fatalf("publishing led to %s", got)
	}
	p.Says("3 of 3 enforce v2") // by itself
	p.Becomes(`document.querySelector('svg.ring[aria-label="3/3 gateways"]')`)
	p.Says("by Demo Owner: “seen”")
	p.Says("1 of 1 passed")
	p.Shots("policy-published")
	_ = d
}

func rollsBack(t *testing.T, d *Demo, p *Page) {
	t.Helper()
	p.Go("/policy/versions/2")
	p.setIn("#rollback ", "note", "customers complain")
	p.Submit("#rollback button.danger")
	if got := p.Path(); got != "/policy/versions/3" {
		t.Fatalf("rolling back led to %s", got)
	}
	enforces(p, 3)
	p.Says("rolls back to v1")
	p.Shots("policy-rolled-back")
	if was, is := d.digestOf(1), d.digestOf(3); was != is {
		t.Errorf("v3 has the digest %s and v1 %s", is, was)
	}
	if was, is := d.digestOf(2), d.digestOf(3); was == is {
		t.Errorf("v3 has the digest of v2")
	}
	p.Go("/policy/versions")
	p.Says("roll back to v1")
	p.Shots("policy-versions")
}

// heldTo holds that a new tenant gets a burst and not more on all gateways
// together.
func heldTo(t *testing.T, d *Demo, burst int) {
	t.Helper()
	tenant, _ := d.NewTenant(fmt.Sprintf("Burst %d Ltd", burst), "free")
	enforcedTogether(t, d, tenant.Key, burst, "/v1/anything")
}
