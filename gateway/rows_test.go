package gateway

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/gateway/dimension"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// widePolicy has what goes beyond a rate per tenant.
const widePolicy = `
apiVersion: headgate/v1
client_ip: {trusted_proxies: [10.0.0.0/8]}
user: {header: X-User-Id}
global: {limits: [{name: all, per: global, rate: 50000/second}]}
shared: [{name: search, per: tenant, rate: 6000/minute, burst: 600}]
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 6000/minute, burst: 600}]
  capped:
    limits: [{name: requests, per: tenant, counts: requests, rate: 6000/minute, burst: 600}]
    quota: {amount: 100, counts: cost, period: month, alignment: calendar, time_zone: UTC, over: block}
  billed:
    limits: [{name: requests, per: tenant, counts: requests, rate: 6000/minute, burst: 600}]
    quota: {amount: 3, counts: requests, period: month, alignment: anniversary, time_zone: UTC, over: bill, max: 5}
routes:
  - name: slots
    match: ["/slots/"]
    identity: api_key
    motive: fairness
    concurrency: {per: tenant, max: 2, lease: 10s}
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
  - name: llm
    match: ["POST /llm"]
    identity: api_key
    motive: fairness
    cost: {reserve: 50, settle_header: X-Cost}
    limits: [{name: tokens, per: tenant, rate: 100/minute, burst: 100}]
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
  - name: graphql
    match: ["/graphql"]
    identity: api_key
    motive: fairness
    cost: {graphql: {max: 100, default_list_size: 10, list_arguments: [first]}}
    limits: [{name: points, per: tenant, rate: 100/minute, burst: 100}]
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits:
      - {name: per-account, per: "body:username", rate: 5/minute, burst: 5}
      - {name: per-ip, per: ip, rate: 20/minute, burst: 20}
    on_store_failure: {mode: closed}
  - name: mine
    match: ["/me/"]
    identity: user
    motive: fairness
    limits: [{name: per-user, per: user, rate: 2/minute, burst: 2}]
    on_store_failure: {mode: open, fallback: {rate: 3/minute, burst: 3}}
  - name: search
    match: ["/search/"]
    identity: api_key
    motive: fairness
    uses: [search]
    limits:
      - {name: per-client, per: "header:X-Client", rate: 2/minute, burst: 2}
      - {name: per-pair, per: [ip, user], rate: 4/minute, burst: 4}
      - {name: per-ip, per: ip, rate: 1000/minute, burst: 1000}
    on_store_failure: {mode: closed}
  - name: rest
    match: ["/"]
    identity: api_key
    motive: fairness
    cost: 10
    uses: [search]
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
`

// rowsOf makes rows for a request of a tenant ("" for none).
func rowsOf(f *fixture, tenant, credential string, header http.Header, body *Body) *rows {
	v := &Verdict{
		Policy: f.policies.Current(), Tenant: tenant, Credential: credential, Client: netip.MustParseAddr("192.0.2.1"), Subject: "192.0.2.1",
	}
	in := &Inbound{Header: header, Body: body, PeerTrusted: true}
	return &rows{g: f.g, in: in, v: v}
}

func TestRows_EachDimensionHasItsRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	header := http.Header{"X-Client": {"c1"}, "X-User-Id": {"u1"}}
	form := &Body{ContentType: "application/x-www-form-urlencoded", Peek: []byte("username=ann"), Whole: true}
	for per, want := range map[policy.Per]struct {
		withTenant, without limiter.Row // subjects of dimensions: anything
	}{
		"global":                 {limiter.Row{Kind: limiter.RowGlobal}, limiter.Row{Kind: limiter.RowGlobal}},
		"tenant":                 {limiter.Row{Kind: limiter.RowTenant, Tenant: "ten_a"}, limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}},
		"credential":             {limiter.Row{Kind: limiter.RowCredential, Tenant: "ten_a", Subject: "crd_1"}, limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}},
		"ip":                     {limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}, limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}},
		"user":                   {limiter.Row{Kind: limiter.RowDimension, Tenant: "ten_a"}, limiter.Row{Kind: limiter.RowDimension}},
		"header:X-Client":        {limiter.Row{Kind: limiter.RowDimension, Tenant: "ten_a"}, limiter.Row{Kind: limiter.RowDimension}},
		"body:username":          {limiter.Row{Kind: limiter.RowDimension, Tenant: "ten_a"}, limiter.Row{Kind: limiter.RowDimension}},
		"ip,body:username":       {limiter.Row{Kind: limiter.RowDimension, Tenant: "ten_a"}, limiter.Row{Kind: limiter.RowDimension}},
		"tenant,header:X-Client": {limiter.Row{Kind: limiter.RowDimension, Tenant: "ten_a"}, limiter.Row{Kind: limiter.RowDimension}},
	} {
		for tenant, want := range map[string]limiter.Row{"ten_a": want.withTenant, "": want.without} {
			credential := ""
			if tenant != "" {
				credential = "crd_1"
			}
			got := rowsOf(f, tenant, credential, header, form).of(per.Dimensions())
			if want.Kind == limiter.RowDimension {
				if got.Subject == "" {
					t.Errorf("%s of tenant %q: no subject", per, tenant)
				}
				got.Subject = ""
			}
			if got != want {
				t.Errorf("%s of tenant %q: %+v, want %+v", per, tenant, got, want)
			}
		}
	}
}

// A value that is left out is neither a way around a limit nor a bucket that
// strangers share: without a tenant it is the address that is counted.
func TestRows_AMissingValueIsCountedWithinTheTenantOrTheAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	dims := policy.Per("header:X-Client").Dimensions()
	subject := func(tenant, address string, header http.Header) limiter.Row {
		r := rowsOf(f, tenant, "", header, nil)
		r.v.Subject = address
		return r.of(dims)
	}
	if a, b := subject("", "192.0.2.1", nil), subject("", "192.0.2.2", nil); a == b {
		t.Errorf("two addresses without the header share %+v", a)
	}
	if a, b := subject("ten_a", "192.0.2.1", nil), subject("ten_a", "192.0.2.2", nil); a != b {
		t.Errorf("one tenant without the header has %+v and %+v", a, b)
	}
	if a, b := subject("ten_a", "192.0.2.1", nil), subject("ten_b", "192.0.2.1", nil); a == b {
		t.Errorf("two tenants share %+v", a)
	}
	with := http.Header{"X-Client": {"c1"}}
	if a, b := subject("", "192.0.2.1", with), subject("", "192.0.2.2", with); a != b {
		t.Errorf("one value from two addresses is %+v and %+v", a, b)
	}
	if a, b := subject("", "192.0.2.1", http.Header{"X-Client": {""}}), subject("", "192.0.2.1", with); a == b {
		t.Errorf("an empty value and another one share %+v", a)
	}
}

func TestRows_A14_DifferentValuesNeverShareARow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	nasty := rapid.OneOf(rapid.StringMatching(`[{}:,#\\"=%a-c]{0,12}`), rapid.StringN(0, 300, -1),
		rapid.Custom(func(t *rapid.T) string { return strings.Repeat("x", rapid.IntRange(180, 260).Draw(t, "n")) }))
	dims := policy.Per("header:X-A,header:X-B").Dimensions()
	rapid.Check(t, func(rt *rapid.T) {
		clean := func(s string) string { // what a header can hold, as the canonical value of it
			s = strings.Map(func(r rune) rune {
				if r < 0x20 || r > 0x7e {
					return -1
				}
				return r
			}, s)
			return strings.ToLower(strings.TrimSpace(s))
		}
		a, b := clean(nasty.Draw(rt, "a")), clean(nasty.Draw(rt, "b"))
		c, d := clean(nasty.Draw(rt, "c")), clean(nasty.Draw(rt, "d"))
		one := rowsOf(f, "ten_a", "", http.Header{"X-A": {a}, "X-B": {b}}, nil).of(dims)
		two := rowsOf(f, "ten_a", "", http.Header{"X-A": {c}, "X-B": {d}}, nil).of(dims)
		if same := a == c && b == d; same != (one == two) {
			rt.Fatalf("%q %q and %q %q: %+v and %+v", a, b, c, d, one, two)
		}
		if len(one.Subject) > maxSubject {
			rt.Fatalf("subject of %d bytes", len(one.Subject))
		}
	})
}

func TestRows_LongSubjectsAreMarkedApart(t *testing.T) {
	t.Parallel()
	long := dimension.Encode([]dimension.Part{{Dimension: policy.Dimension{Kind: policy.DimensionHeader, Name: "X-A"}, State: dimension.Present, Value: strings.Repeat("y", 500)}})
	short := shortened(long)
	if len(long) > maxSubject && (len(short) > 64 || !strings.HasPrefix(short, "#")) {
		t.Errorf("%d bytes became %q", len(long), short)
	}
	for _, p := range []dimension.State{dimension.Missing, dimension.Present, dimension.Unreadable} {
		text := dimension.Encode([]dimension.Part{{Dimension: policy.Dimension{Kind: policy.DimensionUser}, State: p, Value: "#"}})
		if strings.HasPrefix(text, "#") {
			t.Errorf("a text of its own begins with the mark: %q", text)
		}
	}
}

func TestRows_IdentifiersAreBounded(t *testing.T) {
	t.Parallel()
	for row, want := range map[limiter.Row]int64{
		{Kind: limiter.RowGlobal}:                                0,
		{Kind: limiter.RowTenant, Tenant: "t"}:                   0,
		{Kind: limiter.RowCredential, Tenant: "t", Subject: "c"}: 0,
		{Kind: limiter.RowIP, Subject: "192.0.2.1"}:              identifiersOfLane,
		{Kind: limiter.RowDimension, Tenant: "t", Subject: "x"}:  identifiersOfTenant,
		{Kind: limiter.RowDimension, Subject: "x"}:               identifiersOfAll,
	} {
		if got := identifiers(row); got != want {
			t.Errorf("%+v: %d, want %d", row, got, want)
		}
	}
}

// What a limit is counted per is what the limits of a route hold apart.
func TestDecide_DimensionsAreCountedApart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "free")
	search := func(client, user string) int {
		return f.do("GET", "/search/x", append(bearer(key), "X-Client", client, "X-User-Id", user, "Peer", "10.0.0.1:1")...).StatusCode
	}
	for i, c := range []struct {
		client, user string
		want         int
	}{
		{"a", "u", 204}, {"a", "u", 204}, {"a", "u", 429}, {"b", "u", 204}, {"b", "u", 204}, {"b", "u", 429},
		{"c", "u", 429}, {"c", "v", 204}, {"A", "v", 204}, {"c", "v", 204}, {"c", "v", 429},
	} {
		if got := search(c.client, c.user); got != c.want {
			t.Errorf("request %d of client %s, user %s: %d, want %d", i, c.client, c.user, got, c.want)
		}
	}
}

// The user header counts when a trusted proxy sends it, and does not reach the
// upstream when anybody else does.
func TestDecide_TheUserHeaderIsBelievedFromTrustedProxiesAlone(t *testing.T) {
	t.Parallel()
	var seen []http.Header
	f := newFixture(t, widePolicy, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.Header.Clone()) }))
	wantRefusal(t, f.do("GET", "/me/x", "X-User-Id", "ann"), 401, CodeMissingCredential)
	for i, want := range []int{200, 200, 429} {
		if res := f.do("GET", "/me/x", "X-User-Id", "ann", "Peer", "10.0.0.1:1"); res.StatusCode != want {
			t.Errorf("request %d: %d, want %d", i, res.StatusCode, want)
		}
	}
	if res := f.do("GET", "/me/x", "X-User-Id", "bob", "Peer", "10.0.0.1:1"); res.StatusCode != 200 {
		t.Errorf("another user: %d", res.StatusCode)
	}
	if len(seen) != 3 || seen[0].Get("X-User-Id") != "ann" || seen[0].Get("X-Headgate-User") != "ann" {
		t.Fatalf("upstream saw %v", seen)
	}
	key := f.key("ten_a", "free")
	f.do("GET", "/x", append(bearer(key), "X-User-Id", "root", "X_User_Id", "root")...)
	last := seen[len(seen)-1]
	if strings.Contains(fmt.Sprint(last), "root") {
		t.Errorf("a stranger's word for its user reached the upstream: %v", last)
	}
}

// While Redis is away each user has a fallback of its own.
func TestDecide_UsersHaveFallbacksOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	f.store.fail(true)
	for _, user := range []string{"ann", "bob"} {
		for i, want := range []int{204, 204, 204, 429} {
			if res := f.do("GET", "/me/x", "X-User-Id", user, "Peer", "10.0.0.1:1"); res.StatusCode != want {
				t.Errorf("request %d of %s: %d, want %d", i, user, res.StatusCode, want)
			}
		}
	}
}
