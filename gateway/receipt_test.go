package gateway

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/receipt"
)

const receiptPolicy = `
apiVersion: headgate/v1
credentials: {headers: [{name: X-API-Key}], invalid: {per: ip, rate: 30/minute, burst: 30}}
global: {limits: [{name: all, per: global, rate: 100/second, burst: 400}]}
shared: [{name: search, per: tenant, rate: 30/minute, burst: 12}]
plans:
  free:
    limits: [{name: requests, per: tenant, rate: 7/second, burst: 60}]
    quota: {amount: 6000, period: day, over: block}
  pro:
    limits: [{name: requests, per: tenant, counts: requests, rate: 600/minute, burst: 100}]
    quota: {amount: 1000, period: day, over: bill, max: 9000}
  small:
    limits: []
    quota: {amount: 90, period: day, over: block}
routes:
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: api_key
    motive: fairness
    limits: [{name: own, per: tenant, rate: 10/minute, burst: 50}, {name: net, per: [tenant, ip], rate: 3/7s, burst: 40}]
    uses: [search]
    concurrency: {per: tenant, max: 2, lease: 30s}
    on_store_failure: {mode: open, fallback: {rate: 30/minute, burst: 10}}
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-ip, per: ip, rate: 1/minute, burst: 1}]
    on_store_failure: {mode: closed}
  - name: rest
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: closed}
`

func withState(t testing.TB) func(*Config) {
	dir := t.TempDir()
	return func(c *Config) { c.StateDir = dir }
}

// opened is what a receipt of the fixture's gateway says.
func (f *fixture) opened(text string) receipt.Receipt {
	f.t.Helper()
	sealed, err := receipt.Parse(text)
	if err != nil {
		f.t.Fatalf("%q: %v", text, err)
	}
	key, err := base64.RawURLEncoding.DecodeString(f.g.heartbeat(policy.Heartbeat{}).ReceiptKey)
	if err != nil {
		f.t.Fatal(err)
	}
	said, err := sealed.Open(key)
	if err != nil {
		f.t.Fatalf("%q: %v", text, err)
	}
	return said
}

// 100 000 with HEADGATE_FAULTS=long.
func TestReceipt_EachRefusalRecomputesToItsVerdictAndNumbers(t *testing.T) {
	t.Parallel()
	refusals := 3000
	if os.Getenv("HEADGATE_FAULTS") == "long" {
		refusals = 100_000
	}
	f := newFixture(t, receiptPolicy, nil, withState(t))
	rng := rand.New(rand.NewPCG(11, 12))
	f.directory.change(func(d *fakeDirectory) {
		for i := range 40 {
			id := fmt.Sprintf("ten_abcdefghij2345%c%c", 'a'+i/20, 'a'+i%20)
			d.tenants[id] = policy.TenantRecord{ID: id, Plan: []string{"free", "pro", "small"}[i%3], State: policy.TenantActive, Overrides: overridesFor(i)}
		}
	})
	compiled := f.policies.Current().Compiled
	seen, reasons, longest := 0, map[limiter.Reason]int{}, 0
	for seen < refusals {
		f.advance(time.Duration(rng.Int64N(40_000)) * time.Microsecond)
		in := Inbound{
			Method: "GET", EscapedPath: []string{"/v1/reports/1", "/v1/items"}[rng.IntN(2)], Client: netip.MustParseAddr("198.51.100." + strconv.Itoa(rng.IntN(3))), ClientKnown: true,
			Tenant: fmt.Sprintf("ten_abcdefghij2345%c%c", 'a'+rng.IntN(2), 'a'+rng.IntN(20)), Cost: 1 + rng.Int64N(1<<rng.IntN(7)), Header: http.Header{}, Ends: true,
		}
		v := f.g.Decide(t.Context(), &in)
		if v.Allowed {
			if rng.IntN(3) > 0 {
				v.End()
			}
			continue
		}
		if v.Receipt == "" {
			t.Fatalf("no receipt: %d %s %s", v.Status, v.Code, v.Reason)
		}
		said := f.opened(v.Receipt)
		seen++
		reasons[v.Reason]++
		longest = max(longest, len(v.Receipt))
		check(t, &v, &said, compiled)
	}
	if longest > receipt.MaxLength {
		t.Errorf("the longest has %d bytes", longest)
	}
	for _, reason := range []limiter.Reason{limiter.ReasonLimit, limiter.ReasonConcurrency, limiter.ReasonQuota, limiter.ReasonBlocked, limiter.ReasonCostExceedsBurst} {
		if reasons[reason] == 0 {
			t.Errorf("nothing was refused for %q: %v", reason, reasons)
		}
	}
	t.Logf("%d refusals, %v, the longest of %d bytes", seen, reasons, longest)
}

// check compares a receipt with the verdict that carries it.
func check(t *testing.T, v *Verdict, said *receipt.Receipt, c *policy.Compiled) {
	t.Helper()
	found, err := receipt.Recompute(c, said)
	if err != nil || !found.Agrees() {
		t.Fatalf("%+v: %v, %q", said, err, found.Differences)
	}
	if found.Reason != v.Reason || said.Version != 42 || !said.TenantIs(v.Tenant) || found.Route != v.routeName() {
		t.Fatalf("%+v, found %+v, of %s on %s for %s", said, found, v.Reason, v.routeName(), v.Tenant)
	}
	if limit := v.Limits[max(v.Deciding, 0)].ID; found.LimitID != limit {
		t.Fatalf("it names %s, and %s refused", found.LimitID, limit)
	}
	// A receipt may have been made for an earlier request: it is never from the future, and
	// what it says of the wait ends when the verdict's does, or before.
	age := v.recorded.at - said.At.UnixMicro()
	if age < 0 || age > receiptAge {
		t.Fatalf("the receipt is %d µs old", age)
	}
	if v.Reason == limiter.ReasonLimit && age == 0 && !v.Cached && said.Cost == v.Limits[v.Deciding].Cost && said.WaitMicros != v.RetryAfterMicros {
		t.Fatalf("it says %d µs, and the caller was told %d", said.WaitMicros, v.RetryAfterMicros)
	}
}

// overridesFor are some tenants' own values: none, a boost, a value, nothing at all.
func overridesFor(i int) []policy.Override {
	burst := int64(20)
	switch i % 5 {
	case 1:
		until := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		return []policy.Override{{Limit: "plan.requests", FactorMilli: 2000, ExpiresAt: &until, Reason: "test"}}
	case 2:
		return []policy.Override{{Limit: "plan.requests", Rate: "3/second", Burst: &burst, Reason: "test"}}
	case 3:
		if i%3 == 0 {
			return []policy.Override{{Limit: "plan.requests", Rate: "0", Reason: "test"}}
		}
	}
	return nil
}

func refusalOfTest(t *testing.T, r *http.Response) (p problem) {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return p
}

func TestReceipt_IsMadeOncePerRememberedRefusal(t *testing.T) {
	t.Parallel()
	f := newFixture(t, receiptPolicy, nil, withState(t))
	key := f.key("ten_abcdefghij234567", "free")
	for range 60 {
		f.do("GET", "/v1/items", "X-API-Key", key)
	}
	first := refusalOfTest(t, f.do("GET", "/v1/items", "X-API-Key", key))
	said := f.opened(first.Receipt)
	if said.Tenant != "ten_abcdefghij234567" || said.Version != 42 || said.Limit != policy.LimitHash("plan.requests") || said.Cost != 1 {
		t.Fatalf("%+v", said)
	}
	for range 50 {
		if again := refusalOfTest(t, f.do("GET", "/v1/items", "X-API-Key", key)); again.Receipt != first.Receipt {
			t.Fatal("a remembered refusal has another receipt")
		}
	}
	f.g.receipts.mu.Lock()
	signed := f.g.receipts.signed
	f.g.receipts.mu.Unlock()
	if signed != 1 {
		t.Errorf("%d signatures for 51 refusals", signed)
	}
	f.advance(3 * time.Second)
	for range 30 {
		f.do("GET", "/v1/items", "X-API-Key", key)
	}
	if later := refusalOfTest(t, f.do("GET", "/v1/items", "X-API-Key", key)); later.Receipt == first.Receipt || later.Receipt == "" {
		t.Errorf("a later refusal has the receipt %q", later.Receipt)
	}
}

func TestReceipt_AbuseLimitsStayBare(t *testing.T) {
	t.Parallel()
	f := newFixture(t, receiptPolicy, nil, withState(t))
	f.do("POST", "/login")
	r := f.do("POST", "/login")
	body, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusTooManyRequests || string(body) != bareBody {
		t.Fatalf("%d %q", r.StatusCode, body)
	}
}

func TestReceipt_FallbackSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, receiptPolicy, nil, withState(t))
	key := f.key("ten_abcdefghij234567", "free")
	f.store.fail(true)
	var p problem
	for range 12 {
		if r := f.do("GET", "/v1/reports/1", "X-API-Key", key); r.StatusCode == http.StatusTooManyRequests {
			p = refusalOfTest(t, r)
			break
		}
	}
	if p.Receipt == "" {
		t.Fatalf("%+v", p)
	}
	said := f.opened(p.Receipt)
	found, err := receipt.Recompute(f.policies.Current().Compiled, &said)
	if err != nil || !found.Agrees() || said.Reason != limiter.ReasonFallback || found.Route != "report" {
		t.Fatalf("%+v, %+v, %v", said, found, err)
	}
}

func TestReceipt_OtherRefusalsHaveNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, receiptPolicy, nil, withState(t))
	key := f.key("ten_abcdefghij234567", "free")
	for name, r := range map[string]*http.Response{
		"no key":  f.do("GET", "/v1/items"),
		"unknown": f.do("GET", "/v1/items", "X-API-Key", unknownKey(t)),
	} {
		if p := refusalOfTest(t, r); p.Receipt != "" {
			t.Errorf("%s: %q", name, p.Receipt)
		}
	}
	f.store.fail(true)
	if p := refusalOfTest(t, f.do("GET", "/v1/items", "X-API-Key", key)); p.Receipt != "" || p.Status != http.StatusServiceUnavailable {
		t.Errorf("closed: %+v", p)
	}
}

func TestReceipt_SignaturesAreBoundedPerSecond(t *testing.T) {
	t.Parallel()
	r, err := newReceipts(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	given := 0
	for i := range receiptsPerSecond + 500 {
		what := receipt.Receipt{At: time.Unix(1_764_500_000, 0), Version: 1, Limit: uint64(i), Reason: limiter.ReasonLimit, Numbers: policy.Numbers{Tokens: 1, Period: 1000, Burst: 1}, Cost: 1}
		if r.of(&what, limiter.Row{}, false) != "" {
			given++
		}
	}
	if given != receiptsPerSecond {
		t.Errorf("%d were made in one second", given)
	}
	next := receipt.Receipt{At: time.Unix(1_764_500_001, 0), Version: 1, Limit: 1 << 60, Reason: limiter.ReasonLimit, Numbers: policy.Numbers{Tokens: 1, Period: 1000, Burst: 1}, Cost: 1}
	if r.of(&next, limiter.Row{}, false) == "" {
		t.Error("none in the next second")
	}
}

func TestReceiptKey_StaysWithTheStateFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := newReceipts(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := newReceipts(dir)
	if err != nil || again.publicKey() != first.publicKey() {
		t.Fatalf("%v: another key after a restart", err)
	}
	path := filepath.Join(dir, receiptKeyFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	for _, bad := range []string{"", "zz", strings.Repeat("00", 31)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newReceipts(dir); err == nil || !strings.Contains(err.Error(), receiptKeyFile) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if none, err := newReceipts(""); err != nil || none.publicKey() != "" {
		t.Errorf("without a folder: %v, %v", none, err)
	}
}

func BenchmarkReceipt(b *testing.B) {
	r, err := newReceipts(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	what := receipt.Receipt{
		At: time.Unix(1_764_500_000, 0), Version: 42, Tenant: "ten_abcdefghij234567", Limit: policy.LimitHash("plan.requests"), Reason: limiter.ReasonLimit, Cost: 1,
		Numbers: policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 60}, Units: 250_000, WaitMicros: 750_000,
	}
	row := limiter.Row{Kind: limiter.RowTenant, Tenant: what.Tenant}
	b.Run("again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if r.of(&what, row, true) == "" {
				b.Fatal("none")
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := receipt.Sign(&what, r.key); err != nil {
				b.Fatal(err)
			}
		}
	})
}
