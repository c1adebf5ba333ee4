package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func spanAt(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func spanOf(t *testing.T, a console.UsageAsk, now string) console.UsageSpan {
	t.Helper()
	s, err := a.Span(spanAt(t, now))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUsageSpan_NamedRangesEndWithTheStepUnderWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, zone, from, to, step string }{
		{"1h", "", "2026-11-30T11:41:00Z", "2026-11-30T12:41:00Z", "minute"},
		{"", "", "2026-11-29T13:00:00Z", "2026-11-30T13:00:00Z", "hour"},
		{"24h", "Asia/Kolkata", "2026-11-29T19:00:00+05:30", "2026-11-30T19:00:00+05:30", "hour"},
		{"7d", "", "2026-11-23T13:00:00Z", "2026-11-30T13:00:00Z", "hour"},
		{"30d", "Asia/Shanghai", "2026-11-01T00:00:00+08:00", "2026-12-01T00:00:00+08:00", "day"},
		{"month", "", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z", "day"},
		{"last-month", "Europe/Berlin", "2026-10-01T00:00:00+02:00", "2026-11-01T00:00:00+01:00", "day"},
		{"12m", "", "2025-12-01T00:00:00Z", "2026-12-01T00:00:00Z", "month"},
	} {
		s := spanOf(t, console.UsageAsk{Range: c.name, Zone: c.zone}, "2026-11-30T12:40:30Z")
		if s.From.Format(time.RFC3339) != c.from || s.To.Format(time.RFC3339) != c.to || s.Step != c.step {
			t.Errorf("%s: %s to %s by %s, want %s to %s by %s", c.name, s.From.Format(time.RFC3339), s.To.Format(time.RFC3339), s.Step, c.from, c.to, c.step)
		}
	}
}

func TestUsageSpan_R112_DaysAreThoseOfTheZone(t *testing.T) {
	t.Parallel()
	s := spanOf(t, console.UsageAsk{From: "2026-01-15", To: "2026-01-16", ToLast: true, Zone: "Asia/Shanghai", Step: "day"}, "2026-02-01T00:00:00Z")
	starts := s.Starts()
	if len(starts) != 2 {
		t.Fatalf("%d days: %v", len(starts), starts)
	}
	for at, day := range map[string]int{"2026-01-15T15:59:59Z": 0, "2026-01-15T16:00:00Z": 1, "2026-01-14T15:59:59Z": -1, "2026-01-16T16:00:00Z": -1} {
		if got := s.Index(starts, spanAt(t, at)); got != day {
			t.Errorf("%s falls on day %d, want %d", at, got, day)
		}
	}
}

func TestUsageSpan_ClockChangesMakeDaysOf23And25Hours(t *testing.T) {
	t.Parallel()
	for day, hours := range map[string]int{"2026-03-29": 23, "2026-10-25": 25, "2026-06-01": 24} {
		s := spanOf(t, console.UsageAsk{From: day, To: day, ToLast: true, Zone: "Europe/Berlin", Step: "hour"}, "2026-12-01T00:00:00Z")
		if n := len(s.Starts()); n != hours {
			t.Errorf("%s has %d hours, want %d", day, n, hours)
		}
	}
}

func TestUsageSpan_BeforeHasAsManySteps(t *testing.T) {
	t.Parallel()
	for _, r := range []string{"1h", "24h", "7d", "30d", "90d", "12m"} {
		s := spanOf(t, console.UsageAsk{Range: r, Zone: "Europe/Berlin"}, "2026-04-02T09:15:00Z")
		b := s.Before()
		if !b.To.Equal(s.From) || len(b.Starts()) != len(s.Starts()) {
			t.Errorf("%s: %d steps before %d, until %v", r, len(b.Starts()), len(s.Starts()), b.To)
		}
	}
	s := spanOf(t, console.UsageAsk{Range: "month"}, "2026-03-02T09:15:00Z").Before()
	if s.From.Format(time.DateOnly) != "2026-02-01" || s.To.Format(time.DateOnly) != "2026-03-01" {
		t.Errorf("before March is %v to %v, not February", s.From, s.To)
	}
}

func TestUsageSpan_EachWrongFieldIsNamed(t *testing.T) {
	t.Parallel()
	for field, a := range map[string]console.UsageAsk{
		"zone": {Zone: "Mars/Base"}, "range": {Range: "fortnight"}, "from": {From: "yesterday", To: "2026-01-01"}, "to": {From: "2026-01-01", To: "x"},
		"step": {Step: "fortnight"},
	} {
		_, err := a.Span(spanAt(t, "2026-11-30T12:00:00Z"))
		if err == nil || !strings.Contains(err.Error(), "["+field+":") {
			t.Errorf("%+v: %v does not name %s", a, err, field)
		}
	}
	for _, a := range []console.UsageAsk{{From: "2026-02-01", To: "2026-01-01"}, {From: "0001-01-01", To: "9999-01-01"}, {Range: "90d", Step: "minute"}} {
		if _, err := a.Span(spanAt(t, "2026-11-30T12:00:00Z")); err == nil {
			t.Errorf("%+v is taken", a)
		}
	}
}

func FuzzUsageSpan(f *testing.F) {
	f.Add("24h", "2026-01-01", "2026-02-01", "day", "Europe/Berlin", true)
	f.Add("", "2026-01-01T00:00:00Z", "", "minute", "Australia/Lord_Howe", false)
	f.Fuzz(func(t *testing.T, name, from, to, step, zone string, last bool) {
		s, err := console.UsageAsk{Range: name, From: from, To: to, Step: step, Zone: zone, ToLast: last}.Span(time.Unix(1796000000, 0))
		if err != nil {
			return
		}
		starts := s.Starts()
		if len(starts) == 0 || len(starts) > 1500 || !starts[0].Equal(s.From) {
			t.Fatalf("%d steps from %v", len(starts), s.From)
		}
		for i, at := range starts {
			if got := s.Index(starts, at); got != i {
				t.Fatalf("step %d at %v has index %d", i, at, got)
			}
		}
		if !s.Next(starts[len(starts)-1]).Equal(s.To) {
			t.Fatalf("the last step %v does not end at %v", starts[len(starts)-1], s.To)
		}
	})
}
