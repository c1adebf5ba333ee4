package receipt_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/receipt"
)

func testKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// sample is a refusal by a plan's limit: 60 a minute, bursts of 60.
func sample() receipt.Receipt {
	return receipt.Receipt{
		At: time.UnixMicro(1_764_500_000_123_456).UTC(), Version: 42, Tenant: "ten_abcdefghij234567", Route: 1, Limit: policy.LimitHash("plan.requests"),
		Kind: receipt.KindRate, Reason: limiter.ReasonLimit, Cost: 1, Numbers: policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 60},
		Units: 250_000, WaitMicros: 750_000,
	}
}

func signed(t testing.TB, r receipt.Receipt) string {
	t.Helper()
	text, err := receipt.Sign(&r, testKey(1))
	if err != nil {
		t.Fatalf("sign: %v", err)
	}
	return text
}

func opened(text string, key ed25519.PublicKey) (receipt.Receipt, error) {
	sealed, err := receipt.Parse(text)
	if err != nil {
		return receipt.Receipt{}, err
	}
	return sealed.Open(key)
}

func TestReceipt_SaysAgainWhatWasSigned(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		want := random(rng)
		got, err := opened(signed(t, want), public(testKey(1)))
		if err != nil {
			t.Fatalf("receipt %d, %+v: %v", i, want, err)
		}
		if got.TenantDigest != "" {
			if !got.TenantIs(want.Tenant) || got.TenantIs(want.Tenant+"x") {
				t.Fatalf("the digest of %q does not stand for it alone", want.Tenant)
			}
			got.TenantDigest, got.Tenant = "", want.Tenant
		}
		if got != want {
			t.Fatalf("receipt %d:\n got %+v\nwant %+v", i, got, want)
		}
	}
}

func TestReceipt_IsShortWhateverItSays(t *testing.T) {
	t.Parallel()
	longest := 0
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		longest = max(longest, len(signed(t, random(rng))))
	}
	worst := sample()
	worst.Version, worst.Cost, worst.Route, worst.Source, worst.Remembered = policy.MaxUnits, 1<<48-1, 9999, receipt.SourceBoost, true
	worst.Numbers, worst.Units, worst.WaitMicros = policy.Numbers{Tokens: 1<<48 - 1, Period: 2_678_400_000_000, Burst: 3000}, -policy.MaxUnits+1, policy.MaxUnits-1
	worst.Tenant = strings.Repeat("t", 64)
	longest = max(longest, len(signed(t, worst)))
	worst.Kind, worst.Reason, worst.Cap, worst.Used = receipt.KindQuota, limiter.ReasonQuota, policy.MaxUnits-1, policy.MaxUnits-1
	worst.Numbers, worst.Units = policy.Numbers{}, 0
	longest = max(longest, len(signed(t, worst)))
	if longest > receipt.MaxLength {
		t.Fatalf("the longest has %d bytes, more than %d", longest, receipt.MaxLength)
	}
	if ordinary := len(signed(t, sample())); ordinary > 160 {
		t.Errorf("an ordinary one has %d bytes", ordinary)
	}
}

func TestReceipt_AnyFlippedBitIsInvalid(t *testing.T) {
	t.Parallel()
	text := signed(t, sample())
	for i := range len(text) {
		for bit := range 8 {
			bad := []byte(text)
			bad[i] ^= 1 << bit
			if r, err := opened(string(bad), public(testKey(1))); err == nil {
				t.Fatalf("byte %d, bit %d: accepted as %+v", i, bit, r)
			}
		}
	}
	// And below the spelling: each bit of payload and signature.
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, receipt.Prefix))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			bad := append([]byte(nil), raw...)
			bad[i] ^= 1 << bit
			if _, err := opened(receipt.Prefix+base64.RawURLEncoding.EncodeToString(bad), public(testKey(1))); err == nil {
				t.Fatalf("byte %d of the payload, bit %d: accepted", i, bit)
			}
		}
	}
}

func TestReceipt_CutLengthenedOrOfAnotherKeyIsInvalid(t *testing.T) {
	t.Parallel()
	text := signed(t, sample())
	for n := range len(text) {
		if _, err := opened(text[:n], public(testKey(1))); err == nil {
			t.Fatalf("the first %d bytes are accepted", n)
		}
	}
	for _, more := range []string{"A", "AAAA", "=", "\n", " ", text} {
		if _, err := opened(text+more, public(testKey(1))); err == nil {
			t.Errorf("with %q behind it, it is accepted", more)
		}
	}
	if _, err := opened(text, public(testKey(2))); !errors.Is(err, receipt.ErrSignature) {
		t.Errorf("with another key: %v", err)
	}
	if _, err := opened(text, nil); !errors.Is(err, receipt.ErrSignature) {
		t.Errorf("without a key: %v", err)
	}
}

func TestReceipt_HoldsNoSecret(t *testing.T) {
	t.Parallel()
	key := testKey(7)
	r := sample()
	text, err := receipt.Sign(&r, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, receipt.Prefix))
	for n := 4; n <= ed25519.SeedSize; n++ {
		if strings.Contains(string(raw), string(key.Seed()[:n])) {
			t.Fatalf("%d bytes of the seed are in it", n)
		}
	}
}

func TestSign_RefusesWhatCannotBeTold(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*receipt.Receipt){
		"negative cost":      func(r *receipt.Receipt) { r.Cost = -1 },
		"cost too large":     func(r *receipt.Receipt) { r.Cost = policy.MaxUnits + 1 },
		"admitted":           func(r *receipt.Receipt) { r.Reason = limiter.ReasonAdmitted },
		"no reason":          func(r *receipt.Receipt) { r.Reason = "" },
		"unknown kind":       func(r *receipt.Receipt) { r.Kind = 9 },
		"unknown source":     func(r *receipt.Receipt) { r.Source = 9 },
		"route below none":   func(r *receipt.Receipt) { r.Route = -2 },
		"time before 1970":   func(r *receipt.Receipt) { r.At = time.Unix(-1, 0) },
		"level out of range": func(r *receipt.Receipt) { r.Units = policy.MaxUnits },
		"no tenant's id":     func(r *receipt.Receipt) { r.Tenant = "Acme Ltd" },
		"a digest":           func(r *receipt.Receipt) { r.TenantDigest = "00" },
	} {
		r := sample()
		change(&r)
		if text, err := receipt.Sign(&r, testKey(1)); !errors.Is(err, receipt.ErrValue) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	r := sample()
	if _, err := receipt.Sign(&r, nil); err == nil {
		t.Error("signed without a key")
	}
}

// random is any receipt that can be told.
func random(rng *rand.Rand) receipt.Receipt {
	r := receipt.Receipt{
		At: time.UnixMicro(rng.Int64N(1 << 52)).UTC(), Version: rng.Int64N(1 << (1 + rng.IntN(52))), Route: rng.IntN(200) - 1,
		Kind: receipt.Kind(rng.IntN(4)), Source: receipt.Source(rng.IntN(3)), Cost: rng.Int64N(1 << (1 + rng.IntN(48))),
		Remembered: rng.IntN(2) == 0,
	}
	r.Reason = []limiter.Reason{limiter.ReasonLimit, limiter.ReasonConcurrency, limiter.ReasonQuota, limiter.ReasonBlocked,
		limiter.ReasonCostExceedsBurst, limiter.ReasonFallback}[rng.IntN(6)]
	if r.Kind != receipt.KindFallback {
		r.Limit = rng.Uint64()
	}
	switch r.Kind {
	case receipt.KindRate, receipt.KindFallback:
		r.Numbers = policy.Numbers{Tokens: rng.Int64N(1 << (1 + rng.IntN(47))), Period: 1 + rng.Int64N(1<<(1+rng.IntN(30))), Burst: rng.Int64N(1 << (1 + rng.IntN(20)))}
		if r.Kind == receipt.KindRate {
			r.Units = rng.Int64N(1<<(1+rng.IntN(51))) - rng.Int64N(1<<(1+rng.IntN(51)))
		}
	default:
		r.Cap, r.Used = rng.Int64N(1<<(1+rng.IntN(52))), rng.Int64N(1<<(1+rng.IntN(52)))
	}
	if rng.IntN(3) > 0 {
		r.WaitMicros = rng.Int64N(1 << (1 + rng.IntN(52)))
	}
	switch rng.IntN(4) {
	case 0:
		r.Tenant = "ten_abcdefghij234567"
	case 1:
		r.Tenant = strings.Repeat("x", 1+rng.IntN(64))
	case 2:
		r.Tenant = "ten_" + strings.Repeat("9", 16) // no base32
	}
	return r
}

func FuzzParse_NeverBelievesWhatWasNotSigned(f *testing.F) {
	f.Add(signed(f, sample()))
	f.Add(receipt.Prefix)
	f.Add("hgr1_AAAA")
	whole := signed(f, sample())
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := opened(text, public(testKey(1))); err == nil && text != whole {
			t.Fatalf("%q is believed to say %+v", text, r)
		}
	})
}

// Whoever holds the key may sign anything: what does not have the form is refused, and
// what has it is spelled in one way.
func FuzzOpen_SignedNonsenseIsRefusedOrSpelledInOneWay(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0})
	f.Add([]byte{0x30, 0x10, 0, 0, 0, 0, 0, 0, 1, 42, 1, 1, 1, 1, 1})
	key := testKey(1)
	id := receipt.IDOf(public(key))
	f.Fuzz(func(t *testing.T, body []byte) {
		payload := append(append([]byte(nil), id[:]...), body...)
		signature := ed25519.Sign(key, append([]byte("headgate receipt 1\n"), payload...))
		text := receipt.Prefix + base64.RawURLEncoding.EncodeToString(append(payload, signature...))
		r, err := opened(text, public(key))
		if err != nil {
			if !errors.Is(err, receipt.ErrFormat) {
				t.Fatalf("%v", err)
			}
			return
		}
		if r.TenantDigest != "" {
			return // whose tenant nobody knows
		}
		if again, err := receipt.Sign(&r, key); err == nil && again != text {
			if back, _ := opened(again, public(key)); back != r {
				t.Fatalf("%+v comes back as %+v", r, back)
			}
		}
	})
}
