package console

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// gate is a publication that has no problems, before what rules, tests and
// caution ask of it.
type gate struct {
	p       publication
	pre     prepared
	head    Version
	before  *policy.Document
	running *Rollout // that the publication ends
	actor   Actor
	changes []RatedChange
	asked   []Confirmation
}

// pass lets a publication through, or says what it lacks, and returns what it
// rests on. It runs under the head's lock: what it reads holds until the commit.
func (s *Policies) pass(ctx context.Context, tx Tx, g gate) (Proof, error) {
	proof := Proof{Digest: g.pre.digest, Tests: boundedResults(g.pre.results), Draft: g.p.draft.ID, DraftName: g.p.draft.Name}
	if g.p.scheduled != nil {
		proof.Scheduled = &g.p.scheduled.At
	}
	rules, err := approvalRules(ctx, tx)
	if err != nil {
		return proof, err
	}
	have, err := s.approvalsFor(ctx, tx, g)
	if err != nil {
		return proof, err
	}
	proof.Approvals = have
	facts := ruleFacts{changes: g.changes, before: g.before, after: g.pre.doc, tests: g.pre.tests != g.head.Tests}
	facts.failing = g.p.rollbackOf == 0 && failing(g.pre.results) > 0 // the version was in force before
	missing, excused := facts.needed(rules, len(have))
	blocked := facts.failing && !excused
	if g.p.o.BreakGlass == nil {
		if len(missing) > 0 {
			return proof, approvalRequired(missing)
		}
		if blocked {
			return proof, failedTests(g.pre.results)
		}
	} else if len(missing) > 0 || blocked || g.running != nil || g.pre.behind != "" {
		proof.BreakGlass, proof.Missing = g.p.o.BreakGlass.Reason, missing
	}
	asked := g.asked
	if g.p.rollbackOf > 0 {
		asked, _ = typed(asked)
	} else if g.p.o.ConfirmTypedOnly {
		asked, proof.Unconfirmed = typed(asked)
	}
	if err := confirmed(asked, g.p.o.Confirmed); err != nil {
		return proof, err
	}
	proof.Confirmed = asked
	if g.pre.behind != "" && g.p.o.BreakGlass == nil {
		proof.Unconfirmed = append(proof.Unconfirmed, Confirmation{Code: ConfirmBehind, Text: g.pre.behind})
	}
	if g.p.draft.ID != "" {
		t, err := tx.NewestTrial(ctx, g.p.draft.ID, policy.DigestOf(g.pre.body))
		if err != nil && !IsNotFound(err) {
			return proof, err
		}
		if t.State == TrialDone && t.Against == g.head.Number { // another one says nothing of this publication
			proof.Trial = t.ID
		}
	}
	return proof, nil
}

// approvalsFor are the approvals that hold for a publication: by others, of
// exactly this content on exactly this base.
func (s *Policies) approvalsFor(ctx context.Context, tx Tx, g gate) ([]Approval, error) {
	if g.p.draft.ID == "" {
		all, err := tx.ApprovalsOf(ctx, g.pre.digest, g.head.Number)
		if err != nil {
			return nil, err
		}
		return holding(ctx, tx, all, contentOf{g.pre.digest, g.head.Number}, []string{g.actor.ID})
	}
	all, err := tx.Approvals(ctx, g.p.draft.ID)
	if err != nil {
		return nil, err
	}
	writers, err := writersOf(ctx, tx, g.p.draft)
	if err != nil {
		return nil, err
	}
	return holding(ctx, tx, all, contentOf{g.pre.digest, g.head.Number}, writers)
}

func approvalRequired(missing []Needed) error {
	fields := make([]FieldError, len(missing))
	for i, n := range missing {
		fields[i] = FieldError{Field: "approvals", Message: n.Text()}
	}
	return &Error{Code: CodeApproval, Public: "Others have to approve this first.", Fields: fields, Detail: missing}
}

// Text says what lacks, in one sentence.
func (n Needed) Text() string {
	return fmt.Sprintf("%s needs %s by others, and has %d.", n.Why, counted(n.Rule.Approvals, "approval"), n.Have)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func failing(results []scenario.Result) int {
	n := 0
	for _, r := range results {
		if !r.Passed {
			n++
		}
	}
	return n
}

func failedTests(results []scenario.Result) error {
	var fields []FieldError
	for _, r := range results {
		if !r.Passed {
			fields = append(fields, FieldError{Field: "tests", Message: r.Name + ": " + r.Detail})
		}
	}
	public := fmt.Sprintf("%s of %d failed.", counted(len(fields), "test"), len(results))
	return &Error{Code: CodeInvalid, Public: public, Fields: fields[:min(len(fields), 50)], Detail: results}
}

// boundedResults leaves the steps of tests out when there are very many.
func boundedResults(results []scenario.Result) []scenario.Result {
	steps := 0
	for _, r := range results {
		steps += len(r.Steps)
	}
	if steps <= 5000 {
		return results
	}
	out := slices.Clone(results)
	for i := range out {
		out[i].Steps = nil
	}
	return out
}

// typed parts confirmations that have to be typed from those to tick.
func typed(in []Confirmation) (words, ticks []Confirmation) {
	for _, c := range in {
		if c.Word != "" {
			words = append(words, c)
		} else {
			ticks = append(ticks, c)
		}
	}
	return words, ticks
}

// confirmed says which confirmations lack. A word has to be typed as it is told.
func confirmed(asked []Confirmation, given map[string]string) error {
	var fields []FieldError
	var missing []Confirmation
	for _, c := range asked {
		word := strings.TrimSpace(given[c.Code])
		if word != "" && (c.Word == "" || word == c.Word) {
			continue
		}
		text := c.Text
		if c.Word != "" {
			text += fmt.Sprintf(" Type %q.", c.Word)
		}
		fields, missing = append(fields, FieldError{Field: "confirm." + c.Code, Message: text}), append(missing, c)
	}
	if len(missing) == 0 {
		return nil
	}
	return &Error{Code: CodeInvalid, Public: "Please confirm that this is meant.", Fields: fields, Detail: missing}
}
