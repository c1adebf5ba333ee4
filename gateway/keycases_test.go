package gateway

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
)

// perKeyPolicy limits each credential, and a route of its own.
var perKeyPolicy = strings.Replace(testPolicy, `    match: ["/api/"]
    identity: api_key
    motive: fairness
`, `    match: ["/api/"]
    identity: api_key
    motive: fairness
    limits: [{name: each, per: credential, rate: 5/minute, burst: 5}]
`, 1)

// change gives a tenant another state.
func (f *fixture) change(tenant string, state policy.TenantState) {
	f.directory.change(func(d *fakeDirectory) {
		r := d.tenants[tenant]
		r.State = state
		d.tenants[tenant] = r
	})
	f.g.RecordChanged(policy.RecordTenant, tenant)
}

// TestIdentity_R054_ATenantsStateHoldsForAllItsKeys: suspended, active again, deleted.
func TestIdentity_R054_ATenantsStateHoldsForAllItsKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	keys := []string{f.key("ten_a", "big"), f.key("ten_a", "big"), f.key("ten_a", "big")}
	other := f.key("ten_b", "big")
	for _, step := range []struct {
		state policy.TenantState
		want  int
		code  Code
	}{
		{policy.TenantActive, 204, ""}, {policy.TenantSuspended, 403, CodeTenantSuspended}, {policy.TenantActive, 204, ""},
		{policy.TenantDeleted, 401, CodeInvalidCredential}, {"", 401, CodeInvalidCredential},
	} {
		f.change("ten_a", step.state)
		for i, key := range keys {
			res := f.do("GET", "/api/x", bearer(key)...)
			if step.code != "" {
				wantRefusal(t, res, step.want, step.code)
			} else if res.StatusCode != step.want {
				t.Errorf("%q, key %d: %d, want %d", step.state, i, res.StatusCode, step.want)
			}
		}
		if res := f.do("GET", "/api/x", bearer(other)...); res.StatusCode != 204 {
			t.Errorf("another tenant, while this one is %q: %d", step.state, res.StatusCode)
		}
	}
}

// TestIdentity_R056_BothKeysOfARotationSpendOneBudget, and a key that is warm in
// every cache ends at its deadline all the same.
func TestIdentity_R056_BothKeysOfARotationSpendOneBudget(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	start := f.clock()
	ends := start.Add(24 * time.Hour)
	old := f.key("ten_a", "free", func(r *policy.KeyRecord) {
		r.State, r.RetiringAt, r.NotAfter = policy.KeyRetiring, &start, &ends
	})
	fresh := f.key("ten_a", "free")
	admitted := 0
	for i := range 100 {
		if f.do("GET", "/api/x", bearer([]string{old, fresh}[i%2])...).StatusCode == 204 {
			admitted++
		}
	}
	if admitted != 60 {
		t.Errorf("%d admitted with two keys, want the tenant's 60", admitted)
	}
	for _, at := range []struct {
		after    time.Duration
		old, now int
	}{{time.Second, 204, 204}, {24*time.Hour - time.Second, 204, 204}, {24 * time.Hour, 401, 204}, {24*time.Hour + time.Second, 401, 204}} {
		f.mu.Lock()
		f.now = start.Add(time.Hour + at.after) // an hour more, so that the budget is whole
		f.mu.Unlock()
		f.g.clockOffset.Store(int64(time.Hour))
		a, b := f.do("GET", "/api/x", bearer(old)...).StatusCode, f.do("GET", "/api/x", bearer(fresh)...).StatusCode
		if a != at.old || b != at.now {
			t.Errorf("after %v the old key gets %d and the new one %d, want %d and %d", at.after, a, b, at.old, at.now)
		}
	}
}

// fixedKey is a key made of one byte of randomness again and again.
func fixedKey(t *testing.T, draw byte) string {
	t.Helper()
	secret, _, err := apikey.Generate(apikey.Live, bytes.NewReader(bytes.Repeat([]byte{draw}, 256)))
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// storedDigests is what each version of the stored form makes of fixedKey(7) and
// fixedKey(8). A further version gets a row here, and the rows above it stay.
func storedDigests() map[string][2]string {
	return map[string][2]string{
		"sha256": {"sha256:b2efb2d02c8062915668ce617e2ddc226321ac35411bb345865850dcf37edba5", "sha256:c98180ef36de05d3f1176d0042557e9ca4189b148225c97f4deb58ab33ce5fd4"},
	}
}

// TestIdentity_R057_BothSecretsOfARotationMatchInEachStoredForm: what was stored
// before an update still matches after it, and a form that is not known matches nobody.
func TestIdentity_R057_BothSecretsOfARotationMatchInEachStoredForm(t *testing.T) {
	t.Parallel()
	old, fresh := fixedKey(t, 7), fixedKey(t, 8)
	for form, stored := range storedDigests() {
		f := newFixture(t, testPolicy, nil)
		start := f.clock()
		ends := start.Add(time.Hour)
		records := map[string]policy.KeyRecord{}
		for i, key := range []string{old, fresh} {
			parsed, err := apikey.Parse(key)
			if err != nil {
				t.Fatal(err)
			}
			records[key] = policy.KeyRecord{KID: parsed.KID, Tenant: "ten_a", Credential: "crd_a", Environment: apikey.Live, State: policy.KeyActive, Digest: stored[i]}
		}
		retiring := records[old]
		retiring.State, retiring.RetiringAt, retiring.NotAfter = policy.KeyRetiring, &start, &ends
		records[old] = retiring
		put := func(key string, r policy.KeyRecord) {
			f.directory.change(func(d *fakeDirectory) {
				d.keys[r.KID] = r
				d.tenants["ten_a"] = policy.TenantRecord{ID: "ten_a", Plan: "big", State: policy.TenantActive}
			})
			f.g.RecordChanged(policy.RecordKey, r.KID)
		}
		for key, r := range records {
			put(key, r)
			if res := f.do("GET", "/api/x", bearer(key)...); res.StatusCode != 204 {
				t.Errorf("%s: a key in state %s gets %d", form, r.State, res.StatusCode)
			}
		}
		for _, digest := range []string{"", "md5:" + stored[0][7:], stored[0][7:], stored[0][:20], strings.ToUpper(stored[0]), stored[1], apikey.DummyDigest, old} {
			r := records[old]
			r.Digest = digest
			put(old, r)
			if res := f.do("GET", "/api/x", bearer(old)...); res.StatusCode != 401 {
				t.Errorf("%s: the old key gets %d by the digest %q", form, res.StatusCode, digest)
			}
		}
	}
}

// TestDecide_R061_KeysThatBeginAlikeHaveTheirOwnBuckets: 16 characters in common.
func TestDecide_R061_KeysThatBeginAlikeHaveTheirOwnBuckets(t *testing.T) {
	t.Parallel()
	f := newFixture(t, perKeyPolicy, nil)
	keys := make([]string, 2)
	for i := range keys {
		draw := append(bytes.Repeat([]byte{9}, 8), bytes.Repeat([]byte{byte(20 + i)}, 248)...)
		secret, kid, err := apikey.Generate(apikey.Live, bytes.NewReader(draw))
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = secret.Reveal()
		f.directory.change(func(d *fakeDirectory) {
			d.keys[kid] = policy.KeyRecord{KID: kid, Tenant: "ten_a", Credential: "crd_" + kid, Environment: apikey.Live, State: policy.KeyActive, Digest: apikey.Digest(keys[i])}
			d.tenants["ten_a"] = policy.TenantRecord{ID: "ten_a", Plan: "big", State: policy.TenantActive}
		})
	}
	if keys[0][:16] != keys[1][:16] || keys[0] == keys[1] {
		t.Fatalf("the keys are %s and %s", apikey.Mask(keys[0]), apikey.Mask(keys[1]))
	}
	admitted := map[int]int{}
	for n := range 20 {
		if f.do("GET", "/api/x", bearer(keys[n%2])...).StatusCode == 204 {
			admitted[n%2]++
		}
	}
	if admitted[0] != 5 || admitted[1] != 5 {
		t.Errorf("%v were admitted, want 5 of each", admitted)
	}
}

// TestDecide_R063_AnonymousCallersHaveABucketEach: an empty or blank key is no key,
// and nobody's bucket.
func TestDecide_R063_AnonymousCallersHaveABucketEach(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	admitted := func(n int, headers ...string) (k int) {
		for range n {
			if f.do("GET", "/public/x", headers...).StatusCode == 204 {
				k++
			}
		}
		return k
	}
	if n := admitted(100, "Peer", "198.51.100.1:1"); n != 5 {
		t.Errorf("the first caller: %d of 100, want 5", n)
	}
	if n := admitted(5, "Peer", "198.51.100.2:1"); n != 5 {
		t.Errorf("the second caller: %d of 5", n)
	}
	for i, blank := range []string{"", " ", "\t  "} {
		for _, name := range []string{"X-API-Key", "Authorization"} {
			if n := admitted(3, "Peer", "198.51.100.1:1", name, blank); n != 0 {
				t.Errorf("the first caller gets %d more with the %s %q", n, name, blank)
			}
			peer := "198.51.100." + string(rune('3'+i)) + ":1"
			wantRefusal(t, f.do("GET", "/api/x", "Peer", peer, name, blank), 401, CodeMissingCredential)
		}
		if n := admitted(10, "Peer", "198.51.101."+string(rune('3'+i))+":1", "X-API-Key", blank); n != 5 {
			t.Errorf("somebody with the key %q: %d of 10, want 5", blank, n)
		}
	}
}

// TestDecide_R068_ARouteIsClosedToATenantAlone: there is no policy of a key's own, of
// which one could be switched off. What is said of one route (an override that
// admits nothing) closes that to the tenant's keys and leaves the others as they
// are; taking it away opens it again.
func TestDecide_R068_ARouteIsClosedToATenantAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key, other := f.key("ten_a", "big"), f.key("ten_b", "big")
	both := func(what string, report int) {
		t.Helper()
		res := f.do("GET", "/v1/reports/1", bearer(key)...)
		if res.StatusCode != report {
			t.Errorf("%s: the report answers %d, want %d", what, res.StatusCode, report)
		}
		if report == 429 {
			if p := body(t, res); p.Reason != "blocked" || !slices.Equal(p.Violated, []string{"route:report.reports"}) || res.Header.Get("Retry-After") != "" {
				t.Errorf("%s: %+v", what, p)
			}
		}
		if res := f.do("GET", "/api/x", bearer(key)...); res.StatusCode != 204 || res.Header.Get("RateLimit-Limit") != "1000" {
			t.Errorf("%s: the rest answers %d, limit %s", what, res.StatusCode, res.Header.Get("RateLimit-Limit"))
		}
	}
	both("before", 204)
	f.override("ten_a", policy.Override{Limit: "route:report.reports", Rate: "0/minute", Burst: ptr(int64(0)), Reason: "closed"})
	both("closed", 429)
	if res := f.do("GET", "/v1/reports/1", bearer(other)...); res.StatusCode != 204 {
		t.Errorf("another tenant: %d", res.StatusCode)
	}
	f.override("ten_a")
	f.advance(time.Minute)
	both("open again", 204)
}

// TestDoors_R069_PlanOfTheKeyAppliesAtEachHTTPDoor; Envoy's doors answer as these do.
func TestDoors_R069_PlanOfTheKeyAppliesAtEachHTTPDoor(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*fixture, string) (int, string){
		"proxy": func(f *fixture, key string) (int, string) {
			res := f.do("GET", "/api/x", bearer(key)...)
			return res.StatusCode, res.Header.Get("RateLimit-Limit")
		},
		"forward-auth": func(f *fixture, key string) (int, string) {
			res := serve(f.g.DecideHandler(), "GET", "/v1/check", "Peer", "127.0.0.1:1", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/api/x", "Authorization", "Bearer "+key)
			return res.StatusCode, res.Header.Get("RateLimit-Limit")
		},
		"decide": func(f *fixture, key string) (int, string) {
			d := f.decision(key, "/api/x")
			if !d.Allowed || limitOf(t, d, "plan.requests").Limit != 1000 {
				return http.StatusTooManyRequests, ""
			}
			return http.StatusOK, "1000"
		},
	} {
		f := newFixture(t, testPolicy, nil)
		key := f.key("ten_big", "big")
		for n := range 100 {
			if status, limit := call(f, key); status >= 300 || limit != "1000" {
				t.Fatalf("%s, call %d: %d, limit %q", name, n, status, limit)
			}
		}
	}
}
