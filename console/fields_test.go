package console

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestText_WhatCannotBeSeenIsRefused(t *testing.T) {
	t.Parallel()
	for in, ok := range map[string]bool{
		"Acme": true, "  Acme  ": true, "Ünïcode 株式会社": true, "<script>alert(1)</script>": true, "=cmd|' /C calc'!A0": true,
		"": false, "   ": false, "a\x00b": false, "a\u202eb": false, "a\u200bb": false, "a\x1bb": false, "\xff": false, "a\nb": false,
		strings.Repeat("é", maxName): true, strings.Repeat("é", maxName+1): false,
	} {
		var p problems
		p.name("name", in)
		if got := p.err() == nil; got != ok {
			t.Errorf("%q is accepted: %v", in, got)
		}
	}
}

func TestText_ReasonsMayHaveLines(t *testing.T) {
	t.Parallel()
	if got, err := requiredReason(" one\ntwo\t"); err != nil || got != "one\ntwo" {
		t.Errorf("got %q (%v)", got, err)
	}
	if _, err := requiredReason("\n"); err == nil {
		t.Error("an empty reason is accepted")
	}
	if got, err := optionalReason(""); err != nil || got != "" {
		t.Errorf("got %q (%v)", got, err)
	}
	if _, err := optionalReason(strings.Repeat("x", maxReason+1)); err == nil {
		t.Error("a long reason is accepted")
	}
}

func TestTimeZone_IsAnIANAName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "UTC", "Europe/Berlin": "Europe/Berlin", "UTC": "UTC"} {
		var p problems
		if got := p.timeZone(in); got != want || p.err() != nil {
			t.Errorf("%q is %q (%v)", in, got, p.err())
		}
	}
	for _, in := range []string{"Local", "Mars/Phobos", "../etc/passwd", "+02:00"} {
		var p problems
		if p.timeZone(in); p.err() == nil {
			t.Errorf("%q is accepted", in)
		}
	}
}

func TestScopes_AreASetOfPlainNames(t *testing.T) {
	t.Parallel()
	var p problems
	if got := p.scopes([]string{"read", " read ", "", "a:b.c_d-e"}); strings.Join(got, " ") != "read a:b.c_d-e" || p.err() != nil {
		t.Errorf("got %v (%v)", got, p.err())
	}
	for name, in := range map[string][]string{"blank": {"a b"}, "upper case": {"Read"}, "too long": {strings.Repeat("a", 65)}, "too many": many(33)} {
		var p problems
		if p.scopes(in); p.err() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "s" + strings.Repeat("x", i)
	}
	return out
}

func TestEmail_IsABareAddress(t *testing.T) {
	t.Parallel()
	for in, ok := range map[string]bool{
		"ann@example.com": true, " ann@example.com ": true, "a+b@x.y": true,
		"": false, "ann": false, "Ann <ann@example.com>": false, "a@b@c": false, "a b@c.d": false, strings.Repeat("a", 250) + "@x.yz": false,
	} {
		var p problems
		p.email(in)
		if got := p.err() == nil; got != ok {
			t.Errorf("%q is accepted: %v", in, got)
		}
	}
}

func TestShorten_CutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "ab": "ab", "abc": "abc", "äöüß": "äöü", "a\xff": ""} {
		if got := shorten(in, 3); got != want {
			t.Errorf("%q is cut to %q, want %q", in, got, want)
		}
	}
}

func TestMinTime_NilIsNever(t *testing.T) {
	t.Parallel()
	a := time.Unix(10, 0)
	before, after := time.Unix(9, 0), time.Unix(11, 0)
	if minTime(a, nil) != a || minTime(a, &before) != before || minTime(a, &after) != a {
		t.Error("the earlier time is not taken")
	}
}

func TestKidOf_NoSecretReachesASearch(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"hg_live_0123456789AB_secret": "0123456789AB", " hg_test_0123456789AB_… ": "0123456789AB", "hg_live_0123456789AB": "0123456789AB", "acme": "acme", "hg_": "hg_",
	} {
		if got := kidOf(in); got != want {
			t.Errorf("%q searches for %q, want %q", in, got, want)
		}
	}
}

func TestError_TellsTheUserLessThanTheLog(t *testing.T) {
	t.Parallel()
	cause := &Error{Code: CodeConflict, Public: "inner"}
	e := &Error{Code: CodeInvalid, Public: "outer", Fields: []FieldError{{"name", "bad"}, {"plan", "worse"}}, Cause: cause}
	if got, want := e.Error(), "invalid: outer [name: bad] [plan: worse]: conflict: inner"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	if e.PublicMessage() != "outer" || !errors.Is(e, cause) || CodeOf(e) != CodeInvalid || CodeOf(nil) != "" {
		t.Error("the parts are wrong")
	}
	var seen []string
	e.EachField(func(field, message string) bool { seen = append(seen, field+" "+message); return false })
	if len(seen) != 1 || seen[0] != "name bad" {
		t.Errorf("fields %v", seen)
	}
	if CodeOf(errPlain{}) != CodeInternal {
		t.Error("another error is not internal")
	}
}

type errPlain struct{}

func (errPlain) Error() string { return "plain" }

// A network's, an account's and everybody's guesses are counted apart, and all
// tables stay bounded.
func TestGuard_TablesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	g := newGuard(func() time.Time { return now })
	for i := range 3 * guardEntries {
		email := "u" + string(rune(i)) + "@example.com"
		g.succeeded(email, "192.0.2.0/24")
		g.block(g.charges(email, "other")[2].Row, now, now.Add(time.Hour))
	}
	if len(g.known) > guardEntries || len(g.blocked) > guardEntries {
		t.Fatalf("%d known, %d blocked", len(g.known), len(g.blocked))
	}
}

func TestGuard_NumbersAreAsStated(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{accountPerHour, knownPerHour, networkPerHour, globalPerHour} {
		got := perHour(n, 1)
		if got.Tokens != 1 || got.Period*n != int64(time.Hour/time.Microsecond) {
			t.Errorf("%d an hour is %+v", n, got)
		}
	}
}
