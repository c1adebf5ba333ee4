package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/policy"
)

// Bounds of a suite. Running it is bounded by counting requests, so that a suite
// has the same verdict on every machine.
const (
	// MaxSourceBytes is the largest suite, in bytes.
	MaxSourceBytes = 1 << 20
	// MaxTests and MaxSteps bound the tests of a suite and the steps of a test.
	MaxTests = 1000
	MaxSteps = 100
	// MaxSend bounds the requests of a step, MaxSendAll those of a suite.
	MaxSend    = 1_000_000
	MaxSendAll = 5_000_000

	maxProblems = 200
)

// Parse reads a suite in YAML or JSON, strictly: an unknown field, one that is
// there twice, an anchor or an alias is a problem. It never stops at the first
// problem that leaves the rest readable. The suite is nil when there are problems.
// Nothing at all is a suite without tests.
func Parse(src []byte) (*Suite, policy.Report) {
	r := &reader{}
	suite := &Suite{}
	if root := r.source(src); root != nil {
		r.suite(root, suite)
	}
	report := policy.Report{Problems: trimmed(r.problems), Warnings: []policy.Problem{}}
	if !report.OK() {
		return nil, report
	}
	return suite, report
}

// trimmed bounds how much is told. It is never nil, because in JSON that would be
// null.
func trimmed(list []policy.Problem) []policy.Problem {
	if list == nil {
		return []policy.Problem{}
	}
	if len(list) <= maxProblems {
		return list
	}
	more := policy.Problem{Message: fmt.Sprintf("has %d more problems", len(list)-maxProblems)}
	return append(list[:maxProblems:maxProblems], more)
}

// reader gathers problems. What could not be read stays at its zero value.
type reader struct {
	problems []policy.Problem
	sent     int64
}

func (r *reader) problem(path string, line int, format string, args ...any) {
	r.problems = append(r.problems, policy.Problem{Path: path, Line: line, Message: fmt.Sprintf(format, args...)})
}

var yamlErrorLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)`)

// source is the tree of the one document in src; nil when there is none.
func (r *reader) source(src []byte) *yaml.Node {
	switch {
	case len(src) > MaxSourceBytes:
		r.problem("", 0, "is %d bytes long: the largest allowed is %d (1 MiB)", len(src), MaxSourceBytes)
		return nil
	case !utf8.Valid(src):
		r.problem("", 0, "is not valid UTF-8")
		return nil
	}
	if trimmed := bytes.TrimLeft(src, "\ufeff \t\r\n"); bytes.HasPrefix(trimmed, []byte("{")) && json.Valid(trimmed) {
		src = yamlOf(src)
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		r.yamlProblem(err)
		return nil
	}
	if err := dec.Decode(&second); err != nil && !errors.Is(err, io.EOF) {
		r.yamlProblem(err)
		return nil
	} else if err == nil {
		r.problem("", second.Line, "holds a second document: there must be one")
		return nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" && root.Value == "" && root.Style&yaml.TaggedStyle == 0 && root.Anchor == "" {
		return nil // nothing but comments
	}
	return root
}

func (r *reader) yamlProblem(err error) {
	m := yamlErrorLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1]) // 0 when the parser names no line
	r.problem("", line, "is not valid YAML: %s", clip(m[2]))
}

var jsonEscapes = regexp.MustCompile(`\\(?:[^u]|u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})?)`)

// yamlOf mends the ways in which JSON is no YAML to its parser: tabs between values,
// escaped slashes, and characters that are spelled as two escapes.
func yamlOf(src []byte) []byte {
	src = bytes.ReplaceAll(src, []byte("\t"), []byte(" ")) // in a text of JSON they are escaped
	return jsonEscapes.ReplaceAllFunc(src, func(escape []byte) []byte {
		var text string
		if escape[1] == '/' {
			return escape[1:]
		}
		if len(escape) != 12 || json.Unmarshal([]byte(`"`+string(escape)+`"`), &text) != nil {
			return escape
		}
		return []byte(text)
	})
}

// clip shortens what is quoted in a problem.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}
