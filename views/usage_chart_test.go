package views_test

import (
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func paths(root *html.Node, class string) (out []string) {
	each(root, func(n *html.Node) {
		if c, _ := attr(n, "class"); n.Data == "path" && c == class {
			d, _ := attr(n, "d")
			out = append(out, d)
		}
	})
	return out
}

func barsOf(t *testing.T, bars ...ui.Bar) *html.Node {
	t.Helper()
	u := usageRecord("Acme")
	u.Heat, u.Chart.Bars = nil, bars
	return rendered(t, "bars", views.Usage(views.UsageProps{Frame: frame("Usage", "/usage", goodFacts()), Usage: u}))
}

func TestUsageBars_StandOnTheirScaleAndOnOneAnother(t *testing.T) {
	t.Parallel()
	root := barsOf(t, ui.Bar{When: "a", Main: 500, Refused: 500}, ui.Bar{When: "b", Main: 250, Open: true, Earlier: 1000})
	if d := paths(root, "bars"); len(d) != 1 || d[0] != "M2,144V72h496V144z" {
		t.Errorf("what was admitted is drawn as %q, not half of 1000 high", d)
	}
	if d := paths(root, "bars open"); len(d) != 1 || d[0] != "M502,144V108h496V144z" {
		t.Errorf("a step that is not over is drawn as %q", d)
	}
	if d := paths(root, "bars bad"); len(d) != 1 || d[0] != "M2,72V0h496V72z" {
		t.Errorf("refusals are drawn as %q, not on top", d)
	}
	if d := paths(root, "before"); len(d) != 1 || d[0] != "M502,0h496" {
		t.Errorf("the period before is drawn as %q", d)
	}
}

func TestUsageBars_TableSaysWhatIsNotKnownAndWhatIsNotOver(t *testing.T) {
	t.Parallel()
	root := barsOf(t, ui.Bar{When: "first", Main: 5}, ui.Bar{When: "second", Open: true, Main: 1}, ui.Bar{When: "third", Future: true})
	var rows []string
	each(root, func(n *html.Node) {
		if n.Data == "tr" {
			rows = append(rows, strings.Join(strings.Fields(text(n)), ""))
		}
	})
	for _, want := range []string{"first5000", "secondsofar1000", "third" + ui.Unknown} {
		found := false
		for _, r := range rows {
			found = found || r == want
		}
		if !found {
			t.Errorf("no row %q in %q", want, rows)
		}
	}
}

func TestUsageBars_NothingIsSaidInWords(t *testing.T) {
	t.Parallel()
	root := barsOf(t, ui.Bar{When: "a"})
	if !strings.Contains(text(root), "Nothing was counted in this range.") || len(paths(root, "bars")) != 0 {
		t.Error("an empty chart is drawn")
	}
}

func TestHeatMap_ShadesFollowTheBusiestHour(t *testing.T) {
	t.Parallel()
	h := ui.HeatMap{Title: "Requests", Unit: "requests an hour", Zone: "UTC", Days: []ui.HeatDay{{Name: "Monday"}}}
	h.Days[0].Hours[0] = ui.HeatCell{Known: true}
	h.Days[0].Hours[1] = ui.HeatCell{Known: true, Value: 1}
	h.Days[0].Hours[2] = ui.HeatCell{Known: true, Value: 100}
	u := usageRecord("Acme")
	u.Heat = &h
	root := rendered(t, "heat", views.Usage(views.UsageProps{Frame: frame("Usage", "/usage", goodFacts()), Usage: u}))
	for class, want := range map[string]string{"h0": "M0,0h38v18h-38z", "h1": "M40,0h38v18h-38z", "h5": "M80,0h38v18h-38z"} {
		if d := paths(root, class); len(d) != 1 || d[0] != want {
			t.Errorf("%s is %q, not %q", class, d, want)
		}
	}
	if d := paths(root, "unknown"); len(d) != 1 || strings.Count(d[0], "M") != 21 {
		t.Errorf("hours that the range lacks are drawn as %q, not as 21 cells", d)
	}
}

func TestQuotaMeter_ShowsBothMarksAndNeverAnUnknownAsNothing(t *testing.T) {
	t.Parallel()
	root := rendered(t, "quota", ui.QuotaMeter(ui.QuotaBar{Known: true, Percent: 120, Hard: 125, Text: "1 200 of 1 000"}))
	if d := paths(root, "hard"); len(d) != 1 || d[0] != "M125,0V6" {
		t.Errorf("the hard mark is %q", d)
	}
	root = rendered(t, "quota-unknown", ui.QuotaMeter(ui.QuotaBar{Text: ui.Unknown}))
	if len(paths(root, "soft")) != 0 || !strings.Contains(text(root), ui.Unknown) {
		t.Error("a quota whose use is unknown has a bar")
	}
}
