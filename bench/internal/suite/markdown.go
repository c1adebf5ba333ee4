package suite

import (
	_ "embed"
	"fmt"
	"strings"
)

// howto is the part of the document that does not come from a run.
//
//go:embed howto.md
var howto string

// Markdown is the document.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString(howto)
	fmt.Fprintf(&b, "\n## Latest run\n\n%s. %s. Redis %s. %s.\n\n%s\n\n", r.Date.Format("2006-01-02 15:04 MST"), r.Machine, r.Redis, strings.Join(versions(), ", "), r.remarks())
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t[0], " | "), strings.Repeat("---|", len(t[0])))
		for _, row := range t[1:] {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
		b.WriteString("\n")
	}
	if failures := r.failures(); failures != "" {
		b.WriteString(failures)
	}
	return b.String()
}
