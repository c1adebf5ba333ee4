package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a document, or worth a second look.
type Problem struct {
	Path    string `json:"path"`           // "routes[3].limits[0].rate"; "" for the whole document
	Line    int    `json:"line,omitempty"` // in the source, from 1; 0 when unknown
	Message string `json:"message"`        // one sentence without the path

	beyond bool // see Report.TooNew
}

// String is the problem on one line, for terminals and logs.
func (p Problem) String() string {
	where := p.Path
	if where == "" {
		where = "document"
	}
	if p.Line > 0 {
		return fmt.Sprintf("line %d: %s: %s", p.Line, where, p.Message)
	}
	return where + ": " + p.Message
}

// Report is everything that was found in one pass, in the order of the
// document. Problems keep a document from being published; Warnings do not.
type Report struct {
	Problems []Problem `json:"problems"`
	Warnings []Problem `json:"warnings"`
}

// OK reports whether the document may be published.
func (r Report) OK() bool { return len(r.Problems) == 0 }

// TooNew reports whether the document holds something that this build does not
// know or does not support: a newer build may well take it.
func (r Report) TooNew() bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.beyond })
}

// Error tells all problems, one a line. It is "" when there are none, so test
// OK before using a Report as an error.
func (r Report) Error() string {
	lines := make([]string, len(r.Problems))
	for i, p := range r.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// problemList gathers problems up to a bound far above what is ever shown, so
// that a hostile document cannot make its own report the attack.
type problemList struct{ problems []Problem }

const maxGathered = 5 * maxProblems

func (l *problemList) add(p Problem) {
	if len(l.problems) < maxGathered {
		l.problems = append(l.problems, p)
	}
}

func (l *problemList) addf(path, format string, args ...any) {
	l.add(Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (l *problemList) all() []Problem { return slices.Clip(l.problems) }
