package policy

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// What two replicas say of one document must be the same, whatever the order in
// which their maps are walked.
func TestStable_SameInputSameWords(t *testing.T) {
	t.Parallel()
	src := readTestdata(t, "mistakes.yaml")
	good := valid()
	changed := valid()
	for i := range 30 {
		changed.Plans[fmt.Sprintf("p%d", i)] = Plan{Limits: []Limit{perMinute("requests", PerTenant, int64(10+i))}}
	}
	_, report := Parse(src)
	changes, broken := Diff(good, changed), Validate(changed)
	canonical, text := changed.Canonical(), changed.YAML()
	for range 20 {
		if _, r := Parse(src); !reflect.DeepEqual(r, report) {
			t.Fatalf("report was\n%v\nand is\n%v", report, r)
		}
		if got := Diff(good, changed); !reflect.DeepEqual(got, changes) {
			t.Fatalf("changes were %+v and are %+v", changes, got)
		}
		if got := Validate(changed); !reflect.DeepEqual(got, broken) {
			t.Fatalf("problems were %v and are %v", broken, got)
		}
		if !bytes.Equal(changed.Canonical(), canonical) || !bytes.Equal(changed.YAML(), text) {
			t.Fatal("bytes of one document differ")
		}
	}
}

func TestStable_DefaultsAreFilledInOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument().Draw(t, "document")
		once := d.withDefaults()
		if twice := once.withDefaults(); !reflect.DeepEqual(once, twice) {
			t.Fatalf("defaults once\n%+v, twice\n%+v", once, twice)
		}
		if !bytes.Equal(d.Canonical(), once.Canonical()) {
			t.Fatal("defaults change the canonical bytes")
		}
	})
}

func TestStable_CompilingTwiceGivesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument().Draw(t, "document")
		a, err := Compile(d)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Compile(a.Document)
		if err != nil {
			t.Fatal(err)
		}
		if a.Digest != b.Digest || !reflect.DeepEqual(a.Global, b.Global) || !reflect.DeepEqual(a.Plans, b.Plans) || !reflect.DeepEqual(a.Routes, b.Routes) {
			t.Fatalf("compiled to\n%+v and\n%+v", a, b)
		}
	})
}

// Whatever can be signed can be read back, and nothing else verifies.
func TestStable_RecordsComeBackWhole(t *testing.T) {
	t.Parallel()
	pub, priv := keyPair('a')
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]RecordKind{RecordKey, RecordTenant}).Draw(t, "kind")
		id := rapid.StringMatching(`[a-zA-Z0-9_-]{1,64}`).Draw(t, "id")
		seq := rapid.Int64Min(0).Draw(t, "seq")
		body := map[string]string{"text": rapid.String().Draw(t, "text")}
		r, err := SignRecord(priv, "prod", kind, id, seq, body)
		if err != nil {
			t.Fatal(err)
		}
		raw := r.Encode()
		back, err := DecodeRecord(raw)
		if err != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("%q comes back as %+v, %v", raw, back, err)
		}
		if err := VerifyRecord([]ed25519.PublicKey{pub}, "prod", back); err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, len(raw)-1).Draw(t, "byte")
		raw[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if broken, err := DecodeRecord(raw); err == nil && VerifyRecord([]ed25519.PublicKey{pub}, "prod", broken) == nil {
			t.Fatalf("a record with one bit turned over verifies: %q", raw)
		}
	})
}

// The same for a version: one bit anywhere is noticed.
func TestStable_NoBitOfAVersionCanChange(t *testing.T) {
	t.Parallel()
	pub, priv := keyPair('a')
	body := example(t).Canonical()
	rapid.Check(t, func(t *rapid.T) {
		p := SignPolicy(priv, "prod", 7, DigestOf(nil), bytes.Clone(body), moment())
		part := rapid.SampledFrom([][]byte{p.Body, p.Signature}).Draw(t, "part")
		part[rapid.IntRange(0, len(part)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if VerifyPolicy([]ed25519.PublicKey{pub}, "prod", p) == nil {
			t.Fatal("a version with one bit turned over verifies")
		}
	})
}
