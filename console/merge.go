package console

import (
	"context"

	"github.com/headgate/headgate/policy"
)

// MergeDraft puts what was published since the draft's base into the draft and
// bases it on the version in force. Where both changed the same thing the
// draft's stays and the place is among the clashes. A draft that cannot be read
// as a document is CodeInvalid.
func (s *Policies) MergeDraft(ctx context.Context, actor Actor, id, etag string) (Draft, []string, error) {
	if err := actor.need(PermEditDrafts); err != nil {
		return Draft{}, nil, err
	}
	d, err := s.GetDraft(ctx, id)
	if err != nil {
		return Draft{}, nil, err
	}
	if d.ETag != etag {
		return Draft{}, nil, staleDraft(d)
	}
	mine, report, err := s.parse(ctx, []byte(d.Source))
	if err != nil {
		return Draft{}, nil, err
	}
	if mine == nil {
		return Draft{}, nil, invalidDocument(report)
	}
	base, head, err := s.basesOf(ctx, d)
	if err != nil {
		return Draft{}, nil, err
	}
	if head.Number == d.Base {
		return d, nil, nil
	}
	m, err := mergeDraft(mine, d, base, head)
	if err != nil {
		return Draft{}, nil, err
	}
	out, err := s.changeDraft(ctx, actor, id, etag, draftChange{action: "draft.merge", writes: true, fn: func(_ Tx, d *Draft) error {
		d.Source, d.Tests, d.Base = m.source, m.tests, head.Number
		return nil
	}})
	return out, m.clashes, err
}

// basesOf reads what a draft was made from and what is in force; either is the
// zero Version when there is none.
func (s *Policies) basesOf(ctx context.Context, d Draft) (base, head Version, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) (err error) {
		if head, err = tx.Head(ctx); err != nil && !IsNotFound(err) {
			return err
		}
		if d.Base == head.Number {
			base = head
		} else if d.Base > 0 {
			base, err = tx.Version(ctx, d.Base)
			return err
		}
		return nil
	})
	return base, head, err
}

type mergedDraft struct {
	source, tests string
	clashes       []string
}

func mergeDraft(mine *policy.Document, d Draft, base, head Version) (out mergedDraft, err error) {
	theirs, err := head.documentOrNil()
	if err != nil {
		return out, err
	}
	before, err := base.documentOrNil()
	if err != nil {
		return out, err
	}
	doc, clashes := policy.Merge(before, mine, theirs)
	out = mergedDraft{source: string(doc.YAML()), tests: d.Tests, clashes: clashes}
	switch {
	case d.Tests == base.Tests:
		out.tests = head.Tests
	case head.Tests != base.Tests && head.Tests != d.Tests:
		out.clashes = append(out.clashes, "tests")
	}
	return out, nil
}
