package dimension

import (
	"hash/maphash"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/policy"
)

func body(name string) policy.Dimension {
	return policy.Dimension{Kind: policy.DimensionBody, Name: name}
}

func header(name string) policy.Dimension {
	return policy.Dimension{Kind: policy.DimensionHeader, Name: name}
}

func ip() policy.Dimension { return policy.Dimension{Kind: policy.DimensionIP} }

// nasty are texts that a careless encoding mistakes for something else.
func nasty() []string {
	long := strings.Repeat("x", maxPlain)
	return []string{
		"", "a", "a:b", ":", "::", ",", "{t}", "{", "}", "*", "\x00", "\x01", "\x02", "\r\n", "\n", " ", "0", "1", "body", "body:a", "ip", "#",
		"missing", "\xff", "\xc3\xa9", "e\u0301", "\u00e9", "\u212a", "k", "\ufffd", "$3\r\nfoo", long, long + "x", long + "y",
		"\x04body\x01\x01a", "\x06body:a\x00", strings.Repeat("y", 1<<20),
	}
}

// genPart draws one part from nasty texts and random bytes.
func genPart() *rapid.Generator[Part] {
	text := rapid.OneOf(rapid.SampledFrom(nasty()), rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) }))
	dim := rapid.OneOf(
		rapid.SampledFrom([]policy.Dimension{ip(), {Kind: policy.DimensionUser}, {Kind: policy.DimensionTenant}}),
		rapid.Map(rapid.SampledFrom([]string{"a", "b", "a.b", "user", "body", "A"}), body),
		rapid.Map(rapid.SampledFrom([]string{"A", "B", "X-A"}), header),
	)
	return rapid.Custom(func(t *rapid.T) Part {
		p := Part{Dimension: dim.Draw(t, "dimension"), State: rapid.SampledFrom([]State{Missing, Present, Present, Unreadable}).Draw(t, "state")}
		if p.State == Present {
			p.Value = text.Draw(t, "value")
		}
		return p
	})
}

func TestA14_EncodingIsInjective(t *testing.T) {
	t.Parallel()
	list := rapid.SliceOfN(genPart(), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		// Many lists at once: each against each other.
		seen := map[string][]Part{}
		for range 40 {
			parts := list.Draw(t, "parts")
			text := Encode(parts)
			if other, ok := seen[text]; ok && !equal(other, parts) {
				t.Fatalf("%q and %q have the same text %q", other, parts, text)
			}
			seen[text] = parts
		}
	})
}

// TestA14_NoTwoPairsOfNastyValuesShareAText compares every pair of texts, split
// into two values in every way, with every other.
func TestA14_NoTwoPairsOfNastyValuesShareAText(t *testing.T) {
	t.Parallel()
	seen := map[string][2]Part{}
	for _, a := range nasty() {
		for _, b := range nasty() {
			for _, states := range [][2]State{{Present, Present}, {Present, Missing}, {Missing, Present}, {Unreadable, Present}, {Present, Unreadable}, {Missing, Missing}} {
				pair := [2]Part{{body("a"), states[0], a}, {body("b"), states[1], b}}
				for i := range pair {
					if pair[i].State != Present {
						pair[i].Value = ""
					}
				}
				text := Encode(pair[:])
				if other, ok := seen[text]; ok && other != pair {
					t.Fatalf("two pairs have the text %.80q", text)
				}
				seen[text] = pair
			}
		}
	}
}

// TestA14_AMillionTriplesHaveAMillionTexts spells all triples of a few dimensions
// and values.
func TestA14_AMillionTriplesHaveAMillionTexts(t *testing.T) {
	t.Parallel()
	dimensions := []policy.Dimension{ip(), {Kind: policy.DimensionUser}, body("a"), body("a:b"), header("A"), header("A-B")}
	values := []Part{{State: Missing}, {State: Unreadable}}
	for _, v := range []string{"a", "a:b", ":", ",", "{t}", "\x00", "\x01a", "\x00\x02ip\x01\x01a", "\r\n", "\xff", "e\u0301", "\u00e9", strings.Repeat("x", maxPlain), strings.Repeat("x", maxPlain+1), "ip"} {
		values = append(values, Part{State: Present, Value: v})
	}
	var parts []Part // each value in each dimension
	for _, d := range dimensions {
		for _, v := range values {
			parts = append(parts, Part{d, v.State, v.Value})
		}
	}
	seed := maphash.MakeSeed() // two of a million 64-bit hashes are the same once in 10^7 runs
	seen := make(map[uint64]struct{}, len(parts)*len(parts)*len(parts))
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				seen[maphash.String(seed, Encode([]Part{a, b, c}))] = struct{}{}
			}
		}
	}
	if want := len(parts) * len(parts) * len(parts); len(seen) != want || want < 1_000_000 {
		t.Errorf("%d triples have %d texts", want, len(seen))
	}
}

func TestA14_LongValuesAreHashedAndStayApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	a := Encode([]Part{{body("a"), Present, long}})
	b := Encode([]Part{{body("a"), Present, long + "x"}})
	if a == b || len(a) > 64 {
		t.Errorf("texts of %d bytes, the same: %t", len(a), a == b)
	}
	// A value that is what a long one's text ends in is another value.
	if Encode([]Part{{body("a"), Present, a[len(a)-32:]}}) == a {
		t.Error("a hash is mistaken for a value")
	}
}

func TestSubject_R078_MissingIsScopedAndUnreadableIsNot(t *testing.T) {
	t.Parallel()
	from := func(addr string, state State) string {
		return Subject([]Part{{Dimension: body("username"), State: state}}, Part{ip(), Present, addr})
	}
	if from("192.0.2.1", Missing) == from("192.0.2.2", Missing) {
		t.Error("strangers without a value share a bucket")
	}
	if from("192.0.2.1", Unreadable) != from("192.0.2.2", Unreadable) {
		t.Error("another address is a way around a value that cannot be read")
	}
	if from("192.0.2.1", Missing) == from("192.0.2.1", Unreadable) {
		t.Error("missing and unreadable are mistaken for each other")
	}
	if got := Subject([]Part{{Dimension: body("a")}}, Part{}); got != Encode([]Part{{Dimension: body("a")}}) {
		t.Errorf("without a scope: %q", got)
	}
	known := []Part{{body("a"), Present, "x"}}
	if Subject(known, Part{ip(), Present, "192.0.2.1"}) != Encode(known) {
		t.Error("a value that is there is scoped")
	}
}

func TestA14_SubjectIsInjectiveInScopeAndParts(t *testing.T) {
	t.Parallel()
	list := rapid.SliceOfN(genPart(), 1, 3)
	scopes := rapid.SampledFrom([]Part{{ip(), Present, "192.0.2.1"}, {ip(), Present, "192.0.2.2"}, {Dimension: ip()}, {}})
	rapid.Check(t, func(t *rapid.T) {
		type asked struct {
			parts []Part
			scope Part
		}
		seen := map[string]asked{}
		for range 20 {
			a := asked{list.Draw(t, "parts"), scopes.Draw(t, "scope")}
			missing := false
			for _, p := range a.parts {
				missing = missing || p.State == Missing
			}
			if !missing {
				a.scope = Part{}
			}
			text := Subject(a.parts, a.scope)
			if other, ok := seen[text]; ok && (other.scope != a.scope || !equal(other.parts, a.parts)) {
				t.Fatalf("%q and %q have the same subject", other, a)
			}
			seen[text] = a
		}
	})
}

func equal(a, b []Part) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
