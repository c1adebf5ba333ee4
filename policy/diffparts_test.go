package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// checkPartChanges is checkChanges on a document that uses every part. Each
// change is also looked at backwards: the same place, with the values swapped and
// the opposite effect.
func checkPartChanges(t *testing.T, list []change) {
	t.Helper()
	for _, c := range list {
		after := everyPart()
		c.edit(after)
		got, back := Diff(everyPart(), after), Diff(after, everyPart())
		if len(got) != 1 || len(back) != 1 {
			t.Errorf("%s: changes %+v and back %+v, want 1 each", c.name, got, back)
			continue
		}
		g, b := got[0], back[0]
		if g.Path != c.path || g.LimitID != c.id || g.Kind != c.kind || g.Effect != c.effect || g.Before+" → "+g.After != c.values || !strings.Contains(g.Text, c.text) {
			t.Errorf("%s: %+v, want %+v", c.name, g, c)
		}
		if b.Path != g.Path || b.LimitID != g.LimitID || b.Before != g.After || b.After != g.Before || b.Effect != opposite(g.Effect) {
			t.Errorf("%s: back is %+v of %+v", c.name, b, g)
		}
	}
}

func TestDiff_ModesSyncAndEnds(t *testing.T) {
	t.Parallel()
	own := func(d *Document) *Limit { return &d.Routes[0].Limits[0] }
	end := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	checkPartChanges(t, []change{
		{"to shadow", func(d *Document) { own(d).Mode = ModeShadow }, "routes[0].limits[0].mode", "route:report.reports", ChangeChanged, "enforce → shadow", EffectLooser, "mode"},
		{"leased", func(d *Document) { own(d).Sync = SyncLeased }, "routes[0].limits[0].sync", "route:report.reports", ChangeChanged, "exact → leased", EffectNeutral, "counted"},
		{"ends", func(d *Document) { own(d).ExpiresAt = &end }, "routes[0].limits[0].expires_at", "route:report.reports", ChangeAdded, " → 2027-01-31T00:00:00Z", EffectLooser, "end is now"},
		{"several dimensions", func(d *Document) { own(d).Per = "ip,tenant" }, "routes[0].limits[0].per", "route:report.reports", ChangeChanged, "tenant → tenant + ip", EffectNewBucket, "counted per"},
		{"another header", func(d *Document) { d.Routes[1].Limits[2].Per = "ip,header:x-app" }, "routes[1].limits[2].per", "route:login.per-client", ChangeChanged,
			"ip + header:X-Client → ip + header:X-App", EffectNewBucket, ""},
		{"a shadow limit more", func(d *Document) {
			l := perMinute("look", PerIP, 5)
			l.Mode = ModeShadow
			d.Routes[0].Limits = append(d.Routes[0].Limits, l)
		}, "routes[0].limits[1]", "route:report.look", ChangeAdded, " → 5/minute per ip, burst 5, shadow", EffectNeutral, "new limit look"},
		{"a leased limit with an end more", func(d *Document) {
			l := perMinute("hot", PerIP, 5)
			l.Sync, l.ExpiresAt = SyncLeased, &end
			d.Routes[0].Limits = append(d.Routes[0].Limits, l)
		}, "routes[0].limits[1]", "route:report.hot", ChangeAdded, " → 5/minute per ip, burst 5, leased, until 2027-01-31T00:00:00Z", EffectTighter, "new limit hot"},
	})
}

func TestDiff_LaterEndIsTighter(t *testing.T) {
	t.Parallel()
	before, after := everyPart(), everyPart()
	early, late := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	before.Shared[0].ExpiresAt, after.Shared[0].ExpiresAt = &early, &late
	if got := Diff(before, after); len(got) != 1 || got[0].Effect != EffectTighter {
		t.Errorf("%+v", got)
	}
	same := early.In(time.FixedZone("x", 3600)) // the same moment, told in another zone
	after.Shared[0].ExpiresAt = &same
	if got := Diff(before, after); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// A limit that is renamed and changed at once is told as both.
func TestDiff_RenamingHidesNothing(t *testing.T) {
	t.Parallel()
	after := everyPart()
	after.Routes[0].Limits[0].Name, after.Routes[0].Limits[0].Mode = "rep", ModeShadow
	got := Diff(everyPart(), after)
	if len(got) != 2 || got[0].Kind != ChangeRenamed || got[1].Path != "routes[0].limits[0].mode" || got[1].LimitID != "route:report.rep" {
		t.Errorf("%+v", got)
	}
}

func TestDiff_Quotas(t *testing.T) {
	t.Parallel()
	edit := func(change func(q *Quota)) func(d *Document) {
		return func(d *Document) { change(d.Plans["free"].Quota) }
	}
	at := "plans.free.quota"
	checkPartChanges(t, []change{
		{"amount", edit(func(q *Quota) { q.Amount = 900 }), at + ".amount", QuotaID, ChangeChanged, "1000 → 900", EffectTighter, "plan free: quota"},
		{"counts", edit(func(q *Quota) { q.Counts = CountsRequests }), at + ".counts", QuotaID, ChangeChanged, "cost → requests", EffectLooser, ""},
		{"period", edit(func(q *Quota) { q.Period = PeriodYear }), at + ".period", QuotaID, ChangeChanged, "month → year", EffectNewBucket, ""},
		{"alignment", edit(func(q *Quota) { q.Alignment = AlignAnniversary }), at + ".alignment", QuotaID, ChangeChanged, "calendar → anniversary", EffectNewBucket, ""},
		{"zone", edit(func(q *Quota) { q.TimeZone = "Asia/Tokyo" }), at + ".time_zone", QuotaID, ChangeChanged, "UTC → Asia/Tokyo", EffectNewBucket, ""},
		{"max", edit(func(q *Quota) { q.Max = 3000 }), at + ".max", QuotaID, ChangeChanged, "2000 → 3000", EffectLooser, "bound"},
		{"no max", edit(func(q *Quota) { q.Max = 0 }), at + ".max", QuotaID, ChangeRemoved, "2000 → ", EffectLooser, "removed"},
		{"shadow", edit(func(q *Quota) { q.Mode = ModeShadow }), at + ".mode", QuotaID, ChangeChanged, "enforce → shadow", EffectLooser, ""},
		{"a plan's first quota", func(d *Document) {
			d.Plans["pro"] = Plan{Limits: d.Plans["pro"].Limits, Quota: &Quota{Amount: 5, Period: PeriodLifetime}}
		},
			"plans.pro.quota", QuotaID, ChangeAdded, " → quota 5 in all, counting cost, calendar in UTC, over: block", EffectTighter, "is now"},
		{"no quota", func(d *Document) { d.Plans["free"] = Plan{Limits: d.Plans["free"].Limits} }, "plans.free.quota", QuotaID, ChangeRemoved,
			"quota 1000 a month, counting cost, calendar in UTC, over: bill up to 2000 → ", EffectLooser, "removed"},
		{"a plan with a quota", func(d *Document) {
			d.Plans["big"] = Plan{Quota: &Quota{Amount: 5, Period: PeriodDay, Mode: ModeShadow}}
		}, "plans.big", "", ChangeAdded,
			" → no limits; quota 5 a day, counting cost, calendar in UTC, over: block, shadow", EffectNeutral, "new plan big"},
	})
	before, after := everyPart(), everyPart()
	before.Plans["pro"] = Plan{Limits: before.Plans["pro"].Limits}
	after.Plans["pro"] = Plan{Limits: after.Plans["pro"].Limits, Quota: &Quota{Amount: 5, Period: PeriodDay, Mode: ModeShadow}}
	if got := Diff(before, after); len(got) != 1 || got[0].Effect != EffectNeutral {
		t.Errorf("a shadow quota: %+v", got)
	}
	over := everyPart() // block takes no max: two changes that belong together
	over.Plans["free"].Quota.Over, over.Plans["free"].Quota.Max = OverBlock, 0
	got := Diff(everyPart(), over)
	if len(got) != 2 || slices.ContainsFunc(got, func(c Change) bool { return c.Effect != EffectTighter || c.LimitID != QuotaID }) {
		t.Errorf("bill to block: %+v", got)
	}
}

func TestDiff_Concurrency(t *testing.T) {
	t.Parallel()
	edit := func(change func(c *Concurrency)) func(d *Document) {
		return func(d *Document) { change(d.Routes[0].Concurrency) }
	}
	at, id := "routes[0].concurrency", "route:report.concurrency"
	checkPartChanges(t, []change{
		{"max", edit(func(c *Concurrency) { c.Max = 3 }), at + ".max", id, ChangeChanged, "2 → 3", EffectLooser, "at once"},
		{"per", edit(func(c *Concurrency) { c.Per = "user,tenant" }), at + ".per", id, ChangeChanged, "tenant → tenant + user", EffectNewBucket, ""},
		{"lease", edit(func(c *Concurrency) { c.Lease = time.Minute }), at + ".lease", id, ChangeChanged, "1m30s → 1m", EffectNeutral, ""},
		{"mode", edit(func(c *Concurrency) { c.Mode = ModeShadow }), at + ".mode", id, ChangeChanged, "enforce → shadow", EffectLooser, ""},
		{"none", func(d *Document) { d.Routes[0].Concurrency = nil }, at, id, ChangeRemoved, "2 at once per tenant, lease 1m30s → ", EffectLooser, "removed"},
		{"one more", func(d *Document) { d.Routes[2].Concurrency = &Concurrency{Per: PerIP, Max: 5, Lease: time.Hour} }, "routes[2].concurrency", "route:rest.concurrency",
			ChangeAdded, " → 5 at once per ip, lease 1h", EffectTighter, "is now"},
		{"one that looks", func(d *Document) {
			d.Routes[2].Concurrency = &Concurrency{Per: PerIP, Max: 5, Lease: time.Hour, Mode: ModeShadow}
		}, "routes[2].concurrency", "route:rest.concurrency", ChangeAdded, " → 5 at once per ip, lease 1h, shadow", EffectNeutral, ""},
	})
	renamed := everyPart()
	renamed.Routes[0].Name, renamed.Routes[0].Limits, renamed.Routes[0].Uses = "reports", nil, nil
	got := Diff(everyPart(), renamed)
	if len(got) == 0 || got[0].Kind != ChangeRenamed || got[0].Effect != EffectNewBucket {
		t.Errorf("a renamed route with places: %+v", got)
	}
}

func TestDiff_Costs(t *testing.T) {
	t.Parallel()
	checkPartChanges(t, []change{
		{"settled", func(d *Document) { d.Routes[0].SettleHeader = "x-cost" }, "routes[0].cost", "", ChangeChanged, "20 → 20 reserved, settled by X-Cost", EffectNeutral, "route report, cost"},
		{"settled, and more", func(d *Document) { d.Routes[0].SettleHeader, d.Routes[0].Cost = "x-cost", 30 }, "routes[0].cost", "", ChangeChanged, "20 → 30 reserved, settled by X-Cost", EffectTighter, ""},
		{"by query", func(d *Document) { d.Routes[0].GraphQL = &GraphQLCost{Max: 50} }, "routes[0].cost", "", ChangeChanged, "20 → of the GraphQL query, at most 50", EffectNeutral, ""},
	})
	with := func(change func(g *GraphQLCost)) *Document {
		d := everyPart()
		d.Routes[0].GraphQL = &GraphQLCost{Max: 50, Weights: map[string]int64{"Query.a": 5, "Query.b": 1}}
		change(d.Routes[0].GraphQL)
		return d
	}
	for _, c := range []struct {
		name           string
		change         func(g *GraphQLCost)
		path, effect   string
		before, after  string
		addedOrRemoved bool
	}{
		{"max", func(g *GraphQLCost) { g.Max = 40 }, "max", EffectTighter, "50", "40", false},
		{"list size", func(g *GraphQLCost) { g.DefaultListSize = 20 }, "default_list_size", EffectTighter, "10", "20", false},
		{"arguments", func(g *GraphQLCost) { g.ListArguments = []string{"top"} }, "list_arguments", EffectNeutral, "first, last, limit", "top", false},
		{"no arguments", func(g *GraphQLCost) { g.ListArguments = []string{} }, "list_arguments", EffectNeutral, "first, last, limit", "", true},
		{"depth", func(g *GraphQLCost) { g.MaxDepth = 60 }, "max_depth", EffectLooser, "50", "60", false},
		{"breadth", func(g *GraphQLCost) { g.MaxBreadth = 60 }, "max_breadth", EffectTighter, "1000", "60", false},
		{"weight", func(g *GraphQLCost) { g.Weights["Query.a"] = 4 }, "weights.Query.a", EffectLooser, "5", "4", false},
		{"weight of nothing", func(g *GraphQLCost) { g.Weights["Query.a"] = 0 }, "weights.Query.a", EffectLooser, "5", "0", false},
		{"new weight", func(g *GraphQLCost) { g.Weights["*.c"] = 4 }, "weights.*.c", EffectTighter, "", "4", true},
		{"weight gone", func(g *GraphQLCost) { delete(g.Weights, "Query.a") }, "weights.Query.a", EffectLooser, "5", "", true},
		{"the default, no longer spelled out", func(g *GraphQLCost) { delete(g.Weights, "Query.b") }, "weights.Query.b", EffectNeutral, "1", "", true},
	} {
		got := Diff(with(func(*GraphQLCost) {}), with(c.change))
		if len(got) != 1 || got[0].Path != "routes[0].cost.graphql."+c.path || got[0].Effect != c.effect || got[0].Before != c.before || got[0].After != c.after {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		if (got[0].Kind != ChangeChanged) != c.addedOrRemoved {
			t.Errorf("%s: kind %s", c.name, got[0].Kind)
		}
	}
}

func TestDiff_UsersReplicasAndShares(t *testing.T) {
	t.Parallel()
	share := StoreFailure{Mode: FailOpen, Fallback: &Fallback{Share: true}}
	checkPartChanges(t, []change{
		{"user's header", func(d *Document) { d.User.Header = "x-account" }, "user.header", "", ChangeChanged, "X-User → X-Account", EffectNewBucket, "names the user"},
		{"no user", func(d *Document) { d.User = nil }, "user.header", "", ChangeRemoved, "X-User → ", EffectNeutral, "removed"},
		{"more gateways", func(d *Document) { d.ReplicasExpected = 5 }, "replicas_expected", "", ChangeChanged, "2 → 5", EffectTighter, ""},
		{"identity", func(d *Document) { d.Routes[2].Identity = IdentityUser }, "routes[2].identity", "", ChangeChanged, "api_key → user", EffectLooser, ""},
		{"to a share", func(d *Document) { d.Routes[0].OnStoreFailure = share }, "routes[0].on_store_failure.fallback", "", ChangeChanged, "5/minute, burst 5 → share", EffectNeutral, "fallback"},
		{"from everything to a share", func(d *Document) { d.Routes[2].OnStoreFailure = share }, "routes[2].on_store_failure.fallback", "", ChangeChanged, "unlimited → share", EffectTighter, ""},
	})
	jwt := func(change func(j *UserJWT)) *Document {
		d := everyPart()
		d.User = &User{JWT: &UserJWT{JWKSFile: "f", Issuer: "i", Audience: "a"}}
		change(d.User.JWT)
		return d
	}
	for name, change := range map[string]func(j *UserJWT){
		"file":     func(j *UserJWT) { j.JWKSFile = "g" },
		"claim":    func(j *UserJWT) { j.Claim = "email" },
		"issuer":   func(j *UserJWT) { j.Issuer = "" },
		"audience": func(j *UserJWT) { j.Audience = "b" },
	} {
		if got := Diff(jwt(func(*UserJWT) {}), jwt(change)); len(got) != 1 || !strings.HasPrefix(got[0].Path, "user.jwt.") || got[0].Risk != RiskHigh || got[0].Before == got[0].After {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Diff(everyPart(), jwt(func(*UserJWT) {})); len(got) != 2 {
		t.Errorf("from a header to a token: %+v", got)
	}
}

// Forwards and backwards the same places differ, and no effect is the same both
// ways unless it is neutral or a new bucket.
func TestDiff_BackwardsIsTheOpposite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genDocument().Draw(t, "one"), genDocument().Draw(t, "other")
		for i := range a.Routes { // routes that pair by name
			if i < len(b.Routes) && rapid.Bool().Draw(t, "alike") {
				b.Routes[i].Limits = a.Routes[i].Limits
			}
		}
		there, back := Diff(a, b), Diff(b, a)
		count := func(list []Change, effect string) (n int) {
			for _, c := range list {
				if c.Effect == effect {
					n++
				}
			}
			return n
		}
		if renames(there) || renames(back) { // pairs of equal limits may be taken either way
			return
		}
		if count(there, EffectTighter) != count(back, EffectLooser) || count(there, EffectLooser) != count(back, EffectTighter) ||
			count(there, EffectNewBucket) != count(back, EffectNewBucket) || len(there) != len(back) {
			t.Fatalf("there\n%+v\nback\n%+v", there, back)
		}
		for _, c := range there {
			if c.Before == c.After || c.Path == "" || c.Text == "" {
				t.Fatalf("%+v", c)
			}
		}
	})
}

func renames(list []Change) bool {
	return slices.ContainsFunc(list, func(c Change) bool { return c.Kind == ChangeRenamed })
}
