package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// engine plays the gateways' engine.
type engine struct {
	mu      sync.Mutex
	version int64
	answer  func(console.ProbeQuestion) console.ProbeAnswer
	asked   []console.ProbeQuestion
	err     error
}

func (f *engine) Version() int64 { return f.version }

func (f *engine) Ask(_ context.Context, questions []console.ProbeQuestion) (out []console.ProbeAnswer, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range questions {
		f.asked = append(f.asked, q)
		a := console.ProbeAnswer{Allowed: true, Status: 200, Deciding: -1}
		if f.answer != nil {
			a = f.answer(q)
		}
		if a.Route == "" {
			a.Route = q.Route
		}
		out = append(out, a)
	}
	return out, f.err
}

// refusing is a refusal by one limit.
func refusing(reason limiter.Reason, wait time.Duration, l console.ProbeLimit) func(console.ProbeQuestion) console.ProbeAnswer {
	return func(console.ProbeQuestion) console.ProbeAnswer {
		l.Violated, l.Wait = true, wait
		return console.ProbeAnswer{Status: 429, Code: "quota-exceeded", Reason: string(reason), Deciding: 0, RetryAfter: wait, Limits: []console.ProbeLimit{l}}
	}
}

func planLimit() console.ProbeLimit {
	return console.ProbeLimit{ID: "plan.requests", Kind: "rate", Limit: 60, Window: time.Minute, Burst: 60, Cost: 1, Source: "plan free"}
}

// explaining is an environment with a policy in force, a tenant and an engine.
type explaining struct {
	*env
	engine *engine
	live   *usage.Live
	ask    *console.Explainer
	acme   console.Tenant
}

func newExplaining(t *testing.T) *explaining {
	t.Helper()
	e := &explaining{env: newEnv(t), engine: &engine{version: 1}}
	e.publish(t, "60", 0)
	e.clock.add(48 * time.Hour) // no publication of late
	e.live = usage.NewLive(usage.LiveConfig{Now: e.clock.now})
	e.ask = console.NewExplainer(e.deps, e.fleet, e.live, e.engine)
	e.acme = e.tenant(t, "Acme")
	return e
}

func (e *explaining) explain(t *testing.T, q console.ExplainQuestion) console.Explanation {
	t.Helper()
	out, err := e.ask.Ask(e.ctx, as(console.RoleViewer), q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return out
}

// says fails unless the explanation has the outcome and its sentence all the words.
func says(t *testing.T, what string, e console.Explanation, outcome console.ExplainOutcome, whose string, words ...string) {
	t.Helper()
	if e.Outcome != outcome || e.Whose != whose {
		t.Errorf("%s: %s, %q; want %s, %q", what, e.Outcome, e.Whose, outcome, whose)
	}
	for _, w := range words {
		if !strings.Contains(e.Sentence, w) {
			t.Errorf("%s: %q lacks %q", what, e.Sentence, w)
		}
	}
	if whose != "" && (e.Why == "" || e.Customer == "") {
		t.Errorf("%s: why %q, for the customer %q", what, e.Why, e.Customer)
	}
	for _, internal := range []string{"plan.", "route:", "shared:", "Redis", "burst", "kid", "policy", "null", "%!", "route"} {
		if strings.Contains(e.Customer, internal) {
			t.Errorf("%s: the customer is told of %q: %q", what, internal, e.Customer)
		}
	}
}

// traffic books seconds of requests of the tenant, from so many seconds ago.
func (e *explaining) traffic(seq int64, from, to, admitted, refused int64) {
	now := e.clock.now().Unix()
	b := usage.Batch{Replica: "gw", Boot: "b", Seq: seq, Through: now - to}
	for s := now - from; s <= now-to; s++ {
		if admitted > 0 {
			b.Rows = append(b.Rows, usage.Row{Second: s, Tenant: e.acme.ID, Route: "everything", Outcome: usage.OutcomeAdmitted, Requests: admitted, Cost: admitted})
		}
		if refused > 0 {
			b.Rows = append(b.Rows, usage.Row{Second: s, Tenant: e.acme.ID, Route: "everything", Outcome: usage.OutcomeLimited, Limit: "plan.requests", Requests: refused})
		}
	}
	e.live.Apply(b)
}

func TestExplain_ATenantThatIsRefused(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	e.engine.answer = refusing(limiter.ReasonLimit, 18*time.Second, planLimit())
	out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID})
	says(t, "by id", out, console.OutcomeRefused, console.WhoseTheirs, "Acme is refused on route everything by plan free, 60/minute, burst 60 per tenant",
		"60 of its burst of 60 used", "clear in 18 s", "not related to v1")
	if len(out.Ladder) != 1 || !out.Ladder[0].Deciding || !out.Ladder[0].Known || out.Ladder[0].Used != 60 || len(out.Ladder[0].Steps) != 1 {
		t.Errorf("%+v", out.Ladder)
	}
	if len(out.Actions) != 2 || out.Actions[0].Act != console.ActBoost || out.Actions[0].Limit != "plan.requests" || out.Actions[1].Act != console.ActReset {
		t.Errorf("%+v", out.Actions)
	}
	if !strings.Contains(out.FailMode, "300/minute") {
		t.Errorf("fail mode %q", out.FailMode)
	}
	says(t, "by name", e.explain(t, console.ExplainQuestion{Tenant: "acme"}), console.OutcomeRefused, console.WhoseTheirs, "Acme is refused")
	if _, err := e.ask.Ask(e.ctx, owner, console.ExplainQuestion{Tenant: "nobody"}); !console.IsNotFound(err) {
		t.Errorf("an unknown tenant: %v", err)
	}
	e.tenant(t, "Acme West")
	says(t, "the exact name of two that begin so", e.explain(t, console.ExplainQuestion{Tenant: "Acme"}), console.OutcomeRefused, console.WhoseTheirs, "Acme is refused")
	e.tenant(t, "Acme East")
	_, err := e.ask.Ask(e.ctx, owner, console.ExplainQuestion{Tenant: "acme " + "e"})
	if err != nil {
		t.Errorf("a part of one name: %v", err)
	}
	wantCode(t, ignore(e.ask.Ask(e.ctx, owner, console.ExplainQuestion{Tenant: "acm"})), console.CodeInvalid)
}

func ignore(_ console.Explanation, err error) error { return err }

func TestExplain_SinceWhenAndThatTrafficRose(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	e.traffic(1, 900, 300, 1, 0)
	e.traffic(2, 299, 2, 1, 3)
	e.engine.answer = refusing(limiter.ReasonLimit, time.Second, planLimit())
	out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID})
	says(t, "risen", out, console.OutcomeRefused, console.WhoseTheirs, "since 11:5", "when traffic rose 4×")
	if tr := out.Traffic; !tr.Known || tr.LastHour.Refused != 3*298 || tr.LastMinute.Refused == 0 || len(tr.ByLimit) != 1 || len(tr.ByRoute) != 1 {
		t.Errorf("%+v", tr)
	}
	e.engine.answer = func(console.ProbeQuestion) console.ProbeAnswer {
		return console.ProbeAnswer{Allowed: true, Status: 200, Deciding: -1, Limits: []console.ProbeLimit{{ID: "plan.requests", Kind: "rate", Burst: 60, Left: 1, Source: "plan free"}}}
	}
	says(t, "a moment later", e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID}), console.OutcomeAtTimes, console.WhoseTheirs, "is refused at times", "in the last minute", "one more would pass now")
	at := e.clock.now().Add(-10 * time.Minute)
	if out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID, At: &at}); out.Traffic.Then == nil || out.Traffic.Then.Requests != 60 || out.Traffic.Then.Refused != 0 || out.Traffic.ThenVersion != 1 {
		t.Errorf("ten minutes ago: %+v", out.Traffic.Then)
	}
}

func TestExplain_EachKindOfLimitInItsWords(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	quota := console.ProbeLimit{ID: "plan.quota", Kind: "quota", Limit: 100000, Cost: 1, Source: "plan free"}
	blocked, boosted, global := planLimit(), planLimit(), planLimit()
	blocked.Blocked, boosted.Source = true, policy.SourceBoost
	global.ID = "global.all"
	big := planLimit()
	big.Cost, big.Left = 90, 60
	for name, want := range map[string]struct {
		answer func(console.ProbeQuestion) console.ProbeAnswer
		whose  string
		words  []string
	}{
		"quota":       {refusing(limiter.ReasonQuota, 100*time.Hour, quota), console.WhoseTheirs, []string{"the quota of plan free", "100000 of 100000 used", "clear on 6 December"}},
		"concurrency": {refusing(limiter.ReasonConcurrency, 0, console.ProbeLimit{ID: "route:everything.concurrency", Kind: "concurrency", Limit: 2, Source: "route everything"}), console.WhoseTheirs, []string{"2 at once", "2 of 2 places taken", "as soon as one of them ends"}},
		"nothing":     {refusing(limiter.ReasonBlocked, 0, blocked), console.WhoseOurs, []string{"waiting does not help"}},
		"boosted":     {refusing(limiter.ReasonLimit, time.Second, boosted), console.WhoseTheirs, []string{"although it is boosted"}},
		"too much":    {refusing(limiter.ReasonCostExceedsBurst, 0, big), console.WhoseTheirs, []string{"one request costs 90, and it can hold 60", "waiting does not help"}},
	} {
		e.engine.answer = want.answer
		says(t, name, e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID}), console.OutcomeRefused, want.whose, want.words...)
	}
}

func TestExplain_RefusalsForWhichNoLimitStands(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	for name, want := range map[string]struct {
		code   string
		status int
		whose  string
		words  string
	}{
		"no route":      {"no-route", 404, console.WhoseTheirs, "gets 404 on GET /v9: no route"},
		"plan":          {"plan-unknown", 503, console.WhoseOurs, "has no plan free"},
		"identity":      {"identity-unavailable", 503, console.WhoseOurs, "with 503"},
		"bad request":   {"bad-request", 400, console.WhoseTheirs, "with 400 (bad-request)"},
		"missing key":   {"missing-credential", 401, console.WhoseTheirs, "with 401"},
		"store failure": {"temporary-reduced-capacity", 503, console.WhoseOurs, "with 503"},
	} {
		e.engine.answer = func(console.ProbeQuestion) console.ProbeAnswer {
			return console.ProbeAnswer{Status: want.status, Code: want.code, Deciding: -1}
		}
		says(t, name, e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID, Method: "get", Path: "/v9"}), console.OutcomeRefused, want.whose, want.words)
	}
	if last := e.engine.asked[len(e.engine.asked)-1]; last.Method != "GET" || last.Path != "/v9" || last.Tenant != e.acme.ID {
		t.Errorf("asked %+v", last)
	}
}

func TestExplain_AQuotaWhoseCounterWasLost(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	beat := e.feed.beat("gw_aaaaaaaaaaaaaaaa", 1, "", 0)
	beat.Usage = &policy.UsageStanding{}
	e.feed.set(func() { e.feed.beats = []policy.Heartbeat{beat} })
	e.engine.answer = func(console.ProbeQuestion) console.ProbeAnswer {
		return console.ProbeAnswer{Status: 503, Code: "temporary-reduced-capacity", Reason: string(limiter.ReasonClosed), Deciding: -1}
	}
	says(t, "lost", e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID}), console.OutcomeRefused, console.WhoseOurs, "was lost, and is being rebuilt from the ledger")
	if !e.engine.asked[0].Recorded {
		t.Error("the engine was not told that there is a ledger")
	}
}

func TestExplain_RedisAwaySaysWhatHoldsInstead(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	e.feed.set(func() { e.feed.down = errors.New("away") })
	e.clock.add(10 * time.Second) // the snapshot of before is too old
	out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID})
	says(t, "open", out, console.OutcomeUnknown, console.WhoseOurs, "Redis cannot be asked since", "1 go on within their fallback", "0 are closed")
	if len(out.Ladder) == 0 || out.Ladder[0].Known || out.Ladder[0].Text != "60/minute, burst 60" || len(out.Ladder[0].Steps) == 0 {
		t.Errorf("what holds without Redis: %+v", out.Ladder)
	}
	if len(e.engine.asked) != 0 {
		t.Error("the engine was asked although Redis is away")
	}
}

func TestExplain_RedisAwayAndClosed(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	closed := strings.Replace(string(document("60")), "{mode: open, fallback: {rate: 300/minute, burst: 300}}", "{mode: closed}", 1)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(closed), nil, 1, console.PublishOptions{Note: "close", Confirmed: nil}); err != nil {
		var refused *console.Error
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		t.Fatalf("publish: %v", err)
	}
	e.feed.set(func() { e.feed.down = errors.New("away") })
	e.clock.add(10 * time.Second)
	out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID})
	says(t, "closed", out, console.OutcomeRefused, console.WhoseOurs, "is refused", "with 503, as is everybody else")
}

func TestExplain_TenantsThatAreNotActive(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	if _, err := e.tenants.Suspend(e.ctx, owner, e.acme.ID, "unpaid"); err != nil {
		t.Fatal(err)
	}
	e.engine.answer = func(console.ProbeQuestion) console.ProbeAnswer {
		return console.ProbeAnswer{Status: 403, Code: "tenant-suspended", Deciding: -1}
	}
	out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID})
	says(t, "suspended", out, console.OutcomeRefused, console.WhoseOurs, "Acme is suspended (unpaid)")
	if len(out.Actions) != 1 || out.Actions[0].Act != console.ActResume || out.Actions[0].TenantID != e.acme.ID {
		t.Errorf("%+v", out.Actions)
	}
	if _, err := e.tenants.Delete(e.ctx, owner, e.acme.ID, "gone"); err != nil {
		t.Fatal(err)
	}
	says(t, "deleted", e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID}), console.OutcomeRefused, console.WhoseOurs, "was deleted")
}

func TestExplain_KeysAsGatewaysSeeThem(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	issued := e.issue(t, e.acme.ID)
	secret, kid := issued.Secret.Reveal(), issued.KeyVersion.KID
	e.engine.answer = refusing(limiter.ReasonLimit, time.Second, planLimit())
	for name, q := range map[string]console.ExplainQuestion{"kid": {Key: kid}, "whole": {Key: secret}, "with spaces": {Key: "  " + secret + "\n"}} {
		out := e.explain(t, q)
		says(t, name, out, console.OutcomeRefused, console.WhoseTheirs, "Acme is refused")
		if k := out.Key; k == nil || !k.Known || !k.Accepted || k.KID != kid || k.Secret == (name == "kid") {
			t.Errorf("%s: %+v", name, out.Key)
		}
		raw, err := json.Marshal(out)
		if err != nil || strings.Contains(string(raw), secret) || strings.Contains(string(raw), secret[len(secret)-30:]) {
			t.Errorf("%s: the key comes back: %v", name, err)
		}
	}
	if e.engine.asked[0].Tenant+e.engine.asked[0].Key == "" {
		t.Error("nothing was asked")
	}
	ops := e.operatorToken(t)
	for name, want := range map[string]struct{ key, says string }{
		"of a wrong checksum": {secret[:len(secret)-1] + flipped(secret[len(secret)-1]), "not copied whole"},
		"unknown":             {"zzzzzzzzzzzz", "no key with this kid was ever issued here"},
		"an operator's":       {ops, "an operator's API token"},
		"nonsense":            {"my_password", "no key of this product"},
	} {
		out := e.explain(t, console.ExplainQuestion{Key: want.key})
		if out.Outcome != console.OutcomeRefused || out.Key.Accepted || !strings.Contains(out.Sentence, want.says) || strings.Contains(out.Sentence, want.key) && name != "unknown" {
			t.Errorf("%s: %s: %q", name, out.Outcome, out.Sentence)
		}
	}
	if _, err := e.keys.Suspend(e.ctx, owner, kid, "look"); err != nil {
		t.Fatal(err)
	}
	says(t, "suspended", e.explain(t, console.ExplainQuestion{Key: kid}), console.OutcomeRefused, console.WhoseOurs, "is suspended, and can be resumed")
	if _, err := e.keys.Revoke(e.ctx, owner, kid, "leak"); err != nil {
		t.Fatal(err)
	}
	says(t, "revoked", e.explain(t, console.ExplainQuestion{Key: kid}), console.OutcomeRefused, console.WhoseTheirs, "was revoked on", "(leak)")
	soon := e.clock.now().Add(time.Hour)
	short, err := e.keys.IssueCredential(e.ctx, owner, e.acme.ID, console.NewCredential{Name: "short", Environment: "live", ExpiresAt: &soon})
	if err != nil {
		t.Fatal(err)
	}
	e.clock.add(2 * time.Hour)
	says(t, "expired", e.explain(t, console.ExplainQuestion{Key: short.KeyVersion.KID}), console.OutcomeRefused, console.WhoseTheirs, "expired on")
}

func flipped(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// operatorToken is an API token.
func (e *explaining) operatorToken(t *testing.T) string {
	t.Helper()
	o := e.operator(t, "ops@example.com", console.RoleOwner)
	token, _, err := e.operators.IssueToken(e.ctx, console.SystemActor(), o.ID, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestExplain_RelatesToTheVersionThatChangedTheLimit(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	e.publish(t, "50", 1)
	e.engine.version = 2
	own := planLimit()
	own.ID, own.Source, own.Burst = "route:everything.all", "route everything", 50
	e.engine.answer = refusing(limiter.ReasonLimit, time.Second, own)
	out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID})
	says(t, "changed", out, console.OutcomeRefused, console.WhoseOurs, "v2 changed it at")
	if out.Version.Related != 2 || out.Version.Change == "" {
		t.Errorf("%+v", out.Version)
	}
	e.engine.answer = refusing(limiter.ReasonLimit, time.Second, planLimit())
	says(t, "another limit", e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID}), console.OutcomeRefused, console.WhoseTheirs, "not related to v2")
	e.engine.version = 1
	if out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID}); !strings.Contains(strings.Join(out.Notes, " "), "Redis has v1, and v2 is in force") {
		t.Errorf("notes %q", out.Notes)
	}
}

func TestExplain_RefusesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	later := e.clock.now().Add(time.Hour)
	for name, q := range map[string]console.ExplainQuestion{
		"nothing": {}, "no address": {IP: "300.1.1.1"}, "no path": {Tenant: "x", Path: "v1"}, "too long": {Tenant: strings.Repeat("x", 2000)}, "the future": {Tenant: e.acme.ID, At: &later},
	} {
		if err := ignore(e.ask.Ask(e.ctx, owner, q)); console.CodeOf(err) != console.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, role := range []console.Role{console.RoleTenantAdmin, console.RoleTenantViewer} {
		wantCode(t, ignore(e.ask.Ask(e.ctx, console.Actor{Role: role, Via: console.ViaPortal, TenantID: e.acme.ID}, console.ExplainQuestion{Tenant: e.acme.ID})), console.CodeForbidden)
	}
}

func TestExplain_AddressesAndAccountsAskTheRoutesThatCountThem(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	out := e.explain(t, console.ExplainQuestion{IP: "203.0.113.9"})
	if out.Outcome != console.OutcomeUnknown || !strings.Contains(strings.Join(out.Notes, " "), "No route of the policy counts") || !strings.Contains(out.Sentence, "whether the address 203.0.113.9 is refused") {
		t.Errorf("%s %q %q", out.Outcome, out.Sentence, out.Notes)
	}
	login := string(document("60")) + `  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: account, per: "body:username", rate: 5/minute, burst: 5}, {name: net, per: ip, rate: 5/minute, burst: 5}]
    on_store_failure: {mode: closed}
`
	if _, err := e.policies.Publish(e.ctx, owner, []byte(login), nil, 1, console.PublishOptions{Note: "login"}); err != nil {
		t.Fatal(err)
	}
	e.engine.answer = func(q console.ProbeQuestion) console.ProbeAnswer {
		return console.ProbeAnswer{Status: 429, Code: "quota-exceeded", Bare: true, Reason: "limit", Deciding: 0, RetryAfter: 12 * time.Second, Limits: []console.ProbeLimit{
			{ID: "route:login.account", Kind: "rate", Limit: 5, Window: time.Minute, Burst: 5, Violated: true, Wait: 12 * time.Second, Source: "route login"},
			{ID: "route:login.net", Kind: "rate", Limit: 5, Window: time.Minute, Burst: 5, Left: 5, Source: "route login"}}}
	}
	e.engine.asked = nil
	out = e.explain(t, console.ExplainQuestion{Account: "ada@example.com"})
	says(t, "account", out, console.OutcomeRefused, console.WhoseTheirs, "The account ada@example.com is refused on POST /login by route login", "clear in 12 s")
	if q := e.engine.asked; len(q) != 1 || q[0].Fields["username"] != "ada@example.com" || q[0].Route != "login" {
		t.Errorf("asked %+v", q)
	}
	if len(out.Actions) != 1 || out.Actions[0].Act != console.ActUnlock || out.Actions[0].Subject != "ada@example.com" {
		t.Errorf("%+v", out.Actions)
	}
	if l := out.Ladder[1]; l.Known || l.Missing != "an address" {
		t.Errorf("a limit per address without one: %+v", l)
	}
	out = e.explain(t, console.ExplainQuestion{IP: "::ffff:203.0.113.9"})
	if l := out.Ladder[0]; l.Known || l.Missing != "an account" || e.engine.asked[1].Client.String() != "203.0.113.9" {
		t.Errorf("%+v, asked for %s", l, e.engine.asked[1].Client)
	}
}

func TestExplain_ManyRoutesAreAskedTheBusiestFirst(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	doc := string(document("60"))
	for i := range 80 {
		doc += fmt.Sprintf("  - {name: r%d, match: [\"GET /r%d\"], identity: api_key, motive: fairness, on_store_failure: {mode: closed}}\n", i, i)
	}
	if _, err := e.policies.Publish(e.ctx, owner, []byte(doc), nil, 1, console.PublishOptions{Note: "many"}); err != nil {
		t.Fatal(err)
	}
	now := e.clock.now().Unix()
	e.live.Apply(usage.Batch{Replica: "gw", Boot: "b", Seq: 1, Through: now, Rows: []usage.Row{{Second: now - 300, Tenant: e.acme.ID, Route: "r79", Outcome: usage.OutcomeLimited, Limit: "plan.requests", Requests: 9}}})
	out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID})
	if len(e.engine.asked) != 60 || e.engine.asked[0].Route != "r79" || out.LeftOut != 21 {
		t.Errorf("%d asked, %q first, %d left out", len(e.engine.asked), e.engine.asked[0].Route, out.LeftOut)
	}
	names, err := e.ask.Routes(e.ctx)
	if err != nil || len(names) != 81 {
		t.Errorf("%d routes, %v", len(names), err)
	}
	e.engine.err = errors.New("too slow")
	if out := e.explain(t, console.ExplainQuestion{Tenant: e.acme.ID, Route: "nosuch"}); !strings.Contains(strings.Join(out.Notes, " "), "has no route nosuch") {
		t.Errorf("%q", out.Notes)
	}
}
