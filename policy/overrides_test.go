package policy

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at is a moment of Redis' clock in the tests of overrides, in µs.
const at = int64(1_800_000_000_000_000)

func inSeconds(s int64) *time.Time { return new(time.UnixMicro(at + s*1_000_000).UTC()) }

func compiledLayers(t testing.TB) *Compiled {
	t.Helper()
	c, err := Compile(layers(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func overridesOf(t testing.TB, list ...Override) *Overrides {
	t.Helper()
	o, err := CompileOverrides(list)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOverrides_PrecedenceIsBoostOverrideOwn(t *testing.T) {
	t.Parallel()
	l := &compiledLayers(t).Plans["pro"][0] // 6000/minute, burst 500
	own := Provenance{Source: "plan pro"}
	override := Override{Limit: "plan.requests", Rate: "60/minute", ExpiresAt: inSeconds(100), Reason: "trial"}
	boost := Override{Limit: "plan.requests", FactorMilli: 1500, ExpiresAt: inSeconds(10), Reason: "launch"}
	for _, c := range []struct {
		name string
		list []Override
		at   int64
		n    Numbers
		p    Provenance
	}{
		{"none", nil, at, l.Numbers, own},
		{"another limit's", []Override{{Limit: "shared:search", Rate: "1/day"}}, at, l.Numbers, own},
		{"override", []Override{override}, at, Numbers{1, 1_000_000, 60}, Provenance{"override", at + 100e6, "trial", false, 0}},
		{"override, to the last moment", []Override{override}, at + 100e6 - 1, Numbers{1, 1_000_000, 60}, Provenance{"override", at + 100e6, "trial", false, 0}},
		{"override has ended", []Override{override}, at + 100e6, l.Numbers, own},
		{"boost of the plan's", []Override{boost}, at, Numbers{3, 20_000, 750}, Provenance{"boost", at + 10e6, "launch", false, 0}},
		{"boost of the override", []Override{boost, override}, at, Numbers{3, 2_000_000, 90}, Provenance{"boost", at + 10e6, "launch", false, 0}},
		{"boost has ended", []Override{override, boost}, at + 10e6, Numbers{1, 1_000_000, 60}, Provenance{"override", at + 100e6, "trial", false, 0}},
		{"boost outlives the override", []Override{{Limit: "plan.requests", Rate: "60/minute", ExpiresAt: inSeconds(5)}, boost}, at,
			Numbers{3, 2_000_000, 90}, Provenance{"boost", at + 5e6, "launch", false, 0}},
		{"burst alone", []Override{{Limit: "plan.requests", Burst: new(int64(7))}}, at, Numbers{1, 10_000, 7}, Provenance{"override", 0, "", false, 0}},
		{"burst alone, beyond what can be counted", []Override{{Limit: "plan.requests", Burst: new(int64(maxStored))}}, at,
			Numbers{1, 10_000, 900_719_925_474}, Provenance{"override", 0, "", false, 0}},
		{"unlimited", []Override{{Limit: "plan.requests", Rate: "unlimited"}}, at, Numbers{}, Provenance{"override", 0, "", true, 0}},
		{"boost of unlimited", []Override{{Limit: "plan.requests", Rate: "unlimited"}, boost}, at, Numbers{}, Provenance{"override", 0, "", true, 0}},
		{"nothing", []Override{{Limit: "plan.requests", Rate: "0"}}, at, Numbers{Period: 1}, Provenance{"override", 0, "", false, 0}},
		{"boost of nothing", []Override{{Limit: "plan.requests", Rate: "0"}, boost}, at, Numbers{Period: 1}, Provenance{"boost", at + 10e6, "launch", false, 0}},
	} {
		n, p := overridesOf(t, c.list...).Limit(l, c.at)
		if n != c.n || p != c.p {
			t.Errorf("%s: %+v %+v, want %+v %+v", c.name, n, p, c.n, c.p)
		}
	}
}

func TestOverrides_BoundAnUnlimitedPlan(t *testing.T) {
	t.Parallel()
	l := &CompiledLimit{ID: "plan.requests", Hash: LimitHash("plan.requests"), Per: PerTenant, Unlimited: true, Source: "plan staff"}
	if n, p := overridesOf(t, Override{Limit: l.ID, Rate: "10/second"}).Limit(l, at); n != (Numbers{1, 100_000, 10}) || p.Unlimited {
		t.Errorf("bounded to %+v, %+v", n, p)
	}
	if n, p := overridesOf(t, Override{Limit: l.ID, Burst: new(int64(5))}).Limit(l, at); n != (Numbers{}) || !p.Unlimited {
		t.Errorf("a burst beside no rate gives %+v, %+v", n, p)
	}
	if _, p := (*Overrides)(nil).Limit(l, at); !p.Unlimited || p.Source != "plan staff" {
		t.Errorf("no overrides give %+v", p)
	}
}

// A limit that tenants share must have the same numbers for all of them, or its
// bucket would follow whoever called last.
func TestOverrides_LeaveSharedBucketsAlone(t *testing.T) {
	t.Parallel()
	for _, per := range []Per{PerGlobal, PerIP} {
		l := &CompiledLimit{ID: "shared:a", Hash: LimitHash("shared:a"), Per: per, Numbers: Numbers{1, 1000, 5}, Source: "shared a"}
		if n, p := overridesOf(t, Override{Limit: "shared:a", Rate: "unlimited"}).Limit(l, at); n != l.Numbers || p.Unlimited || p.Source != "shared a" {
			t.Errorf("per %s: %+v %+v", per, n, p)
		}
		c := &CompiledConcurrency{ID: "route:a.concurrency", Hash: LimitHash("route:a.concurrency"), Per: per, Max: 5, Source: "route a"}
		if most, p := overridesOf(t, Override{Limit: c.ID, Max: new(int64(9))}).Slots(c, at); most != 5 || p.Source != "route a" {
			t.Errorf("per %s: %d %+v", per, most, p)
		}
	}
}

func TestOverrides_Quota(t *testing.T) {
	t.Parallel()
	c := compiledLayers(t)
	boost := Override{Limit: QuotaID, FactorMilli: 2500, ExpiresAt: inSeconds(10)}
	for _, x := range []struct {
		name         string
		plan         string
		list         []Override
		amount, most int64
		source       string
		unlimited    bool
	}{
		{"own", "pro", nil, 20_000_000, 40_000_000, "plan pro", false},
		{"amount", "pro", []Override{{Limit: QuotaID, Amount: new(int64(5))}}, 5, 40_000_000, "override", false},
		{"amount above the plan's max", "pro", []Override{{Limit: QuotaID, Amount: new(int64(50_000_000))}}, 50_000_000, 50_000_000, "override", false},
		{"max", "pro", []Override{{Limit: QuotaID, Max: new(int64(30_000_000))}}, 20_000_000, 30_000_000, "override", false},
		{"max below the plan's amount", "pro", []Override{{Limit: QuotaID, Max: new(int64(7))}}, 20_000_000, 20_000_000, "override", false},
		{"no max", "pro", []Override{{Limit: QuotaID, Max: new(int64(0))}}, 20_000_000, 0, "override", false},
		{"nothing", "free", []Override{{Limit: QuotaID, Amount: new(int64(0))}}, 0, 0, "override", false},
		{"unlimited", "free", []Override{{Limit: QuotaID, Rate: "unlimited"}}, 0, 0, "override", true},
		{"boost", "pro", []Override{boost}, 50_000_000, 100_000_000, "boost", false},
		{"boost of an override", "free", []Override{boost, {Limit: QuotaID, Amount: new(int64(3))}}, 7, 0, "boost", false},
		{"boost at the bound", "free", []Override{boost, {Limit: QuotaID, Amount: new(int64(MaxAmount))}}, MaxAmount, 0, "boost", false},
	} {
		amount, most, p := overridesOf(t, x.list...).Quota(c.Quotas[x.plan], at)
		if amount != x.amount || most != x.most || p.Source != x.source || p.Unlimited != x.unlimited {
			t.Errorf("%s: %d, %d, %+v", x.name, amount, most, p)
		}
	}
	if amount, _, p := overridesOf(t, boost).Quota(c.Quotas["pro"], at+10e6); amount != 20_000_000 || p.Source != "plan pro" {
		t.Errorf("after its end: %d, %+v", amount, p)
	}
}

func TestOverrides_Slots(t *testing.T) {
	t.Parallel()
	slots := compiledLayers(t).Routes[0].Concurrency // max 2
	boost := Override{Limit: slots.ID, FactorMilli: 1500, ExpiresAt: inSeconds(10)}
	for _, x := range []struct {
		name      string
		list      []Override
		most      int64
		source    string
		unlimited bool
	}{
		{"own", nil, 2, "route report", false},
		{"override", []Override{{Limit: slots.ID, Max: new(int64(9))}}, 9, "override", false},
		{"unlimited", []Override{{Limit: slots.ID, Rate: "unlimited"}}, 0, "override", true},
		{"boost", []Override{boost}, 3, "boost", false},
		{"boost at the bound", []Override{boost, {Limit: slots.ID, Max: new(int64(MaxConcurrency))}}, MaxConcurrency, "boost", false},
	} {
		most, p := overridesOf(t, x.list...).Slots(slots, at)
		if most != x.most || p.Source != x.source || p.Unlimited != x.unlimited {
			t.Errorf("%s: %d, %+v", x.name, most, p)
		}
	}
}

func badOverrides() map[string]Override {
	end := inSeconds(10)
	return map[string]Override{
		"limit: \"\" is not the id":                              {Rate: "1/minute"},
		"limit: \"requests\" is not the id":                      {Limit: "requests", Rate: "1/minute"},
		"limit: global.all is counted for everyone":              {Limit: "global.all", Rate: "1/minute"},
		"limit: \"route:report\" is not the id":                  {Limit: "route:report", Rate: "1/minute"},
		"rate: is missing":                                       {Limit: "plan.a"},
		"rate: \"-1/minute\" is not a rate":                      {Limit: "plan.a", Rate: "-1/minute"},
		"rate: \"1,5/minute\" is not a rate":                     {Limit: "plan.a", Rate: "1,5/minute"},
		"burst: -1 must be 0 to":                                 {Limit: "plan.a", Burst: new(int64(-1))},
		"burst: burst 9007199254740993 is too":                   {Limit: "plan.a", Rate: "1/minute", Burst: new(int64(9007199254740993))},
		"burst: means nothing beside":                            {Limit: "plan.a", Rate: "unlimited", Burst: new(int64(5))},
		"burst: 5 beside the rate 0":                             {Limit: "plan.a", Rate: "0", Burst: new(int64(5))},
		"limit: plan.a has a rate and a burst":                   {Limit: "plan.a", Rate: "1/minute", Amount: new(int64(5))},
		"amount: is missing":                                     {Limit: QuotaID},
		"amount: 9007199254740993 must be 0 to 9007199254740991": {Limit: QuotaID, Amount: new(int64(9007199254740993))},
		"amount: -1 must be":                                     {Limit: QuotaID, Amount: new(int64(-1))},
		"max: 4 must be at least":                                {Limit: QuotaID, Amount: new(int64(5)), Max: new(int64(4))},
		"max: -4 must be":                                        {Limit: QuotaID, Max: new(int64(-4))},
		"rate: is for rate limits":                               {Limit: QuotaID, Rate: "1/minute"},
		"burst: is for rate limits":                              {Limit: QuotaID, Burst: new(int64(4)), Amount: new(int64(4))},
		"max: is missing":                                        {Limit: "route:a.concurrency"},
		"max: 0 must be 1 to 100000":                             {Limit: "route:a.concurrency", Max: new(int64(0))},
		"amount: is for quotas":                                  {Limit: "route:a.concurrency", Amount: new(int64(1))},
		"factor_milli: 1000 must be 1001":                        {Limit: "plan.a", FactorMilli: 1000, ExpiresAt: end},
		"factor_milli: -5 must be":                               {Limit: "plan.a", FactorMilli: -5, ExpiresAt: end},
		"factor_milli: 1000001 must be":                          {Limit: "plan.a", FactorMilli: 1_000_001, ExpiresAt: end},
		"expires_at: is missing: a boost":                        {Limit: "plan.a", FactorMilli: 2000},
		"factor_milli: stands beside":                            {Limit: "plan.a", FactorMilli: 2000, Rate: "1/minute", ExpiresAt: end},
		"reason: is 1001 bytes long":                             {Limit: "plan.a", Rate: "1/minute", Reason: strings.Repeat("a", 1001)},
		"limit: \"plan.aaaaaaaaaaaaaaaaaaa":                      {Limit: "plan." + strings.Repeat("a", 200), Rate: "1/minute"},
	}
}

func TestOverrides_BadOnesAreRefusedByFieldAndPlace(t *testing.T) {
	t.Parallel()
	good := Override{Limit: "plan.requests", Rate: "1/minute"}
	for want, bad := range badOverrides() {
		if _, err := CompileOverrides([]Override{good, bad}); err == nil || !strings.Contains(err.Error(), "overrides[1]."+want) {
			t.Errorf("%+v: %v, want %q", bad, err, want)
		}
	}
	if _, err := CompileOverrides([]Override{good, good}); err == nil || !strings.Contains(err.Error(), "overrides[1].limit: plan.requests is there twice") {
		t.Errorf("the same twice: %v", err)
	}
	if _, err := CompileOverrides(make([]Override, MaxOverrides+1)); err == nil || !strings.Contains(err.Error(), "at most 100") {
		t.Errorf("too many: %v", err)
	}
	_, err := CompileOverrides([]Override{{Limit: "x"}, {Limit: "y"}})
	if err == nil || !strings.Contains(err.Error(), "overrides[0]") || !strings.Contains(err.Error(), "overrides[1]") {
		t.Errorf("two problems: %v", err)
	}
	if o, err := CompileOverrides(nil); o != nil || err != nil {
		t.Errorf("none: %v, %v", o, err)
	}
}

// An override is held against the policy: the limit is there for the tenant, and
// every route's cost still fits.
func TestCheckOverrides_KnowsLimitsAndCosts(t *testing.T) {
	t.Parallel()
	c := compiledLayers(t)
	end := inSeconds(10)
	for _, x := range []struct {
		name string
		plan string
		o    Override
		path string // "" when it is good
		want string
	}{
		{"plan's limit", "free", Override{Limit: "plan.requests", Rate: "1/minute"}, "", ""},
		{"route's limit at the cost", "free", Override{Limit: "route:report.reports", Rate: "1/minute", Burst: new(int64(20))}, "", ""},
		{"route's limit below the cost", "free", Override{Limit: "route:report.reports", Rate: "1/minute", Burst: new(int64(19))}, "burst", "19 is below what a request of route report may cost, 20"},
		{"for a while", "free", Override{Limit: "route:report.reports", Burst: new(int64(19)), ExpiresAt: end}, "burst", "could never pass"},
		{"shared limit below the cost", "free", Override{Limit: "shared:search", Burst: new(int64(5))}, "burst", "route report may cost, 20"},
		{"below the largest query", "pro", Override{Limit: "route:graphql.points", Burst: new(int64(999))}, "burst", "route graphql may cost, 1000"},
		{"nothing at all is meant", "pro", Override{Limit: "route:graphql.points", Rate: "0"}, "", ""},
		{"boost", "pro", Override{Limit: "route:graphql.points", FactorMilli: 1100, ExpiresAt: end}, "", ""},
		{"no such limit", "free", Override{Limit: "plan.calls", Rate: "1/minute"}, "limit", "plan.calls counts nothing of a tenant on plan free"},
		{"a limit of a route without tenants", "free", Override{Limit: "route:login.per-account", Rate: "1/minute"}, "limit", "counts nothing"},
		{"quota", "free", Override{Limit: QuotaID, Amount: new(int64(5))}, "", ""},
		{"plan without a quota", "gold", Override{Limit: QuotaID, Amount: new(int64(5))}, "limit", "counts nothing of a tenant on plan gold"},
		{"concurrency", "free", Override{Limit: "route:report.concurrency", Max: new(int64(5))}, "", ""},
		{"no concurrency there", "free", Override{Limit: "route:graphql.concurrency", Max: new(int64(5))}, "limit", "counts nothing"},
		{"bad in itself", "free", Override{Limit: "plan.requests", Rate: "fast"}, "rate", "is not a rate"},
	} {
		r := c.CheckOverrides(x.plan, []Override{x.o})
		if x.path == "" {
			if !r.OK() {
				t.Errorf("%s: %v", x.name, r)
			}
			continue
		}
		if _, ok := problemAt(r.Problems, "overrides[0]."+x.path, x.want); !ok || len(r.Problems) != 1 {
			t.Errorf("%s: %q, want one at %s with %q", x.name, r.Problems, x.path, x.want)
		}
	}
	twice := []Override{{Limit: "plan.requests", Rate: "1/minute"}, {Limit: "plan.requests", Rate: "2/minute"}}
	if r := c.CheckOverrides("free", twice); len(r.Problems) != 1 || r.Problems[0].Path != "overrides[1].limit" {
		t.Errorf("twice: %v", r)
	}
	if r := c.CheckOverrides("free", make([]Override, MaxOverrides+1)); len(r.Problems) != 1 || r.Problems[0].Path != "overrides" {
		t.Errorf("too many: %v", r)
	}
}

// A boosted bucket can be counted like every other, gives at least what it gave
// before, never more than the factor says, and exactly that wherever it fits.
func TestBoosted_StaysCountableAndExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, burst := genRateAndBurst(t)
		if r.Unlimited || r.Blocked() {
			return
		}
		if rapid.Bool().Draw(t, "small") {
			burst = 1 + burst%1000
		}
		n, err := NumbersOf(r, burst)
		if err != nil {
			t.Fatal(err)
		}
		f := rapid.Int64Range(1001, MaxFactorMilli).Draw(t, "factor")
		got := n.boosted(f)
		if got.Burst < n.Burst || got.Tokens < 1 || got.Period < 1 || got.Tokens > maxStored || got.Period > maxStored || got.Burst > maxStored {
			t.Fatalf("%+v × %d/1000 is %+v", n, f, got)
		}
		if sum := new(big.Int).Add(new(big.Int).Mul(big.NewInt(got.Burst), big.NewInt(got.Period)), big.NewInt(got.Tokens)); sum.Cmp(big.NewInt(MaxUnits)) >= 0 {
			t.Fatalf("%+v × %d/1000 is %+v, beyond 2^53", n, f, got)
		}
		if gcd(got.Tokens, got.Period) != 1 {
			t.Fatalf("%+v is not reduced", got)
		}
		rate, before := big.NewRat(got.Tokens, got.Period), big.NewRat(n.Tokens, n.Period)
		exact := new(big.Rat).Mul(before, big.NewRat(f, 1000))
		wanted := times(n.Burst, f, maxStored)
		if rate.Cmp(before) < 0 || rate.Cmp(exact) > 0 || got.Burst > wanted {
			t.Fatalf("%+v × %d/1000 is %+v", n, f, got)
		}
		if e := exactNumbers(exact, wanted); e != (Numbers{}) && got != e {
			t.Fatalf("%+v × %d/1000 is %+v, want %+v", n, f, got, e)
		}
	})
}

// exactNumbers are a rate and a burst as numbers; zero when they cannot be counted.
func exactNumbers(rate *big.Rat, burst int64) Numbers {
	most := big.NewInt(maxStored)
	if rate.Num().Cmp(most) > 0 || rate.Denom().Cmp(most) > 0 {
		return Numbers{}
	}
	n := Numbers{rate.Num().Int64(), rate.Denom().Int64(), burst}
	if maxBurst(n) < burst {
		return Numbers{}
	}
	return n
}

// What comes over the wire never panics, and whatever compiles gives numbers that
// can be counted.
func FuzzCompileOverrides(f *testing.F) {
	f.Add([]byte(`[{"limit":"plan.requests","rate":"60/minute","burst":5,"expires_at":"2027-01-31T00:00:00Z","reason":"r","author":"a"}]`), int64(0))
	f.Add([]byte(`[{"limit":"plan.quota","amount":5,"max":9},{"limit":"plan.quota","factor_milli":1500,"expires_at":"2027-01-31T00:00:00Z"}]`), int64(1))
	f.Add([]byte(`[{"limit":"route:report.concurrency","max":3},{"limit":"shared:search","rate":"unlimited"},{"limit":"plan.requests","burst":281474976710655}]`), int64(2))
	c := compiledLayers(f)
	f.Fuzz(func(t *testing.T, raw []byte, now int64) {
		var list []Override
		if json.Unmarshal(raw, &list) != nil {
			return
		}
		checked := c.CheckOverrides("pro", list)
		o, err := CompileOverrides(list)
		if err != nil {
			if checked.OK() {
				t.Fatalf("%v, and nothing of it beside the policy", err)
			}
			return
		}
		for _, limits := range [][]CompiledLimit{c.Plans["pro"], c.Routes[0].Limits, c.Global} {
			for i := range limits {
				n, p := o.Limit(&limits[i], now)
				if p.Unlimited != (n == Numbers{}) || n.Tokens < 0 || n.Burst < 0 || !p.Unlimited && (n.Period < 1 || n.Burst > maxBurst(n)) {
					t.Fatalf("%+v, %+v", n, p)
				}
			}
		}
		if amount, most, _ := o.Quota(c.Quotas["pro"], now); amount < 0 || amount > MaxAmount || most < 0 || most > MaxAmount || most != 0 && most < amount {
			t.Fatalf("amount %d, max %d", amount, most)
		}
		if most, p := o.Slots(c.Routes[0].Concurrency, now); most > MaxConcurrency || most < 1 && !p.Unlimited {
			t.Fatalf("%d places, %+v", most, p)
		}
	})
}
