package views

import (
	"strings"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// DraftReviewProps is everything that a reviewer of a draft wants to know, with
// the forms that approve, publish and schedule it.
type DraftReviewProps struct {
	Head     DraftHead
	Readable bool
	Blocked  string // why it cannot be published within the rules; "" when it can
	Checks   []CheckRow
	Risks    []RiskGroup // from the version in force to the draft
	Changes  int
	Counts   string       // "3 tighter, 1 looser"
	Theirs   []ui.DiffRow // published since the draft's base
	Mine     []ui.DiffRow // from the draft's base to the draft
	Clashes  []string     // parts that both changed
	CanMerge bool

	Digest     string // of document and tests: what an approval binds to
	Approvals  []ApprovalRow
	Voided     int
	Needed     []NeededRow
	CanApprove bool   // somebody else's draft, and the role allows it
	WhyNot     string // why the reader may not approve
	Approved   bool   // by the reader
	Comments   []CommentRow
	ForApprove *form.Form // note
	ForComment *form.Form // text

	Confirmations []ConfirmationRow
	Schedule      *ScheduleRow
	Replicas      int
	Zones         []string
	Rollout       *RolloutRow // a canary that runs and must end first
	Form          *form.Form  // note, strategy …
}

// CheckRow is one line of the checklist.
type CheckRow struct {
	Tone, Word, Text string // tone is ok, warn, bad or ""
	URL, Link        string
}

// RiskGroup is the changes of one risk.
type RiskGroup struct {
	Risk, Title, Remark string
	Rows                []ChangeImpact
	More                int // further ones that are not listed
}

// ChangeImpact is a change with whom it concerns.
type ChangeImpact struct {
	ui.DiffRow
	Impact string // "212 tenants, 41 000 requests a day"; "" for nobody in particular
	Source string // where those numbers are from
}

// ApprovalRow is someone's word for this content.
type ApprovalRow struct {
	Who, Note string
	At        time.Time
}

// NeededRow is what is still lacking.
type NeededRow struct{ Text, Why string }

// CommentRow is one remark.
type CommentRow struct {
	Who, Text string
	At        time.Time
}

// ConfirmationRow is something that a publisher has to tick or type.
type ConfirmationRow struct{ Code, Text, Word string }

// ScheduleRow is a publication to come.
type ScheduleRow struct {
	At        time.Time
	By, Note  string
	Suspended string
}

// due says that it is to come, or that its time went by while it was suspended.
func (r ScheduleRow) due(now time.Time) string {
	if r.At.Before(now) {
		return "Was to be published"
	}
	return "To be published"
}

// RolloutRow is a canary in a few words.
type RolloutRow struct {
	URL  string
	Text string
}

func (p DraftReviewProps) stale() bool { return p.Head.stale() }

// may reports whether the button that publishes is of any use.
func (p DraftReviewProps) may() bool { return p.Blocked == "" }

// forcible reports whether break-glass would help: only what rules ask for may
// be gone without.
func (p DraftReviewProps) forcible() bool {
	return p.Readable && p.Head.ProblemCount == 0 && !p.stale() && len(p.Needed) > 0
}

func (p DraftReviewProps) act(name string) string { return ui.DraftURL(p.Head.ID) + "/" + name }

// mergeEffect says what taking a draft onto the newest version does.
func (p DraftReviewProps) mergeEffect() string {
	if len(p.Clashes) == 0 {
		return "keeps theirs and puts yours on top; no part was changed by both"
	}
	return "keeps theirs and puts yours on top; both changed " + strings.Join(p.Clashes, ", ") + ": there, yours counts"
}

func (p DraftReviewProps) strategies() []ui.Option {
	o := []ui.Option{{Value: "all", Label: "all gateways at once"}, {Value: "count", Label: "some gateways first (canary)"}}
	if len(p.Zones) > 0 {
		o = append(o, ui.Option{Value: "zone", Label: "the gateways of a zone first (canary)"})
	}
	return o
}

func (p DraftReviewProps) zones() []ui.Option {
	var o []ui.Option
	for _, z := range p.Zones {
		o = append(o, ui.Option{Value: z, Label: z})
	}
	return o
}

func holdOptions() []ui.Option {
	return []ui.Option{{Value: "1m", Label: "1 minute"}, {Value: "5m", Label: "5 minutes"}, {Value: "15m", Label: "15 minutes"}, {Value: "1h", Label: "1 hour"}, {Value: "24h", Label: "24 hours"}}
}

func riseOptions() []ui.Option {
	return []ui.Option{{Value: "1", Label: "1 point"}, {Value: "2", Label: "2 points"}, {Value: "5", Label: "5 points"}, {Value: "10", Label: "10 points"}, {Value: "25", Label: "25 points"}}
}

func afterOptions() []ui.Option {
	return []ui.Option{{Value: "yes", Label: "promote it by itself"}, {Value: "no", Label: "wait for a person"}}
}

func (p DraftReviewProps) field(name, label, hint string) ui.FieldProps {
	return ui.FieldProps{Name: name, Label: label, Hint: hint, Value: p.Form.Raw(name), Error: p.Form.Error(name), Plain: true}
}

func (p DraftReviewProps) choose(name, label string, options []ui.Option) ui.SelectProps {
	return ui.SelectProps{Name: name, Label: label, Value: p.Form.Raw(name), Error: p.Form.Error(name), Options: options}
}

// isCanary reports whether the canary's fields are unfolded.
func (p DraftReviewProps) isCanary() bool {
	return p.Form.Raw("strategy") == "count" || p.Form.Raw("strategy") == "zone"
}

func riskTone(risk string) string {
	switch risk {
	case "high":
		return "bad"
	case "medium":
		return "warn"
	}
	return "ok"
}
