package console

import (
	"context"
	"slices"

	"github.com/headgate/headgate/policy"
)

// maxWaiting is how many drafts are looked at for approvals that they lack.
const maxWaiting = 50

// Waiting is a draft that others have to approve.
type Waiting struct {
	Draft  Draft // without source and tests
	Needed []Needed
	Mine   bool // the actor may not approve it: they wrote in it
}

// Waiting lists drafts on the version in force, without problems, that lack
// approvals, the last changed first; of the 50 that were changed last. Tests are
// not run for it: a rule for failing tests counts where they ran of late.
func (s *Policies) Waiting(ctx context.Context, actor Actor) ([]Waiting, error) {
	if err := actor.need(PermView); err != nil {
		return nil, err
	}
	rules, err := s.ApprovalRules(ctx)
	if err != nil || len(rules) == 0 {
		return nil, err
	}
	drafts, err := s.ListDrafts(ctx)
	if err != nil {
		return nil, err
	}
	head, err := s.headNumber(ctx)
	if err != nil {
		return nil, err
	}
	var out []Waiting
	for _, d := range drafts[:min(len(drafts), maxWaiting)] {
		if d.Base != head {
			continue // to be merged first
		}
		needed, writers, err := s.lacks(ctx, d, head, rules)
		if IsNotFound(err) {
			continue // published or deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		if len(needed) > 0 {
			out = append(out, Waiting{Draft: d, Needed: needed, Mine: slices.Contains(writers, actor.ID)})
		}
	}
	return out, nil
}

// lacks is what approvals a draft on the version in force lacks, and who wrote it.
func (s *Policies) lacks(ctx context.Context, d Draft, head int64, rules []ApprovalRule) ([]Needed, []string, error) {
	c := s.cores.get(coreKey{d.ID, d.ETag, head}, s.d.Now())
	if c == nil {
		whole, err := s.GetDraft(ctx, d.ID)
		if err != nil {
			return nil, nil, err
		}
		if c, err = s.core(ctx, whole); err != nil {
			return nil, nil, err
		}
	}
	report := policy.Report{Problems: slices.Clone(c.report.Problems)}
	r := Readiness{Draft: d, Head: Version{Number: head}, Changes: rated(c.changes)}
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		if c.doc == nil {
			return nil
		}
		if err := addMissingPlans(ctx, tx, c.doc, &report); err != nil || !report.OK() {
			return err
		}
		return r.approvals(ctx, tx, rules, c)
	})
	return r.Needed, r.Writers, err
}

// headNumber is the number of the version in force, 0 before the first.
func (s *Policies) headNumber(ctx context.Context) (n int64, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		n, _, err = tx.HeadNumber(ctx)
		return err
	})
	if IsNotFound(err) {
		return 0, nil
	}
	return n, err
}
