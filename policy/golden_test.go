package policy

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The whole report on a document with a mistake of each family: people read
// these sentences, beside their lines.
func TestReport_OfManyMistakesReadsWell(t *testing.T) {
	t.Parallel()
	d, r := Parse(readTestdata(t, "mistakes.yaml"))
	if d != nil {
		t.Fatal("the document was taken")
	}
	var b bytes.Buffer
	for _, p := range r.Problems {
		fmt.Fprintln(&b, "problem", p)
	}
	for _, p := range r.Warnings {
		fmt.Fprintln(&b, "warning", p)
	}
	golden(t, "mistakes.report.txt", b.Bytes())
	lines := bytes.Split(readTestdata(t, "mistakes.yaml"), []byte("\n"))
	for _, p := range slices.Concat(r.Problems, r.Warnings) {
		last := p.Path[strings.LastIndexAny(p.Path, ".")+1:]
		name, _, _ := strings.Cut(last, "[")
		if p.Line < 1 || p.Line > len(lines) {
			t.Errorf("%v is on no line", p)
		}
		if line := string(lines[p.Line-1]); strings.Contains(p.Message, "not a known field") && !strings.Contains(line, name+":") {
			t.Errorf("%v points at %q", p, line)
		}
	}
}

// The whole difference of two versions.
func TestDiff_OfTwoVersionsReadsWell(t *testing.T) {
	t.Parallel()
	before := example(t)
	src := string(readTestdata(t, "example.yaml"))
	for _, edit := range []struct{ from, to string }{
		{"rate: 60/minute, burst: 60}]\n  pro:", "rate: 10/minute}]\n  gold: {}\n  pro:"},
		{"cost: 20", "cost: 10"},
		{"name: reports,", "name: documents,"},
		{"rate: 300/minute, burst: 60", "rate: 600/minute, burst: 60"},
		{"- name: login", "- name: sign-in"},
		{"{mode: closed}", "{mode: open, fallback: {rate: 5/minute}}"},
		{"  - name: withdrawn\n    match: [/v0/]\n    limits: [{name: nothing, per: tenant, rate: 0}]\n    on_store_failure: {mode: open, fallback: unlimited}\n", ""},
		{"trusted_proxies: [10.0.0.0/8,", "trusted_proxies: ["},
		{"per: global, rate: 50000/second", "per: ip, rate: 50000/second"},
	} {
		next := strings.Replace(src, edit.from, edit.to, 1)
		if next == src {
			t.Fatalf("%q is not in the example", edit.from)
		}
		src = next
	}
	after, r := Parse([]byte(src))
	if !r.OK() {
		t.Fatal(r)
	}
	var b bytes.Buffer
	for _, c := range Diff(before, after) {
		fmt.Fprintf(&b, "%-6s %-10s %-8s %-40s %-26s %s\n", c.Risk, c.Effect, c.Kind, c.Path, c.LimitID, c.Text)
	}
	golden(t, "example.diff.txt", b.Bytes())
}

// Each version is bound to the one before it: none can be left out, put in
// another place or taken from another chain.
func TestVerifyPolicy_HoldsAChainOfVersions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pub, priv := keyPair(rapid.Byte().Draw(t, "seed") & 0x7f)
		keys := []ed25519.PublicKey{pub}
		var chain []SignedPolicy
		parent := ""
		for v := range rapid.Int64Range(2, 5).Draw(t, "versions") {
			body := fmt.Appendf(nil, `{"v":%d,"x":%d}`, v, rapid.Int().Draw(t, "body"))
			p := SignPolicy(priv, "prod", v+1, parent, body, moment())
			chain, parent = append(chain, p), p.Digest
		}
		for i, p := range chain {
			if err := VerifyPolicy(keys, "prod", p); err != nil {
				t.Fatal(err)
			}
			j := rapid.IntRange(0, len(chain)-1).Draw(t, "other")
			if i == j {
				continue
			}
			moved := p
			moved.Version, moved.Parent = chain[j].Version, chain[j].Parent
			if err := VerifyPolicy(keys, "prod", moved); err == nil {
				t.Fatalf("version %d passes as version %d", p.Version, moved.Version)
			}
			spliced := p
			spliced.Signature = chain[j].Signature
			if err := VerifyPolicy(keys, "prod", spliced); err == nil {
				t.Fatalf("the signature of version %d passes on version %d", chain[j].Version, p.Version)
			}
		}
	})
}

// percent spells a text with some of its bytes encoded, in either case.
func percent(t *rapid.T, text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case !bareInPath(c) || rapid.IntRange(0, 3).Draw(t, "encode") == 0:
			format := rapid.SampledFrom([]string{"%%%02x", "%%%02X"}).Draw(t, "case")
			fmt.Fprintf(&b, format, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// However a path is spelled, the same segments are the same canonical path, and
// other segments are another one.
func TestCanonicalPath_IsOneToOneWithTheSegments(t *testing.T) {
	t.Parallel()
	segment := rapid.SampledFrom([]string{"a", "A", "v1", "é", "a b", "100%", "%41", "a;b", "a?b", "a#b", "[x]", "...", "a.", ".a", "🙂", "a+b", "a:b@c", "{id}", "\u00a0"})
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.SliceOfN(segment, 1, 4).Draw(t, "segments")
		others := rapid.SliceOfN(segment, 1, 4).Draw(t, "others")
		spell := func(list []string) string {
			path := ""
			for _, s := range list {
				path += "/" + percent(t, s)
			}
			canonical, err := CanonicalPath(path)
			if err != nil {
				t.Fatalf("%q: %v", path, err)
			}
			return canonical
		}
		first, second, other := spell(segments), spell(segments), spell(others)
		if first != second {
			t.Fatalf("%q has two canonical paths, %q and %q", segments, first, second)
		}
		if (first == other) != slices.Equal(segments, others) {
			t.Fatalf("%q became %q, and %q became %q", segments, first, others, other)
		}
	})
}

// A key of a limit is found again after any edit of its numbers, and only then.
func TestCompile_IdsFollowNamesAndNothingElse(t *testing.T) {
	t.Parallel()
	ids := func(c *Compiled) string {
		var all []string
		for _, l := range c.Global {
			all = append(all, l.ID)
		}
		for _, plan := range sortedKeys(c.Plans) {
			for _, l := range c.Plans[plan] {
				all = append(all, l.ID)
			}
		}
		for _, r := range c.Routes {
			for _, l := range r.Limits {
				all = append(all, l.ID)
			}
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument().Draw(t, "document")
		before, err := Compile(d)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Routes {
			d.Routes[i].Cost = 1
			for j := range d.Routes[i].Limits {
				if d.Routes[i].Limits[j].Name != "always" {
					d.Routes[i].Limits[j].Rate, d.Routes[i].Limits[j].Burst = genRateAndBurst(t)
				}
			}
		}
		slices.Reverse(d.Routes)
		after, err := Compile(d)
		if err != nil {
			t.Fatal(err)
		}
		if ids(before) != ids(after) {
			t.Fatalf("ids were\n%s and are\n%s", ids(before), ids(after))
		}
		for _, c := range Diff(before.Document, after.Document) {
			if c.Effect == EffectNewBucket || c.Kind == ChangeRenamed {
				t.Fatalf("a change of numbers became %+v", c)
			}
		}
	})
}
