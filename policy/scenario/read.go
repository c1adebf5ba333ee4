package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	maxText = 1000 // bytes of a text
	maxMap  = 50   // values of headers or body
)

// maxSpan bounds pauses and the time that a step takes.
const maxSpan = 400 * 24 * time.Hour

// reads has the fields that a map may have, each with what reads it.
type reads map[string]func(path string, n *yaml.Node)

// plain refuses what is not allowed anywhere.
func (r *reader) plain(path string, n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		r.problem(path, n.Line, "uses the alias *%s: aliases are not allowed", clip(n.Value))
	case n.Anchor != "":
		r.problem(path, n.Line, "has the anchor &%s: anchors are not allowed", clip(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0:
		r.problem(path, n.Line, "has the tag %s: tags are not allowed", clip(n.Tag))
	default:
		return true
	}
	return false
}

// fields reads a map and returns the line of each field that was there.
func (r *reader) fields(path string, n *yaml.Node, what string, set reads) map[string]int {
	if !r.plain(path, n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.wrongKind(path, n, what)
		return nil
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		if key.Kind != yaml.ScalarNode || !r.plain(at, key) || key.ShortTag() == "!!merge" {
			r.problem(path, key.Line, "has a field name that is not plain text")
			continue
		}
		if first, ok := seen[key.Value]; ok {
			r.problem(at, key.Line, "is there twice, first on line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		switch read := set[key.Value]; {
		case read == nil:
			r.problem(at, key.Line, "is not a known field; known here: %s", strings.Join(slices.Sorted(maps.Keys(set)), ", "))
		case value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null":
			r.problem(at, key.Line, "is empty: give a value or leave the field out")
		default:
			read(at, value)
		}
	}
	return seen
}

func (r *reader) wrongKind(path string, n *yaml.Node, want string) {
	switch n.Kind {
	case yaml.SequenceNode:
		r.problem(path, n.Line, "must be %s, not a list", want)
	case yaml.MappingNode:
		r.problem(path, n.Line, "must be %s, not a map", want)
	default:
		r.problem(path, n.Line, "must be %s, not %q", want, clip(n.Value))
	}
}

// list reads each item of a list.
func (r *reader) list(path string, n *yaml.Node, what string, most int, read func(path string, n *yaml.Node)) {
	switch {
	case !r.plain(path, n):
	case n.Kind != yaml.SequenceNode:
		r.wrongKind(path, n, "a list of "+what)
	case len(n.Content) > most:
		r.problem(path, n.Line, "has %d %s: at most %d are allowed", len(n.Content), what, most)
	default:
		for i, item := range n.Content {
			read(path+"["+strconv.Itoa(i)+"]", item)
		}
	}
}

// text reads a string.
func (r *reader) text(path string, n *yaml.Node, into *string) {
	switch {
	case !r.plain(path, n):
	case n.Kind != yaml.ScalarNode:
		r.wrongKind(path, n, "text")
	case n.ShortTag() != "!!str" && n.ShortTag() != "!!timestamp":
		r.problem(path, n.Line, "must be text, not %q: write it in quotes", clip(n.Value))
	default:
		if why := badText(n.Value); why != "" {
			r.problem(path, n.Line, "%s", why)
			return
		}
		*into = n.Value
	}
}

// badText says why a text cannot stand in a suite; "" when it can.
func badText(s string) string {
	if s == "" {
		return "is empty: give a text or leave the field out"
	}
	if len(s) > maxText {
		return fmt.Sprintf("is %d bytes long: at most %d are allowed", len(s), maxText)
	}
	for _, c := range s {
		switch {
		case c == '\n' || c == '\t':
		case c == utf8.RuneError, c == '\u2028', c == '\u2029', c == '\ufeff', unicode.IsControl(c), unicode.Is(unicode.Bidi_Control, c):
			return fmt.Sprintf("holds a character that is not allowed: U+%04X", c)
		}
	}
	return ""
}

// line reads a string of one line.
func (r *reader) line(path string, n *yaml.Node, into *string) {
	var text string
	r.text(path, n, &text)
	if strings.ContainsAny(text, "\n\t") {
		r.problem(path, n.Line, "must be one line without tabs")
		return
	}
	*into = text
}

// texts reads a map of texts.
func (r *reader) texts(path string, n *yaml.Node, into *map[string]string) {
	if !r.plain(path, n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.wrongKind(path, n, "a map of names and texts")
		return
	}
	if len(n.Content) > 2*maxMap {
		r.problem(path, n.Line, "has %d values: at most %d are allowed", len(n.Content)/2, maxMap)
		return
	}
	set := reads{}
	values := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if why := badText(name); why != "" {
			r.problem(path, n.Content[i].Line, "has a name that %s", why)
			return
		}
		set[name] = func(path string, n *yaml.Node) {
			var value string
			r.text(path, n, &value)
			values[name] = value
		}
	}
	r.fields(path, n, "a map of names and texts", set)
	if len(values) > 0 {
		*into = values
	}
}

// plainNumber leaves out 0x10, 010, 1e3 and 1_000, which mean different things to
// different programs.
var plainNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// whole reads an integer between least and most.
func (r *reader) whole(path string, n *yaml.Node, into *int64, least, most int64) {
	if !r.plain(path, n) {
		return
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	switch {
	case n.Kind != yaml.ScalarNode || n.Style != 0 || !plainNumber.MatchString(n.Value):
		r.wrongKind(path, n, "a whole number in plain digits")
	case err != nil || v < least || v > most:
		r.problem(path, n.Line, "%s is out of range: %d to %d", clip(n.Value), least, most)
	default:
		*into = v
	}
}

// span reads a duration of whole milliseconds.
func (r *reader) span(path string, n *yaml.Node, into *time.Duration) {
	if !r.plain(path, n) {
		return
	}
	v, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil || v <= 0 || v%time.Millisecond != 0 || strings.ContainsAny(n.Value, "+-") || len(n.Value) > 40:
		r.wrongKind(path, n, "a duration of whole milliseconds such as 90s or 1h30m")
	case v > maxSpan:
		r.problem(path, n.Line, "%s is too long: at most 400 days (9600h)", clip(n.Value))
	default:
		*into = v
	}
}

// join is the path of a field.
func join(path, name string) string {
	if path == "" {
		return clip(name)
	}
	return path + "." + clip(name)
}
