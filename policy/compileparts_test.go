package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What a gateway charges is what the document says, part by part.
func TestCompile_KeepsWhatEachLimitSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument().Draw(t, "document").withDefaults()
		c, err := Compile(d)
		if err != nil {
			t.Fatal(err)
		}
		sameLimits(t, "global", d.Global.Limits, c.Global, globalLimitID)
		for name, plan := range d.Plans {
			sameLimits(t, "plan "+name, plan.Limits, c.Plans[name], planLimitID)
			q := c.Quotas[name]
			if (q == nil) != (plan.Quota == nil) {
				t.Fatalf("plan %s: quota %+v of %+v", name, q, plan.Quota)
			}
			if q != nil && (*q.Quota != *plan.Quota || q.Hash != LimitHash(QuotaID) || q.Location.String() != plan.Quota.TimeZone || q.Shadow != (plan.Quota.Mode == ModeShadow)) {
				t.Fatalf("plan %s: quota %+v of %+v", name, q, plan.Quota)
			}
		}
		for i, r := range d.Routes {
			got := c.Routes[i]
			sameLimits(t, "route "+r.Name, r.Limits, got.Limits[len(r.Uses):], func(name string) string { return routeLimitID(r.Name, name) })
			sameConcurrency(t, r, got.Concurrency)
			if got.Cost != r.Cost || got.Route.SettleHeader != r.SettleHeader || (got.Route.GraphQL == nil) != (r.GraphQL == nil) {
				t.Fatalf("route %s: %+v", r.Name, got)
			}
		}
	})
}

func sameLimits(t *rapid.T, source string, want []Limit, got []CompiledLimit, id func(string) string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d limits, want %d", source, len(got), len(want))
	}
	for i, l := range want {
		g := got[i]
		ends := int64(0)
		if l.ExpiresAt != nil {
			ends = l.ExpiresAt.UnixMicro()
		}
		if g.ID != id(l.Name) || g.Hash != LimitHash(g.ID) || g.Per != l.Per || PerOf(g.Dimensions) != l.Per || g.Source != source ||
			g.Shadow != (l.Mode == ModeShadow) || g.Leased != (l.Sync == SyncLeased) || g.ExpiresMicros != ends || g.Unlimited != l.Rate.Unlimited {
			t.Fatalf("%s: %+v of %+v", source, g, l)
		}
		if !g.Unlimited && !g.Numbers.Blocked() {
			had, has := big.NewRat(l.Rate.Tokens, l.Rate.Period.Microseconds()), big.NewRat(g.Numbers.Tokens, g.Numbers.Period)
			if had.Cmp(has) != 0 || g.Numbers.Burst != l.Burst {
				t.Fatalf("%s: numbers %+v of %s, burst %d", source, g.Numbers, l.Rate, l.Burst)
			}
		}
	}
}

func sameConcurrency(t *rapid.T, r Route, got *CompiledConcurrency) {
	t.Helper()
	if (got == nil) != (r.Concurrency == nil) {
		t.Fatalf("route %s: %+v of %+v", r.Name, got, r.Concurrency)
	}
	if c := r.Concurrency; c != nil && (got.ID != "route:"+r.Name+".concurrency" || got.Hash != LimitHash(got.ID) || got.Max != c.Max || got.Hold != c.Lease ||
		got.Per != c.Per || PerOf(got.Dimensions) != c.Per || got.Shadow != (c.Mode == ModeShadow) || got.Source != "route "+r.Name) {
		t.Fatalf("route %s: %+v of %+v", r.Name, got, c)
	}
}

// Nothing that is written into a document afterwards reaches a gateway.
func TestCompile_SharesNoPartWithTheDocument(t *testing.T) {
	t.Parallel()
	end := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	d := layers(t)
	d.Routes[0].Limits[0].ExpiresAt = &end
	c, err := Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	want, ends := c.Digest, end.UnixMicro()
	d.Plans["free"].Quota.Amount = 1
	d.Routes[0].Concurrency.Max = 1
	d.Routes[1].GraphQL.Max, d.Routes[1].GraphQL.Weights["Query.search"], d.Routes[1].GraphQL.ListArguments[0] = 1, 1, "x"
	d.User.Header = "X-Other"
	*d.Routes[0].Limits[0].ExpiresAt = end.AddDate(1, 0, 0)
	if got := DigestOf(c.Document.Canonical()); got != want {
		t.Errorf("the compiled document's digest was %s and is %s", want, got)
	}
	if c.Quotas["free"].Amount != 100_000 || c.Routes[0].Concurrency.Max != 2 || c.Routes[1].Route.GraphQL.Weights["Query.search"] != 10 ||
		c.Routes[0].Limits[1].ExpiresMicros != ends {
		t.Error("a change of the document reached what it compiled to")
	}
}

// Ids that stored state could not tell apart are refused wherever they stand.
func TestValidate_CollisionsOfEveryKindOfID(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b  string
		other func(h uint64) uint64
		path  string
	}{
		"quota and limit":           {"shared:search", QuotaID, func(h uint64) uint64 { return h }, "plans.free.quota"},
		"concurrency and limit":     {"shared:search", "route:report.concurrency", func(h uint64) uint64 { return h }, "routes[0].concurrency"},
		"limit and its count":       {"shared:search", "route:report.reports", func(h uint64) uint64 { return ^h }, "routes[0].limits[0].name"},
		"quota and a limit's count": {"shared:search", QuotaID, func(h uint64) uint64 { return ^h }, "plans.free.quota"},
	} {
		v := &validator{doc: everyPart().withDefaults()}
		v.collisions(func(id string) uint64 {
			switch id {
			case c.a:
				return 7
			case c.b:
				return c.other(7)
			}
			return LimitHash(id)
		})
		if got := v.problems.all(); len(got) != 1 || got[0].Path != c.path || !strings.Contains(got[0].Message, c.a) || !strings.Contains(got[0].Message, c.b) {
			t.Errorf("%s: problems %q", name, got)
		}
	}
}

// Which value holds at any moment, against a plain reading of the rules.
func TestOverrides_HoldAsTheRulesSay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &CompiledLimit{ID: "plan.requests", Hash: LimitHash("plan.requests"), Per: PerTenant, Source: "plan p"}
		rate, burst := genRateAndBurst(t)
		if l.Unlimited = rate.Unlimited; !l.Unlimited {
			l.Numbers, _ = NumbersOf(rate, burst)
		}
		override, boost := genOverride(t), genBoost(t)
		var list []Override
		for _, o := range []*Override{override, boost} {
			if o != nil {
				list = append(list, *o)
			}
		}
		if rapid.Bool().Draw(t, "other order") {
			slices.Reverse(list)
		}
		o, err := CompileOverrides(list)
		if err != nil {
			t.Fatal(err)
		}
		now := at + rapid.Int64Range(-2, 12).Draw(t, "now")*1_000_000
		n, p := o.Limit(l, now)
		wantN, wantP := plainReading(l, override, boost, now)
		if n != wantN || p != wantP {
			t.Fatalf("%+v %+v, want %+v %+v", n, p, wantN, wantP)
		}
		if p.ExpiresMicros != 0 && p.ExpiresMicros <= now {
			t.Fatalf("at %d a value holds that ended at %d", now, p.ExpiresMicros)
		}
	})
}

func genEnd(t *rapid.T) *time.Time {
	return inSeconds(rapid.Int64Range(0, 10).Draw(t, "end"))
}

func genOverride(t *rapid.T) *Override {
	o := &Override{Limit: "plan.requests", Reason: "override"}
	switch rapid.IntRange(0, 4).Draw(t, "kind of override") {
	case 0:
		return nil
	case 1:
		o.Rate = "unlimited"
	case 2:
		o.Rate = rapid.SampledFrom([]string{"0", "5/minute", "1000/second", "1/day"}).Draw(t, "rate")
	case 3:
		o.Rate, o.Burst = "5/minute", new(rapid.Int64Range(0, 100).Draw(t, "burst"))
	default:
		o.Burst = new(rapid.Int64Range(0, maxStored).Draw(t, "burst alone"))
	}
	if rapid.Bool().Draw(t, "override ends") {
		o.ExpiresAt = genEnd(t)
	}
	return o
}

func genBoost(t *rapid.T) *Override {
	if rapid.Bool().Draw(t, "no boost") {
		return nil
	}
	return &Override{Limit: "plan.requests", FactorMilli: rapid.Int64Range(1001, 5000).Draw(t, "factor"), ExpiresAt: genEnd(t), Reason: "boost"}
}

// plainReading is the precedence as the manual tells it.
func plainReading(l *CompiledLimit, override, boost *Override, now int64) (Numbers, Provenance) {
	holds := func(o *Override) bool {
		return o != nil && (o.ExpiresAt == nil || now < o.ExpiresAt.UnixMicro())
	}
	n, p := l.Numbers, Provenance{Source: l.Source, Unlimited: l.Unlimited}
	var ends []int64
	if holds(override) {
		p.Source, p.Reason = "override", "override"
		if override.ExpiresAt != nil {
			ends = append(ends, override.ExpiresAt.UnixMicro())
		}
		if override.Rate != "" {
			r, _ := ParseRate(override.Rate)
			b := r.Tokens
			if override.Burst != nil {
				b = *override.Burst
			}
			if p.Unlimited = r.Unlimited; r.Unlimited {
				n = Numbers{}
			} else {
				n, _ = NumbersOf(r, b)
			}
		} else if n.Tokens > 0 {
			n.Burst = min(*override.Burst, maxBurst(n))
		}
	}
	if holds(boost) && !p.Unlimited {
		p.Source, p.Reason, n = "boost", "boost", n.boosted(boost.FactorMilli)
		ends = append(ends, boost.ExpiresAt.UnixMicro())
	}
	if len(ends) > 0 {
		p.ExpiresMicros = slices.Min(ends)
	}
	return n, p
}

// A tenant's record carries its overrides word for word, and a record without
// the new parts has the bytes that it always had.
func TestTenantRecord_CarriesZoneAnchorAndOverrides(t *testing.T) {
	t.Parallel()
	plain, err := json.Marshal(TenantRecord{ID: "ten_1", Plan: "free", State: TenantActive})
	if err != nil || string(plain) != `{"id":"ten_1","plan":"free","state":"active"}` {
		t.Errorf("%s, %v", plain, err)
	}
	record := TenantRecord{ID: "ten_1", Plan: "free", State: TenantActive, TimeZone: "Asia/Tokyo", QuotaAnchor: "2026-01-31", Overrides: []Override{
		{Limit: "plan.requests", Rate: "5/minute", Burst: new(int64(0)), ExpiresAt: inSeconds(5), Reason: "r", Author: "a"},
		{Limit: QuotaID, Amount: new(int64(MaxAmount)), Max: new(int64(0))},
		{Limit: QuotaID, FactorMilli: 1500, ExpiresAt: inSeconds(9)},
	}}
	raw, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"time_zone":"Asia/Tokyo"`, `"quota_anchor":"2026-01-31"`, `"burst":0`, `"amount":9007199254740991`, `"max":0`, `"factor_milli":1500`,
		`"expires_at":"2027-01-15T08:00:05Z"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s lacks %s", raw, want)
		}
	}
	var back TenantRecord
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(back); string(again) != string(raw) {
		t.Errorf("comes back as %s", again)
	}
	if _, err := CompileOverrides(back.Overrides); err != nil {
		t.Error(err)
	}
}

// The months of an anniversary, against counting on a calendar day by day.
func TestPeriod_MonthsAgreeWithACalendar(t *testing.T) {
	t.Parallel()
	q := &CompiledQuota{Quota: &Quota{Period: PeriodMonth, Alignment: AlignAnniversary}, Location: time.UTC}
	for _, dayOfMonth := range []int{1, 15, 28, 29, 30, 31} {
		anchor := time.Date(2023, 1, dayOfMonth, 0, 0, 0, 0, time.UTC)
		for d := time.Date(2023, 12, 1, 0, 0, 0, 0, time.UTC); d.Year() < 2026; d = d.AddDate(0, 0, 1) {
			start, end := q.PeriodAt(d.Add(13*time.Hour), anchor, nil)
			last := time.Date(d.Year(), d.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
			begins := d.Day() == min(dayOfMonth, last)
			if begins != start.Equal(d) {
				t.Fatalf("anchor %d: on %s the period begins %s", dayOfMonth, d.Format(time.DateOnly), start)
			}
			if length := end.Sub(start); length < 28*24*time.Hour || length > 31*24*time.Hour {
				t.Fatalf("anchor %d: a month of %s", dayOfMonth, length)
			}
		}
	}
}

// How long periods are, over many years in many zones.
func TestPeriod_LengthsAreThoseOfTheCalendar(t *testing.T) {
	t.Parallel()
	days := func(n float64) time.Duration { return time.Duration(n * 24 * float64(time.Hour)) }
	bounds := map[QuotaPeriod][2]time.Duration{
		PeriodDay: {days(1) - 3*time.Hour, days(1) + 3*time.Hour}, PeriodWeek: {days(7) - 3*time.Hour, days(7) + 3*time.Hour},
		PeriodMonth: {days(28) - 3*time.Hour, days(31) + 3*time.Hour}, PeriodYear: {days(365) - 3*time.Hour, days(366) + 3*time.Hour},
	}
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo", "Australia/Lord_Howe"} {
		zone := zoneOf(t, name)
		for period, bound := range bounds {
			q := &CompiledQuota{Quota: &Quota{Period: period, Alignment: AlignCalendar}, Location: zone}
			at := time.Date(2015, 1, 1, 12, 0, 0, 0, time.UTC)
			for at.Year() < 2030 {
				start, end := q.PeriodAt(at, time.Time{}, nil)
				if length := end.Sub(start); length < bound[0] || length > bound[1] {
					t.Fatalf("%s: a %s of %s from %s", name, period, length, start)
				}
				at = end
			}
		}
	}
}

func TestEffective_LeavesOutRoutesWithoutATenant(t *testing.T) {
	t.Parallel()
	c := compiledLayers(t)
	var ids []string
	for _, l := range c.Effective("pro") {
		ids = append(ids, fmt.Sprintf("%s@%s", l.ID, cmp.Or(l.Route, "*")))
	}
	want := "global.all@* plan.requests@* shared:search@report route:report.reports@report route:graphql.points@graphql"
	if got := strings.Join(ids, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
