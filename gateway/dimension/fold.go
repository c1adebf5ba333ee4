package dimension

import (
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Fold is the form in which values of a body's fields are compared: without
// spaces around them, letter case, accents, invisible characters and differences
// of width or ligature. Upstreams and their databases compare account names in
// many ways, most of them looser than bytes; a spelling that one of them takes
// for the same account must not have a bucket of its own. Two accounts that
// differ in such a way alone share one.
func Fold(value string) string {
	value = strings.TrimSpace(value)
	if isPlainASCII(value) {
		return strings.ToLower(value)
	}
	value = strings.Map(visible, norm.NFKD.String(value))
	value = cases.Fold().String(value)
	value = strings.Map(lower, norm.NFKD.String(value))
	return strings.TrimSpace(norm.NFC.String(value))
}

// visible drops marks, controls and characters without a form of their own.
func visible(r rune) rune {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Cc) {
		return -1
	}
	return r
}

// lower is visible in one letter case for good: the folding of whole texts turns
// some letters (Cherokee) into each other.
func lower(r rune) rune {
	if r = visible(r); r < 0 {
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

func isPlainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// exact is the form in which users and headers are compared: without spaces
// around them, in Unicode's normal form C.
func exact(value string) string { return norm.NFC.String(strings.TrimSpace(value)) }
