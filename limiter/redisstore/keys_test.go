package redisstore_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
)

// keyedHash is the documented hash of a row's kind, tenant and subject.
func keyedHash(deployment, kind, tenant, subject string) string {
	mac := hmac.New(sha256.New, []byte(deployment))
	_, _ = fmt.Fprintf(mac, "%s%c%s%s", kind, rune(len(tenant)), tenant, subject)
	return string(mac.Sum(nil)[:16])
}

func TestRowKey_IsAsDocumented(t *testing.T) {
	t.Parallel()
	store := redisstore.New(nil, redisstore.Options{Deployment: "production"})
	ten := "ten_abcdefghijklmnop"
	address := keyedHash("production", "i", "", "192.0.2.1")
	for want, row := range map[string]limiter.Row{
		"hg:l:{g}:g:all":                  {Kind: limiter.RowGlobal},
		"hg:l:{1}:t:ten_abcdefghijklmnop": {Kind: limiter.RowTenant, Tenant: ten},

		"hg:l:{1}:c:" + keyedHash("production", "c", ten, "crd_abc"): {Kind: limiter.RowCredential, Tenant: ten, Subject: "crd_abc"},
		"hg:l:{1}:d:" + keyedHash("production", "d", ten, "a"):       {Kind: limiter.RowDimension, Tenant: ten, Subject: "a"},
		"hg:l:{x}:d:" + keyedHash("production", "d", "", "a"):        {Kind: limiter.RowDimension, Subject: "a"},
		fmt.Sprintf("hg:l:{%d}:i:%s", address[0], address):           {Kind: limiter.RowIP, Subject: "192.0.2.1"},
	} {
		if got := store.RowKey(row); got != want {
			t.Errorf("%+v: %q, want %q", row, got, want)
		}
	}
	other := redisstore.New(nil, redisstore.Options{Namespace: "x", Deployment: "staging"})
	row := limiter.Row{Kind: limiter.RowIP, Subject: "192.0.2.1"}
	if got := other.RowKey(row); !strings.HasPrefix(got, "x:l:{") || got[1:] == store.RowKey(row)[2:] {
		t.Errorf("another deployment: %q", got)
	}
	tenantRow := limiter.Row{Kind: limiter.RowTenant, Tenant: ten}
	if got := store.SlotKey(limiter.Lease{Row: tenantRow, Hash: 0xab}); got != "hg:l:{1}:z:00000000000000ab:t:"+ten {
		t.Errorf("leases: %q", got)
	}
	if got := store.QuotaKey(tenantRow, 0xab, 12); got != "hg:l:{1}:q:00000000000000ab:12:t:"+ten {
		t.Errorf("quota: %q", got)
	}
	if got := store.OverflowKey(limiter.Row{Kind: limiter.RowDimension, Tenant: ten, Subject: "a"}); got != "hg:l:{1}:o:"+ten {
		t.Errorf("overflow of a tenant: %q", got)
	}
	if got := store.OverflowKey(limiter.Row{Kind: limiter.RowDimension, Subject: "a"}); got != "hg:l:{x}:o:" {
		t.Errorf("overflow without a tenant: %q", got)
	}
}

// someTenants are ids as the product makes them.
func someTenants() *rapid.Generator[string] { return rapid.StringMatching(`ten_[a-z2-7]{2}`) }

// anyRow has user text of the worst kind wherever a user has a say.
func anyRow() *rapid.Generator[limiter.Row] {
	hostile := rapid.OneOf(rapid.String(), rapid.StringMatching(`[{}:*?\[\]\r\n\x00é]{1,6}`), rapid.Just(strings.Repeat("k", 1<<16)))
	return rapid.Custom(func(t *rapid.T) limiter.Row {
		switch rapid.SampledFrom([]byte("gtcid")).Draw(t, "kind") {
		case 't':
			return limiter.Row{Kind: limiter.RowTenant, Tenant: someTenants().Draw(t, "tenant")}
		case 'c':
			return limiter.Row{Kind: limiter.RowCredential, Tenant: someTenants().Draw(t, "tenant"), Subject: hostile.Draw(t, "credential")}
		case 'i':
			return limiter.Row{Kind: limiter.RowIP, Subject: hostile.Draw(t, "address")}
		case 'd':
			tenant := rapid.OneOf(rapid.Just(""), someTenants()).Draw(t, "tenant")
			return limiter.Row{Kind: limiter.RowDimension, Tenant: tenant, Subject: hostile.Draw(t, "identifier")}
		}
		return limiter.Row{Kind: limiter.RowGlobal}
	})
}

// allKeys are the keys that a row can be behind.
func allKeys(s *redisstore.Store, row limiter.Row) []string {
	return []string{
		s.RowKey(row), s.OverflowKey(row), s.SlotKey(limiter.Lease{Row: row, Hash: 7}), s.QuotaKey(row, 7, 1),
	}
}

// TestRowKey_A14_HoldsNoUserTextAndTellsRowsApart: whatever an address, a
// credential or a header is called, it is hashed, no two rows share a key, and no
// key is taken for one of another kind.
func TestRowKey_A14_HoldsNoUserTextAndTellsRowsApart(t *testing.T) {
	t.Parallel()
	store := redisstore.New(nil, options)
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRow().Draw(t, "a"), anyRow().Draw(t, "b")
		ofB := allKeys(store, b)
		for i, key := range allKeys(store, a) {
			if !strings.HasPrefix(key, "hg:l:{") || len(key) > 80 {
				t.Fatalf("%+v: key %q", a, key)
			}
			if len(a.Subject) > 5 && strings.Contains(key, a.Subject) {
				t.Fatalf("%q holds what the user wrote", key)
			}
			for j, other := range ofB {
				same := i == j && (a == b || i == 1 && a.Tenant == b.Tenant && store.Lane(a) == store.Lane(b))
				if (key == other) != same {
					t.Fatalf("%+v and %+v: %q and %q", a, b, key, other)
				}
			}
		}
	})
}

// TestRowKey_A14_AllKeysOfALaneShareASlot asks a real server for the slots.
func TestRowKey_A14_AllKeysOfALaneShareASlot(t *testing.T) {
	t.Parallel()
	store, client := redisstore.New(nil, options), patientTo(t, testkit.Cluster(t).URL())
	slots := map[string]int64{}
	rapid.Check(t, func(rt *rapid.T) {
		row := anyRow().Draw(rt, "row")
		lane := store.Lane(row)
		for _, key := range allKeys(store, row) {
			slot, err := client.ClusterKeySlot(context.Background(), key).Result()
			if err != nil {
				rt.Fatal(err)
			}
			if before, known := slots[lane]; known && before != slot {
				rt.Fatalf("%q lies in slot %d, its lane in %d", key, slot, before)
			}
			slots[lane] = slot
		}
	})
}

func TestRowKey_ATenantsRowsShareItsLane(t *testing.T) {
	t.Parallel()
	store := redisstore.New(nil, options)
	seen := map[string]bool{}
	for _, tenant := range []string{"ten_aaaa", "ten_bbbb", "ten_cccc", "ten_dddd"} {
		lane := store.Lane(limiter.Row{Kind: limiter.RowTenant, Tenant: tenant})
		seen[lane] = true
		for _, subject := range []string{"1", "2", "3"} {
			for _, kind := range []limiter.RowKind{limiter.RowCredential, limiter.RowDimension} {
				row := limiter.Row{Kind: kind, Tenant: tenant, Subject: subject}
				if got := store.Lane(row); got != lane || !strings.HasPrefix(store.RowKey(row), lane) {
					t.Errorf("%+v lies in %s, its tenant in %s", row, got, lane)
				}
			}
		}
	}
	if len(seen) < 2 {
		t.Errorf("all tenants in one lane: %v", seen)
	}
}
