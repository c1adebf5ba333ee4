package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/api"
)

func TestExplain_SaysTheSentenceTheLadderAndWhatToTellTheCustomer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	id := strings.TrimSpace(d.good("tenant", "create", "Acme", "--plan", "free"))
	d.w.Probe.Answers(1, func(q console.ProbeQuestion) console.ProbeAnswer {
		return console.ProbeAnswer{Version: 1, Status: 429, Code: "quota-exceeded", Reason: "limit", Deciding: 0, RetryAfter: 18 * time.Second, Limits: []console.ProbeLimit{
			{ID: "plan.requests", Kind: "rate", Limit: 60, Window: time.Minute, Burst: 60, Violated: true, Wait: 18 * time.Second, Cost: 1, Source: "plan free"},
			{ID: "route:x.net", Kind: "rate", Unknown: true, Source: "route x"}, {ID: "route:x.own", Kind: "rate", Unlimited: true, Source: "override"},
			{ID: "route:x.dark", Kind: "rate", Burst: 5, Left: 5, Shadow: true, Source: "route x"}}}
	})
	status, out, errs := d.shells("explain", "--tenant", "Acme")
	for _, want := range []string{"Acme is refused", "theirs: They send more than they may.", "plan.requests", "60/60", "18s", "refuses", "unknown", "unlimited", "shadow"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("status %d, the answer lacks %q:\n%s%s", status, want, out, errs)
		}
	}
	for _, want := range []string{"safe to do: Boost", "for the customer: Some of your requests"} {
		if !strings.Contains(errs, want) {
			t.Errorf("the remarks lack %q:\n%s", want, errs)
		}
	}
	var e api.Explanation
	if err := json.Unmarshal([]byte(d.good("explain", "--tenant", id, "--request", "POST /v1/search", "-o", "json")), &e); err != nil || e.Outcome != "refused" || e.TenantID != id {
		t.Errorf("%v: %+v", err, e)
	}
	if asked := d.w.Probe.Asked(); asked[len(asked)-1].Method != "POST" || asked[len(asked)-1].Path != "/v1/search" {
		t.Errorf("asked %+v", asked[len(asked)-1])
	}
	if out := d.good("explain", "--receipt", "hgr1_nothing"); !strings.Contains(out, "receipt: not valid") {
		t.Errorf("a receipt that is none: %s", out)
	}
}

func TestExplain_BadCommandLinesSayWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	d.bad(1, "--receipt is needed", "explain")
	d.bad(1, "a method and a path", "explain", "--tenant", "Acme", "--request", "/v1/search")
	d.bad(1, "--key-stdin", "explain", "--key-stdin", "--key", "AAAAAAAAAAAA")
	d.bad(1, "is a whole key", "explain", "--key", "hg_test_000000000000_000000000000000000000000000000002zIGxN")
	d.bad(1, "no such tenant", "explain", "--tenant", "nobody")
	d.bad(2, "no address", "explain", "--ip", "300.1.1.1")
}
