package ui

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
)

func drawnAs(t *testing.T, c templ.Component) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func healthy() Facts {
	return Facts{Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), PolicyVersion: 42, InSync: 3, Replicas: 3, ReplicasKnown: true,
		RedisKnown: true, RedisUp: true, RedisRTT: time.Millisecond, LiveKnown: true, RefusedPercent: 1}
}

func TestFacts_WorstComesFirst(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 30, 10, 41, 7, 0, time.UTC)
	for _, c := range []struct {
		name, health, lead string
		change             func(*Facts)
	}{
		{"all well", "ok", "", func(*Facts) {}},
		{"no gateway and no policy yet", "ok", "", func(f *Facts) { f.PolicyVersion, f.InSync, f.Replicas = 0, 0, 0 }},
		{"before the first probe", "warn", "", func(f *Facts) { f.RedisKnown, f.ReplicasKnown = false, false }},
		{"one behind", "warn", "v42 is not yet enforced by 1 of 3 gateways.", func(f *Facts) { f.InSync = 2 }},
		{"one silent", "warn", "Nothing is heard from 1 of 3 gateways.", func(f *Facts) { f.InSync, f.Silent = 2, 1 }},
		{"one silent, one behind", "warn", "v42 is not yet enforced by 2 of 3 gateways.", func(f *Facts) { f.InSync, f.Silent = 1, 1 }},
		{"one cut off", "bad", "Redis is unreachable from 1 of 3 gateways.", func(f *Facts) { f.CutOff = 1; f.InSync = 2 }},
		{"a hazard", "bad", "Redis endangers the limits.", func(f *Facts) { f.Hazards, f.Hazard = 1, "It evicts."; f.InSync = 2 }},
		{"two hazards", "bad", "Redis endangers the limits in 2 ways.", func(f *Facts) { f.Hazards, f.Hazard = 2, "It evicts." }},
		{"a NACK", "bad", "v42 is refused by 2 of 3 gateways.", func(f *Facts) { f.NACKs = 2; f.CutOff = 1 }},
		{"another writer", "bad", "Redis holds v42 with another digest.", func(f *Facts) { f.PolicyDiffers = true; f.NACKs = 1 }},
		{"Redis away", "bad", "Redis is unreachable from the console since 10:41:07 UTC.", func(f *Facts) { f.RedisUp, f.RedisSince, f.NACKs = false, since, 2 }},
		{"PostgreSQL away", "bad", "PostgreSQL is unreachable.", func(f *Facts) { f.PostgresDown, f.RedisUp = true, false }},
	} {
		f := healthy()
		c.change(&f)
		a, ok := f.Alarm()
		if f.Health() != c.health || ok != (c.lead != "") || a.Lead != c.lead {
			t.Errorf("%s: health %s, alarm %q", c.name, f.Health(), a.Lead)
		}
	}
}

func TestFacts_UnknownIsSaidAndNeverZero(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.RedisUp, f.ReplicasKnown, f.LiveKnown, f.InSync, f.Replicas = false, false, false, 0, 0
	page := drawnAs(t, FactsNav(f))
	for _, want := range []string{"gateways unknown", "<b>unreachable</b>", "Degraded <b>unknown</b>", "Refused <b>unknown</b>", `data-health="bad"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the strip lacks %q: %s", want, page)
		}
	}
	if strings.Contains(page, "0/0") || strings.Contains(page, "0/s") {
		t.Errorf("the strip shows zeros for what is unknown: %s", page)
	}
	f = healthy()
	f.RefusedPercent = math.NaN()
	if !strings.Contains(drawnAs(t, FactsNav(f)), "Refused <b>–</b>") {
		t.Error("a share of no decisions is shown as a number")
	}
}

func TestStrip_FragmentCarriesTheBannerAlong(t *testing.T) {
	t.Parallel()
	f := healthy()
	well := drawnAs(t, StripFragment(f))
	f.NACKs = 1
	ill := drawnAs(t, StripFragment(f))
	if !strings.Contains(well, `id="alarm"`) || !strings.Contains(well, "hx-swap-oob") || strings.Contains(well, "banner") {
		t.Errorf("when all is well: %s", well)
	}
	if !strings.Contains(ill, "v42 is refused by 1 of 3 gateways") || !strings.Contains(ill, VersionURL(42)) {
		t.Errorf("with a NACK: %s", ill)
	}
}

func TestRail_MarksTheLongestMatchAndHidesWhatIsNotAllowed(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/overview": OverviewURL(), "/tenants/ten_a/keys": TenantsURL(), "/policy": PolicyURL(), "/policy/drafts/drf_1": DraftsURL(), "/policy/versions/3": VersionsURL(), "/policyx": "", "/keys/abc": KeysURL()} {
		p := FrameProps{Path: path}
		got := ""
		for _, g := range p.nav() {
			for _, e := range g.Entries {
				if p.current(e.URL) {
					got += e.URL
				}
			}
		}
		if got != want {
			t.Errorf("%s marks %q, want %q", path, got, want)
		}
	}
	p := FrameProps{Path: "/overview", Operator: "x", Hidden: []string{AuditURL(), AlertsURL(""), RulesURL(), SessionsURL()}}
	page := drawnAs(t, Layout(p))
	if strings.Contains(page, AuditURL()+`"`) || strings.Contains(page, "Record") {
		t.Error("the rail shows what is hidden, or a group without entries")
	}
	if strings.Count(page, `aria-current="page"`) != 1 {
		t.Errorf("%d current entries", strings.Count(page, `aria-current="page"`))
	}
}

func TestFields_TieErrorAndHintToTheInput(t *testing.T) {
	t.Parallel()
	page := drawnAs(t, Field(FieldProps{Name: "name", Label: "Name", Hint: "As on the bill.", Error: "Give a name.", Value: `"><b>`, Required: true}))
	for _, want := range []string{`for="f-name"`, `id="f-name"`, `aria-invalid="true"`, `aria-describedby="f-name-hint f-name-error"`, `id="f-name-error">Give a name.`, `id="f-name-hint">As on the bill.`, `value="&#34;&gt;&lt;b&gt;"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the field lacks %s: %s", want, page)
		}
	}
	if strings.Contains(page, "optional") {
		t.Error("a required field says optional")
	}
	page = drawnAs(t, Select(SelectProps{Name: "plan", Label: "Plan", Value: "pro", Options: []Option{{"free", "free"}, {"pro", "pro"}}}))
	if !strings.Contains(page, `<option value="pro" selected>`) || strings.Contains(page, `<option value="free" selected>`) {
		t.Errorf("the choice is lost: %s", page)
	}
	page = drawnAs(t, TextArea(TextAreaProps{Name: "source", Label: "Source", Value: "</textarea><script>", Rows: 4}))
	if strings.Contains(page, "<script>") {
		t.Errorf("the text leaves its field: %s", page)
	}
}

func TestConfirm_IsFoldedUntilItFailedAndAsksAReason(t *testing.T) {
	t.Parallel()
	p := ConfirmProps{ID: "end", Action: "/x", Title: "End", Effect: "Refused everywhere.", Button: "End now", Danger: true, Hidden: []Hidden{{"etag", "7"}}}
	page := drawnAs(t, Confirm(p))
	if strings.Contains(page, "<details class=\"confirm\" id=\"end\" open") || !strings.Contains(page, `name="reason"`) || !strings.Contains(page, `name="etag" value="7"`) {
		t.Errorf("folded: %s", page)
	}
	p.ReasonError, p.Reason = "Say why.", "kept"
	page = drawnAs(t, Confirm(p))
	if !strings.Contains(page, " open>") || !strings.Contains(page, `value="kept"`) || !strings.Contains(page, `id="end-reason-error">Say why.`) {
		t.Errorf("failed: %s", page)
	}
	p.NoReason, p.ReasonError = true, ""
	if strings.Contains(drawnAs(t, Confirm(p)), `name="reason"`) {
		t.Error("a reason is asked though none is wanted")
	}
}

func TestDiff_SaysBeforeAfterAndEffect(t *testing.T) {
	t.Parallel()
	page := drawnAs(t, Diff("Changes", []DiffRow{{Path: "routes[0]", Before: "200", After: "100", Effect: "tighter"}, {Path: "routes[1]", After: "<b>", Kind: "added"}, {Path: "routes[2]", Before: "x", Kind: "removed"}}))
	for _, want := range []string{"<del>200</del>", "<ins>100</ins>", `tag warn">tighter`, "<ins>&lt;b&gt;</ins>", `<span class="muted">removed</span>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the difference lacks %s: %s", want, page)
		}
	}
}
