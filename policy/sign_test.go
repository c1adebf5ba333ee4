package policy

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// keyPair is a key from a fixed seed, so that signatures can be compared.
func keyPair(seed byte) (ed25519.PublicKey, ed25519.PrivateKey) {
	priv := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
	return publicOf(priv), priv
}

func moment() time.Time {
	return time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.FixedZone("CET", 3600))
}

// The messages are a contract with other programs: docs/redis.md.
func TestMessages_AreAsDocumented(t *testing.T) {
	t.Parallel()
	const sum = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // SHA-256 of {}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"policy":       {PolicyMessage("prod", 42, "sha256:ab", []byte("{}")), "headgate-policy/v1\nprod\n42\nsha256:ab\n" + sum},
		"first policy": {PolicyMessage("prod", 1, "", []byte("{}")), "headgate-policy/v1\nprod\n1\n-\n" + sum},
		"record":       {RecordMessage("prod", RecordKey, "0123456789AB", 7, []byte("{}")), "headgate-record/v1\nprod\nkey\n0123456789AB\n7\n" + sum},
		"stamp":        {StampMessage("prod", 42, "sha256:ab", moment()), "headgate-stamp/v1\nprod\n42\nsha256:ab\n1796036400123456"},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s: message %q, want %q", name, c.got, c.want)
		}
	}
}

// A part with a line feed must not make one message read as another.
func TestMessages_CannotBeReadInTwoWays(t *testing.T) {
	t.Parallel()
	a := RecordMessage("prod", RecordKey, "x\n7", 1, []byte("{}"))
	b := RecordMessage("prod", RecordKey, "x", 7, []byte("{}"))
	if string(a) == string(b) || strings.Count(string(a), "\n") != 5 {
		t.Errorf("message %q has another number of lines", a)
	}
}

func TestDigestOf_IsSHA256(t *testing.T) {
	t.Parallel()
	if got := DigestOf([]byte("abc")); got != "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("DigestOf(abc) = %s", got)
	}
}

// RFC 8032, section 7.1, test 1: the public key of the first vector.
func TestSignerID_IsTheStartOfTheKeysHash(t *testing.T) {
	t.Parallel()
	pub, err := hex.DecodeString("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
	if err != nil {
		t.Fatal(err)
	}
	if got := SignerID(pub); got != "21fe31dfa154a261" {
		t.Errorf("SignerID = %s, want 21fe31dfa154a261", got)
	}
}

func TestVerifyPolicy_TakesWhatSignPolicyMade(t *testing.T) {
	t.Parallel()
	pub, priv := keyPair('a')
	other, _ := keyPair('b')
	p := SignPolicy(priv, "prod", 42, "sha256:ab", []byte(`{"apiVersion":"headgate/v1"}`), moment())
	for name, keys := range map[string][]ed25519.PublicKey{
		"its key": {pub}, "second of two": {other, pub}, "with a broken key beside it": {nil, pub[:5], pub},
	} {
		if err := VerifyPolicy(keys, "prod", p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p.Digest != DigestOf(p.Body) || p.Signer != SignerID(pub) {
		t.Errorf("digest %s and signer %s do not fit", p.Digest, p.Signer)
	}
	if want := moment().Truncate(time.Microsecond); !p.Issued.Equal(want) || p.Issued.Location() != time.UTC {
		t.Errorf("issued %v, want %v in UTC", p.Issued, want)
	}
}

func TestVerifyPolicy_RefusesEveryChange(t *testing.T) {
	t.Parallel()
	pub, priv := keyPair('a')
	otherPub, otherPriv := keyPair('b')
	good := SignPolicy(priv, "prod", 42, "sha256:ab", []byte(`{"a":1}`), moment())
	forged := SignPolicy(otherPriv, "prod", 42, "sha256:ab", good.Body, moment())
	for name, c := range map[string]struct {
		change     func(p *SignedPolicy)
		deployment string
		keys       []ed25519.PublicKey
		want       error
	}{
		"body":                       {func(p *SignedPolicy) { p.Body = []byte(`{"a":2}`) }, "prod", nil, ErrBadDigest},
		"digest":                     {func(p *SignedPolicy) { p.Digest = DigestOf([]byte("x")) }, "prod", nil, ErrBadDigest},
		"digest in capitals":         {func(p *SignedPolicy) { p.Digest = strings.ToUpper(p.Digest) }, "prod", nil, ErrBadDigest},
		"body and digest":            {func(p *SignedPolicy) { p.Body = []byte(`{}`); p.Digest = DigestOf(p.Body) }, "prod", nil, ErrBadSignature},
		"version":                    {func(p *SignedPolicy) { p.Version++ }, "prod", nil, ErrBadSignature},
		"parent":                     {func(p *SignedPolicy) { p.Parent = "" }, "prod", nil, ErrBadSignature},
		"deployment":                 {func(*SignedPolicy) {}, "staging", nil, ErrBadSignature},
		"signature":                  {func(p *SignedPolicy) { p.Signature = append([]byte{1}, p.Signature[1:]...) }, "prod", nil, ErrBadSignature},
		"no signature":               {func(p *SignedPolicy) { p.Signature = nil }, "prod", nil, ErrBadSignature},
		"signer":                     {func(p *SignedPolicy) { p.Signer = SignerID(otherPub) }, "prod", nil, ErrBadSignature},
		"another's key":              {func(p *SignedPolicy) { *p = forged }, "prod", nil, ErrBadSignature},
		"another's key, our name":    {func(p *SignedPolicy) { *p = forged; p.Signer = SignerID(pub) }, "prod", nil, ErrBadSignature},
		"no keys":                    {func(*SignedPolicy) {}, "prod", []ed25519.PublicKey{}, ErrBadSignature},
		"key that is no longer ours": {func(*SignedPolicy) {}, "prod", []ed25519.PublicKey{otherPub}, ErrBadSignature},
	} {
		p := good
		c.change(&p)
		keys := c.keys
		if keys == nil {
			keys = []ed25519.PublicKey{pub}
		}
		if err := VerifyPolicy(keys, c.deployment, p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestVerifyRecord_RefusesEveryChange(t *testing.T) {
	t.Parallel()
	pub, priv := keyPair('a')
	keys := []ed25519.PublicKey{pub}
	good, err := SignRecord(priv, "prod", RecordTenant, "ten_0123456789abcdef", 7, TenantRecord{ID: "ten_0123456789abcdef", Plan: "pro", State: TenantActive})
	if err != nil {
		t.Fatal(err)
	}
	if err := VerifyRecord(keys, "prod", good); err != nil {
		t.Fatalf("the record itself: %v", err)
	}
	for name, change := range map[string]func(r *SignedRecord){
		"kind":      func(r *SignedRecord) { r.Kind = RecordKey },
		"id":        func(r *SignedRecord) { r.ID = "ten_fedcba9876543210" },
		"sequence":  func(r *SignedRecord) { r.Seq++ },
		"body":      func(r *SignedRecord) { r.Body = []byte(strings.Replace(string(r.Body), "active", "deleted", 1)) },
		"signature": func(r *SignedRecord) { r.Signature = r.Signature[:63] },
		"signer":    func(r *SignedRecord) { r.Signer = "" },
	} {
		r := good
		change(&r)
		if err := VerifyRecord(keys, "prod", r); !errors.Is(err, ErrBadSignature) {
			t.Errorf("%s: %v, want ErrBadSignature", name, err)
		}
	}
	if err := VerifyRecord(keys, "staging", good); !errors.Is(err, ErrBadSignature) {
		t.Errorf("other deployment: %v, want ErrBadSignature", err)
	}
}

// A record of one kind or a policy can never stand for the other.
func TestSignatures_AreBoundToTheirKind(t *testing.T) {
	t.Parallel()
	pub, priv := keyPair('a')
	stamp := SignStamp(priv, "prod", 1, DigestOf([]byte("{}")), moment())
	p := SignPolicy(priv, "prod", 1, "", []byte("{}"), moment())
	p.Signature = stamp.Signature
	if err := VerifyPolicy([]ed25519.PublicKey{pub}, "prod", p); !errors.Is(err, ErrBadSignature) {
		t.Errorf("a stamp's signature on a policy: %v, want ErrBadSignature", err)
	}
}

func TestVerifyStamp_SurvivesJSONAndRefusesEveryChange(t *testing.T) {
	t.Parallel()
	pub, priv := keyPair('a')
	keys := []ed25519.PublicKey{pub}
	raw, err := json.Marshal(SignStamp(priv, "prod", 42, "sha256:ab", moment()))
	if err != nil {
		t.Fatal(err)
	}
	var good Stamp
	if err := json.Unmarshal(raw, &good); err != nil {
		t.Fatal(err)
	}
	if err := VerifyStamp(keys, "prod", good); err != nil {
		t.Fatalf("after JSON: %v", err)
	}
	for name, change := range map[string]func(s *Stamp){
		"version": func(s *Stamp) { s.Version-- },
		"digest":  func(s *Stamp) { s.Digest = "sha256:cd" },
		"issued":  func(s *Stamp) { s.Issued = s.Issued.Add(time.Microsecond) },
	} {
		s := good
		change(&s)
		if err := VerifyStamp(keys, "prod", s); !errors.Is(err, ErrBadSignature) {
			t.Errorf("%s: %v, want ErrBadSignature", name, err)
		}
	}
}

func TestValidDeployment(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"prod": true, "eu-west-1": true, "0": true, strings.Repeat("a", 40): true,
		"": false, "Prod": false, "a_b": false, "a b": false, "a\nb": false, "é": false, strings.Repeat("a", 41): false,
	} {
		if got := ValidDeployment(name); got != want {
			t.Errorf("ValidDeployment(%q) = %v, want %v", name, got, want)
		}
	}
}
