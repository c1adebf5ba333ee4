package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/policy"
)

// Bounds of a source. Work is bounded by counting, not by a clock, so that a
// source has the same verdict on every machine.
const (
	// MaxSourceBytes is the largest source, in bytes.
	MaxSourceBytes = 8 << 20
	// maxDepth bounds how deep maps and lists lie in each other.
	maxDepth = 100
	// maxMarks bounds what a source in YAML can hold, before it is parsed.
	maxMarks = 600_000
	// maxRoutes is how many routes a policy may have.
	maxRoutes = 10_000
	// maxNotes is how many notes are told; the rest is counted.
	maxNotes = 1_000
)

var yamlErrorLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)`)

// problem is one thing that ends an import, as an error: a policy.Report, so that
// it is told like the problems of a document.
func problem(path string, line int, format string, args ...any) error {
	return policy.Report{Problems: []policy.Problem{{Path: path, Line: line, Message: fmt.Sprintf(format, args...)}}}
}

// readTree makes the tree of a source in YAML or JSON. It follows no alias.
func readTree(src []byte) (*yaml.Node, error) {
	if len(src) > MaxSourceBytes {
		return nil, problem("", 0, "is %d bytes long: the largest allowed is %d (8 MiB)", len(src), MaxSourceBytes)
	}
	if !utf8.Valid(src) {
		return nil, problem("", 0, "is not valid UTF-8")
	}
	if bytes.HasPrefix(bytes.TrimLeft(src, "\ufeff \t\r\n"), []byte("{")) && json.Valid(bytes.TrimPrefix(src, []byte("\ufeff"))) {
		return readJSON(bytes.TrimPrefix(src, []byte("\ufeff")))
	}
	if marks := marksOf(src); marks > maxMarks {
		return nil, problem("", 0, "holds %d line ends, colons, commas, brackets and dashes: at most %d can be read", marks, maxMarks)
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, problem("", 1, "is empty")
	case err != nil:
		return nil, yamlProblem(err)
	}
	if err := checkTree(doc.Content[0], 0); err != nil {
		return nil, err
	}
	if err := dec.Decode(&second); err == nil {
		return nil, problem("", second.Line, "holds a second document: import them one by one")
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlProblem(err)
	}
	return doc.Content[0], nil
}

func marksOf(src []byte) (marks int) {
	for _, c := range src {
		switch c {
		case '\n', ':', ',', '[', '{', '-':
			marks++
		}
	}
	return marks
}

func yamlProblem(err error) error {
	m := yamlErrorLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1]) // 0 when the parser names no line
	return problem("", line, "is not valid YAML: %s", clip(m[2]))
}

// checkTree refuses what could stand for gigabytes: aliases, and depth.
func checkTree(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return problem("", n.Line, "uses the alias *%s: aliases are not allowed, write it out", clip(n.Value))
	case depth > maxDepth:
		return problem("", n.Line, "lies deeper than %d levels, the most allowed", maxDepth)
	}
	for _, c := range n.Content {
		if err := checkTree(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// noteList gathers notes up to a bound.
type noteList struct {
	notes []Note
	more  int
}

func (l *noteList) add(todo bool, path string, line int, format string, args ...any) {
	if len(l.notes) == maxNotes {
		l.more++
		return
	}
	l.notes = append(l.notes, Note{Path: path, Line: line, Message: fmt.Sprintf(format, args...), Todo: todo})
}

// say notes something that is good to know, and do something to decide.
func (l *noteList) say(path string, line int, format string, args ...any) {
	l.add(false, path, line, format, args...)
}

func (l *noteList) do(path string, line int, format string, args ...any) {
	l.add(true, path, line, format, args...)
}

func (l *noteList) all() []Note {
	if l.more > 0 {
		return append(l.notes, Note{Message: fmt.Sprintf("there are %d more notes", l.more), Todo: true})
	}
	if l.notes == nil {
		return []Note{}
	}
	return l.notes
}

// names gives each thing a name of its own that policies allow. It holds how often
// each name was asked for.
type names map[string]int

// of is the name closest to a text: lower-case letters, digits and dashes, 63 at most.
func (n names) of(text string) string {
	var b strings.Builder
	lower := false // the last letter was one: a capital begins a word
	for _, c := range text {
		switch {
		case c >= 'A' && c <= 'Z':
			if lower {
				b.WriteByte('-')
			}
			b.WriteRune(c - 'A' + 'a')
			lower = false
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteRune(c)
			lower = true
		default:
			b.WriteByte('-')
			lower = false
		}
	}
	words := strings.FieldsFunc(b.String(), func(c rune) bool { return c == '-' })
	base := strings.Join(words, "-")
	if base == "" {
		base = "route"
	}
	base = strings.TrimRight(base[:min(len(base), 55)], "-")
	name := base
	for n[name] > 0 {
		n[base]++
		name = base + "-" + strconv.Itoa(n[base])
	}
	n[name] = 1
	return name
}

// plainText is a text as a description: what a policy does not allow is left out.
func plainText(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c > 0x2027 && c < 0x202f || c > 0x2065 && c < 0x206a || c > 0x7f && c < 0xa0 || c == utf8.RuneError || c == 0x061c || c == 0x200e || c == 0x200f {
			return ' '
		}
		return c
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	const most = 300
	for len(s) > most {
		_, size := utf8.DecodeLastRuneInString(s[:most])
		s = s[:most-size]
	}
	return s
}

// clip keeps a quoted piece of input short enough for a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
