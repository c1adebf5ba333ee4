package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Words that YAML reads as something else than text must come back as text.
func TestYAML_TextStaysText(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"yes", "no", "on", "off", "y", "n", "true", "null", "~", "Null", "1", "1.0", "1e3", "0x1f", "0o7", "010", "1_000", "+1", ".5", ".inf", ".nan", "12:30",
		"2026-11-30", "2026-11-30T12:00:00Z", "=", "<<", "-", "--", "---", "...", "- a", "? a", ": a", "a: b", "a:", "a #b", "#a", "&a", "*a", "!a", "!!str a", "|", ">",
		"@a", "`a`", "%a", "'", "''", `"`, `""`, `a"b`, `a\nb`, "a\nb", "a\n", "\na", "\n\n", " a", "a ", "\ta", "a\tb", "[a]", "{a}", "a, b", "a,b", "]", "}", ",", "é", "🙂",
		"\u00a0a", strings.Repeat("word ", 60) + "end", strings.Repeat("a", 500), "a\n  b\n c\n", "{{ x }}", "$x", "\\", "/", "unlimited", "0",
	} {
		d := valid()
		d.Description, d.Routes[0].Description, d.Plans["free"].Limits[0].Description = s, s, s
		back, r := Parse(d.YAML())
		if !r.OK() {
			t.Errorf("%q: %v\n%s", s, r, d.YAML())
			continue
		}
		if back.Description != s || back.Routes[0].Description != s || back.Plans["free"].Limits[0].Description != s {
			t.Errorf("%q comes back as %q", s, back.Description)
		}
	}
}

func TestYAML_NamesThatLookLikeNumbersStayNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"1", "0", "10", "1e3", "null", "true", "yes", "no", "0x1f", "0o17", "2026-11-30"} {
		d := valid()
		d.Routes[0].Name, d.Shared[0].Name, d.Routes[0].Uses = name, name, []string{name}
		d.Plans[name] = Plan{}
		back, r := Parse(d.YAML())
		if !r.OK() || back.Routes[0].Name != name || back.Routes[0].Uses[0] != name {
			t.Errorf("%s: %v\n%s", name, r, d.YAML())
			continue
		}
		if _, ok := back.Plans[name]; !ok {
			t.Errorf("the plan %s is now one of %v", name, sortedKeys(back.Plans))
		}
	}
}

func TestYAML_AnyTextComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.Rune(), 0, 200, 900).Draw(t, "text")
		d := valid()
		d.Description = s
		for name, src := range map[string][]byte{"YAML": d.YAML(), "JSON": d.Canonical()} {
			back, r := Parse(src)
			if _, refused := problemAt(r.Problems, "description", "not allowed"); refused {
				for _, c := range s {
					if !textCharacter(c) {
						return // such a text cannot be in a document that was parsed
					}
				}
				t.Fatalf("%s: %q is refused: %v", name, s, r)
			}
			if !r.OK() {
				t.Fatalf("%s: %q: %v\n%s", name, s, r, src)
			}
			if back.Description != s {
				t.Fatalf("%s: %q comes back as %q", name, s, back.Description)
			}
		}
	})
}

func TestTextCharacter_LeavesOutWhatMisleads(t *testing.T) {
	t.Parallel()
	for _, c := range "\n\t aZ09é→…🙂\u00a0{}[]\"'\\" {
		if !textCharacter(c) {
			t.Errorf("U+%04X is refused", c)
		}
	}
	for _, c := range "\x00\x07\b\x1b\r\x7f\u0085\u200e\u200f\u061c\u202a\u202e\u2066\u2069\u2028\u2029\ufffd" {
		if textCharacter(c) {
			t.Errorf("U+%04X is taken", c)
		}
	}
}
