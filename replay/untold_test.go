package replay_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/replay"
)

// A simulation never says that nothing would change where it cannot know.
func TestCompare_SaysWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	login := func() decisionlog.Entry {
		return decisionlog.Entry{
			At: start, IP: "203.0.113.7", Method: "POST", Host: "api.example", Path: "/login", Route: "login", Cost: 1, Hits: 1,
			Reason: "rate", Limit: "route:login.per-ip", Values: map[string]string{"body:username": "h1"},
		}
	}
	notes := func(c decisionlog.Comparison) string { return strings.Join(c.Notes, "\n") }

	log := logOf(login()) // refused then, and by the draft nobody knows
	got := compared(t, changed(t, "identity: ip", "identity: api_key"), log, nil)
	if got.Both.Refused != 0 || got.Refused.Requests+got.Admitted.Requests != 0 || !strings.Contains(notes(got), "1 requests meet route login in the draft") {
		t.Errorf("a refused request without a caller: %+v", got)
	}

	log = logOf(search("ten_a", 0))
	log[0].Unjudged = 41
	more := strings.Replace(testPolicy, "  - name: me\n", "  - name: new\n    match: [\"GET /new\"]\n    identity: ip\n    motive: abuse\n    on_store_failure: {mode: closed}\n  - name: me\n", 1)
	for _, c := range []struct {
		draft string
		told  bool
	}{{testPolicy, false}, {changed(t, "burst: 6", "burst: 5"), false}, {more, true}, {changed(t, "identity: ip", "identity: api_key"), true}} {
		got = compared(t, c.draft, log, onPlan("pro", "ten_a"))
		if told := strings.Contains(notes(got), "41 requests came to no limiter"); told != c.told {
			t.Errorf("told %v, want %v: %q", told, c.told, notes(got))
		}
	}

	bare := changed(t, "\n    quota: {amount: 30, counts: cost, period: month, alignment: calendar, time_zone: UTC, over: block}", "")
	log = logOf(search("ten_a", 0))
	log[0].Seq = 7 // the log begins later than the gateway
	for _, c := range [][2]string{{bare, testPolicy}, {testPolicy, bare}} {
		got, err := replay.Engine{}.Compare(t.Context(), documentOf(t, c[0]), documentOf(t, c[1]), log, onPlan("pro", "ten_a"), nil)
		if err != nil || !strings.Contains(notes(got), "Quotas count from the beginning of the log") {
			t.Errorf("%q (%v)", got.Notes, err)
		}
	}

	both := strings.Replace(changed(t, "cost: {graphql: {max: 100", "cost: {graphql: {max: 99"), "burst: 100}]\n    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}\n  - name: me",
		"burst: 100}]\n    on_store_failure: {mode: closed}\n  - name: me", 1)
	got = compared(t, both, logOf(search("ten_a", 0)), onPlan("pro", "ten_a"))
	if n := notes(got); !strings.Contains(n, "route graphql is not known") || !strings.Contains(n, "on_store_failure are not judged") {
		t.Errorf("two changes of one route: %q", n)
	}
}
