package console

import (
	"context"
	"strconv"
)

// Reviews lists publications by break-glass, those that nobody has looked at
// first, then the newest; at most 500.
func (s *Policies) Reviews(ctx context.Context, openOnly bool) (out []Review, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Reviews(ctx, openOnly, 500)
		return err
	})
	return out, err
}

// OpenReviews counts those that nobody has looked at.
func (s *Policies) OpenReviews(ctx context.Context) (n int64, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		n, err = tx.CountOpenReviews(ctx)
		return err
	})
	return n, err
}

// CloseReview says that somebody other than its author has looked at a
// publication by break-glass.
func (s *Policies) CloseReview(ctx context.Context, actor Actor, version int64, note string) error {
	if err := actor.need(PermApprove); err != nil {
		return err
	}
	var p problems
	note = p.text("note", note, maxNote, true)
	if err := p.err(); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		r, err := tx.LockReview(ctx, version)
		switch {
		case err != nil:
			return err
		case r.ClosedAt != nil:
			return conflict("The review is closed already, by " + r.ClosedBy + ".")
		case actor.ID == "" || r.AuthorID == actor.ID:
			return &Error{Code: CodeForbidden, Public: "Somebody other than the author has to look at it."}
		}
		now := s.d.now()
		r.ClosedBy, r.ClosedAt, r.Note = actor.Name, &now, note
		if err := tx.CloseReview(ctx, r, actor.ID); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "review.close", object: "policy", objectID: strconv.FormatInt(version, 10), reason: note, after: reviewView{actor.Name, note},
		})
	})
}
