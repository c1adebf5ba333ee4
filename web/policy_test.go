package web_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/webtest"
)

const document = `apiVersion: headgate/v1
shared:
  - {name: search, per: tenant, rate: 300/minute, burst: 60}
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}]
  pro:
    limits: [{name: requests, per: tenant, counts: requests, rate: 6000/minute, burst: 500}]
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: api_key
    motive: fairness
    cost: 2
    limits: [{name: reports, per: tenant, rate: 100/90s, burst: 20}]
    uses: [search]
    on_store_failure: {mode: open, fallback: {rate: 200/minute, burst: 200}}
  - name: everything
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: closed}
`

// edited is a world with three gateways, version 1 and a draft of an editor.
type edited struct {
	*webtest.World
	owner, editor *webtest.Client
	draft, path   string
}

func edit(t *testing.T) edited {
	t.Helper()
	w := webtest.New(t)
	w.Feed.Gateways(3)
	if _, err := w.Web.Policies.Publish(t.Context(), w.Actor(console.RoleOwner), []byte(document), nil, 0, console.PublishOptions{Note: "first"}); err != nil {
		t.Fatal(err)
	}
	e := edited{World: w, owner: w.As(t, console.RoleOwner), editor: w.As(t, console.RoleEditor)}
	a := e.editor.Post("/policy/drafts", url.Values{"name": {"tighter"}})
	if a.StatusCode != 303 {
		t.Fatalf("new draft: %d %s", a.StatusCode, a.Text)
	}
	e.path = a.Header.Get("Location")
	e.draft = strings.TrimPrefix(e.path, "/policy/drafts/")
	return e
}

var (
	formPattern  = regexp.MustCompile(`(?s)<form[^>]*method="post"[^>]*action="([^"]*)"[^>]*>(.*?)</form>`)
	inputPattern = regexp.MustCompile(`(?s)<input([^>]*)>`)
	areaPattern  = regexp.MustCompile(`(?s)<textarea([^>]*)>(.*?)</textarea>`)
	pickPattern  = regexp.MustCompile(`(?s)<select([^>]*)>(.*?)</select>`)
	chosen       = regexp.MustCompile(`<option value="([^"]*)" selected`)
	attrPattern  = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
)

func attrs(s string) map[string]string {
	m := map[string]string{}
	for _, a := range attrPattern.FindAllStringSubmatch(s, -1) {
		m[a[1]] = unescape(a[2])
	}
	if strings.Contains(s, " checked") {
		m["checked"] = "yes"
	}
	return m
}

func unescape(s string) string {
	return strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">", "&#34;", `"`, "&#39;", "'").Replace(s)
}

// formOn reads a form of a page as a browser would send it: the one with the
// action whose fields include all of has.
func formOn(t *testing.T, page, action string, has ...string) url.Values {
	t.Helper()
next:
	for _, f := range formPattern.FindAllStringSubmatch(page, -1) {
		if unescape(f[1]) != action {
			continue
		}
		v := url.Values{}
		for _, in := range inputPattern.FindAllStringSubmatch(f[2], -1) {
			if a := attrs(in[1]); a["type"] != "checkbox" || a["checked"] != "" {
				v.Add(a["name"], a["value"])
			}
		}
		for _, ta := range areaPattern.FindAllStringSubmatch(f[2], -1) {
			v.Add(attrs(ta[1])["name"], unescape(ta[2]))
		}
		for _, s := range pickPattern.FindAllStringSubmatch(f[2], -1) {
			if m := chosen.FindStringSubmatch(s[2]); m != nil {
				v.Add(attrs(s[1])["name"], m[1])
			}
		}
		for _, name := range has {
			if !v.Has(name) {
				continue next
			}
		}
		return v
	}
	t.Fatalf("no form %s with %v on the page:\n%s", action, has, page)
	return nil
}

// at is the address of a part's form, such as plan/free or route/report.
func (e edited) at(part string) string { return e.path + "/parts/" + part }

// form is a part's form as the client sees it.
func (e edited) form(t *testing.T, c *webtest.Client, part string) url.Values {
	t.Helper()
	return formOn(t, c.Get(e.at(part)).Text, e.at(part))
}

func TestDraft_LimitIsChangedByFormAndPublished(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := e.form(t, e.editor, "plan/free")
	if f.Get("l0-count") != "60" || f.Get("l0-unit") != "minute" || f.Get("l0-burst") != "60" {
		t.Fatalf("form = %v", f)
	}
	f.Set("l0-count", "10")
	f.Set("l0-burst", "10")
	f.Set("act", "save")
	if a := e.editor.Post(e.at("plan/free"), f); a.StatusCode != 303 {
		t.Fatalf("save: %d %s", a.StatusCode, a.Text)
	}
	if a := e.editor.Post(e.path+"/publish", url.Values{"etag": {"x"}, "note": {"x"}}); a.StatusCode != 403 {
		t.Errorf("an editor publishes: %d", a.StatusCode)
	}
	review := e.owner.Get(e.path + "/review")
	if !strings.Contains(review.Text, "plans.free") || !strings.Contains(review.Text, "tighter") {
		t.Errorf("review does not show the change:\n%s", review.Text)
	}
	p := formOn(t, review.Text, e.path+"/publish")
	p.Set("note", "they asked for it")
	p.Set("act", "publish")
	if a := e.owner.Post(e.path+"/publish", p); a.StatusCode != 422 || !strings.Contains(a.Text, "confirm.cut-half") {
		t.Errorf("a cut to a sixth is published without a word: %d", a.StatusCode)
	}
	p.Set("confirm.cut-half", "yes")
	a := e.owner.Post(e.path+"/publish", p)
	if a.StatusCode != 303 || a.Header.Get("Location") != "/policy/versions/2" {
		t.Fatalf("publish: %d %s", a.StatusCode, a.Text)
	}
	version := e.owner.Get("/policy/versions/2").Text
	if !strings.Contains(version, "3 of 3 enforce v2") || !strings.Contains(version, "they asked for it") || !strings.Contains(version, "Roll back to v1") {
		t.Errorf("publication page:\n%s", version)
	}
	if live := e.owner.Get("/policy").Text; !strings.Contains(live, "10/minute") || !strings.Contains(live, "Policy v2") {
		t.Error("the live page does not show the new limit")
	}
}

func TestDraft_EverySectionComesBackAsItWas(t *testing.T) {
	t.Parallel()
	e := edit(t)
	before, err := e.Web.Policies.GetDraft(t.Context(), e.draft)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := policy.Parse([]byte(before.Source))
	for _, field := range []string{"general", "global", "shared", "plan/free", "plan/pro", "route/report", "route/everything"} {
		f := e.form(t, e.editor, field)
		f.Set("act", "save")
		if a := e.editor.Post(e.at(field), f); a.StatusCode != 303 {
			t.Fatalf("%s: %d %s", field, a.StatusCode, a.Text)
		}
	}
	after, err := e.Web.Policies.GetDraft(t.Context(), e.draft)
	if err != nil {
		t.Fatal(err)
	}
	got, report := policy.Parse([]byte(after.Source))
	if got == nil || string(got.Canonical()) != string(want.Canonical()) {
		t.Errorf("saving without a change changed the policy: %v\n%s", report, after.Source)
	}
}

func TestDraft_NumbersThatMeanTwoThingsAreRefusedBesideTheField(t *testing.T) {
	t.Parallel()
	e := edit(t)
	for _, typed := range []string{"1,000", "1.000", "1e3", "-1", "", "ten", "99999999999999999999"} {
		f := e.form(t, e.editor, "plan/free")
		f.Set("l0-count", typed)
		f.Set("act", "save")
		a := e.editor.Post(e.at("plan/free"), f)
		if a.StatusCode != 422 || !strings.Contains(a.Text, `id="f-l0-count-error"`) || !strings.Contains(a.Text, `value="`+typed+`"`) {
			t.Errorf("%q: %d, message beside the field or input lost", typed, a.StatusCode)
		}
	}
	d, err := e.Web.Policies.GetDraft(t.Context(), e.draft)
	if err != nil || !strings.Contains(d.Source, "60/minute") {
		t.Errorf("a refused form changed the draft: %v", err)
	}
}

func TestDraft_FormTellsEveryMistakeOfAPartAtOnce(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := e.form(t, e.editor, "route/report")
	f.Set("act", "save")
	f.Set("name", "")
	f.Set("match", "report")
	f.Set("cost", "1e3")
	a := e.editor.Post(e.at("route/report"), f)
	if a.StatusCode != 422 {
		t.Fatalf("%d", a.StatusCode)
	}
	for _, field := range []string{"name", "match", "cost"} {
		if !strings.Contains(a.Text, `id="f-`+field+`-error"`) {
			t.Errorf("nothing is said beside %s", field)
		}
	}
}

func TestDraft_PlansRoutesAndLimitsAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	e := edit(t)
	post := func(action string, f url.Values) {
		t.Helper()
		if a := e.editor.Post(action, f); a.StatusCode != 303 {
			t.Fatalf("%s %v: %d %s", action, f, a.StatusCode, a.Text)
		}
	}
	section := func(field, act string) {
		t.Helper()
		f := e.form(t, e.editor, field)
		f.Set("act", act)
		post(e.at(field), f)
	}
	add := func(kind string, fields url.Values) {
		t.Helper()
		f := formOn(t, e.editor.Get(e.path).Text, e.path+"/add")
		f.Set("kind", kind)
		for k, v := range fields {
			f[k] = v
		}
		post(e.path+"/add", f)
	}
	add("plan", url.Values{"name": {"scale"}})
	add("route", url.Values{"name": {"login"}, "match": {"POST /login"}, "mode": {"closed"}})
	section("plan/scale", "add-limit")
	section("plan/pro", "remove-limit-0")
	section("plan/free", "remove")
	section("route/everything", "remove")
	d, err := e.Web.Policies.GetDraft(t.Context(), e.draft)
	if err != nil {
		t.Fatal(err)
	}
	doc, _ := policy.ParseLoose([]byte(d.Source))
	if doc == nil {
		t.Fatalf("unreadable:\n%s", d.Source)
	}
	if _, ok := doc.Plans["free"]; ok || len(doc.Plans["scale"].Limits) != 2 || len(doc.Plans["pro"].Limits) != 0 {
		t.Errorf("plans = %+v", doc.Plans)
	}
	if len(doc.Routes) != 2 || doc.Routes[1].Name != "login" || doc.Routes[1].OnStoreFailure.Mode != policy.FailClosed {
		t.Errorf("routes = %+v", doc.Routes)
	}
}

func TestDraft_FailModeIsChangedByForm(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := e.form(t, e.editor, "route/report")
	if f.Get("l0-unit") != "1m30s" || f.Get("uses[]") != "search" {
		t.Errorf("form = %v", f)
	}
	f.Set("mode", "closed")
	f.Del("uses[]")
	f.Set("act", "save")
	if a := e.editor.Post(e.at("route/report"), f); a.StatusCode != 303 {
		t.Fatalf("%d %s", a.StatusCode, a.Text)
	}
	d, _ := e.Web.Policies.GetDraft(t.Context(), e.draft)
	doc, report := policy.Parse([]byte(d.Source))
	if doc == nil || doc.Routes[0].OnStoreFailure.Fallback != nil || len(doc.Routes[0].Uses) != 0 {
		t.Errorf("%v\n%s", report, d.Source)
	}
}

const fiveMistakes = `apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}, {name: requests, per: tenant, rate: 0/minute, burst: 7}]
  pro:
    limits: [{name: requests, per: global, counts: requests, rate: 6000/minute, burst: 500}]
routes:
  - name: everything
    match: ["/"]
    identity: api_key
    motive: abuse
    uses: [nothing]
    on_store_failure: {mode: open, fallback: unlimited}
`

func TestDraft_ProblemsStandInTheListAndBesideTheFieldsAndBlockPublishing(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := formOn(t, e.editor.Get(e.path+"/source").Text, e.path+"/source")
	f.Set("source", fiveMistakes)
	saved := e.editor.Post(e.path+"/source", f)
	_, report := policy.ParseLoose([]byte(fiveMistakes))
	if saved.StatusCode != 422 || len(report.Problems) < 5 {
		t.Fatalf("save: %d with %v", saved.StatusCode, report.Problems)
	}
	page := e.editor.Get(e.path).Text
	for _, p := range report.Problems {
		if !strings.Contains(page, p.Path) || !strings.Contains(unescape(page), p.Message) {
			t.Errorf("problem %v is not on the page", p)
		}
	}
	if got := strings.Count(page, `<tr class="problem">`); got != len(report.Problems) {
		t.Errorf("%d problems listed, want %d", got, len(report.Problems))
	}
	beside := ""
	for _, part := range []string{"plan/free", "plan/pro", "route/everything"} {
		beside += e.editor.Get(e.at(part)).Text
	}
	if got := strings.Count(beside, `class="error"`); got < len(report.Problems)-1 {
		t.Errorf("%d messages beside fields for %d problems", got, len(report.Problems))
	}
	d, _ := e.Web.Policies.GetDraft(t.Context(), e.draft)
	a := e.owner.Post(e.path+"/publish", url.Values{"etag": {d.ETag}, "note": {"x"}})
	if a.StatusCode != 422 || !strings.Contains(a.Text, "Not published") {
		t.Errorf("publish: %d", a.StatusCode)
	}
	if head, _, _ := e.Web.Policies.Head(t.Context()); head.Number != 1 {
		t.Error("the live policy did not go on")
	}
}

func TestDraft_BrokenYAMLIsKeptAndSaysWhere(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := formOn(t, e.editor.Get(e.path+"/source").Text, e.path+"/source")
	f.Set("source", "apiVersion: headgate/v1\nplans: [\n<script>alert(1)</script>")
	a := e.editor.Post(e.path+"/source", f)
	if a.StatusCode != 422 || !strings.Contains(a.Text, "&lt;script&gt;alert(1)") || strings.Contains(a.Text, "<script>alert") {
		t.Errorf("%d: input lost or not as text", a.StatusCode)
	}
	if a := e.editor.Get(e.path); a.StatusCode != 200 || !strings.Contains(a.Text, "cannot be shown as forms") {
		t.Errorf("forms of broken YAML: %d", a.StatusCode)
	}
	if a := e.owner.Get(e.path + "/review"); a.StatusCode != 200 {
		t.Errorf("review of broken YAML: %d", a.StatusCode)
	}
}

func TestDraft_LostEditRaceShowsBothAndOverwritesNothing(t *testing.T) {
	t.Parallel()
	e := edit(t)
	mine := e.form(t, e.editor, "plan/free")
	theirs := e.form(t, e.owner, "plan/pro")
	theirs.Set("l0-count", "777")
	theirs.Set("act", "save")
	if a := e.owner.Post(e.at("plan/pro"), theirs); a.StatusCode != 303 {
		t.Fatalf("theirs: %d", a.StatusCode)
	}
	mine.Set("l0-count", "31")
	mine.Set("act", "save")
	a := e.editor.Post(e.at("plan/free"), mine)
	if a.StatusCode != 409 || !strings.Contains(a.Text, `value="31"`) || !strings.Contains(a.Text, "60/minute") || !strings.Contains(a.Text, "31/minute") || !strings.Contains(a.Text, "Someone saved this draft") {
		t.Fatalf("mine: %d\n%s", a.StatusCode, a.Text)
	}
	again := formOn(t, a.Text, e.at("plan/free"))
	again.Set("act", "save")
	if a := e.editor.Post(e.at("plan/free"), again); a.StatusCode != 303 {
		t.Fatalf("again: %d", a.StatusCode)
	}
	d, _ := e.Web.Policies.GetDraft(t.Context(), e.draft)
	if !strings.Contains(d.Source, "777/minute") || !strings.Contains(d.Source, "31/minute") {
		t.Errorf("one of the two was lost:\n%s", d.Source)
	}
	src := formOn(t, e.editor.Get(e.path+"/source").Text, e.path+"/source")
	src.Set("etag", "stale")
	if a := e.editor.Post(e.path+"/source", src); a.StatusCode != 409 || !strings.Contains(a.Text, "Stored now") {
		t.Errorf("YAML: %d", a.StatusCode)
	}
}

func TestPublish_StaleBaseShowsBothSidesAndMergesThem(t *testing.T) {
	t.Parallel()
	e := edit(t)
	f := e.form(t, e.editor, "plan/free")
	f.Set("l0-count", "31")
	f.Set("act", "save")
	e.editor.Post(e.at("plan/free"), f)
	theirs := strings.Replace(document, "6000/minute", "4777/minute", 1)
	if _, err := e.Web.Policies.Publish(t.Context(), e.Actor(console.RoleOwner), []byte(theirs), nil, 1, console.PublishOptions{Note: "theirs"}); err != nil {
		t.Fatal(err)
	}
	d, _ := e.Web.Policies.GetDraft(t.Context(), e.draft)
	a := e.owner.Post(e.path+"/publish", url.Values{"etag": {d.ETag}, "note": {"mine"}})
	if a.StatusCode != 409 || !strings.Contains(a.Text, "v2 was published since") || !strings.Contains(a.Text, "4777/minute") || !strings.Contains(a.Text, "31/minute") {
		t.Fatalf("stale publish: %d\n%s", a.StatusCode, a.Text)
	}
	re := formOn(t, a.Text, e.path+"/merge")
	if a := e.owner.Post(e.path+"/merge", re); a.StatusCode != 303 {
		t.Fatalf("rebase: %d %s", a.StatusCode, a.Text)
	}
	review := e.owner.Get(e.path + "/review").Text
	p := formOn(t, review, e.path+"/publish")
	p.Set("note", "mine on top")
	if a := e.owner.Post(e.path+"/publish", p); a.StatusCode != 303 {
		t.Fatalf("publish: %d %s", a.StatusCode, a.Text)
	}
	head, _, _ := e.Web.Policies.Head(t.Context())
	doc, err := head.Document()
	if err != nil || doc.Plans["pro"].Limits[0].Rate.Tokens != 4777 || doc.Plans["free"].Limits[0].Rate.Tokens != 31 || head.Number != 3 {
		t.Errorf("v%d %+v %v", head.Number, doc.Plans, err)
	}
}
