package replay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/replay"
)

// memoryLog is a log of batches, in the order of their From.
type memoryLog []decisionlog.Batch

func (l memoryLog) Batches(ctx context.Context, yield func(*decisionlog.Batch) error) error {
	for i := range l {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := l[i]
		if err := yield(&b); err != nil {
			return err
		}
	}
	return nil
}

func (l memoryLog) Bounds() (from, to time.Time, entries int64) {
	if len(l) == 0 {
		return time.Time{}, time.Time{}, 0
	}
	for _, b := range l {
		entries += int64(len(b.Entries))
	}
	return time.UnixMicro(l[0].From), time.UnixMicro(l[len(l)-1].To), entries
}

// logOf is a whole log of one replica.
func logOf(entries ...decisionlog.Entry) memoryLog {
	for i := range entries {
		entries[i].Seq = int64(i + 1)
		if entries[i].Kind == 0 {
			entries[i].Kind = decisionlog.KindDecision
		}
		if entries[i].Policy == 0 {
			entries[i].Policy = 1
		}
	}
	return memoryLog{{Replica: "gw_a", Boot: "b", Seq: 1, From: entries[0].At, To: entries[len(entries)-1].At, Sample: decisionlog.Whole, Entries: entries}}
}

const start = int64(1_790_000_000_000_000)

// search is an admitted request of a tenant on the route search, after so many ms.
func search(tenant string, afterMillis int64) decisionlog.Entry {
	return decisionlog.Entry{
		At: start + afterMillis*1000, Tenant: tenant, Credential: "crd_" + tenant, IP: "203.0.113.7", Method: "GET", Host: "api.example", Path: "/search",
		Route: "search", Cost: 1, Hits: 1, Allowed: true, Reason: "admitted",
	}
}

func onPlan(plan string, ids ...string) replay.Tenants {
	var list []policy.TenantRecord
	for _, id := range ids {
		list = append(list, policy.TenantRecord{ID: id, Plan: plan, State: policy.TenantActive})
	}
	return knows(list...)
}

func compared(t *testing.T, draft string, log decisionlog.Log, tenants replay.Tenants) decisionlog.Comparison {
	t.Helper()
	got, err := replay.Engine{}.Compare(t.Context(), documentOf(t, testPolicy), documentOf(t, draft), log, tenants, nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// changed is the test policy with one text in place of another.
func changed(t *testing.T, old, by string) string {
	t.Helper()
	if strings.Count(testPolicy, old) != 1 {
		t.Fatalf("%q stands %d times in the policy", old, strings.Count(testPolicy, old))
	}
	return strings.Replace(testPolicy, old, by, 1)
}

func TestCompare_TellsWhoIsNewlyRefused(t *testing.T) {
	t.Parallel()
	var entries []decisionlog.Entry
	for i := range int64(6) {
		entries = append(entries, search("ten_a", i), search("ten_b", 90_000+i))
	}
	entries = append(entries, search("ten_a", 61_000))
	slices.SortStableFunc(entries, func(a, b decisionlog.Entry) int { return int(a.At - b.At) })
	got := compared(t, changed(t, "rate: 300/minute, burst: 6", "rate: 1/minute, burst: 4"), logOf(entries...), onPlan("pro", "ten_a", "ten_b"))
	want := []decisionlog.Row{
		{Tenant: "ten_a", Route: "search", Limit: "shared:search", Refused: true, Requests: 2, First: start + 4000, Last: start + 5000, Peak: 2, PeakAt: start / 60_000_000 * 60_000_000},
		{Tenant: "ten_b", Route: "search", Limit: "shared:search", Refused: true, Requests: 2, First: start + 90_004_000, Last: start + 90_005_000, Peak: 2, PeakAt: (start + 90_000_000) / 60_000_000 * 60_000_000},
	}
	if !slices.Equal(got.Rows, want) || got.Refused != (decisionlog.Change{Requests: 4, Tenants: 2}) || got.Admitted != (decisionlog.Change{}) {
		t.Errorf("%+v", got)
	}
	if got.Entries != 13 || got.Both.Admitted != 9 || got.Differs != 0 || got.Sample != decisionlog.Whole || len(got.Notes) != 0 || got.From != start || got.To != start+90_005_000 {
		t.Errorf("%+v", got)
	}
}

func TestCompare_TellsWhoIsNewlyAdmitted(t *testing.T) {
	t.Parallel()
	var entries []decisionlog.Entry
	for i := range int64(8) {
		e := search("ten_a", i)
		if i >= 6 {
			e.Allowed, e.Reason, e.Limit = false, "limit", "shared:search"
		}
		entries = append(entries, e)
	}
	got := compared(t, changed(t, "rate: 300/minute, burst: 6", "rate: 300/minute, burst: 7"), logOf(entries...), onPlan("pro", "ten_a"))
	if len(got.Rows) != 1 || got.Rows[0].Refused || got.Rows[0].Limit != "shared:search" || got.Rows[0].Requests != 1 || got.Rows[0].First != start+6000 {
		t.Errorf("%+v", got.Rows)
	}
	if got.Admitted != (decisionlog.Change{Requests: 1, Tenants: 1}) || got.Both != (decisionlog.Totals{Admitted: 6, Refused: 1}) || got.Differs != 0 {
		t.Errorf("%+v", got)
	}
}

func TestCompare_CountsWhereTheReplayIsNotTheLog(t *testing.T) {
	t.Parallel()
	wrongly := search("ten_a", 0)
	wrongly.Allowed, wrongly.Reason, wrongly.Limit = false, "limit", "shared:search"
	cached := search("ten_a", 10_100)
	cached.Allowed, cached.Cached, cached.Reason, cached.Limit = false, true, "limit", "plan.requests"
	var full []decisionlog.Entry
	for i := range int64(6) {
		full = append(full, search("ten_a", 10_090+i))
	}
	other := search("ten_a", 10_101)
	other.Allowed, other.Reason, other.Limit = false, "limit", "plan.requests"
	got := compared(t, testPolicy, logOf(slices.Concat([]decisionlog.Entry{wrongly}, full, []decisionlog.Entry{cached, other})...), onPlan("pro", "ten_a"))
	if got.Differs != 2 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "decides 2 requests otherwise") {
		t.Errorf("%d differ, %q", got.Differs, got.Notes)
	}
}

func TestCompare_LogsWithoutABeginningAreComparedLater(t *testing.T) {
	t.Parallel()
	early, late := search("ten_a", 0), search("ten_a", 25*3600*1000)
	for _, e := range []*decisionlog.Entry{&early, &late} {
		e.Allowed, e.Reason, e.Limit = false, "limit", "shared:search"
	}
	log := logOf(early, late)
	log[0].Seq = 7
	got := compared(t, testPolicy, log, onPlan("pro", "ten_a"))
	if got.Differs != 1 || !strings.Contains(strings.Join(got.Notes, "\n"), "compared with what was decided from 1h later on") {
		t.Errorf("%d differ, %q", got.Differs, got.Notes)
	}
}

// versioned says which version is live.
type versioned struct {
	memoryLog
	version int64
}

func (l versioned) Live() int64 { return l.version }

func TestCompare_ComparesWithTheLiveVersionOnly(t *testing.T) {
	t.Parallel()
	wrongly := search("ten_a", 0)
	wrongly.Allowed, wrongly.Reason, wrongly.Limit = false, "limit", "shared:search"
	canary := wrongly
	canary.Policy = 2
	log := logOf(wrongly, canary, canary)
	for version, want := range map[int64]int64{1: 1, 2: 0, 3: 0} { // of 2 the warm-up, too
		got := compared(t, testPolicy, versioned{log, version}, onPlan("pro", "ten_a"))
		if got.Differs != want || version == 3 && !strings.Contains(strings.Join(got.Notes, " "), "no decisions of the live version") {
			t.Errorf("version %d: %d differ, %q", version, got.Differs, got.Notes)
		}
	}
}

func TestCompare_LeavesOutWhatCannotBeReplayed(t *testing.T) {
	t.Parallel()
	degraded, gone := search("ten_a", 0), search("ten_gone", 1)
	degraded.Degraded = true
	log := logOf(degraded, gone, search("ten_a", 2))
	log[0].Dropped = 5
	got := compared(t, testPolicy, log, onPlan("pro", "ten_a"))
	if got.Entries != 1 || got.Skipped != 2 || got.Dropped != 5 {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{"1 decisions were made without Redis", "1 decisions are of tenants that there are no longer", "5 decisions did not fit"} {
		if !strings.Contains(strings.Join(got.Notes, "\n"), want) {
			t.Errorf("nothing of %q in %q", want, got.Notes)
		}
	}
}

func TestCompare_SampledLogsJudgeWholeSubjectsOnly(t *testing.T) {
	t.Parallel()
	var in, out string // a tenant in the sample, and one that is not
	for i := 0; in == "" || out == ""; i++ {
		if id := fmt.Sprint("ten_", i); decisionlog.Bucket(id) < decisionlog.Whole/2 {
			in = id
		} else {
			out = id
		}
	}
	refused := search(out, 1)
	refused.Allowed, refused.Reason, refused.Limit = false, "limit", "shared:search"
	everyone := search(in, 2)
	everyone.Allowed, everyone.Reason, everyone.Limit = false, "limit", "global.all"
	log := logOf(search(in, 0), refused, everyone, search(in, 3))
	log[0].Sample = decisionlog.Whole / 2
	got := compared(t, changed(t, "rate: 50/second, burst: 50", "rate: 0/second, burst: 0"), log, onPlan("pro", in, out))
	if got.Entries != 2 || got.Skipped != 2 || got.Sample != decisionlog.Whole/2 || got.Refused.Requests != 0 || got.Both.Admitted != 2 || got.Differs != 0 {
		t.Errorf("%+v", got)
	}
	notes := strings.Join(got.Notes, "\n")
	if !strings.Contains(notes, "left out: global.all, route:login.per-account.") || !strings.Contains(notes, "1 entries are of callers") || !strings.Contains(notes, "1 refusals were by limits") {
		t.Errorf("%s", notes)
	}
}

func TestCompare_FollowsRequestsToOtherRoutes(t *testing.T) {
	t.Parallel()
	draft := changed(t, `match: ["GET api.example/search", "GET other.example/search"]`, `match: ["GET other.example/search"]`)
	got := compared(t, draft, logOf(search("ten_a", 0)), onPlan("pro", "ten_a"))
	if len(got.Rows) != 1 || got.Rows[0].Limit != "no-route" || got.Rows[0].Route != "search" || got.Refused.Requests != 1 {
		t.Errorf("%+v", got)
	}
	got = compared(t, changed(t, "  pro: {", "  gold: {"), logOf(search("ten_a", 0)), onPlan("pro", "ten_a"))
	if len(got.Rows) != 1 || got.Rows[0].Limit != "plan-unknown" {
		t.Errorf("%+v", got)
	}
}

func TestCompare_NotesWhatTheLogDoesNotHave(t *testing.T) {
	t.Parallel()
	login := decisionlog.Entry{
		At: start, IP: "203.0.113.7", Method: "POST", Host: "api.example", Path: "/login", Route: "login", Cost: 1, Hits: 1, Allowed: true,
		Values: map[string]string{"body:username": "h1"},
	}
	for _, c := range []struct{ old, by, want string }{
		{`per: "body:username"`, `per: "body:user"`, "The log does not have body:user: 1 requests count as ones without it."},
		{"identity: ip", "identity: api_key", "1 requests meet route login in the draft, which wants to know who calls"},
		{"identity: ip\n    motive: abuse", "identity: ip\n    motive: abuse\n    cost: {graphql: {max: 5}}", "1 requests meet a route of the draft that computes their cost from a query"},
		{"cost: {graphql: {max: 100", "cost: {graphql: {max: 99", "what they cost by the draft's rule on route graphql is not known"},
		{"client_ip: {trusted_proxies: [10.0.0.0/8]}", "client_ip: {trusted_proxies: [10.0.0.0/8], ipv6_prefix: 128}", "by their first 64 bits"},
		{"headers: [{name: Authorization, scheme: Bearer}]", "headers: [{name: X-Key}]", "callers are who they were"},
		{"on_store_failure: {mode: closed}\n  - name: report", "on_store_failure: {mode: open, fallback: {rate: 5/minute, burst: 5}}\n  - name: report", "changes of on_store_failure are not judged"},
		{"uses: [search]", "uses: [search]\n    concurrency: {per: tenant, max: 2, lease: 10s}", "how long requests of route search take"},
		{"uses: [search]", "uses: [search]\n    limits: [{name: each, per: user, rate: 5/minute, burst: 5}]", "does not name the users of these routes, so their requests count as ones without a user: search."},
	} {
		got := compared(t, changed(t, c.old, c.by), logOf(login), nil)
		if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q\nwant %q", c.by, notes, c.want)
		}
		if got.Refused.Requests != 0 {
			t.Errorf("%s: %+v", c.by, got)
		}
	}
}

func TestCompare_PlacesAreHeldUntilTheirEnd(t *testing.T) {
	t.Parallel()
	report := func(afterMillis int64, ref uint64, allowed bool) decisionlog.Entry {
		e := search("ten_a", afterMillis)
		e.Path, e.Route, e.Cost, e.Allowed, e.Ref, e.Renewed = "/v1/reports/1", "report", 5, allowed, ref, ref != 0
		if !allowed {
			e.Reason, e.Limit = "concurrency", "route:report.concurrency"
		}
		e.Values = map[string]string{"header:X-Region": ""}
		return e
	}
	end := func(afterMillis int64, ref uint64) decisionlog.Entry {
		return decisionlog.Entry{Kind: decisionlog.KindEnd, At: start + afterMillis*1000, Ref: ref}
	}
	log := logOf(report(0, 1, true), report(1, 2, true), report(2, 0, false), end(60_000, 1), report(60_001, 3, true), end(60_002, 2), end(60_003, 3), report(60_004, 4, true))
	if got := compared(t, testPolicy, log, onPlan("pro", "ten_a")); got.Differs != 0 || got.Both != (decisionlog.Totals{Admitted: 4, Refused: 1}) || len(got.Notes) != 0 {
		t.Errorf("%+v", got)
	}
	got := compared(t, changed(t, "max: 2, lease: 10s", "max: 1, lease: 10s"), log, onPlan("pro", "ten_a"))
	if got.Refused.Requests != 1 || got.Rows[0].First != start+1000 || got.Both.Admitted != 3 {
		t.Errorf("%+v", got)
	}
	got = compared(t, changed(t, "max: 2, lease: 10s", "max: 3, lease: 10s"), log, onPlan("pro", "ten_a"))
	if got.Admitted.Requests != 1 || !strings.Contains(strings.Join(got.Notes, ""), "1 requests that were refused then and are admitted now hold a place") {
		t.Errorf("%+v", got)
	}
}

func TestCompare_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	var entries []decisionlog.Entry
	for i := range int64(50_000) {
		entries = append(entries, search("ten_a", i*1000))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var shares []float64
	_, err := replay.Engine{}.Compare(ctx, documentOf(t, testPolicy), documentOf(t, testPolicy), logOf(entries...), onPlan("pro", "ten_a"), func(share float64) {
		if shares = append(shares, share); share > 0.5 {
			cancel()
		}
	})
	if err == nil || len(shares) < 10 || !slices.IsSorted(shares) || shares[len(shares)-1] > 0.9 {
		t.Errorf("%v after %v", err, shares)
	}
}

func TestCompare_AnEmptyLogChangesNothing(t *testing.T) {
	t.Parallel()
	got := compared(t, testPolicy, memoryLog{}, nil)
	if got.Entries != 0 || got.Rows == nil || got.Notes == nil || len(got.Notes) != 0 {
		t.Errorf("%+v", got)
	}
}

// A gateway that has not heard of a refund goes on refusing for a moment; the replay
// refuses what it refused.
func TestCompare_FollowsARefusalFromBeforeARefund(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(testPolicy, "uses: [search]", "uses: [search]\n    cost: {reserve: 4, settle_header: X-Cost}", 1)
	d := documentOf(t, doc)
	ask := func(afterMillis int64, ref uint64, allowed, cached bool) decisionlog.Entry {
		e := search("ten_a", afterMillis)
		e.Cost, e.Ref, e.Allowed, e.Cached = 4, ref, allowed, cached
		if !allowed {
			e.Reason, e.Limit = "limit", "shared:search"
		}
		return e
	}
	settle := decisionlog.Entry{Kind: decisionlog.KindSettle, At: start + 2000, Ref: 1}
	for after, want := range map[int64]int64{900: 0, 1500: 1} {
		log := logOf(ask(0, 1, true, false), ask(1, 0, false, false), settle, ask(after, 0, false, true))
		got, err := replay.Engine{}.Compare(t.Context(), d, d, log, onPlan("pro", "ten_a"), nil)
		if err != nil || got.Differs != want || got.Both.Refused != 2-want {
			t.Errorf("after %d ms: %v, %+v", after, err, got)
		}
	}
}
