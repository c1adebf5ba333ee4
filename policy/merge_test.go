package policy

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// edit is a change of one part of a document: two different ones never meet.
type edit struct {
	name  string
	apply func(d *Document)
}

// editsOf are edits of a document's parts, each of another part.
func editsOf(d *Document) []edit {
	list := []edit{
		{"description", func(d *Document) { d.Description += "!" }},
		{"header", func(d *Document) { d.ClientIP.Header = "X-Real-Ip" }},
		{"bits", func(d *Document) { d.ClientIP.IPv6Prefix = 56 }},
		{"a proxy", func(d *Document) {
			d.ClientIP.TrustedProxies = append(d.ClientIP.TrustedProxies, netip.MustParsePrefix("192.0.2.0/24"))
		}},
		{"another proxy", func(d *Document) {
			d.ClientIP.TrustedProxies = append(d.ClientIP.TrustedProxies, netip.MustParsePrefix("198.51.100.0/24"))
		}},
		{"key headers", func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "X-Mine"}} }},
		{"guesses", func(d *Document) { d.Credentials.Invalid = InvalidLimit{Rate{Tokens: 9, Period: time.Hour}, 9} }},
		{"user", func(d *Document) { d.User = &User{Header: "X-Somebody"} }},
		{"gateways", func(d *Document) { d.ReplicasExpected = 77 }},
		{"a global limit", func(d *Document) { d.Global.Limits = append(d.Global.Limits, perMinute("mine", PerIP, 5)) }},
		{"a shared limit", func(d *Document) { d.Shared = append(d.Shared, perMinute("one", PerIP, 5)) }},
		{"another shared limit", func(d *Document) { d.Shared = append(d.Shared, perMinute("other", PerIP, 6)) }},
		{"a plan", func(d *Document) { d.setPlan("fresh", Plan{Description: "x"}) }},
		{"a route", func(d *Document) { d.Routes = append(d.Routes, Route{Name: "fresh", Match: []string{"/fresh"}}) }},
		{"another route", func(d *Document) { d.Routes = append(d.Routes, Route{Name: "fresher", Match: []string{"/fresher"}}) }},
	}
	for name, p := range d.Plans {
		list = append(list,
			edit{"text of " + name, func(d *Document) { p := d.Plans[name]; p.Description += "!"; d.setPlan(name, p) }},
			edit{"quota of " + name, func(d *Document) {
				p := d.Plans[name]
				p.Quota = &Quota{Amount: 7, Period: PeriodDay}
				d.setPlan(name, p)
			}})
		for i := range p.Limits {
			list = append(list, edit{fmt.Sprint(name, " limit ", i), func(d *Document) { d.Plans[name].Limits[i].Description += "!" }})
		}
	}
	for i := range d.Routes {
		list = append(list, editsOfRoute(i, d.Routes[i])...)
	}
	slices.SortFunc(list, func(a, b edit) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	return list
}

func editsOfRoute(i int, r Route) []edit {
	on := func(what string, f func(r *Route)) edit {
		return edit{fmt.Sprint("route ", i, " ", what), func(d *Document) { f(&d.Routes[i]) }}
	}
	list := []edit{
		on("text", func(r *Route) { r.Description += "!" }),
		on("a pattern", func(r *Route) { r.Match = append(r.Match, "/one") }),
		on("another pattern", func(r *Route) { r.Match = append(r.Match, "/other") }),
		on("no pattern of before", func(r *Route) { r.Match = slices.Delete(r.Match, 0, 1) }),
		on("identity", func(r *Route) { r.Identity = IdentityUser }),
		on("cost", func(r *Route) { r.Cost, r.SettleHeader, r.GraphQL = 1234, "X-C", nil }),
		on("a use", func(r *Route) { r.Uses = append(r.Uses, "one") }),
		on("another use", func(r *Route) { r.Uses = append(r.Uses, "other") }),
		on("concurrency", func(r *Route) { r.Concurrency = &Concurrency{Per: PerIP, Max: 3, Lease: time.Second} }),
		on("a limit", func(r *Route) { r.Limits = append(r.Limits, perMinute("mine", PerIP, 5)) }),
		on("store", func(r *Route) {
			r.OnStoreFailure = StoreFailure{Mode: FailOpen, Fallback: &Fallback{Rate: Rate{Tokens: 3, Period: time.Hour}, Burst: 3}}
		}),
	}
	for j := range r.Limits {
		list = append(list, on(fmt.Sprint("limit ", j), func(r *Route) { r.Limits[j].Description += "!" }))
	}
	return list
}

func (d *Document) setPlan(name string, p Plan) {
	if d.Plans == nil {
		d.Plans = map[string]Plan{}
	}
	d.Plans[name] = p
}

// means is what a document says, whatever the order of what has none.
func means(d *Document) []byte {
	d = sorted(d)
	slices.SortFunc(d.ClientIP.TrustedProxies, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return d.Canonical()
}

// Two people who changed different parts both get what they wanted, in whatever
// order their changes are put together.
func TestMerge_OfDisjointChangesIsBoth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := genDocument().Draw(t, "base")
		mine, theirs, both := base.withDefaults(), base.withDefaults(), base.withDefaults()
		for _, e := range editsOf(base) {
			switch rapid.IntRange(0, 3).Draw(t, e.name) {
			case 0:
				e.apply(mine)
				e.apply(both)
			case 1:
				e.apply(theirs)
				e.apply(both)
			}
		}
		merged, clashes := Merge(base, mine, theirs)
		if len(clashes) != 0 {
			t.Fatalf("clashes %q", clashes)
		}
		if !bytes.Equal(means(merged), means(both)) {
			t.Fatalf("merged\n%s, want\n%s", means(merged), means(both))
		}
		back, clashes := Merge(base, theirs, mine)
		if len(clashes) != 0 || !bytes.Equal(means(back), means(both)) {
			t.Fatalf("the other way: clashes %q, merged\n%s", clashes, means(back))
		}
	})
}

// drawSide is a base in which some parts are another document's.
func drawSide(t *rapid.T, base *Document, who string) *Document {
	d, other := base.withDefaults(), genDocument().Draw(t, who).withDefaults()
	take := func(part string) bool { return rapid.IntRange(0, 2).Draw(t, who+" "+part) == 0 }
	if take("global") {
		d.Global = other.Global
	}
	if take("shared") {
		d.Shared = other.Shared
	}
	if take("client") {
		d.ClientIP = other.ClientIP
	}
	if take("plans") {
		d.Plans = other.Plans
	}
	for i := range d.Routes {
		switch {
		case i < len(other.Routes) && take("route"):
			d.Routes[i] = other.Routes[i]
		case i < len(other.Routes) && take("limits"):
			d.Routes[i].Limits = other.Routes[i].Limits
		}
	}
	if take("end") {
		d.Routes = d.Routes[:len(d.Routes)-1]
	}
	return d
}

func TestMerge_KeepsItsLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := genDocument().Draw(t, "base")
		mine, theirs := drawSide(t, base, "mine"), drawSide(t, base, "theirs")
		is := func(what string, got *Document, clashes []string, want *Document) {
			if len(clashes) != 0 || !bytes.Equal(means(got), means(want)) {
				t.Fatalf("%s: clashes %q, merged\n%s, want\n%s", what, clashes, means(got), means(want))
			}
		}
		got, clashes := Merge(base, mine, base)
		is("only mine", got, clashes, mine)
		got, clashes = Merge(base, base, theirs)
		is("only theirs", got, clashes, theirs)
		got, clashes = Merge(base, mine, mine)
		is("the same on both sides", got, clashes, mine)
		one, clashesOne := Merge(base, mine, theirs)
		other, clashesOther := Merge(base, theirs, mine)
		slices.Sort(clashesOne)
		slices.Sort(clashesOther)
		if !slices.Equal(clashesOne, clashesOther) {
			t.Fatalf("clashes %q and %q", clashesOne, clashesOther)
		}
		if len(clashesOne) == 0 {
			is("the other way", other, nil, one)
			again, more := Merge(base, one, theirs)
			is("once more", again, more, one)
		}
	})
}

func TestMerge_NamesWhatBothChanged(t *testing.T) {
	t.Parallel()
	set := func(edits ...func(d *Document)) *Document {
		d := everyPart()
		for _, e := range edits {
			e(d)
		}
		return d
	}
	limit := func(n int64) func(d *Document) { return func(d *Document) { d.Routes[0].Limits[0].Rate.Tokens = n } }
	for name, c := range map[string]struct {
		mine, theirs func(d *Document)
		want         []string
	}{
		"a limit":         {limit(1), limit(2), []string{"route report: limit reports"}},
		"removed, edited": {func(d *Document) { d.Routes[0].Limits = nil }, limit(2), []string{"route report: limit reports"}},
		"edited, removed": {limit(2), func(d *Document) { d.Routes[0].Limits = nil }, []string{"route report: limit reports"}},
		"route removed, edited": {func(d *Document) { d.Routes = d.Routes[1:] }, limit(2),
			[]string{"route report"}},
		"added twice": {func(d *Document) { d.Routes = append(d.Routes, Route{Name: "n", Cost: 1}) }, func(d *Document) { d.Routes = append(d.Routes, Route{Name: "n", Cost: 2}) },
			[]string{"route n"}},
		"added alike":   {func(d *Document) { d.Routes = append(d.Routes, Route{Name: "n"}) }, func(d *Document) { d.Routes = append(d.Routes, Route{Name: "n"}) }, nil},
		"cost":          {func(d *Document) { d.Routes[0].Cost = 2 }, func(d *Document) { d.Routes[0].SettleHeader = "x-cost" }, []string{"route report, cost"}},
		"identity":      {func(d *Document) { d.Routes[0].Identity = IdentityIP }, func(d *Document) { d.Routes[0].Identity = IdentityUser }, []string{"route report, identity"}},
		"quota":         {func(d *Document) { d.Plans["free"].Quota.Amount = 1 }, func(d *Document) { d.Plans["free"].Quota.Max = 0 }, []string{"plan free: quota"}},
		"plan":          {func(d *Document) { delete(d.Plans, "free") }, func(d *Document) { d.Plans["free"].Quota.Max = 0 }, []string{"plan free"}},
		"global":        {func(d *Document) { d.Global.Limits[0].Burst = 1 }, func(d *Document) { d.Global.Limits[0].Burst = 2 }, []string{"everything together: limit all"}},
		"shared":        {func(d *Document) { d.Shared[0].Burst = 1 }, func(d *Document) { d.Shared[0].Burst = 2 }, []string{"shared: limit search"}},
		"client header": {func(d *Document) { d.ClientIP.Header = "a" }, func(d *Document) { d.ClientIP.Header = "b" }, []string{"client_ip.header"}},
		"key headers": {func(d *Document) { d.Credentials.Headers = []CredentialHeader{{Name: "A"}} }, func(d *Document) { d.Credentials.Headers = nil; d.Credentials.Headers = []CredentialHeader{} },
			[]string{"credentials.headers"}},
		"store":       {func(d *Document) { d.Routes[0].OnStoreFailure = StoreFailure{Mode: FailClosed} }, func(d *Document) { d.Routes[0].OnStoreFailure.Fallback = &Fallback{Unlimited: true} }, []string{"route report, while the store is away"}},
		"concurrency": {func(d *Document) { d.Routes[0].Concurrency = nil }, func(d *Document) { d.Routes[0].Concurrency.Max = 9 }, []string{"route report: concurrency"}},
		"a name that is there twice": {func(d *Document) { d.Shared = append(d.Shared, d.Shared[0]) }, func(d *Document) { d.Shared[0].Burst = 2 },
			[]string{"shared: limits"}},
	} {
		mine, theirs := set(c.mine), set(c.theirs)
		merged, clashes := Merge(everyPart(), mine, theirs)
		if !slices.Equal(clashes, c.want) {
			t.Errorf("%s: clashes %q, want %q", name, clashes, c.want)
		}
		if c.want != nil && !bytes.Equal(means(merged), means(mine)) {
			t.Errorf("%s: merged\n%s, want mine\n%s", name, means(merged), means(mine))
		}
	}
}

func TestMerge_OfNothingIsTheOtherSide(t *testing.T) {
	t.Parallel()
	d := everyPart()
	for name, c := range map[string]struct{ base, mine, theirs, want *Document }{
		"nothing published":     {nil, d, nil, d},
		"published since":       {d, d, nil, d},
		"no draft":              {d, nil, d, d},
		"both began afresh":     {nil, d, everyPart(), d},
		"nothing whatsoever":    {nil, nil, nil, nil},
		"defaults are no clash": {&Document{APIVersion: APIVersion}, d, (&Document{APIVersion: APIVersion}).withDefaults(), d},
	} {
		merged, clashes := Merge(c.base, c.mine, c.theirs)
		if len(clashes) != 0 || (merged == nil) != (c.want == nil) || (merged != nil && !bytes.Equal(means(merged), means(c.want))) {
			t.Errorf("%s: clashes %q, merged %+v", name, clashes, merged)
		}
	}
}

func TestMerge_SharesNoMemoryWithItsSides(t *testing.T) {
	t.Parallel()
	base, mine, theirs := everyPart(), everyPart(), everyPart()
	mine.Routes[0].Cost = 3
	theirs.Plans["free"].Quota.Amount = 5
	merged, _ := Merge(base, mine, theirs)
	before := []*Document{base.withDefaults(), mine.withDefaults(), theirs.withDefaults()}
	merged.Routes[0].Match[0], merged.Routes[0].Limits[0].Name, merged.Routes[0].Concurrency.Max = "x", "x", 99
	merged.Plans["free"].Quota.Amount, merged.Plans["free"].Limits[0].Name = 99, "x"
	merged.Shared[0].Name, merged.Global.Limits[0].Name, merged.User.Header = "x", "x", "x"
	for i, d := range []*Document{base, mine, theirs} {
		if !reflect.DeepEqual(d.withDefaults(), before[i]) {
			t.Errorf("document %d changed with the merged one", i)
		}
	}
}

// The order of theirs stays, so that a merged draft reads like what is in force.
func TestMerge_KeepsTheOrderOfTheirs(t *testing.T) {
	t.Parallel()
	base, mine, theirs := everyPart(), everyPart(), everyPart()
	slices.Reverse(theirs.Routes)
	mine.Routes = append([]Route{{Name: "new", Match: []string{"/new"}}}, mine.Routes...)
	merged, _ := Merge(base, mine, theirs)
	for i, r := range theirs.Routes {
		if merged.Routes[i].Name != r.Name {
			t.Errorf("route %d is %s, want %s", i, merged.Routes[i].Name, r.Name)
		}
	}
	if last := merged.Routes[len(merged.Routes)-1]; last.Name != "new" {
		t.Errorf("the last route is %s", last.Name)
	}
}
