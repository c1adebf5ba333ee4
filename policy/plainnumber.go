package policy

import (
	"math/big"
	"regexp"
	"strings"
)

// grouped is a number in groups of three digits: 1,000 or 1 000 000.
var grouped = regexp.MustCompile(`^[+]?[0-9]{1,3}([,._' \x{a0}\x{2009}\x{202f}][0-9]{3})+$`)

// scaled is a number with a fraction, an exponent or a letter for thousands.
var scaled = regexp.MustCompile(`^[+]?([0-9]{1,15}(?:\.[0-9]{1,15})?)(?:[eE]\+?([0-9]{1,2})|([kKMG]))?$`)

// PlainNumber is what somebody who wrote a number as 1,000, 1 000, 1.000, 1_000,
// 1e3, 1k or +1000 most likely meant, in plain digits; "" when there is no telling.
// It is for messages only: programs and people read such numbers differently, so
// nothing is ever read that way.
func PlainNumber(s string) string {
	s = strings.TrimSpace(s)
	if grouped.MatchString(s) {
		return withoutZeros(strings.Map(func(c rune) rune {
			if c < '0' || c > '9' {
				return -1
			}
			return c
		}, s))
	}
	m := scaled.FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	n, ok := new(big.Rat).SetString(m[1] + "e0" + m[2])
	if !ok {
		return ""
	}
	n.Mul(n, new(big.Rat).SetInt64(map[string]int64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}[m[3]]))
	if !n.IsInt() || n.Num().BitLen() > 53 {
		return ""
	}
	return n.Num().String()
}

func withoutZeros(digits string) string {
	digits = strings.TrimLeft(digits, "0")
	if digits == "" || len(digits) > 16 {
		return ""
	}
	return digits
}

// meant adds to a message how a number is written in plain digits.
func meant(written string) string {
	if plain := PlainNumber(written); plain != "" && plain != written {
		return ": write " + plain + " if that is meant"
	}
	return ""
}
