package redisstore_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
)

func TestRowKey_IsAsDocumented(t *testing.T) {
	t.Parallel()
	store := redisstore.New(nil, redisstore.Options{Deployment: "production"})
	for want, row := range map[string]limiter.Row{
		"hg:l:{g}:g:all":                                         {Kind: limiter.RowGlobal},
		"hg:l:{1}:t:ten_abcdefghijklmnop":                        {Kind: limiter.RowTenant, Tenant: "ten_abcdefghijklmnop"},
		"hg:l:{1}:c:ten_abcdefghijklmnop:93W9yktJp1xpbrOmFH3QxA": {Kind: limiter.RowCredential, Tenant: "ten_abcdefghijklmnop", Subject: "crd_abcdefghijklmnop"},
		"hg:l:{229}:i:uOw66bawtrjwcg-t-lK6Zg":                    {Kind: limiter.RowIP, Subject: "192.0.2.1"},
	} {
		if got := store.RowKey(row); got != want {
			t.Errorf("%+v: %s, want %s", row, got, want)
		}
	}
	other := redisstore.New(nil, redisstore.Options{Namespace: "x", Deployment: "staging"})
	row := limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}
	if got := other.RowKey(row); !strings.HasPrefix(got, "x:l:{") || got[1:] == store.RowKey(row)[2:] {
		t.Errorf("another deployment: %s", got)
	}
}

var keyShape = regexp.MustCompile(`^hg:l:\{(g|[0-9]{1,3})\}:[gtci]:[A-Za-z0-9_:-]+$`)

// TestRowKey_HoldsNoUserTextAndTellsRowsApart: whatever an address or a
// credential is called, it is hashed, and no two rows share a key.
func TestRowKey_HoldsNoUserTextAndTellsRowsApart(t *testing.T) {
	t.Parallel()
	store := redisstore.New(nil, options)
	tenants := rapid.StringMatching(`ten_[a-z2-7]{2}`)
	hostile := rapid.OneOf(rapid.String(), rapid.StringMatching(`[{}:\r\n\x00é]{1,6}`))
	rows := rapid.Custom(func(t *rapid.T) limiter.Row {
		switch rapid.SampledFrom([]byte("gtci")).Draw(t, "kind") {
		case 't':
			return limiter.Row{Kind: limiter.RowTenant, Tenant: tenants.Draw(t, "tenant")}
		case 'c':
			return limiter.Row{Kind: limiter.RowCredential, Tenant: tenants.Draw(t, "tenant"), Subject: hostile.Draw(t, "credential")}
		case 'i':
			return limiter.Row{Kind: limiter.RowIP, Subject: hostile.Draw(t, "address")}
		}
		return limiter.Row{Kind: limiter.RowGlobal}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := rows.Draw(t, "a"), rows.Draw(t, "b")
		key := store.RowKey(a)
		if !keyShape.MatchString(key) || len(key) > 80 {
			t.Fatalf("%+v: key %q", a, key)
		}
		if (key == store.RowKey(b)) != (a == b) {
			t.Fatalf("%+v and %+v: %q and %q", a, b, key, store.RowKey(b))
		}
	})
}

func TestRowKey_ATenantsRowsShareItsLane(t *testing.T) {
	t.Parallel()
	store := redisstore.New(nil, options)
	tag := func(row limiter.Row) string { return strings.Split(store.RowKey(row), ":")[2] }
	seen := map[string]bool{}
	for _, tenant := range []string{"ten_aaaa", "ten_bbbb", "ten_cccc", "ten_dddd"} {
		lane := tag(limiter.Row{Kind: limiter.RowTenant, Tenant: tenant})
		seen[lane] = true
		for _, credential := range []string{"crd_1", "crd_2", "crd_3"} {
			if got := tag(limiter.Row{Kind: limiter.RowCredential, Tenant: tenant, Subject: credential}); got != lane {
				t.Errorf("%s of %s lies in %s, its tenant in %s", credential, tenant, got, lane)
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("all tenants in one lane: %v", seen)
	}
}
