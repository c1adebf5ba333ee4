package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

func TestAlerts_QuotaThatCrossesItsMarkIsToldOnceToEachChannel(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme := w.tenant(t, "Acme")
	hook, mail := w.channel(t, console.ChannelWebhook, "https://hooks.example/a"), w.channel(t, console.ChannelMail, "Ann <ann@example.com>")
	rule := w.rule(t, console.AlertQuotaUsed, 80, hook, mail)
	w.quotas.use(acme, 79, 100)
	w.look(t, 0)
	w.deliver(t)
	if len(w.open(t)) != 0 || len(w.outside.got()) != 0 {
		t.Fatal("79 % is told")
	}
	w.quotas.use(acme, 82, 100)
	for range 3 { // several evaluations, and one by another console
		w.look(t, 10*time.Second)
	}
	if err := w.another().Evaluate(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.deliver(t)
	open := w.open(t)
	if len(open) != 1 || open[0].RuleID != rule.ID || open[0].Object != acme.ID || open[0].Value != 82 || open[0].ToldAt == nil {
		t.Fatalf("%+v", open)
	}
	calls := w.outside.got()
	slices.SortFunc(calls, func(a, b outsideCall) int { return strings.Compare(a.to, b.to) })
	if len(calls) != 2 || calls[0].to != "ann@example.com" || calls[1].to != "https://hooks.example/a" {
		t.Fatalf("%+v", calls)
	}
	if !strings.Contains(calls[0].subject, "82 % of the quota of Acme is used") || !strings.Contains(calls[0].body, "https://console.example/alerts") {
		t.Errorf("mail %+v", calls[0])
	}
	var m console.AlertMessage
	if err := json.Unmarshal([]byte(calls[1].body), &m); err != nil || m.Type != console.EventOpened || m.Data.Value != 82 || m.Data.Threshold != 80 || m.Data.Unit != "percent" || m.Data.Alert != open[0].ID {
		t.Errorf("%v: %+v", err, m)
	}
	if len(calls[1].secrets) != 1 || calls[1].secrets[0] != hook.Secret {
		t.Error("it is not signed with the secret that was shown")
	}
}

func TestAlerts_WhatIsOverIsToldAfterItHasSettled(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme := w.tenant(t, "Acme")
	w.rule(t, console.AlertQuotaUsed, 80, w.channel(t, console.ChannelWebhook, "https://hooks.example/a"))
	w.quotas.use(acme, 90, 100)
	w.look(t, 0)
	w.quotas.use(acme, 10, 100) // it comes and goes
	w.look(t, 10*time.Second)
	w.quotas.use(acme, 90, 100)
	w.look(t, 10*time.Second)
	w.quotas.use(acme, 10, 100)
	w.look(t, 10*time.Second)
	if len(w.open(t)) != 1 {
		t.Fatal("it is over at once")
	}
	w.look(t, 31*time.Second)
	w.deliver(t)
	var events []string
	for _, v := range w.deliveries(t) {
		events = append(events, v.Event)
	}
	if len(w.open(t)) != 0 || !slices.Equal(events, []string{console.EventResolved, console.EventOpened}) {
		t.Fatalf("%v", events)
	}
}

func TestAlerts_WhatNobodyKnowsStaysAsItIs(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme := w.tenant(t, "Acme")
	w.rule(t, console.AlertQuotaUsed, 80)
	w.quotas.use(acme, 90, 100)
	w.look(t, 0)
	w.quotas.mu.Lock()
	w.quotas.fail, w.quotas.by = errNoAnswer, map[string]console.QuotaStanding{}
	w.quotas.mu.Unlock()
	for range 5 {
		w.look(t, time.Minute)
	}
	if len(w.open(t)) != 1 {
		t.Error("an alert was resolved because nobody knew")
	}
}

func TestAlerts_ASilenceHoldsBackAndWhatIsStillSoIsToldAfterIt(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme, other := w.tenant(t, "Acme"), w.tenant(t, "Other")
	rule := w.rule(t, console.AlertQuotaUsed, 80, w.channel(t, console.ChannelWebhook, "https://hooks.example/a"))
	if _, err := w.alerts.Silence(w.ctx, as(console.RoleSupport), console.NewSilence{RuleID: rule.ID, Object: acme.ID, For: time.Hour, Reason: "known"}); err != nil {
		t.Fatal(err)
	}
	w.quotas.use(acme, 90, 100)
	w.quotas.use(other, 90, 100)
	w.look(t, 0)
	w.deliver(t)
	if calls := w.outside.got(); len(w.open(t)) != 2 || len(calls) != 1 || !strings.Contains(calls[0].body, other.ID) {
		t.Fatalf("%d open, %+v", len(w.open(t)), calls)
	}
	w.look(t, 2*time.Hour)
	w.deliver(t)
	if calls := w.outside.got(); len(calls) != 2 || !strings.Contains(calls[1].body, acme.ID) {
		t.Fatalf("after the silence: %+v", calls)
	}
	for _, in := range []console.NewSilence{{For: time.Second, Reason: "x"}, {For: time.Hour}, {For: 40 * 24 * time.Hour, Reason: "x"}} {
		_, err := w.alerts.Silence(w.ctx, owner, in)
		wantCode(t, err, console.CodeInvalid)
	}
	_, err := w.alerts.Silence(w.ctx, owner, console.NewSilence{RuleID: "alr_zzzzzzzzzzzzzzzz", For: time.Hour, Reason: "x"})
	wantCode(t, err, console.CodeNotFound)
}

func TestAlerts_ASilenceCanBeEndedOnce(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	s, err := w.alerts.Silence(w.ctx, owner, console.NewSilence{For: time.Hour, Reason: "deploy"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.alerts.EndSilence(w.ctx, owner, s.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, w.alerts.EndSilence(w.ctx, owner, s.ID), console.CodeNotFound)
	if live, err := w.alerts.Silences(w.ctx, true); err != nil || len(live) != 0 {
		t.Errorf("%v %v", live, err)
	}
}

func TestAlerts_EachKindFindsWhatItLooksFor(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme := w.tenant(t, "Acme")
	soon := w.clock.now().Add(3 * 24 * time.Hour)
	if _, err := w.keys.IssueCredential(w.ctx, owner, acme.ID, console.NewCredential{Name: "short", Environment: "live", ExpiresAt: &soon}); err != nil {
		t.Fatal(err)
	}
	for _, k := range console.AlertKinds() {
		w.rule(t, k.Kind, max(k.Usual, k.Least))
	}
	w.quotas.use(acme, 85, 100)
	out := w.clock.now().Add(2 * 24 * time.Hour)
	w.quotas.ahead[acme.ID] = console.QuotaForecast{Known: true, RunsOut: &out}
	w.ledger.st = console.LedgerStanding{Gaps: []console.UsageGap{{Replica: "gw_b", Boot: "x", First: 3, Last: 5, Missing: 3, NotedAt: w.clock.now()}}}
	silent, nacked, degraded, full := w.feed.beat("gw_s", 0, "", 40*time.Second), w.feed.beat("gw_n", 0, "", 0), w.feed.beat("gw_d", 0, "", 0), w.feed.beat("gw_f", 0, "", 0)
	nacked.NACK = &policy.NACK{Version: 2, Code: "signature"}
	degraded.Mode = policy.ModeDegraded
	full.Usage = &policy.UsageStanding{SpoolBytes: 90, SpoolLimit: 100, Full: true, Unnoted: 7}
	w.beats(t, silent, nacked, degraded, full)
	if err := w.alerts.CheckTrail(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.look(t, 0)
	w.look(t, 2*time.Second)
	w.look(t, 9*time.Second)
	found := map[console.AlertKind]string{}
	for _, a := range w.open(t) {
		found[a.Kind] = a.Object
		if a.Words == "" || a.ObjectName == "" && a.Object == "" {
			t.Errorf("%s says nothing: %+v", a.Kind, a)
		}
	}
	want := map[console.AlertKind]string{
		console.AlertQuotaUsed: acme.ID, console.AlertForecast: acme.ID, console.AlertStalled: "gw_s", console.AlertNACK: "gw_n", console.AlertDegraded: "gw_d",
		console.AlertSpoolFull: "gw_f", console.AlertLedgerGap: "gw_b x 3",
	}
	for kind, object := range want {
		if found[kind] != object {
			t.Errorf("%s: %q, want %q", kind, found[kind], object)
		}
	}
	if found[console.AlertKeyExpiring] == "" {
		t.Error("the key that expires is not found")
	}
	for _, kind := range []console.AlertKind{console.AlertAuditBroken, console.AlertKeyRevoked, console.AlertRefused} {
		if found[kind] != "" {
			t.Errorf("%s is told of nothing", kind)
		}
	}
}

func TestAlerts_ForHoldsShortOnesBack(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme := w.tenant(t, "Acme")
	if _, err := w.alerts.AddRule(w.ctx, owner, console.AlertRuleInput{Name: "a", Kind: console.AlertQuotaUsed, Threshold: 80, For: time.Minute, Enabled: true}); err != nil {
		t.Fatal(err)
	}
	w.quotas.use(acme, 90, 100)
	w.look(t, 0)
	w.look(t, 50*time.Second)
	if len(w.open(t)) != 0 {
		t.Fatal("it is told before its time")
	}
	w.quotas.use(acme, 10, 100)
	w.look(t, 6*time.Second)
	w.quotas.use(acme, 90, 100)
	w.look(t, 6*time.Second)
	w.look(t, 50*time.Second)
	if len(w.open(t)) != 0 {
		t.Fatal("a break does not begin it anew")
	}
	w.look(t, 15*time.Second)
	if len(w.open(t)) != 1 {
		t.Fatal("it is never told")
	}
}

func TestAlerts_RisenShareOfRefusalsIsTold(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	w.rule(t, console.AlertRefused, 10)
	now := w.clock.now().Unix()
	b := usage.Batch{Replica: "gw_1", Boot: "b", Seq: 1, Through: now}
	for s := now - 1800; s < now; s++ {
		refused := int64(0)
		if s >= now-65 {
			refused = 5
		}
		b.Rows = append(b.Rows, usage.Row{Second: s, Tenant: "ten_x", Route: "r", Outcome: usage.OutcomeAdmitted, Requests: 10, Cost: 10},
			usage.Row{Second: s, Tenant: "ten_x", Route: "r", Outcome: usage.OutcomeLimited, Limit: "plan.requests", Requests: refused})
	}
	w.live.Live().Apply(b)
	w.look(t, 0)
	open := w.open(t)
	if len(open) != 1 || !strings.Contains(open[0].Words, "33 %") {
		t.Fatalf("%+v", open)
	}
}

func TestAlerts_UseOfARevokedKeyIsFoundInTheTrail(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	w.rule(t, console.AlertKeyRevoked, 60)
	_, err := w.pool(t).Exec(w.ctx, `INSERT INTO audit_events (seq, at, actor_id, actor, role, via, action, object, object_id, tenant_id, after, reason, ip, request_id, prev_hash, hash)
		VALUES (1000, $1, '', 'headgate', '', 'system', 'key.used-revoked', 'key', '0123456789AB', '', '{"network":"192.0.2.0/24"}', '', '', '', decode(repeat('22', 32), 'hex'), decode(repeat('11', 32), 'hex'))`, w.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	w.look(t, 0)
	if open := w.open(t); len(open) != 1 || !strings.Contains(open[0].Words, "192.0.2.0/24") {
		t.Fatalf("%+v", open)
	}
	w.look(t, 61*time.Minute)
	w.look(t, 31*time.Second)
	if open := w.open(t); len(open) != 0 {
		t.Fatalf("it never ends: %+v", open)
	}
}

func TestAlerts_ABrokenTrailIsTold(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	w.rule(t, console.AlertAuditBroken, 0)
	w.tenant(t, "Acme")
	look := func() int {
		if err := w.alerts.CheckTrail(w.ctx); err != nil {
			t.Fatal(err)
		}
		w.look(t, time.Second)
		return len(w.open(t))
	}
	if look() != 0 {
		t.Fatal("a whole trail is called broken")
	}
	w.beats(t, func() policy.Heartbeat { b := w.feed.beat("gw", 0, "", 0); b.AuditHead = 99; return b }()) // rows that this trail no longer has
	if look() != 1 {
		t.Fatal("a trail that ends too early is not told")
	}
	w.beats(t, w.feed.beat("gw", 0, "", 0))
	look()
	w.look(t, 31*time.Second)
	if look() != 0 {
		t.Fatal("it never ends")
	}
	if _, err := w.pool(t).Exec(w.ctx, `ALTER TABLE audit_events DISABLE TRIGGER USER; UPDATE audit_events SET reason = 'changed' WHERE seq = 1`); err != nil {
		t.Fatal(err)
	}
	w.clock.add(2 * time.Hour) // the whole of it is walked now and then
	if look() != 1 {
		t.Fatal("a changed row is not told")
	}
}

func TestAlerts_RulesAreCheckedAndChangedByThoseWhoMay(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	for name, in := range map[string]console.AlertRuleInput{
		"no name": {Kind: console.AlertNACK}, "kind": {Name: "a", Kind: "nonsense"}, "low": {Name: "a", Kind: console.AlertQuotaUsed}, "high": {Name: "a", Kind: console.AlertKeyExpiring, Threshold: 31},
		"channel": {Name: "a", Kind: console.AlertNACK, Channels: []string{"chn_zzzzzzzzzzzzzzzz"}}, "for": {Name: "a", Kind: console.AlertNACK, For: 25 * time.Hour}, "fraction": {Name: "a", Kind: console.AlertNACK, For: time.Millisecond},
		"own": {Name: "a", Kind: console.AlertMarkQuota, Threshold: 80},
	} {
		_, err := w.alerts.AddRule(w.ctx, owner, in)
		wantCodeNamed(t, name, err, console.CodeInvalid)
	}
	r := w.rule(t, console.AlertQuotaUsed, 80)
	changed, err := w.alerts.ChangeRule(w.ctx, owner, r.ID, console.AlertRuleInput{Name: "b", Kind: console.AlertNACK, Threshold: 90})
	if err != nil || changed.Kind != console.AlertQuotaUsed || changed.Threshold != 90 || changed.Enabled {
		t.Errorf("%+v %v", changed, err)
	}
	w.refuse(t, console.PermManageAlerts,
		func(a console.Actor) error {
			_, err := w.alerts.AddRule(w.ctx, a, console.AlertRuleInput{Name: "a", Kind: console.AlertNACK})
			return err
		},
		func(a console.Actor) error {
			_, err := w.alerts.ChangeRule(w.ctx, a, r.ID, console.AlertRuleInput{})
			return err
		},
		func(a console.Actor) error { return w.alerts.RemoveRule(w.ctx, a, r.ID) },
		func(a console.Actor) error {
			_, err := w.alerts.AddChannel(w.ctx, a, console.AlertChannelInput{})
			return err
		},
		func(a console.Actor) error { _, err := w.alerts.Test(w.ctx, a, "chn_zzzzzzzzzzzzzzzz"); return err },
		func(a console.Actor) error { return w.alerts.Redeliver(w.ctx, a, "dlv_zzzzzzzzzzzzzzzz") })
	w.refuse(t, console.PermSilenceAlerts,
		func(a console.Actor) error {
			_, err := w.alerts.Silence(w.ctx, a, console.NewSilence{For: time.Hour, Reason: "x"})
			return err
		},
		func(a console.Actor) error { return w.alerts.EndSilence(w.ctx, a, "sil_zzzzzzzzzzzzzzzz") })
	if err := w.alerts.RemoveRule(w.ctx, owner, r.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, w.alerts.RemoveRule(w.ctx, owner, r.ID), console.CodeNotFound)
	if got := w.actions(t); !slices.Equal(got, []string{"alert.add-rule", "alert.change-rule", "alert.remove-rule"}) {
		t.Errorf("%v", got)
	}
}

func TestAlerts_AlertsOfARemovedRuleAreOver(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme := w.tenant(t, "Acme")
	r := w.rule(t, console.AlertQuotaUsed, 80)
	w.quotas.use(acme, 90, 100)
	w.look(t, 0)
	if err := w.alerts.RemoveRule(w.ctx, owner, r.ID); err != nil {
		t.Fatal(err)
	}
	w.look(t, 2*time.Second)
	all, _, err := w.alerts.List(w.ctx, console.AlertQuery{})
	if err != nil || len(all) != 1 || all[0].Open() || all[0].Resolution == "" {
		t.Errorf("%+v %v", all, err)
	}
}

// Several consoles that evaluate at the same time, which the relay's lock keeps from
// happening, still open one alert and write one message.
func TestAlerts_ManyAtOnceOpenOne(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme := w.tenant(t, "Acme")
	w.rule(t, console.AlertQuotaUsed, 80, w.channel(t, console.ChannelWebhook, "https://hooks.example/a"))
	w.quotas.use(acme, 90, 100)
	var all sync.WaitGroup
	for range 4 {
		a := w.another()
		all.Go(func() {
			if err := a.Evaluate(context.WithoutCancel(w.ctx)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, m := len(w.open(t)), len(w.deliveries(t)); n != 1 || m != 1 {
		t.Errorf("%d alerts, %d messages", n, m)
	}
}

func TestAlerts_NoNameBecomesAHeaderOrAnotherLine(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	w.rule(t, console.AlertQuotaUsed, 80, w.channel(t, console.ChannelMail, "ann@example.com"))
	w.quotas.by["ten_x"] = console.QuotaStanding{TenantID: "ten_x", TenantName: "A\r\nBcc: eve@example.com\u2028" + strings.Repeat("x", 300), Amount: 100, Ledger: 90}
	w.look(t, 0)
	w.deliver(t)
	calls := w.outside.got()
	if len(calls) != 1 || strings.ContainsAny(calls[0].subject, "\r\n\u2028") || len([]rune(calls[0].subject)) > 150 {
		t.Errorf("%q", calls)
	}
}

func TestAlerts_ListsPageByPage(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	w.rule(t, console.AlertQuotaUsed, 80)
	for i := range 7 {
		w.quotas.by[fmt.Sprint("ten_", i)] = console.QuotaStanding{TenantID: fmt.Sprint("ten_", i), TenantName: "T", Amount: 100, Ledger: 90}
	}
	w.look(t, 0)
	seen, after := map[string]bool{}, ""
	for {
		list, next, err := w.alerts.List(w.ctx, console.AlertQuery{Page: console.Page{Limit: 3, After: after}})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			seen[a.Object] = true
		}
		if after = next; next == "" {
			break
		}
	}
	if n, err := w.alerts.CountOpen(w.ctx); len(seen) != 7 || n != 7 || err != nil {
		t.Errorf("%d, %d, %v", len(seen), n, err)
	}
}
