package policy

import (
	"errors"
	"fmt"
	"slices"
)

// Parse reads a document in YAML or JSON, strictly, and validates it. It never
// stops at the first problem. The document is nil when there are problems;
// otherwise it is valid and has its defaults filled in.
func Parse(src []byte) (*Document, Report) {
	d, r := ParseLoose(src)
	if !r.OK() {
		return nil, r
	}
	return d, r
}

// ParseLoose is Parse, but also returns the document when its shape was right
// (every field known and of the right kind) and only values are wrong, so that a
// form can show it. A value that could not be read is then its zero value.
func ParseLoose(src []byte) (*Document, Report) {
	root, err := readSource(src)
	if err != nil {
		var e *sourceError
		if !errors.As(err, &e) {
			e = sourceErrorf("", 0, "cannot be read: %v", err)
		}
		return nil, Report{Problems: []Problem{e.problem}, Warnings: []Problem{}}
	}
	d := &decoder{unread: map[string]bool{}}
	doc := d.document(root)
	report := validate(doc)
	report.Problems = append(d.found.all(), d.notToldYet(report.Problems)...)
	report.Warnings = d.notToldYet(report.Warnings)
	for _, list := range [][]Problem{report.Problems, report.Warnings} {
		for i := range list {
			if list[i].Line == 0 {
				list[i].Line = root.lineAt(list[i].Path)
			}
		}
	}
	report.trim()
	if d.misshapen {
		return nil, report
	}
	return doc.withDefaults(), report
}

// notToldYet leaves out what validation says of a value that could not be read
// in the first place.
func (d *decoder) notToldYet(found []Problem) []Problem {
	var out []Problem
	for _, p := range found {
		if !d.toldOf(p.Path) {
			out = append(out, p)
		}
	}
	return out
}

// toldOf reports whether the value at a path, or one around it, was not read.
func (d *decoder) toldOf(path string) bool {
	for at := path; at != ""; at = parent(at) {
		if d.unread[at] {
			return true
		}
	}
	return d.unread[""]
}

// trim sorts a report by line and bounds its length. Its lists are then never
// nil, because in JSON that would be null.
func (r *Report) trim() {
	r.Problems = trimmed(r.Problems, "problems")
	r.Warnings = trimmed(r.Warnings, "warnings")
}

func trimmed(list []Problem, what string) []Problem {
	if list == nil {
		return []Problem{}
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return a.Line - b.Line })
	if len(list) <= maxProblems {
		return list
	}
	more := len(list) - maxProblems
	return append(list[:maxProblems:maxProblems], Problem{Message: fmt.Sprintf("has %d more %s", more, what)})
}
