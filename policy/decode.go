package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// decoder turns a tree into a Document. It never stops at a problem: what could
// not be read is left at its zero value and is not complained about twice.
type decoder struct {
	found     problemList
	misshapen bool            // a field was unknown, repeated or of the wrong kind
	unread    map[string]bool // paths whose value is not in the document
}

// problem is about a value, which is then not read.
func (d *decoder) problem(path string, n *node, format string, args ...any) {
	d.unread[path] = true
	d.found.add(Problem{Path: path, Line: n.line, Message: fmt.Sprintf(format, args...)})
}

// shape is about something that a Document has no place for.
func (d *decoder) shape(path string, line int, format string, args ...any) {
	d.misshapen = true
	d.found.add(Problem{Path: path, Line: line, Message: fmt.Sprintf(format, args...)})
}

// newer is about something that this build does not know.
func (d *decoder) newer(path string, line int, format string, args ...any) {
	d.found.add(Problem{Path: path, Line: line, Message: fmt.Sprintf(format, args...), beyond: true})
}

// reads has the fields that a map may have, each with what reads it.
type reads map[string]func(path string, n *node)

func (r reads) names() string { return strings.Join(sortedKeys(r), ", ") }

// fields reads a map. Each field is read at most once.
func (d *decoder) fields(path string, n *node, set reads) {
	if n.kind != kindMap {
		d.wrongKind(path, n, "a map")
		return
	}
	seen := make(map[string]int, len(n.keys))
	for i, k := range n.keys {
		at, v := field(path, k.text), n.items[i]
		if first, ok := seen[k.text]; ok {
			d.shape(at, k.line, "is there twice, first on line %d", first)
			continue
		}
		seen[k.text] = k.line
		read := set[k.text]
		switch {
		case read != nil && v.kind == kindNull:
			d.unread[at] = true
			d.shape(at, k.line, "is empty: give a value or leave the field out")
		case read != nil:
			read(at, v)
		default:
			d.misshapen = true
			d.newer(at, k.line, "is not a known field; known here: %s", set.names())
		}
	}
}

func (d *decoder) wrongKind(path string, n *node, want string) { d.wrong(path, n, want, "") }

// wrong is about a value of another kind than is wanted, with a hint behind it.
func (d *decoder) wrong(path string, n *node, want, hint string) {
	d.unread[path] = true
	switch n.kind {
	case kindNull:
		d.shape(path, n.line, "is empty: it must be %s", want)
	case kindNumber, kindInt:
		d.shape(path, n.line, "must be %s, not the number %s%s", want, clip(n.text), hint)
	case kindText:
		d.shape(path, n.line, "must be %s, not the text %q%s", want, clip(n.text), hint)
	default:
		d.shape(path, n.line, "must be %s, not %s", want, n.kind)
	}
}

// list reads each item of a list.
func (d *decoder) list(path string, n *node, what string, most int, read func(path string, n *node)) {
	if n.kind != kindList {
		d.wrongKind(path, n, "a list of "+what)
		return
	}
	if len(n.items) > most {
		d.unread[path] = true
		d.shape(path, n.line, "has %d %s: at most %d are allowed", len(n.items), what, most)
		return
	}
	for i, item := range n.items {
		read(index(path, i), item)
	}
}

// text reads a string. A character that a reader could not tell from another,
// or that would break a line of a log, is refused.
func (d *decoder) text(path string, n *node, into *string) {
	if n.kind != kindText {
		d.wrongKind(path, n, "text")
		return
	}
	if why := badText(n.text); why != "" {
		d.problem(path, n, "%s", why)
		return
	}
	*into = n.text
}

// badText says why a text cannot stand in a document; "" when it can.
func badText(s string) string {
	if len(s) > maxText {
		return fmt.Sprintf("is %d bytes long: at most %d are allowed", len(s), maxText)
	}
	for _, c := range s {
		if !textCharacter(c) {
			return fmt.Sprintf("holds a character that is not allowed: U+%04X", c)
		}
	}
	return ""
}

// textCharacter leaves out control characters, line separators, what stands for
// a character that could not be read, and what turns the order of a line round.
func textCharacter(c rune) bool {
	switch c {
	case '\n', '\t':
		return true
	case utf8.RuneError, '\u2028', '\u2029':
		return false
	}
	return !unicode.IsControl(c) && !unicode.Is(unicode.Bidi_Control, c)
}

// choice reads a word of a closed set.
func choice[T ~string](d *decoder, path string, n *node, into *T, words []T) {
	if n.kind != kindText {
		d.wrongKind(path, n, "one of "+joinWords(words))
		return
	}
	for _, w := range words {
		if n.text == string(w) {
			*into = w
			return
		}
	}
	d.problem(path, n, "%q is not known: it must be one of %s", clip(n.text), joinWords(words))
}

func joinWords[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// whole reads an integer between least and most.
func (d *decoder) whole(path string, n *node, into *int64, least, most int64) {
	if n.kind != kindInt {
		d.noWhole(path, n)
		return
	}
	v, err := strconv.ParseInt(n.text, 10, 64)
	switch {
	case err != nil || v > most:
		d.problem(path, n, "%s is too large: the largest allowed is %d", clip(n.text), most)
	case v < least:
		d.problem(path, n, "%s is too small: the smallest allowed is %d", clip(n.text), least)
	default:
		*into = v
	}
}

// noWhole is about something that is no whole number, and how it would be one.
func (d *decoder) noWhole(path string, n *node) {
	hint := ""
	switch plain := PlainNumber(n.text); {
	case n.kind != kindNumber && n.kind != kindText:
	case n.kind == kindText && plain != "" && plain == n.text:
		hint = ": write it without quotes"
	default:
		hint = meant(n.text)
	}
	d.wrong(path, n, "a whole number in plain digits", hint)
}

// rate reads a rate.
func (d *decoder) rate(path string, n *node, into *Rate) {
	if n.kind == kindInt && n.text == "0" {
		*into = blockedRate()
		return
	}
	if n.kind != kindText {
		d.wrongKind(path, n, "a rate such as 60/minute, or unlimited, or 0")
		return // a number alone has no period, so nothing can be meant by it
	}
	r, err := ParseRate(n.text)
	if err != nil {
		d.problem(path, n, "%v", err)
		return
	}
	*into = r
}

// moment reads a time in UTC, to the microsecond.
func (d *decoder) moment(path string, n *node, into **time.Time) {
	var s string
	d.text(path, n, &s)
	if d.unread[path] {
		return
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !strings.HasSuffix(s, "Z") || t.Nanosecond()%1000 != 0 {
		d.problem(path, n, "%q must be a time in UTC such as 2027-01-31T00:00:00Z (RFC 3339, at most microseconds)", clip(s))
		return
	}
	*into = new(t.UTC())
}

// duration reads a Go duration of whole microseconds.
func (d *decoder) duration(path string, n *node, into *time.Duration) {
	if n.kind != kindText {
		d.wrongKind(path, n, "a duration such as 90s")
		return
	}
	v, err := time.ParseDuration(n.text)
	if err != nil || strings.ContainsAny(n.text, "+-") || len(n.text) > 40 || v%time.Microsecond != 0 {
		d.problem(path, n, "%q must be a duration such as 90s or 1h30m", clip(n.text))
		return
	}
	*into = v
}

// prefix reads an address range; a bare address stands for itself alone.
func (d *decoder) prefix(path string, n *node) netip.Prefix {
	var text string
	d.text(path, n, &text)
	if text == "" {
		if n.kind == kindText && n.text == "" {
			d.problem(path, n, "is empty: it must be an address range such as 10.0.0.0/8")
		}
		return netip.Prefix{}
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		d.problem(path, n, "%q is not an address range such as 10.0.0.0/8 or 2001:db8::/32", clip(text))
		return netip.Prefix{}
	}
	return p
}
