package apikey

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

// The vectors of the key format: other programs make and check keys too.
const (
	vectorTest   = "hg_test_000000000000_000000000000000000000000000000002zIGxN"
	vectorLive   = "hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJp"
	digestOfLive = "sha256:6d026683f474beec2b78f457e9407ba265c0e30bcfca88bcb98ec3e7118fa275"
)

func TestParse_ReadsTheVectors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key  string
		want Parsed
	}{
		{vectorTest, Parsed{Test, "000000000000"}},
		{vectorLive, Parsed{Live, "0123456789AB"}},
	} {
		got, err := Parse(c.key)
		if err != nil || got != c.want {
			t.Errorf("Parse(%s) = %+v, %v, want %+v", c.key, got, err, c.want)
		}
	}
}

func TestDigest_IsTheVectorsSHA256(t *testing.T) {
	t.Parallel()
	if got := Digest(vectorLive); got != digestOfLive {
		t.Errorf("Digest = %s, want %s", got, digestOfLive)
	}
}

func TestParse_RefusesEveryOtherShape(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{
		"nothing":                           "",
		"prefix alone":                      "hg_",
		"other prefix":                      "sk" + vectorLive[2:],
		"capital prefix":                    "HG" + vectorLive[2:],
		"unknown environment":               strings.Replace(vectorLive, "live", "prod", 1),
		"other environment":                 strings.Replace(vectorLive, "live", "test", 1),
		"no environment":                    strings.Replace(vectorLive, "live_", "", 1),
		"kid one short":                     strings.Replace(vectorLive, "AB_", "A_", 1),
		"kid one long":                      strings.Replace(vectorLive, "AB_", "ABC_", 1),
		"kid outside alphabet":              strings.Replace(vectorLive, "AB_", "A-_", 1),
		"secret one short":                  vectorLive[:len(vectorLive)-7] + vectorLive[len(vectorLive)-6:],
		"secret changed":                    strings.Replace(vectorLive, "abc", "abd", 1),
		"secret has a dash":                 strings.Replace(vectorLive, "abc", "ab-", 1),
		"secret has a letter outside ASCII": strings.Replace(vectorLive, "abc", "aé", 1),
		"checksum changed":                  vectorLive[:len(vectorLive)-1] + "q",
		"checksum in capitals":              vectorLive[:len(vectorLive)-6] + strings.ToUpper(vectorLive[len(vectorLive)-6:]),
		"space before":                      " " + vectorLive,
		"line feed after":                   vectorLive + "\n",
		"twice":                             vectorLive + vectorLive,
		"scheme left on":                    "Bearer " + vectorLive,
	} {
		got, err := Parse(key)
		if !errors.Is(err, ErrMalformed) || got != (Parsed{}) {
			t.Errorf("%s: Parse = %+v, %v, want ErrMalformed", name, got, err)
		}
	}
}

func TestParse_ErrorNeverHoldsTheKey(t *testing.T) {
	t.Parallel()
	_, err := Parse(strings.Replace(vectorLive, "abc", "abd", 1))
	if err == nil || strings.Contains(err.Error(), "0123456789AB") || strings.Contains(err.Error(), "abd") {
		t.Errorf("error %v holds a part of the key", err)
	}
}

func TestGenerate_MakesKeysThatParse(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, env := range []string{Live, Test, Ops} {
		for range 50 {
			secret, kid, err := Generate(env, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Parse(secret.Reveal())
			if err != nil || got != (Parsed{env, kid}) {
				t.Fatalf("Parse(generated) = %+v, %v, want %s %s", got, err, env, kid)
			}
			if seen[kid] || !ValidKID(kid) {
				t.Fatalf("kid %s was made before or is not valid", kid)
			}
			seen[kid] = true
		}
	}
}

func TestGenerate_IsGivenByItsRandomness(t *testing.T) {
	t.Parallel()
	secret, kid, err := Generate(Test, bytes.NewReader(make([]byte, 64)))
	if err != nil || secret.Reveal() != vectorTest || kid != "000000000000" {
		t.Errorf("Generate from zeros = %s, %s, %v, want the vector", secret.Reveal(), kid, err)
	}
}

// Bytes of 248 and above would make the first characters likelier.
func TestGenerate_ThrowsBiasedBytesAway(t *testing.T) {
	t.Parallel()
	src := io.MultiReader(bytes.NewReader(bytes.Repeat([]byte{255, 248, 250, 251}, 11)), bytes.NewReader(make([]byte, 44)))
	secret, _, err := Generate(Test, src)
	if err != nil || secret.Reveal() != vectorTest {
		t.Errorf("Generate = %s, %v, want the vector: no byte from 248 on may count", secret.Reveal(), err)
	}
}

func TestGenerate_SpreadsOverTheAlphabet(t *testing.T) {
	t.Parallel()
	counts := map[rune]int{}
	for range 500 {
		secret, _, err := Generate(Live, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range secret.Reveal()[21 : 21+32] {
			counts[c]++
		}
	}
	// 16 000 characters, 258 expected of each, standard deviation 16.
	for _, c := range alphabet {
		if n := counts[c]; n < 258-6*16 || n > 258+6*16 {
			t.Errorf("character %c came %d times of 16000, want about 258", c, n)
		}
	}
}

func TestGenerate_FailsWithoutRandomnessOrEnvironment(t *testing.T) {
	t.Parallel()
	if _, _, err := Generate(Live, bytes.NewReader(make([]byte, 10))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Generate from 10 bytes: %v, want ErrUnexpectedEOF", err)
	}
	if _, _, err := Generate("prod", rand.Reader); err == nil || !strings.Contains(err.Error(), "prod") {
		t.Errorf("Generate for prod: %v, want an error that names it", err)
	}
}

func TestEqual_HoldsForTheWholeKeyOnly(t *testing.T) {
	t.Parallel()
	if !Equal(digestOfLive, vectorLive) {
		t.Error("the key does not equal its own digest")
	}
	for name, digest := range map[string]string{
		"dummy":        DummyDigest,
		"empty":        "",
		"no algorithm": strings.TrimPrefix(digestOfLive, "sha256:"),
		"capitals":     strings.ToUpper(digestOfLive),
		"one short":    digestOfLive[:len(digestOfLive)-1],
		"other key":    Digest(vectorTest),
	} {
		if Equal(digest, vectorLive) {
			t.Errorf("%s: the key equals %q", name, digest)
		}
	}
}

func TestSecret_PrintsMaskedHoweverItIsPrinted(t *testing.T) {
	t.Parallel()
	secret, kid, err := Generate(Live, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hidden := secret.Reveal()[21:]
	type holder struct {
		Key  Secret
		more *Secret
	}
	h := holder{secret, &secret}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("issued", "key", secret, "holder", h.Key)
	slog.New(slog.NewTextHandler(&log, nil)).Info("issued", "key", secret)
	js, err := json.Marshal(map[string]any{"key": secret, "keys": []Secret{secret}})
	if err != nil {
		t.Fatal(err)
	}
	printed := []string{log.String(), string(js)}
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x", "%X", "%d", "%t", "%10s"} {
		printed = append(printed, fmt.Sprintf(verb, secret), fmt.Sprintf(verb, &secret), fmt.Sprintf(verb, h.Key), fmt.Sprintf(verb, []Secret{secret}))
	}
	for _, text := range printed {
		if strings.Contains(text, hidden) || strings.Contains(text, hidden[:8]) ||
			strings.Contains(text, fmt.Sprintf("%x", hidden[:8])) || strings.Contains(text, fmt.Sprintf("%X", hidden[:8])) {
			t.Errorf("the secret shows in %q", text)
		}
	}
	if want := "hg_live_" + kid + "_…"; secret.String() != want || fmt.Sprint(secret) != want {
		t.Errorf("String = %s, want %s", secret, want)
	}
	if h.more.Reveal() != secret.Reveal() {
		t.Error("Reveal gives another key")
	}
}

func TestMask_HidesWhatIsNoKey(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		vectorLive:                           "hg_live_0123456789AB_…",
		vectorLive[:len(vectorLive)-1]:       "hg_…",
		"hunter2":                            "hg_…",
		"":                                   "hg_…",
		"hg_live_0123456789AB_":              "hg_…",
		vectorLive[:len(vectorLive)-1] + "q": "hg_live_0123456789AB_…", // a typing slip still shows whose key it is
	} {
		if got := Mask(in); got != want {
			t.Errorf("Mask(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestValidKID(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"0123456789AB": true, "0123456789A": false, "0123456789ABC": false, "0123456789A_": false, "": false, "0123456789é": false,
	} {
		if got := ValidKID(in); got != want {
			t.Errorf("ValidKID(%q) = %v, want %v", in, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{vectorTest, vectorLive, "hg_ops_", "", "hg_live_0123456789AB_" + strings.Repeat("z", 38)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s)
		if err != nil {
			return
		}
		if len(s) != len(vectorLive)-len("live")+len(p.Environment) || !ValidKID(p.KID) || !Equal(Digest(s), s) {
			t.Errorf("Parse takes %q as %+v", s, p)
		}
		if Mask(s) != "hg_"+p.Environment+"_"+p.KID+"_…" {
			t.Errorf("Mask(%q) = %q", s, Mask(s))
		}
	})
}
