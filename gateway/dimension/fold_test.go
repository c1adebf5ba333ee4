package dimension

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFold_R120_SpellingsOfAnAccountShareABucket(t *testing.T) {
	t.Parallel()
	for want, spellings := range map[string][]string{
		"admin": {
			"admin", "Admin", "ADMIN", " admin", "admin ", "\tadmin\n", "ａｄｍｉｎ", "ad\u200bmin", "ad\u00admin", "admin\u200d",
			"ádmin", "a\u0301dmin", "admin\u0301\u0301\u0301", "\ufeffadmin", "adm\u0131\u0307n"[:3] + "in", "ad\u2060min", "\u00a0admin", "ⓐdmin",
		},
		"kelvin":       {"Kelvin", "\u212aelvin"},
		"straße":       nil, // see below: folds to ss
		"strasse":      {"Straße", "STRASSE", "STRAẞE"},
		"office":       {"oﬃce", "OFFICE"},
		"5":            {"5", "５", "⑤"},
		"josé"[:3]:     {"jos", "Jos"},
		"jose":         {"José", "jose\u0301"},
		"\u4f60\u597d": {"\u4f60\u597d"},
		"":             {"", " ", "\u200b", "\u0301", "\t\r\n"},
	} {
		for _, s := range spellings {
			if got := Fold(s); got != want {
				t.Errorf("Fold(%+q) = %+q, want %+q", s, got, want)
			}
		}
	}
}

func TestFold_AccountsThatDiffer_StayApart(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, s := range []string{"admin", "admin1", "admin2", "a.dmin", "ad min", "admin@example.com", "admin+1@example.com", "\u0430dmin", "0", "o", "\u4f60"} {
		if other, ok := seen[Fold(s)]; ok {
			t.Errorf("%q and %q are one", s, other)
		}
		seen[Fold(s)] = s
	}
}

func TestFold_OnceIsEnough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		once := Fold(s)
		if twice := Fold(once); twice != once {
			t.Fatalf("Fold(%+q) = %+q, and again %+q", s, once, twice)
		}
		if !utf8.ValidString(once) {
			t.Fatalf("Fold(%+q) = %+q is not UTF-8", s, once)
		}
	})
}
