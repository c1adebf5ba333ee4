package console

import (
	"context"
	"slices"

	"github.com/headgate/headgate/policy"
)

// Ready says everything that a reviewer of a draft wants to know. What is dear
// to compute is remembered until the draft or the version in force changes, for
// a minute at most.
func (s *Policies) Ready(ctx context.Context, actor Actor, id string) (Readiness, error) {
	if err := actor.need(PermView); err != nil {
		return Readiness{}, err
	}
	var r Readiness
	var base Version
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		r.Draft, err = tx.Draft(ctx, id)
		return err
	})
	if err != nil {
		return Readiness{}, err
	}
	base, r.Head, err = s.basesOf(ctx, r.Draft)
	if err != nil && !IsNotFound(err) {
		return Readiness{}, err
	}
	c, err := s.coreOn(ctx, r.Draft, base, r.Head, true)
	if err != nil {
		return Readiness{}, err
	}
	r.fill(c)
	err = s.d.Store.Read(ctx, func(tx Tx) error { return s.readyIn(ctx, tx, &r, c) })
	return r, err
}

// fill takes what was computed.
func (r *Readiness) fill(c *core) {
	r.Digest, r.Mine, r.Theirs, r.Clashes = c.digest, c.mine, c.theirs, c.clashes
	r.Report = policy.Report{Problems: slices.Clone(c.report.Problems), Warnings: slices.Clone(c.report.Warnings)}
	r.Tests, r.TestProblems, r.TestsSlow = c.results, c.suite, c.slow
	r.TestsChanged = r.Draft.Tests != r.Head.Tests
	if c.untested != nil {
		r.TestsUnknown = publicText(c.untested)
	}
}

// publicText is what of an error may be shown.
func publicText(err error) string {
	if e := (*Error)(nil); CodeOf(err) != CodeInternal && asError(err, &e) {
		return e.Public
	}
	return "The tests could not be run."
}

// readyIn reads what may change without the draft.
func (s *Policies) readyIn(ctx context.Context, tx Tx, r *Readiness, c *core) (err error) {
	if r.Rollout, err = runningRollout(ctx, tx); err != nil {
		return err
	}
	if r.Comments, err = tx.Comments(ctx, r.Draft.ID, maxComments); err != nil {
		return err
	}
	if r.Schedule, err = scheduleIn(ctx, tx, r.Draft, r.Head.Number); err != nil {
		return err
	}
	if c.doc == nil {
		return nil
	}
	if err := addMissingPlans(ctx, tx, c.doc, &r.Report); err != nil {
		return err
	}
	if err := addIdleOverrides(ctx, tx, c.doc, s.d.now(), &r.Report); err != nil {
		return err
	}
	d := s.demandNow()
	plans, err := readPlans(ctx, tx, d)
	if err != nil {
		return err
	}
	r.Changes = rate(c.changes, c.before, c.doc, plans, d)
	r.Confirmations = c.asked.confirmations(c.before, c.doc, plans, d)
	if err := s.readyApprovals(ctx, tx, r, c); err != nil {
		return err
	}
	t, err := tx.NewestTrial(ctx, r.Draft.ID, c.document)
	if IsNotFound(err) {
		return nil
	}
	t = s.asOfNow(t)
	r.Trial = &t
	return err
}

func (s *Policies) readyApprovals(ctx context.Context, tx Tx, r *Readiness, c *core) error {
	rules, err := approvalRules(ctx, tx)
	if err != nil {
		return err
	}
	return r.approvals(ctx, tx, rules, c)
}

// approvals holds a draft against the rules.
func (r *Readiness) approvals(ctx context.Context, tx Tx, rules []ApprovalRule, c *core) error {
	all, err := tx.Approvals(ctx, r.Draft.ID)
	if err != nil {
		return err
	}
	if r.Writers, err = writersOf(ctx, tx, r.Draft); err != nil {
		return err
	}
	if r.Approvals, err = holding(ctx, tx, all, contentOf{c.digest, r.Head.Number}, r.Writers); err != nil {
		return err
	}
	r.Voided = len(all) - len(r.Approvals)
	facts := ruleFacts{changes: r.Changes, before: c.before, after: c.doc, failing: failing(c.results) > 0, tests: c.otherTests}
	r.Needed, r.TestsExcused = facts.needed(rules, len(r.Approvals))
	return nil
}
