package views

import (
	"strings"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// DraftReviewProps is a draft against the version in force, with the form that
// publishes it.
type DraftReviewProps struct {
	Head     DraftHead
	Readable bool
	Changes  []ui.DiffRow // from the version in force to the draft
	Theirs   []ui.DiffRow // published since the draft's base
	Mine     []ui.DiffRow // from the draft's base to the draft
	Clashes  []string     // parts that both changed
	CanMerge bool
	Replicas int
	Form     *form.Form // note
}

func (p DraftReviewProps) stale() bool { return p.Head.Base != p.Head.Head }

func (p DraftReviewProps) publishable() bool {
	return p.Readable && len(p.Head.Problems) == 0 && !p.stale() && len(p.Changes) > 0
}

func (p DraftReviewProps) count(effect string) int {
	n := 0
	for _, c := range p.Changes {
		if c.Effect == effect {
			n++
		}
	}
	return n
}

// mergeEffect says what taking a draft onto the newest version does.
func (p DraftReviewProps) mergeEffect() string {
	text := "keeps theirs and puts yours on top"
	if len(p.Clashes) > 0 {
		text += "; both changed " + strings.Join(p.Clashes, ", ") + ": there, yours counts"
	}
	return text
}
