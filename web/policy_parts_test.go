package web_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/webtest"
)

// everyPart has every part that a document can have.
const everyPart = `apiVersion: headgate/v1
description: all of it
client_ip: {trusted_proxies: [10.0.0.0/8]}
user: {header: X-User-Id}
replicas_expected: 3
global:
  limits: [{name: all, per: global, rate: 50000/second, sync: leased}]
shared:
  - {name: search, per: [tenant, ip], rate: 300/minute, burst: 60, mode: shadow}
plans:
  free:
    description: for nothing
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, expires_at: 2027-01-31T12:00:00.5Z}]
    quota: {amount: 100000, period: month, over: block}
  pro:
    limits: [{name: requests, per: tenant, counts: requests, rate: 6000/minute}]
    quota: {amount: 20000000, counts: requests, period: week, alignment: anniversary, time_zone: Europe/Berlin, over: bill, max: 40000000, mode: shadow}
  staff: {}
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    cost: 20
    limits: [{name: reports, per: [credential, "header:X-Client"], rate: 100/90s, burst: 20}, {name: steady, per: tenant, rate: 500/minute}]
    uses: [search]
    concurrency: {per: [tenant, user], max: 2, lease: 1m30s, mode: shadow}
    on_store_failure: {mode: open, fallback: share}
  - name: chat
    match: ["POST /chat"]
    cost: {reserve: 50, settle_header: X-Cost}
    on_store_failure: {mode: open, fallback: unlimited}
  - name: graphql
    match: ["POST /graphql"]
    cost: {graphql: {max: 50, default_list_size: 25, weights: {Query.search: 10}}}
    on_store_failure: {mode: closed}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-account, per: "body:username", rate: 5/minute}, {name: per-ip, per: ip, rate: 20/minute}]
    on_store_failure: {mode: closed}
  - name: mine
    match: ["/mine"]
    identity: user
    limits: [{name: own, per: user, rate: 5/minute}]
    on_store_failure: {mode: open, fallback: {rate: 5/90s, burst: 7}}
  - name: rest
    match: ["/"]
    on_store_failure: {mode: closed}
`

func parts(t *testing.T, replace ...string) *policy.Document {
	t.Helper()
	d, report := policy.Parse([]byte(strings.NewReplacer(replace...).Replace(everyPart)))
	if d == nil {
		t.Fatal(report)
	}
	return d
}

// withParts is a world with a draft of everyPart.
func withParts(t *testing.T, source string) edited {
	t.Helper()
	w := webtest.New(t)
	e := edited{World: w, owner: w.As(t, console.RoleOwner), editor: w.As(t, console.RoleEditor)}
	a := e.editor.Post("/policy/drafts", url.Values{"name": {"all"}, "source": {source}})
	if a.StatusCode != 303 {
		t.Fatalf("new draft: %d %s", a.StatusCode, a.Text)
	}
	e.path = a.Header.Get("Location")
	e.draft = strings.TrimPrefix(e.path, "/policy/drafts/")
	return e
}

func (e edited) stored(t *testing.T) *policy.Document {
	t.Helper()
	d, err := e.Web.Policies.GetDraft(t.Context(), e.draft)
	if err != nil {
		t.Fatal(err)
	}
	doc, report := policy.Parse([]byte(d.Source))
	if doc == nil {
		t.Fatal(report, d.Source)
	}
	return doc
}

// sectionFields names a field of every form of everyPart's page.
var sectionFields = []string{"general", "global", "shared", "plan/free", "plan/pro", "plan/staff",
	"route/report", "route/chat", "route/graphql", "route/login", "route/mine", "route/rest"}

// A form that is saved as it came changes nothing, whatever the document has.
func TestDraft_FormsKeepEveryPart(t *testing.T) {
	t.Parallel()
	token := strings.Replace(everyPart, "user: {header: X-User-Id}", "user: {jwt: {jwks_file: /etc/keys.json, audience: api}}", 1)
	for name, source := range map[string]string{"a header": everyPart, "a token": token} {
		e := withParts(t, source)
		want := string(e.stored(t).Canonical())
		for _, has := range sectionFields {
			f := e.form(t, e.editor, has)
			f.Set("act", "save")
			if a := e.editor.Post(e.at(has), f); a.StatusCode != 303 {
				t.Fatalf("%s: save %s: %d %s", name, has, a.StatusCode, a.Text)
			}
			if got := string(e.stored(t).Canonical()); got != want {
				t.Fatalf("%s: saving %s unchanged gives\n%s\nand it was\n%s", name, has, got, want)
			}
		}
	}
}

func TestDraft_FormsChangeTheNewParts(t *testing.T) {
	t.Parallel()
	e := withParts(t, everyPart)
	for has, set := range map[string]map[string]string{
		"general":    {"user-header": "X-Account", "replicas": "5"},
		"shared":     {"l0-kind": "enforce", "l0-per": "tenant", "l0-expires": "2028-01-01T00:00:00Z"},
		"global":     {"l0-sync": "exact"},
		"plan/staff": {"q-amount": "5", "q-period": "lifetime", "q-over": "bill", "q-max": "9"},
		"plan/free":  {"q-amount": "", "q-period": "none", "l0-expires": ""},
		"route/report": {"c-max": "7", "c-lease": "5m", "c-per": "tenant", "c-mode": "enforce",
			"l0-per": "user, ip", "mode": "closed"},
		"route/chat": {"cost": "60", "mode": "share"},
		"route/rest": {"c-max": "3", "c-lease": "30s", "c-per": "credential"},
	} {
		f := e.form(t, e.editor, has)
		for name, value := range set {
			f.Set(name, value)
		}
		f.Set("act", "save")
		if a := e.editor.Post(e.at(has), f); a.StatusCode != 303 {
			t.Fatalf("save %s: %d %s", has, a.StatusCode, a.Text)
		}
	}
	d := e.stored(t)
	if d.User.Header != "X-Account" || d.ReplicasExpected != 5 {
		t.Errorf("user %+v, %d gateways", d.User, d.ReplicasExpected)
	}
	if l := d.Shared[0]; l.Mode != policy.ModeEnforce || l.Per != policy.PerTenant || l.ExpiresAt == nil || l.ExpiresAt.Year() != 2028 {
		t.Errorf("shared limit %+v", l)
	}
	if d.Global.Limits[0].Sync != policy.SyncExact || d.Plans["free"].Quota != nil || d.Plans["free"].Limits[0].ExpiresAt != nil {
		t.Errorf("global %+v, plan free %+v", d.Global, d.Plans["free"])
	}
	if q := d.Plans["staff"].Quota; q == nil || q.Amount != 5 || q.Period != policy.PeriodLifetime || q.Over != policy.OverBill || q.Max != 9 {
		t.Errorf("quota %+v", q)
	}
	report := d.Routes[0]
	if c := report.Concurrency; c.Max != 7 || c.Lease != 5*time.Minute || c.Per != policy.PerTenant || c.Mode != policy.ModeEnforce {
		t.Errorf("concurrency %+v", c)
	}
	if report.Limits[0].Per != "user,ip" || report.OnStoreFailure.Mode != policy.FailClosed {
		t.Errorf("route %+v", report)
	}
	if chat := d.Routes[1]; chat.Cost != 60 || chat.SettleHeader != "X-Cost" || !chat.OnStoreFailure.Fallback.Share {
		t.Errorf("route %+v", chat)
	}
	if c := d.Routes[5].Concurrency; c == nil || c.Max != 3 || c.Lease != 30*time.Second {
		t.Errorf("new concurrency %+v", c)
	}
}

// What is wrong stands beside the field that it was typed into.
func TestDraft_MistakesInNewPartsAreToldAtTheirFields(t *testing.T) {
	t.Parallel()
	e := withParts(t, everyPart)
	for _, c := range []struct {
		has, field, value, want string
	}{
		{"plan/free", "q-amount", "1,000", "plain digits"},
		{"plan/free", "q-zone", "Berlin", "is not a time zone"},
		{"plan/free", "q-max", "5", "is for over: bill"},
		{"plan/free", "q-period", "none", "Choose a period"},
		{"plan/free", "l0-expires", "tomorrow", "Must be a time in UTC"},
		{"plan/free", "l0-per", "planet", "is not known"},
		{"route/report", "c-lease", "90", "Must be a duration"},
		{"route/report", "c-lease", "2h", "must be 1s to 1h"},
		{"route/report", "c-max", "100001", "the largest allowed is 100000"},
		{"route/report", "c-per", "body:a", "motive abuse"},
		{"general", "replicas", "0", "Must be 1 or more"},
		{"general", "user-header", "X-Request-Id", "differs on each request"},
	} {
		f := e.form(t, e.editor, c.has)
		f.Set(c.field, c.value)
		f.Set("act", "save")
		a := e.editor.Post(e.at(c.has), f)
		if a.StatusCode == 303 { // problems of meaning are saved and told on the page
			a = e.editor.Get(e.at(c.has))
		}
		if !problemBeside(a.Text, c.field, c.want) {
			t.Errorf("%s = %q: %d, no %q beside it", c.field, c.value, a.StatusCode, c.want)
		}
		start := formOn(t, e.editor.Get(e.path+"/source").Text, e.path+"/source")
		start.Set("source", everyPart)
		if a := e.editor.Post(e.path+"/source", start); a.StatusCode != 303 {
			t.Fatalf("start over: %d", a.StatusCode)
		}
	}
}

// problemBeside reports whether a field's own element tells the problem.
func problemBeside(page, field, want string) bool {
	_, rest, found := strings.Cut(page, `name="`+field+`"`)
	if !found {
		return false
	}
	if i := strings.Index(rest, `class="field"`); i >= 0 {
		rest = rest[:i]
	}
	return strings.Contains(unescape(rest), want)
}

func TestPolicy_LivePageTellsTheNewParts(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	if _, err := w.Web.Policies.Publish(t.Context(), w.Actor(console.RoleOwner), []byte(everyPart), nil, 0, console.PublishOptions{Note: "first"}); err != nil {
		t.Fatal(err)
	}
	page := w.As(t, console.RoleViewer).Get("/policy").Text
	for _, want := range []string{"100\u202f000 a month, then refused", "20\u202f000\u202f000 a week, then billed up to 40\u202f000\u202f000, shadow: refuses nobody", "tenant + ip",
		"shadow: refuses nobody", "leased", "until 2027-01-31T12:00:00.5Z", "2 at once", "by query, ≤ 50", "50, settled", "a share of the limits per gateway",
		"header X-User-Id, from trusted proxies only", "body:username"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
