package policy_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

func TestCanary_EachPartIsSigned(t *testing.T) {
	t.Parallel()
	priv := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	keys := []ed25519.PublicKey{priv.Public().(ed25519.PublicKey)} // of its own type
	p := policy.SignPolicy(priv, "prod", 42, "sha256:aa", []byte(`{}`), time.Unix(100, 0))
	good := policy.SignCanary(priv, "prod", p, 41, []string{"gw_b", "gw_a", "gw_b"}, time.Unix(200, 1234))
	if err := policy.VerifyCanary(keys, "prod", good); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(good.Replicas, []string{"gw_a", "gw_b"}) || !good.Names("gw_a") || good.Names("gw_c") || good.Names("") {
		t.Errorf("replicas %v", good.Replicas)
	}
	if s := good.Policy(); s.Version != 42 || s.Digest != p.Digest || s.Parent != "sha256:aa" || s.Signer != p.Signer || !s.Trial {
		t.Errorf("its version is %+v", s)
	}
	// A23: what is signed for a trial is nothing that all may be given, and the other way round.
	tried := good.Policy()
	tried.Body = p.Body
	if err := policy.VerifyPolicy(keys, "prod", tried); err != nil {
		t.Errorf("on trial: %v", err)
	}
	tried.Trial = false
	if err := policy.VerifyPolicy(keys, "prod", tried); !errors.Is(err, policy.ErrBadSignature) {
		t.Errorf("on trial, but offered to all: %v", err)
	}
	forAll := p
	forAll.Trial = true
	if err := policy.VerifyPolicy(keys, "prod", forAll); !errors.Is(err, policy.ErrBadSignature) {
		t.Errorf("for all, but offered as a trial: %v", err)
	}
	for name, change := range map[string]func(*policy.Canary){
		"version":   func(c *policy.Canary) { c.Version++ },
		"digest":    func(c *policy.Canary) { c.Digest = policy.DigestOf(nil) },
		"parent":    func(c *policy.Canary) { c.Parent = "" },
		"base":      func(c *policy.Canary) { c.Base-- },
		"base 0":    func(c *policy.Canary) { c.Base = 0 },
		"not above": func(c *policy.Canary) { c.Base = c.Version },
		"added":     func(c *policy.Canary) { c.Replicas = append(slices.Clone(c.Replicas), "gw_c") },
		"joined":    func(c *policy.Canary) { c.Replicas = []string{"gw_agw_b"} },
		"none":      func(c *policy.Canary) { c.Replicas = nil },
		"issued":    func(c *policy.Canary) { c.Issued = c.Issued.Add(time.Microsecond) },
		"signer":    func(c *policy.Canary) { c.Signer = "0000000000000000" },
		"signature": func(c *policy.Canary) { c.Signature = c.TrialSignature },
	} {
		c := good
		change(&c)
		if err := policy.VerifyCanary(keys, "prod", c); !errors.Is(err, policy.ErrBadSignature) {
			t.Errorf("%s changed: %v", name, err)
		}
	}
	if err := policy.VerifyCanary(keys, "staging", good); !errors.Is(err, policy.ErrBadSignature) {
		t.Errorf("another deployment: %v", err)
	}
}

func TestCanary_TagTellsRecordsApart(t *testing.T) {
	t.Parallel()
	a := policy.Canary{Version: 1, Issued: time.UnixMicro(5)}
	for _, b := range []policy.Canary{{Version: 2, Issued: time.UnixMicro(5)}, {Version: 1, Issued: time.UnixMicro(6)}} {
		if a.Tag() == b.Tag() {
			t.Errorf("%s is the tag of both", a.Tag())
		}
	}
	if most := (policy.Canary{Version: 1 << 53, Issued: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}).Tag(); len(most) > 64 {
		t.Errorf("a tag of %d bytes", len(most))
	}
}
