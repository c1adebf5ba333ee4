package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func day(s string) time.Time {
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

func quotaFor(t testing.TB, p QuotaPeriod, a Alignment, zone string) *CompiledQuota {
	t.Helper()
	q, err := compileQuota(&Quota{Amount: 1, Counts: CountsCost, Period: p, Alignment: a, TimeZone: zone, Over: OverBlock, Mode: ModeEnforce}, "plan p")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestPeriod_Table(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		period     QuotaPeriod
		anchor     string // "": calendar
		zone       string
		now        string
		start, end string
	}{
		{"day", PeriodDay, "", "UTC", "2026-11-30T23:59:59.999999Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"the end is not in it", PeriodDay, "", "UTC", "2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z"},
		{"day in Berlin", PeriodDay, "", "Europe/Berlin", "2026-11-30T23:00:00Z", "2026-11-30T23:00:00Z", "2026-12-01T23:00:00Z"},
		{"day of 23 hours", PeriodDay, "", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"day of 25 hours", PeriodDay, "", "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"day with an anchor", PeriodDay, "2026-01-31", "UTC", "2026-11-30T05:00:00Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"a zone of 45 minutes", PeriodDay, "", "Asia/Kathmandu", "2026-11-30T18:14:59Z", "2026-11-29T18:15:00Z", "2026-11-30T18:15:00Z"},
		{"west of everything", PeriodDay, "", "Pacific/Pago_Pago", "2026-11-30T10:59:59Z", "2026-11-29T11:00:00Z", "2026-11-30T11:00:00Z"},
		{"midnight skipped", PeriodDay, "", "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"the day before it", PeriodDay, "", "America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"},
		{"midnight twice, the same day", PeriodDay, "", "America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"midnight twice, east of Greenwich", PeriodDay, "", "Asia/Amman", "2021-10-28T22:30:00Z", "2021-10-28T21:00:00Z", "2021-10-29T22:00:00Z"},
		{"the day before it", PeriodDay, "", "Asia/Amman", "2021-10-28T20:59:59Z", "2021-10-27T21:00:00Z", "2021-10-28T21:00:00Z"},
		{"the last hour of a day twice, east of Greenwich", PeriodDay, "", "Asia/Beirut", "2021-10-30T21:30:00Z", "2021-10-29T21:00:00Z", "2021-10-30T22:00:00Z"},
		{"the last hour of a day twice", PeriodDay, "", "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
		{"a day that never was", PeriodDay, "", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"the day after it", PeriodDay, "", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		{"week begins on Monday", PeriodWeek, "", "UTC", "2026-11-29T23:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"Monday", PeriodWeek, "", "UTC", "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"},
		{"week over new year", PeriodWeek, "", "UTC", "2027-01-01T00:00:00Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"week from a Thursday", PeriodWeek, "2026-01-01", "UTC", "2026-11-30T00:00:00Z", "2026-11-26T00:00:00Z", "2026-12-03T00:00:00Z"},
		{"week before the anchor", PeriodWeek, "2026-12-03", "UTC", "2026-12-01T00:00:00Z", "2026-11-26T00:00:00Z", "2026-12-03T00:00:00Z"},
		{"week over the change of clocks", PeriodWeek, "", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"month", PeriodMonth, "", "UTC", "2026-02-15T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"month in Berlin, with daylight saving at one end", PeriodMonth, "", "Europe/Berlin", "2026-03-31T21:59:59Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		{"December", PeriodMonth, "", "UTC", "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"the 31st in January", PeriodMonth, "2026-01-31", "UTC", "2026-02-27T00:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"the 31st in February", PeriodMonth, "2026-01-31", "UTC", "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"the 31st returns in March", PeriodMonth, "2026-01-31", "UTC", "2026-03-31T00:00:00Z", "2026-03-31T00:00:00Z", "2026-04-30T00:00:00Z"},
		{"the 31st in a leap year", PeriodMonth, "2026-01-31", "UTC", "2028-02-29T00:00:00Z", "2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"},
		{"the 31st over new year", PeriodMonth, "2026-01-31", "UTC", "2027-01-30T23:59:59Z", "2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z"},
		{"the 15th before its day", PeriodMonth, "2020-06-15", "Europe/Berlin", "2026-11-14T22:59:59Z", "2026-10-14T22:00:00Z", "2026-11-14T23:00:00Z"},
		{"an anchor in the future", PeriodMonth, "2030-05-10", "UTC", "2026-11-30T00:00:00Z", "2026-11-10T00:00:00Z", "2026-12-10T00:00:00Z"},
		{"year", PeriodYear, "", "UTC", "2026-12-31T23:59:59Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"year in Tokyo", PeriodYear, "", "Asia/Tokyo", "2026-12-31T15:00:00Z", "2026-12-31T15:00:00Z", "2027-12-31T15:00:00Z"},
		{"leap day in a common year", PeriodYear, "2024-02-29", "UTC", "2026-03-01T00:00:00Z", "2026-02-28T00:00:00Z", "2027-02-28T00:00:00Z"},
		{"leap day returns", PeriodYear, "2024-02-29", "UTC", "2028-02-28T23:59:59Z", "2027-02-28T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"year before its day", PeriodYear, "2024-12-01", "UTC", "2026-11-30T00:00:00Z", "2025-12-01T00:00:00Z", "2026-12-01T00:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339Nano, c.now)
		if err != nil {
			t.Fatal(err)
		}
		alignment := AlignAnniversary // a zero anchor is calendar all the same
		q := quotaFor(t, c.period, alignment, c.zone)
		start, end := q.PeriodAt(now, day(c.anchor), nil)
		if got, until := start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339); got != c.start || until != c.end {
			t.Errorf("%s: %s to %s, want %s to %s", c.name, got, until, c.start, c.end)
		}
		if c.anchor != "" {
			continue
		}
		q.Alignment = AlignCalendar
		if again, until := q.PeriodAt(now, day("2019-07-17"), nil); !again.Equal(start) || !until.Equal(end) {
			t.Errorf("%s: calendar periods follow an anchor: %s to %s", c.name, again, until)
		}
	}
}

func TestPeriod_LifetimeHasNoEnd(t *testing.T) {
	t.Parallel()
	for _, now := range []time.Time{day("1999-01-01"), day("2026-11-30")} {
		start, end := quotaFor(t, PeriodLifetime, AlignAnniversary, "Europe/Berlin").PeriodAt(now, day("2026-01-31"), nil)
		if start.UnixMicro() != 0 || !end.IsZero() {
			t.Errorf("lifetime at %s: %s to %s", now, start, end)
		}
	}
}

func TestPeriod_TenantsZoneGoesBeforeTheQuotas(t *testing.T) {
	t.Parallel()
	q := quotaFor(t, PeriodMonth, AlignCalendar, "UTC")
	start, end := q.PeriodAt(day("2026-11-30"), time.Time{}, zoneOf(t, "Asia/Tokyo"))
	if got := start.UTC().Format(time.RFC3339) + " " + end.UTC().Format(time.RFC3339); got != "2026-10-31T15:00:00Z 2026-11-30T15:00:00Z" {
		t.Error(got)
	}
}

// Only the date of an anchor counts, so a tenant that began late in the evening
// is not a day off.
func TestPeriod_AnchorIsADate(t *testing.T) {
	t.Parallel()
	q := quotaFor(t, PeriodMonth, AlignAnniversary, "America/New_York")
	late := time.Date(2026, 1, 15, 23, 59, 0, 0, zoneOf(t, "Asia/Tokyo"))
	a, b := q.PeriodAt(day("2026-11-30"), late, nil)
	c, d := q.PeriodAt(day("2026-11-30"), day("2026-01-15"), nil)
	if !a.Equal(c) || !b.Equal(d) {
		t.Errorf("%s to %s, want %s to %s", a, b, c, d)
	}
}

// Periods lie end to end without a gap or an overlap, each begins with the first
// moment of its day, and one that holds now holds until its end.
func TestPeriod_PeriodsCoverTimeOnce(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana", "Africa/Cairo", "Asia/Beirut", "Asia/Amman", "Asia/Damascus", "Asia/Gaza",
		"Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kiritimati", "Asia/Kathmandu", "America/Asuncion"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		zone, err := LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		q := &CompiledQuota{Quota: &Quota{
			Period:    rapid.SampledFrom([]QuotaPeriod{PeriodDay, PeriodWeek, PeriodMonth, PeriodYear}).Draw(t, "period"),
			Alignment: rapid.SampledFrom([]Alignment{AlignCalendar, AlignAnniversary}).Draw(t, "alignment"),
		}, Location: zone}
		anchor := time.Unix(rapid.Int64Range(946_684_800, 2_000_000_000).Draw(t, "anchor"), 0).UTC()
		now := time.Unix(rapid.Int64Range(946_684_800, 2_000_000_000).Draw(t, "now"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		start, end := q.PeriodAt(now, anchor, nil)
		if now.Before(start) || !now.Before(end) {
			t.Fatalf("%s is not in %s to %s", now, start, end)
		}
		before := start.Add(-time.Nanosecond)
		if _, until := q.PeriodAt(before, anchor, nil); !until.Equal(start) {
			t.Fatalf("the period before ends at %s, this one begins at %s", until, start)
		}
		for _, at := range []time.Time{start, end.Add(-time.Nanosecond)} {
			if s, e := q.PeriodAt(at, anchor, nil); !s.Equal(start) || !e.Equal(end) {
				t.Fatalf("at %s the period is %s to %s, at %s it is %s to %s", now, start, end, at, s, e)
			}
		}
		if d := dateOf(start.In(zone)); dateOf(before.In(zone)) >= d {
			t.Fatalf("%s in %s is not the first moment of its day", start, name)
		}
	})
}

func TestLoadZone_RefusesWhatHangsOnTheMachine(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Local", "Berlin", "../etc/passwd", "Europe/Berlin\n", "/usr/share/zoneinfo/UTC", "+02:00"} {
		if z, err := LoadZone(name); err == nil {
			t.Errorf("%q is %s", name, z)
		}
	}
}
