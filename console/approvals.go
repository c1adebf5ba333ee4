package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/policy"
)

const (
	maxComments  = 500
	maxRules     = 50
	maxOnly      = 100
	maxApprovals = 3
	rulesSetting = "approval-rules"
)

// contentDigest is what an approval binds to: a document's digest and its tests.
func contentDigest(document, tests string) string {
	return policy.DigestOf([]byte("headgate-change/v1\n" + document + "\n" + policy.DigestOf([]byte(tests))))
}

// contentOf is a content on a base.
type contentOf struct {
	digest string
	base   int64
}

// Comment adds a remark to a draft. It voids nothing.
func (s *Policies) Comment(ctx context.Context, actor Actor, draft, text string) (Comment, error) {
	if err := firstAllowed(actor, PermEditDrafts, PermApprove); err != nil {
		return Comment{}, err
	}
	var p problems
	c := Comment{Draft: draft, Author: actor.Name, Text: p.text("comment", text, maxNote, true)}
	err := p.err()
	if err != nil {
		return Comment{}, err
	}
	if c.ID, err = s.d.newID("cmt"); err != nil {
		return Comment{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		d, err := tx.LockDraft(ctx, draft)
		if err != nil {
			return err
		}
		have, err := tx.Comments(ctx, draft, maxComments)
		if err != nil {
			return err
		}
		if len(have) >= maxComments {
			return conflict(fmt.Sprintf("A draft holds at most %d comments.", maxComments))
		}
		c.At = s.d.now()
		if err := tx.InsertComment(ctx, c, actor.ID); err != nil {
			return err
		}
		return s.d.recordDraft(ctx, tx, actor, d, c.At, event{action: "draft.comment", object: "draft", objectID: draft, after: commentView{c.ID, c.Text}})
	})
	return c, err
}

// Comments lists a draft's comments, the oldest first; also of a draft that was
// published.
func (s *Policies) Comments(ctx context.Context, draft string) (out []Comment, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Comments(ctx, draft, maxComments)
		return err
	})
	return out, err
}

// firstAllowed refuses an actor who has none of the permissions.
func firstAllowed(actor Actor, perms ...Permission) (err error) {
	for _, p := range perms {
		if err = actor.need(p); err == nil {
			return nil
		}
	}
	return err
}

// Approve gives the actor's word for the content of a draft that has digest
// (Readiness.Digest) on its base. It is refused for the draft's author and for
// whoever wrote in it; CodeConflict when the content is another one by now.
func (s *Policies) Approve(ctx context.Context, actor Actor, draft, digest, note string) (Approval, error) {
	if err := actor.need(PermApprove); err != nil {
		return Approval{}, err
	}
	if actor.ID == "" {
		return Approval{}, &Error{Code: CodeForbidden, Public: "Only an operator can approve."}
	}
	var p problems
	a := Approval{ActorID: actor.ID, Actor: actor.Name, Digest: digest, Note: p.text("note", note, maxNote, false)}
	if err := p.err(); err != nil {
		return Approval{}, err
	}
	etag, err := s.approvable(ctx, draft, digest)
	if err != nil {
		return Approval{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		d, err := tx.LockDraft(ctx, draft)
		if err != nil {
			return err
		}
		if d.ETag != etag {
			return otherContent()
		}
		head, _, err := tx.HeadNumber(ctx)
		if err != nil && !IsNotFound(err) {
			return err
		}
		if d.Base != head {
			return conflict(fmt.Sprintf("The draft is based on v%d, and v%d is in force now: it has to be merged first.", d.Base, head))
		}
		writers, err := writersOf(ctx, tx, d)
		if err != nil {
			return err
		}
		if slices.Contains(writers, actor.ID) {
			return &Error{Code: CodeForbidden, Public: "Nobody approves what they wrote themselves: somebody else has to."}
		}
		a.Base, a.At = d.Base, s.d.now()
		if err := tx.PutApproval(ctx, draft, a); err != nil {
			return err
		}
		return s.d.recordDraft(ctx, tx, actor, d, a.At, event{
			action: "draft.approve", object: "draft", objectID: draft, after: approvalView{a.Digest, a.Base}, reason: a.Note,
		})
	})
	return a, err
}

// approvable checks that a draft has the content that is approved, and returns
// its etag.
func (s *Policies) approvable(ctx context.Context, draft, digest string) (etag string, err error) {
	d, err := s.GetDraft(ctx, draft)
	if err != nil {
		return "", err
	}
	c, err := s.core(ctx, d)
	if err != nil {
		return "", err
	}
	switch {
	case c.doc == nil || !c.report.OK():
		return "", invalidDocument(c.report)
	case c.digest != digest:
		return "", otherContent()
	}
	return d.ETag, nil
}

func otherContent() error {
	return conflict("The draft has another content by now: look at it again before you approve it.")
}

// writersOf are the ids of a draft's author and of everybody who wrote in it.
func writersOf(ctx context.Context, tx Tx, d Draft) ([]string, error) {
	writers, err := tx.Writers(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	out := []string{d.AuthorID}
	for _, w := range writers {
		out = append(out, w.Actor.ID)
	}
	return out, nil
}

// Withdraw takes the actor's approval of a draft back.
func (s *Policies) Withdraw(ctx context.Context, actor Actor, draft string) error {
	if err := actor.need(PermApprove); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		d, err := tx.LockDraft(ctx, draft)
		if err != nil {
			return err
		}
		if ok, err := tx.DeleteApproval(ctx, draft, actor.ID); err != nil || !ok {
			return firstError(err, notFound("approval"))
		}
		return s.d.recordDraft(ctx, tx, actor, d, s.d.now(), event{action: "draft.withdraw-approval", object: "draft", objectID: draft})
	})
}

// holding are the approvals that still count: of exactly this content on this
// base, by somebody other than who wrote it, who may approve now.
func holding(ctx context.Context, tx Tx, all []Approval, c contentOf, writers []string) ([]Approval, error) {
	var out []Approval
	seen := map[string]bool{}
	for _, a := range all {
		if a.Digest != c.digest || a.Base != c.base || slices.Contains(writers, a.ActorID) || seen[a.ActorID] {
			continue
		}
		o, err := tx.Operator(ctx, a.ActorID)
		if err != nil && !IsNotFound(err) {
			return nil, err
		}
		if err != nil || o.DisabledAt != nil || !o.Role.Can(PermApprove) {
			continue
		}
		seen[a.ActorID] = true
		out = append(out, a)
	}
	return out, nil
}

// ApprovalRules lists the rules in force; none at first.
func (s *Policies) ApprovalRules(ctx context.Context) (out []ApprovalRule, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = approvalRules(ctx, tx)
		return err
	})
	return out, err
}

func approvalRules(ctx context.Context, tx Tx) ([]ApprovalRule, error) {
	b, err := tx.Setting(ctx, rulesSetting)
	if IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rules []ApprovalRule
	if err := json.Unmarshal(b, &rules); err != nil {
		return nil, fmt.Errorf("decode approval rules: %w", err)
	}
	return rules, nil
}

// SetApprovalRules replaces the rules, for whatever is published from then on.
func (s *Policies) SetApprovalRules(ctx context.Context, actor Actor, rules []ApprovalRule) error {
	if err := actor.need(PermManageRules); err != nil {
		return err
	}
	rules, err := checkRules(rules)
	if err != nil {
		return err
	}
	value, err := json.Marshal(rules)
	if err != nil {
		return fmt.Errorf("encode approval rules: %w", err)
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		if _, err := tx.LockHead(ctx); err != nil { // nobody publishes by the old rules after this
			return err
		}
		before, err := approvalRules(ctx, tx)
		if err != nil {
			return err
		}
		now := s.d.now()
		if err := tx.PutSetting(ctx, rulesSetting, value, now); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "settings.approval-rules", object: "settings", objectID: rulesSetting, before: rulesView{before}, after: rulesView{rules},
		})
	})
}

func checkRules(in []ApprovalRule) ([]ApprovalRule, error) {
	var p problems
	if len(in) > maxRules {
		p.add("rules", "At most %d rules.", maxRules)
	}
	out := make([]ApprovalRule, 0, len(in))
	for i, r := range in[:min(len(in), maxRules)] {
		at := func(field string) string { return fmt.Sprintf("rules[%d].%s", i, field) }
		if !slices.Contains(RuleKinds(), r.When) {
			p.add(at("when"), "Choose one of %s.", strings.Join(RuleKinds(), ", "))
		}
		if r.Approvals < 1 || r.Approvals > maxApprovals {
			p.add(at("approvals"), "A whole number from 1 to %d.", maxApprovals)
		}
		if len(r.Only) > maxOnly {
			p.add(at("only"), "At most %d names.", maxOnly)
		}
		only := make([]string, 0, len(r.Only))
		for _, name := range r.Only {
			if name = p.text(at("only"), name, maxName, false); name != "" && !slices.Contains(only, name) {
				only = append(only, name)
			}
		}
		if r.When == WhenFailingTests && len(only) > 0 {
			p.add(at("only"), "A rule for failing tests holds for the whole document.")
		}
		out = append(out, ApprovalRule{When: r.When, Only: only, Approvals: r.Approvals})
	}
	return out, p.err()
}
