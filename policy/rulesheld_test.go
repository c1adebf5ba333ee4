package policy

import (
	"bytes"
	"math/big"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The rules of the format, read a second time and in plain words: whatever is
// valid keeps all of them, however it was made.
func TestValidate_WhatIsValidKeepsTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument().Draw(t, "document")
		if rapid.Bool().Draw(t, "poison") {
			poisoned(t, d)
		}
		if !Validate(d).OK() {
			return
		}
		keepsTheRules(t, d.withDefaults())
	})
}

func keepsTheRules(t *rapid.T, d *Document) {
	t.Helper()
	everyLimitCounts(t, d)
	for name, p := range d.Plans {
		if p.Quota != nil {
			quotaCounts(t, name, p.Quota)
		}
		for _, l := range p.Limits {
			if l.Per == PerIP || l.Per == PerGlobal || l.Per.has(DimensionBody) {
				t.Fatalf("plan %s counts per %s", name, l.Per)
			}
		}
	}
	for i := range d.Routes {
		r := &d.Routes[i]
		met := limitsMet(d, r)
		costsFit(t, r, met)
		dimensionsFit(t, d, r, met)
		failsAsItMay(t, d, r, met)
		if c := r.Concurrency; c != nil && (c.Max < 1 || c.Max > 100_000 || c.Lease < time.Second || c.Lease > time.Hour) {
			t.Fatalf("route %s: %+v", r.Name, c)
		}
	}
}

// everyLimitCounts: each number can be counted below 2^53, and ids are apart.
func everyLimitCounts(t *rapid.T, d *Document) {
	t.Helper()
	all := slices.Concat(d.Global.Limits, d.Shared)
	for _, p := range d.Plans {
		all = append(all, p.Limits...)
	}
	for _, r := range d.Routes {
		all = append(all, r.Limits...)
	}
	for _, l := range all {
		dims := l.Per.Dimensions()
		if len(dims) < 1 || len(dims) > 4 || l.Per.has(DimensionGlobal) && len(dims) > 1 || l.Per.has(DimensionUser) && d.User == nil {
			t.Fatalf("%s counts per %q", l.Name, l.Per)
		}
		if l.Mode == ModeShadow && l.Sync == SyncLeased {
			t.Fatalf("%s is shadow and leased", l.Name)
		}
		if l.Rate.Unlimited || l.Rate.Tokens == 0 {
			continue
		}
		period := l.Rate.Period.Microseconds()
		g := new(big.Int).GCD(nil, nil, big.NewInt(l.Rate.Tokens), big.NewInt(period)).Int64()
		units := new(big.Int).Add(new(big.Int).Mul(big.NewInt(l.Burst), big.NewInt(period/g)), big.NewInt(l.Rate.Tokens/g))
		if units.Cmp(big.NewInt(1<<53)) >= 0 || l.Burst < 0 || l.Burst >= 1<<48 || l.Rate.Tokens >= 1<<48 {
			t.Fatalf("%s: %s, burst %d", l.Name, l.Rate, l.Burst)
		}
	}
}

func quotaCounts(t *rapid.T, plan string, q *Quota) {
	t.Helper()
	if q.Amount < 0 || q.Amount >= 1<<53 || q.Max < 0 || q.Max >= 1<<53 {
		t.Fatalf("plan %s: quota %+v", plan, q)
	}
	if q.Max != 0 && (q.Over != OverBill || q.Max < q.Amount) {
		t.Fatalf("plan %s: quota %+v", plan, q)
	}
	if _, err := time.LoadLocation(q.TimeZone); err != nil || q.TimeZone == "Local" {
		t.Fatalf("plan %s: zone %q", plan, q.TimeZone)
	}
}

// limitsMet are the limits that one request of a route is charged to.
func limitsMet(d *Document, r *Route) []Limit {
	met := slices.Concat(d.Global.Limits, r.Limits)
	for _, l := range d.Shared {
		if slices.Contains(r.Uses, l.Name) {
			met = append(met, l)
		}
	}
	if r.Identity == IdentityAPIKey {
		for _, p := range d.Plans {
			met = append(met, p.Limits...)
		}
	}
	return met
}

// costsFit: no cost that could never pass, and room for debts where they arise.
func costsFit(t *rapid.T, r *Route, met []Limit) {
	t.Helper()
	cost := r.Cost
	if r.GraphQL != nil {
		cost = r.GraphQL.Max
		if r.SettleHeader != "" {
			t.Fatalf("route %s has two kinds of cost", r.Name)
		}
		for name, w := range r.GraphQL.Weights {
			if strings.Count(name, ".") != 1 || w < 0 {
				t.Fatalf("route %s: weight %s of %d", r.Name, name, w)
			}
		}
	}
	if cost < 1 {
		t.Fatalf("route %s costs %d", r.Name, cost)
	}
	for _, l := range met {
		if l.Counts == CountsRequests || l.Rate.Unlimited || l.Rate.Tokens == 0 || l.Burst == 0 {
			continue
		}
		n, err := NumbersOf(l.Rate, l.Burst)
		if err != nil {
			t.Fatal(err)
		}
		room := l.Burst
		if l.Sync == SyncLeased {
			room = n.LeasedBurst()
		}
		if cost > room {
			t.Fatalf("route %s: cost %d can never pass %s, %d", r.Name, cost, l.Name, room)
		}
		if owes := MaxUnits - 1 - n.Tokens - n.Full(); r.SettleHeader != "" && owes < n.Full() {
			t.Fatalf("route %s: %s of %d units can owe only %d", r.Name, l.Name, n.Full(), owes)
		}
	}
}

// dimensionsFit: nothing of a tenant without one, the body under abuse only, no
// ids of requests, and never a header alone.
func dimensionsFit(t *rapid.T, d *Document, r *Route, met []Limit) {
	t.Helper()
	headerless, headers := 0, 0
	for _, l := range met {
		shared := slices.ContainsFunc(d.Global.Limits, func(g Limit) bool { return g.Name == l.Name && g.Per == l.Per && g.Rate == l.Rate })
		ofPlan := false
		for _, p := range d.Plans {
			ofPlan = ofPlan || slices.ContainsFunc(p.Limits, func(g Limit) bool { return g.Name == l.Name })
		}
		for _, dim := range l.Per.Dimensions() {
			switch {
			case (dim.Kind == DimensionTenant || dim.Kind == DimensionCredential) && r.Identity != IdentityAPIKey:
				t.Fatalf("route %s with identity %s counts per %s", r.Name, r.Identity, l.Per)
			case dim.Kind == DimensionBody && r.Motive != MotiveAbuse:
				t.Fatalf("route %s with motive %s counts per %s", r.Name, r.Motive, l.Per)
			case dim.Kind == DimensionHeader && (dim.Name != textproto.CanonicalMIMEHeaderKey(dim.Name) || perRequest(dim.Name)):
				t.Fatalf("route %s counts per %s", r.Name, l.Per)
			}
		}
		if shared || ofPlan || l.Rate.Unlimited || l.Mode == ModeShadow {
			continue
		}
		if l.Per.has(DimensionHeader) {
			headers++
		} else {
			headerless++
		}
	}
	if headers > 0 && headerless == 0 {
		t.Fatalf("route %s is limited per headers alone", r.Name)
	}
}

// failsAsItMay: nobody opens by accident, and nobody without a bound against abuse.
func failsAsItMay(t *rapid.T, d *Document, r *Route, met []Limit) {
	t.Helper()
	f := r.OnStoreFailure.Fallback
	switch {
	case r.OnStoreFailure.Mode == FailClosed && f == nil:
		return
	case r.OnStoreFailure.Mode != FailOpen || f == nil:
		t.Fatalf("route %s: %+v", r.Name, r.OnStoreFailure)
	case f.Share && d.ReplicasExpected < 1:
		t.Fatalf("route %s shares among nobody", r.Name)
	case f.Unlimited && r.Motive == MotiveAbuse:
		t.Fatalf("route %s opens wholly", r.Name)
	case f.Share && r.Motive == MotiveAbuse && !slices.ContainsFunc(met, func(l Limit) bool { return !l.Rate.Unlimited && l.Mode != ModeShadow }):
		t.Fatalf("route %s shares nothing", r.Name)
	case !f.Share && !f.Unlimited && (f.Rate.Tokens < 1 || f.Burst < 1):
		t.Fatalf("route %s falls back to nothing", r.Name)
	}
}

// One document, as short as it may be and with every default spelled out in blocks.
const (
	shortSpelling = `apiVersion: headgate/v1
user: {header: X-User}
replicas_expected: 2
plans: {p: {limits: [{name: a, per: [tenant, ip], rate: 60/minute}], quota: {amount: 5, period: month}}}
routes:
- name: r
  match: [/]
  cost: {graphql: {max: 5}}
  limits: [{name: l, per: ["ip", "header:X-Client"], rate: 60/minute, expires_at: 2027-01-31T00:00:00Z}, {name: m, per: ip, rate: 600/second, sync: leased}]
  concurrency: {per: tenant, max: 2, lease: 90s}
  on_store_failure: {mode: open, fallback: share}
- {name: s, match: [/s], cost: {reserve: 5, settle_header: X-Cost}, on_store_failure: {mode: closed}}
`

	longSpelling = `# every default, in blocks
replicas_expected: 2
routes:
  - match: ["/"]
    name: r
    identity: api_key
    motive: fairness
    cost:
      graphql:
        max_breadth: 1000
        max_depth: 50
        weights: {}
        list_arguments: [limit, last, first]
        default_list_size: 10
        max: 5
    limits:
      - per: ["header:x-CLIENT", ip]
        expires_at: "2027-01-31T00:00:00.000000Z"
        mode: enforce
        sync: exact
        counts: cost
        burst: 60
        rate: 60/60s
        name: l
      - {name: m, per: [ip], rate: 600/1000ms, burst: 600, sync: leased}
    uses: []
    concurrency:
      lease: 1m30s
      per: [tenant]
      max: 2
      mode: enforce
    on_store_failure:
      fallback: share
      mode: open
  - name: s
    match: [/s]
    cost: {settle_header: x-cost, reserve: 5}
    on_store_failure: {mode: closed}
plans:
  p:
    quota: {mode: enforce, over: block, time_zone: UTC, alignment: calendar, period: month, counts: cost, amount: 5}
    limits:
      - {name: a, per: [ip, tenant], rate: 60/1m, burst: 60}
user:
  header: x-user
apiVersion: headgate/v1
`
)

// One meaning, many spellings: YAML and JSON, blocks and braces, defaults spelled
// out or not, dimensions in any order, durations and headers in any writing.
func TestCanonical_PartsAreTheSameFromEverySpelling(t *testing.T) {
	t.Parallel()
	a, r := Parse([]byte(shortSpelling))
	if !r.OK() {
		t.Fatal(r)
	}
	b, r := Parse([]byte(longSpelling))
	if !r.OK() {
		t.Fatal(r)
	}
	if !bytes.Equal(a.Canonical(), b.Canonical()) {
		t.Errorf("short\n%s\nlong\n%s", a.Canonical(), b.Canonical())
	}
	if got := Diff(a, b); len(got) != 0 {
		t.Errorf("changes %+v", got)
	}
	for name, src := range map[string][]byte{"JSON": a.JSON(), "YAML": a.YAML(), "canonical": a.Canonical()} {
		if back, r := Parse(src); !r.OK() || !bytes.Equal(back.Canonical(), a.Canonical()) {
			t.Errorf("%s comes back differently: %v\n%s", name, r, src)
		}
	}
}

// Whatever stands behind a per, its spelling settles after one turn.
func FuzzPer(f *testing.F) {
	for _, s := range []string{"", "tenant", "ip,body:username", "header:x-a,header:X-A", ",", "body:,header:", "global,,ip", "a:b:c", "header:\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := Per(s).spelledOnce()
		if again := once.spelledOnce(); again != once {
			t.Fatalf("%q is spelled %q and then %q", s, once, again)
		}
		if len(once.Dimensions()) != len(Per(s).Dimensions()) {
			t.Fatalf("%q has %d dimensions and %q has %d", s, len(Per(s).Dimensions()), once, len(once.Dimensions()))
		}
		d := everyPart()
		d.Routes[2].Limits = []Limit{perMinute("a", Per(s), 5), perMinute("b", PerIP, 5)}
		if Validate(d).OK() {
			if _, r := Parse(d.Canonical()); !r.OK() {
				t.Fatalf("%q validates and is not read back: %v", s, r)
			}
		}
	})
}
