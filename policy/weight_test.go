package policy

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// risky is an edit of a document that uses every part, with the effect and the
// risk that its first change has, there and back.
type risky struct {
	name   string
	edit   func(d *Document)
	effect string
	risk   string
	back   string // risk of the way back
}

func checkRisks(t *testing.T, list []risky) {
	t.Helper()
	for _, c := range list {
		after := everyPart()
		c.edit(after)
		there, back := Diff(everyPart(), after), Diff(after, everyPart())
		if len(there) == 0 || len(back) == 0 {
			t.Errorf("%s: no change", c.name)
			continue
		}
		if there[0].Effect != c.effect || there[0].Risk != c.risk {
			t.Errorf("%s: %s at %s risk, want %s at %s: %+v", c.name, there[0].Effect, there[0].Risk, c.effect, c.risk, there[0])
		}
		if back[0].Risk != c.back || back[0].Effect != opposite(c.effect) {
			t.Errorf("%s: back is %s at %s risk, want %s at %s: %+v", c.name, back[0].Effect, back[0].Risk, opposite(c.effect), c.back, back[0])
		}
	}
}

func TestDiff_RisksOfLimits(t *testing.T) {
	t.Parallel()
	own := func(d *Document) *Limit { return &d.Routes[0].Limits[0] }
	rate := func(tokens int64, period time.Duration) func(d *Document) {
		return func(d *Document) { own(d).Rate = Rate{Tokens: tokens, Period: period} }
	}
	n := own(everyPart()).Rate.Tokens
	if own(everyPart()).Rate.Period != time.Minute || n != 50 {
		t.Fatalf("the limit is %+v", own(everyPart()))
	}
	end := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	checkRisks(t, []risky{
		{"a little less", rate(n-1, time.Minute), EffectTighter, RiskMedium, RiskMedium},
		{"just more than half", rate(n/2+1, time.Minute), EffectTighter, RiskMedium, RiskMedium},
		{"half", rate(n/2, time.Minute), EffectTighter, RiskHigh, RiskMedium},
		{"a tenth", rate(n/10, time.Minute), EffectTighter, RiskHigh, RiskHigh},
		{"hour for minute", rate(n, time.Hour), EffectTighter, RiskHigh, RiskHigh},
		{"nine times", rate(9*n, time.Minute), EffectLooser, RiskMedium, RiskHigh},
		{"ten times", rate(10*n, time.Minute), EffectLooser, RiskHigh, RiskHigh},
		{"a large count", rate(1<<47, MaxPeriod), EffectLooser, RiskHigh, RiskHigh},
		{"same over time", rate(60*n, time.Hour), EffectNeutral, RiskLow, RiskLow},
		{"nothing", func(d *Document) { own(d).Rate = blockedRate() }, EffectTighter, RiskHigh, RiskHigh},
		{"unlimited", func(d *Document) { own(d).Rate = Rate{Unlimited: true} }, EffectLooser, RiskHigh, RiskHigh},
		{"half the burst", func(d *Document) { own(d).Burst /= 2 }, EffectTighter, RiskHigh, RiskMedium},
		{"no burst", func(d *Document) { own(d).Burst = 0 }, EffectTighter, RiskHigh, RiskHigh},
		{"a little burst", func(d *Document) { own(d).Burst++ }, EffectLooser, RiskMedium, RiskMedium},
		{"shadow", func(d *Document) { own(d).Mode = ModeShadow }, EffectLooser, RiskHigh, RiskMedium},
		{"per", func(d *Document) { own(d).Per = PerCredential }, EffectNewBucket, RiskHigh, RiskHigh},
		{"counts", func(d *Document) { own(d).Counts = CountsRequests }, EffectLooser, RiskMedium, RiskMedium},
		{"leased", func(d *Document) { own(d).Sync = SyncLeased }, EffectNeutral, RiskLow, RiskLow},
		{"end", func(d *Document) { own(d).ExpiresAt = &end }, EffectLooser, RiskHigh, RiskMedium},
		{"text", func(d *Document) { own(d).Description = "x" }, EffectNeutral, RiskLow, RiskLow},
		{"gone", func(d *Document) { d.Routes[0].Limits = nil }, EffectLooser, RiskHigh, RiskMedium},
		{"renamed", func(d *Document) { own(d).Name = "rep" }, EffectNewBucket, RiskMedium, RiskMedium},
		{"one that admits nothing", func(d *Document) {
			d.Routes[0].Limits = append(d.Routes[0].Limits, Limit{Name: "stop", Per: PerTenant, Rate: blockedRate()})
		}, EffectTighter, RiskHigh, RiskHigh},
		{"one that bounds nobody", func(d *Document) {
			d.Routes[0].Limits = append(d.Routes[0].Limits, Limit{Name: "free", Per: PerTenant, Rate: Rate{Unlimited: true}})
		}, EffectNeutral, RiskLow, RiskLow},
		{"a shared limit no longer drawn from", func(d *Document) { d.Routes[0].Uses = nil }, EffectLooser, RiskHigh, RiskMedium},
	})
}

// What looks only refuses nobody, so none of its numbers is tighter or looser; from
// the moment it refuses, it is the mode that made it so.
func TestDiff_ShadowLimitsChangeNothingForCallers(t *testing.T) {
	t.Parallel()
	look := func(edit func(l *Limit)) *Document {
		d := everyPart()
		d.Routes[0].Limits[0].Mode = ModeShadow
		edit(&d.Routes[0].Limits[0])
		return d
	}
	for name, edit := range map[string]func(l *Limit){
		"rate":    func(l *Limit) { l.Rate.Tokens = 1 },
		"nothing": func(l *Limit) { l.Rate = blockedRate() },
		"burst":   func(l *Limit) { l.Burst = 1 },
		"counts":  func(l *Limit) { l.Counts = CountsRequests },
		"end":     func(l *Limit) { l.ExpiresAt = new(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) },
	} {
		for _, c := range Diff(look(func(*Limit) {}), look(edit)) {
			if c.Effect != EffectNeutral || c.Risk != RiskLow {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
	per := Diff(look(func(*Limit) {}), look(func(l *Limit) { l.Per = PerCredential }))
	if len(per) != 1 || per[0].Effect != EffectNewBucket || per[0].Risk != RiskLow {
		t.Errorf("per: %+v", per)
	}
	stop := Diff(look(func(*Limit) {}), look(func(l *Limit) { l.Mode, l.Rate, l.Burst = ModeEnforce, blockedRate(), 0 }))
	at := slices.IndexFunc(stop, func(c Change) bool { return strings.HasSuffix(c.Path, ".mode") })
	if at < 0 || stop[at].Effect != EffectTighter || stop[at].Risk != RiskHigh {
		t.Errorf("from looking to stopping everyone: %+v", stop)
	}
	free := func(m LimitMode) *Document {
		return look(func(l *Limit) { l.Mode, l.Rate = m, Rate{Unlimited: true} })
	}
	if got := Diff(free(ModeShadow), free(ModeEnforce)); len(got) != 1 || got[0].Effect != EffectNeutral || got[0].Risk != RiskLow {
		t.Errorf("a limit without bounds: %+v", got)
	}
}

func TestDiff_RisksOfQuotasAndConcurrency(t *testing.T) {
	t.Parallel()
	quota := func(edit func(q *Quota)) func(d *Document) { return func(d *Document) { edit(d.Plans["free"].Quota) } }
	conc := func(edit func(c *Concurrency)) func(d *Document) {
		return func(d *Document) { edit(d.Routes[0].Concurrency) }
	}
	checkRisks(t, []risky{
		{"a little less", quota(func(q *Quota) { q.Amount = 900 }), EffectTighter, RiskMedium, RiskMedium},
		{"half", quota(func(q *Quota) { q.Amount = 500 }), EffectTighter, RiskHigh, RiskMedium},
		{"nothing", quota(func(q *Quota) { q.Amount = 0 }), EffectTighter, RiskHigh, RiskHigh},
		{"year for month", quota(func(q *Quota) { q.Period = PeriodYear }), EffectNewBucket, RiskHigh, RiskHigh},
		{"day for month", quota(func(q *Quota) { q.Period = PeriodDay }), EffectNewBucket, RiskHigh, RiskHigh},
		{"zone", quota(func(q *Quota) { q.TimeZone = "Asia/Tokyo" }), EffectNewBucket, RiskMedium, RiskMedium},
		{"no bound", quota(func(q *Quota) { q.Max = 0 }), EffectLooser, RiskHigh, RiskHigh},
		{"a higher bound", quota(func(q *Quota) { q.Max = 3000 }), EffectLooser, RiskMedium, RiskMedium},
		{"to block", quota(func(q *Quota) { q.Over, q.Max = OverBlock, 0 }), EffectTighter, RiskHigh, RiskMedium},
		{"shadow", quota(func(q *Quota) { q.Mode = ModeShadow }), EffectLooser, RiskHigh, RiskMedium},
		{"no quota", func(d *Document) { d.Plans["free"] = Plan{Limits: d.Plans["free"].Limits} }, EffectLooser, RiskHigh, RiskMedium},
		{"half at once", conc(func(c *Concurrency) { c.Max = 1 }), EffectTighter, RiskHigh, RiskMedium},
		{"more at once", conc(func(c *Concurrency) { c.Max = 3 }), EffectLooser, RiskMedium, RiskMedium},
		{"counted per another", conc(func(c *Concurrency) { c.Per = PerCredential }), EffectNewBucket, RiskHigh, RiskHigh},
		{"lease", conc(func(c *Concurrency) { c.Lease = time.Minute }), EffectNeutral, RiskMedium, RiskMedium},
		{"no concurrency", func(d *Document) { d.Routes[0].Concurrency = nil }, EffectLooser, RiskHigh, RiskMedium},
		{"concurrency that looks", conc(func(c *Concurrency) { c.Mode = ModeShadow }), EffectLooser, RiskHigh, RiskMedium},
	})
	nothing := everyPart()
	nothing.Plans["pro"] = Plan{Limits: nothing.Plans["pro"].Limits}
	blocked := everyPart()
	blocked.Plans["pro"] = Plan{Limits: blocked.Plans["pro"].Limits, Quota: &Quota{Period: PeriodDay}}
	if got := Diff(nothing, blocked); len(got) != 1 || got[0].Effect != EffectTighter || got[0].Risk != RiskHigh {
		t.Errorf("a quota that admits nothing: %+v", got)
	}
}

func TestDiff_RisksOfRoutesAndEdges(t *testing.T) {
	t.Parallel()
	fallback := func(f *Fallback) func(d *Document) {
		return func(d *Document) { d.Routes[0].OnStoreFailure = StoreFailure{Mode: FailOpen, Fallback: f} }
	}
	cost := func(c int64) func(d *Document) { return func(d *Document) { d.Routes[0].Cost = c } }
	c := everyPart().Routes[0].Cost
	route := func(r Route) func(d *Document) { return func(d *Document) { d.Routes = append(d.Routes, r) } }
	checkRisks(t, []risky{
		{"closed", func(d *Document) { d.Routes[0].OnStoreFailure = StoreFailure{Mode: FailClosed} }, EffectTighter, RiskMedium, RiskHigh},
		{"fallback of half", fallback(&Fallback{Rate: Rate{Tokens: 2, Period: time.Minute}, Burst: 5}), EffectTighter, RiskHigh, RiskMedium},
		{"fallback without end", fallback(&Fallback{Unlimited: true}), EffectLooser, RiskHigh, RiskHigh},
		{"a share", fallback(&Fallback{Share: true}), EffectNeutral, RiskMedium, RiskMedium},
		{"identity", func(d *Document) { d.Routes[2].Identity = IdentityIP }, EffectLooser, RiskHigh, RiskHigh},
		{"motive", func(d *Document) { d.Routes[0].Motive = MotiveQuota }, EffectNeutral, RiskMedium, RiskMedium},
		{"one pattern more", func(d *Document) { d.Routes[0].Match = append(d.Routes[0].Match, "/x") }, EffectNeutral, RiskMedium, RiskHigh},
		{"another pattern", func(d *Document) { d.Routes[0].Match = []string{"/x"} }, EffectNeutral, RiskHigh, RiskHigh},
		{"dearer", cost(c + 1), EffectTighter, RiskMedium, RiskMedium},
		{"twice as dear", cost(2 * c), EffectTighter, RiskHigh, RiskMedium},
		{"settled", func(d *Document) { d.Routes[0].SettleHeader = "x-cost" }, EffectNeutral, RiskMedium, RiskMedium},
		{"a route more", route(Route{Name: "new", Match: []string{"/new"}}), EffectNeutral, RiskMedium, RiskHigh},
		{"an open door", route(Route{Name: "new", Match: []string{"/new"}, Identity: IdentityIP}), EffectNeutral, RiskHigh, RiskHigh},
		{"open while the store is away", route(Route{Name: "new", Match: []string{"/new"}, OnStoreFailure: StoreFailure{Mode: FailOpen, Fallback: &Fallback{Unlimited: true}}}),
			EffectNeutral, RiskHigh, RiskHigh},
		{"a limited route more", route(Route{Name: "new", Match: []string{"/new"}, Identity: IdentityIP, Limits: []Limit{perMinute("l", PerIP, 5)}}), EffectTighter, RiskMedium, RiskHigh},
		{"a plan gone", func(d *Document) { delete(d.Plans, "pro") }, EffectNeutral, RiskHigh, RiskLow},
		{"proxies", func(d *Document) { d.ClientIP.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }, EffectNewBucket, RiskHigh, RiskHigh},
		{"bits", func(d *Document) { d.ClientIP.IPv6Prefix = 56 }, EffectNewBucket, RiskHigh, RiskHigh},
		{"a key header more", func(d *Document) {
			d.Credentials.Headers = append(defaultHeaders(), CredentialHeader{Name: "X-Key"})
		}, EffectLooser, RiskHigh, RiskHigh},
		{"key headers in another order", func(d *Document) {
			d.Credentials.Headers = defaultHeaders()
			slices.Reverse(d.Credentials.Headers)
		}, EffectNeutral, RiskMedium, RiskMedium},
		{"other key headers", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "X-Key"}} }, EffectNeutral, RiskHigh, RiskHigh},
		{"more guesses", func(d *Document) { d.Credentials.Invalid = InvalidLimit{Rate{Tokens: 31, Period: time.Minute}, 30} }, EffectLooser, RiskHigh, RiskMedium},
		{"gateways", func(d *Document) { d.ReplicasExpected *= 4 }, EffectTighter, RiskMedium, RiskMedium},
		{"text", func(d *Document) { d.Description = "x" }, EffectNeutral, RiskLow, RiskLow},
	})
}

// A weight that is not written down is that of any type, or the highest one.
func TestDiff_WeightsAreComparedAsTheyAreCharged(t *testing.T) {
	t.Parallel()
	with := func(weights map[string]int64) *Document {
		d := everyPart()
		d.Routes[0].GraphQL = &GraphQLCost{Max: 5, Weights: weights}
		return d
	}
	for name, c := range map[string]struct {
		before, after map[string]int64
		effect, risk  string
	}{
		"below the weight of any type":  {map[string]int64{"*.x": 10}, map[string]int64{"*.x": 10, "Query.x": 6}, EffectLooser, RiskMedium},
		"above the weight of any type":  {map[string]int64{"*.x": 2}, map[string]int64{"*.x": 2, "Query.x": 20}, EffectTighter, RiskHigh},
		"same as the weight of any":     {map[string]int64{"*.x": 10}, map[string]int64{"*.x": 10, "Query.x": 10}, EffectNeutral, RiskLow},
		"below the highest of a type":   {map[string]int64{"A.x": 9}, map[string]int64{"A.x": 9, "B.x": 5}, EffectLooser, RiskMedium},
		"any type below the highest":    {map[string]int64{"A.x": 9}, map[string]int64{"A.x": 9, "*.x": 1}, EffectLooser, RiskMedium},
		"free":                          {map[string]int64{"A.x": 9}, map[string]int64{"A.x": 0}, EffectLooser, RiskHigh},
		"no longer free":                {map[string]int64{"A.x": 0}, map[string]int64{"A.x": 1}, EffectTighter, RiskHigh},
		"fields of other names are not": {map[string]int64{"A.y": 9}, map[string]int64{"A.y": 9, "A.x": 3}, EffectTighter, RiskHigh},
	} {
		got := Diff(with(c.before), with(c.after))
		if len(got) != 1 || got[0].Effect != c.effect || got[0].Risk != c.risk {
			t.Errorf("%s: %+v, want %s at %s risk", name, got, c.effect, c.risk)
		}
	}
}

// Every change has a risk; what is neutral in numbers is never more than medium
// unless something else is at stake; groups hold each change once, in order.
func TestByRisk_HoldsEachChangeOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		changes := Diff(genDocument().Draw(t, "a"), genDocument().Draw(t, "b"))
		groups := ByRisk(changes)
		rank := map[string]int{RiskHigh: 0, RiskMedium: 1, RiskLow: 2}
		last, total := -1, 0
		for _, g := range groups {
			at, ok := rank[g.Risk]
			if !ok || at <= last || len(g.Changes) == 0 {
				t.Fatalf("groups %+v", groups)
			}
			last, total = at, total+len(g.Changes)
			from := 0
			for _, c := range g.Changes {
				i := slices.Index(changes[from:], c)
				if c.Risk != g.Risk || i < 0 {
					t.Fatalf("%+v is in group %s or out of order", c, g.Risk)
				}
				from += i + 1
			}
		}
		if total != len(changes) {
			t.Fatalf("%d of %d changes are in groups", total, len(changes))
		}
	})
	old := ByRisk([]Change{{Text: "stored before there were risks"}, {Risk: RiskLow}})
	if len(old) != 2 || old[0].Risk != RiskMedium || old[1].Risk != RiskLow {
		t.Errorf("groups %+v", old)
	}
	if got := ByRisk(nil); len(got) != 0 {
		t.Errorf("groups of nothing: %+v", got)
	}
}

// admits is how many requests of a route's own limit get through in a time, at
// most: infinitely many where nothing bounds them.
func admits(d *Document, t time.Duration) float64 {
	r := d.Routes[0]
	l := r.Limits[0]
	switch {
	case l.Mode == ModeShadow || l.Rate.Unlimited:
		return math.Inf(1)
	case l.Rate.Blocked() || l.Burst == 0:
		return 0
	}
	cost := float64(r.Cost)
	if l.Counts == CountsRequests {
		cost = 1
	}
	return (float64(l.Burst) + float64(l.Rate.Tokens)*float64(t)/float64(l.Rate.Period)) / cost
}

// What is called tighter admits no more at any time, and what is called looser
// no less: the words are about requests, not about numbers.
func TestDiff_EffectsAgreeWithWhatIsAdmitted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(who string) *Document {
			d := everyPart()
			l := &d.Routes[0].Limits[0]
			l.Rate, l.Burst = genRateAndBurst(t)
			if rapid.IntRange(0, 3).Draw(t, who+" is alike") > 0 && l.Rate.Tokens > 0 {
				l.Rate = Rate{Tokens: rapid.Int64Range(1, 20).Draw(t, who+" tokens"), Period: rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, who+" period")}
				l.Burst = rapid.Int64Range(0, 20).Draw(t, who+" burst")
			}
			l.Mode = rapid.SampledFrom([]LimitMode{ModeEnforce, ModeEnforce, ModeShadow}).Draw(t, who+" mode")
			d.Routes[0].SettleHeader = ""
			d.Routes[0].Cost = rapid.Int64Range(1, 4).Draw(t, who+" cost")
			return d
		}
		before, after := draw("before"), draw("after")
		met := map[string]bool{}
		for _, c := range Diff(before, after) {
			met[c.Effect] = true
		}
		for _, span := range []time.Duration{0, time.Second, time.Minute, time.Hour, 1000 * time.Hour} {
			b, a := admits(before, span), admits(after, span)
			const rounding = 1e-9
			if !met[EffectLooser] && a > b*(1+rounding) {
				t.Fatalf("%v admits %v and then %v, and nothing is called looser: %+v", span, b, a, Diff(before, after))
			}
			if !met[EffectTighter] && a < b*(1-rounding) {
				t.Fatalf("%v admits %v and then %v, and nothing is called tighter: %+v", span, b, a, Diff(before, after))
			}
		}
	})
}
