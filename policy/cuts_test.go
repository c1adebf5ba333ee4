package policy

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestR098_CutsToHalfAreNamed(t *testing.T) {
	t.Parallel()
	own := func(d *Document) *Limit { return &d.Routes[0].Limits[0] } // 50/minute
	for name, c := range map[string]struct {
		edit func(d *Document)
		want Cut // Kind "": none
	}{
		"ten for a thousand": {func(d *Document) { own(d).Rate.Tokens, own(d).Burst = 1, 50 }, Cut{Kind: CutHalf, Path: "routes[0].limits[0].rate", LimitID: "route:report.reports", Route: "report",
			Unit: "a minute", Before: 50, After: 1, Factor: 0.02, Text: "route report: limit reports admits 1 a minute instead of 50: 2 % is left"}},
		"half": {func(d *Document) { own(d).Rate.Tokens = 25 }, Cut{Kind: CutHalf, Path: "routes[0].limits[0].rate", LimitID: "route:report.reports", Route: "report",
			Unit: "a minute", Before: 50, After: 25, Factor: 0.5, Text: "route report: limit reports admits 25 a minute instead of 50: 50 % is left"}},
		"hour for minute": {func(d *Document) { own(d).Rate.Period = time.Hour }, Cut{Kind: CutHalf, Path: "routes[0].limits[0].rate", LimitID: "route:report.reports", Route: "report",
			Unit: "a minute", Before: 50, After: 50. / 60, Factor: 1. / 60, Text: "route report: limit reports admits 0.833 a minute instead of 50: 1.67 % is left"}},
		"just more than half": {func(d *Document) { own(d).Rate.Tokens = 26 }, Cut{}},
		"more":                {func(d *Document) { own(d).Rate.Tokens = 5000 }, Cut{}},
		"nothing": {func(d *Document) { own(d).Rate, own(d).Burst = blockedRate(), 0 }, Cut{Kind: CutBlocked, Path: "routes[0].limits[0].rate", LimitID: "route:report.reports", Route: "report",
			Unit: "a minute", Before: 50, Text: "route report: limit reports admits nothing any more (was 50 a minute)"}},
		"burst": {func(d *Document) { own(d).Burst = 25 }, Cut{Kind: CutHalf, Path: "routes[0].limits[0].burst", LimitID: "route:report.reports", Route: "report",
			Unit: "at once", Before: 50, After: 25, Factor: 0.5, Text: "route report: limit reports admits 25 at once instead of 50: 50 % is left"}},
		"shadow":    {func(d *Document) { own(d).Mode, own(d).Rate.Tokens = ModeShadow, 1 }, Cut{}},
		"unlimited": {func(d *Document) { own(d).Rate = Rate{Unlimited: true} }, Cut{}},
		"gone": {func(d *Document) { d.Routes[0].Limits = nil }, Cut{Kind: CutLimit, Path: "routes[0].limits[0]", LimitID: "route:report.reports", Route: "report",
			Text: "route report: limit reports is gone (was 50/minute per tenant, burst 50)"}},
		"renamed": {func(d *Document) { own(d).Name = "rep" }, Cut{}},
		"cost": {func(d *Document) { d.Routes[0].Cost = 50 }, Cut{Kind: CutHalf, Path: "routes[0].cost", Route: "report",
			Unit: "requests of 1000 tokens", Before: 50, After: 20, Factor: 0.4, Text: "route report at its new cost admits 20 requests of 1000 tokens instead of 50: 40 % is left"}},
		"quota": {func(d *Document) { d.Plans["free"].Quota.Max = 1000 }, Cut{Kind: CutHalf, Path: "plans.free.quota.amount", LimitID: QuotaID, Plan: "free",
			Unit: "a month", Before: 2000, After: 1000, Factor: 0.5, Text: "plan free: quota admits 1000 a month instead of 2000: 50 % is left"}},
		"quota's period": {func(d *Document) { d.Plans["free"].Quota.Period = PeriodYear }, Cut{Kind: CutHalf, Path: "plans.free.quota.period", LimitID: QuotaID, Plan: "free",
			Unit: "a day", Before: 2000. / 30, After: 2000. / 365, Factor: 30. / 365, Text: "plan free: quota admits 5.48 a day instead of 66.7: 8.22 % is left"}},
		"quota that bills less": {func(d *Document) { d.Plans["free"].Quota.Amount = 1 }, Cut{}}, // admits as much
		"no quota": {func(d *Document) { d.Plans["free"] = Plan{Limits: d.Plans["free"].Limits} }, Cut{Kind: CutLimit, Path: "plans.free.quota", LimitID: QuotaID, Plan: "free",
			Text: "plan free: quota is gone (was quota 1000 a month, counting cost, calendar in UTC, over: bill up to 2000)"}},
		"concurrency": {func(d *Document) { d.Routes[0].Concurrency.Max = 1 }, Cut{Kind: CutHalf, Path: "routes[0].concurrency.max", LimitID: "route:report.concurrency", Route: "report",
			Unit: "at once", Before: 2, After: 1, Factor: 0.5, Text: "route report: concurrency admits 1 at once instead of 2: 50 % is left"}},
		"no concurrency": {func(d *Document) { d.Routes[0].Concurrency = nil }, Cut{Kind: CutLimit, Path: "routes[0].concurrency", LimitID: "route:report.concurrency", Route: "report",
			Text: "route report: concurrency is gone (was 2 at once per tenant, lease 1m30s)"}},
		"draws no more": {func(d *Document) { d.Routes[0].Uses = nil }, Cut{Kind: CutLimit, Path: "routes[0].uses", LimitID: "shared:search", Route: "report"}},
		"route gone":    {func(d *Document) { d.Routes = d.Routes[:2] }, Cut{Kind: CutRoute, Path: "routes[2]", Route: "rest", Text: "route rest for / is gone"}},
		"a text":        {func(d *Document) { d.Description = "x" }, Cut{}},
	} {
		before, after := everyPart(), everyPart()
		before.Routes[0].Cost, after.Routes[0].Cost = 20, 20
		before.Routes[0].SettleHeader, after.Routes[0].SettleHeader = "", ""
		c.edit(after)
		got := Cuts(before, after)
		if c.want.Kind == "" {
			if len(got) != 0 {
				t.Errorf("%s: %+v, want none", name, got)
			}
			continue
		}
		if len(got) != 1 {
			t.Errorf("%s: %+v, want one", name, got)
			continue
		}
		if c.want.Text == "" {
			c.want.Text = got[0].Text
		}
		if got[0] != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got[0], c.want)
		}
	}
}

func TestR098_ABoundWhereNoneWasIsNamed(t *testing.T) {
	t.Parallel()
	before, after := everyPart(), everyPart()
	before.Routes[0].Limits[0].Rate, before.Routes[0].Limits[0].Burst = Rate{Unlimited: true}, 0
	before.Plans["free"].Quota.Max = 0
	got := Cuts(before, after)
	if len(got) != 2 || got[0].Before != -1 || got[0].After != 2000 || got[0].Factor != 0 || !strings.Contains(got[0].Text, "was unlimited") ||
		got[1].LimitID != "route:report.reports" || got[1].Before != -1 || got[1].After != 50 {
		t.Errorf("%+v", got)
	}
	if back := Cuts(after, before); len(back) != 0 {
		t.Errorf("a bound that goes up: %+v", back)
	}
}

func TestR094_AnEmptyPolicyHasToBeTyped(t *testing.T) {
	t.Parallel()
	empty := &Document{APIVersion: APIVersion}
	got := Cuts(everyPart(), empty)
	if len(got) < 2 || got[0].Kind != CutNoRoutes || got[0].Word != "0 routes" || got[1].Kind != CutNoLimits || got[1].Word != "0 limits" {
		t.Fatalf("%+v", got)
	}
	for _, c := range got[2:] {
		if c.Kind == CutRoute || c.Word != "" {
			t.Errorf("%+v beside the routes that are all gone", c)
		}
	}
	if got := Cuts(empty, empty); len(got) != 0 {
		t.Errorf("from nothing to nothing: %+v", got)
	}
	if got := Cuts(nil, everyPart()); len(got) != 0 {
		t.Errorf("the first policy: %+v", got)
	}
	bare := everyPart() // routes stay, but nothing bounds them
	bare.Global, bare.Shared = Global{}, nil
	for name := range bare.Plans {
		bare.Plans[name] = Plan{}
	}
	for i := range bare.Routes {
		bare.Routes[i].Limits, bare.Routes[i].Uses, bare.Routes[i].Concurrency = nil, nil, nil
	}
	if got := Cuts(everyPart(), bare); len(got) < 2 || got[0].Kind != CutNoLimits {
		t.Errorf("%+v", got)
	}
}

// Whatever is cut is also a change at high risk, and nothing is cut both ways.
func TestCuts_AreChangesAtHighRisk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genDocument().Draw(t, "a"), genDocument().Draw(t, "b")
		high := map[string]bool{}
		for _, c := range Diff(a, b) {
			high[c.Path] = high[c.Path] || c.Risk == RiskHigh
		}
		for _, c := range Cuts(a, b) {
			quota := strings.HasSuffix(c.Path, ".quota.amount") // stands for max and over as well
			if !high[c.Path] && !quota && c.Kind != CutNoLimits && c.Kind != CutNoRoutes {
				t.Fatalf("%+v is no change at high risk: %+v", c, Diff(a, b))
			}
			if c.Text == "" || c.Factor < 0 || c.Factor > 0.5 || c.After > c.Before && c.Before != -1 {
				t.Fatalf("%+v", c)
			}
		}
		if got := Cuts(a, a); len(got) != 0 {
			t.Fatalf("cuts of no change: %+v", got)
		}
	})
}
