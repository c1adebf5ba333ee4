package console

import (
	"context"
	"fmt"
	"strconv"

	"github.com/headgate/headgate/policy"
)

// store writes the version, the head or the canary, the outbox row and the event,
// and deletes the draft that it came from.
func (s *Policies) store(ctx context.Context, tx Tx, actor Actor, p publication, pre prepared, head, v Version) error {
	if err := tx.InsertVersion(ctx, v); err != nil {
		return fmt.Errorf("insert version %d: %w", v.Number, err)
	}
	if err := s.send(ctx, tx, actor, pre, v); err != nil {
		return err
	}
	if v.Proof.BreakGlass != "" {
		r := Review{
			Version: v.Number, Author: actor.Name, AuthorID: actor.ID, Reason: v.Proof.BreakGlass, Missing: v.Proof.Missing, At: v.CreatedAt,
		}
		if err := tx.InsertReview(ctx, r); err != nil {
			return fmt.Errorf("insert review of version %d: %w", v.Number, err)
		}
	}
	var untold []Writer
	if p.draft.ID != "" {
		var err error
		if untold, err = tx.Writers(ctx, p.draft.ID); err != nil {
			return err
		}
		if ok, err := tx.DeleteDraft(ctx, p.draft.ID, p.draft.ETag); err != nil || !ok {
			return firstError(err, staleDraft(p.draft))
		}
	}
	if err := s.d.tell(ctx, tx, untold, p.draft, v.CreatedAt); err != nil {
		return err
	}
	ev := event{
		action: "policy." + string(v.Kind), object: "policy", objectID: strconv.FormatInt(v.Number, 10), changes: PlainChanges(v.Changes),
		reason: v.Note, after: viewPublication(v, pre),
	}
	if head.Number > 0 {
		ev.before = versionView{Number: head.Number, Digest: head.Digest}
	}
	return s.d.record(ctx, tx, actor, v.CreatedAt, ev)
}

// send gives a version that is stored to all gateways, or to the canary's.
func (s *Policies) send(ctx context.Context, tx Tx, actor Actor, pre prepared, v Version) error {
	if pre.canary != nil {
		return s.d.beginRollout(ctx, tx, actor, v, *pre.canary)
	}
	if err := tx.SetHead(ctx, v.Number, v.CreatedAt); err != nil {
		return fmt.Errorf("set head to %d: %w", v.Number, err)
	}
	reason := fmt.Sprintf("v%d was published to all gateways", v.Number)
	if v.Kind == KindRollback {
		reason = fmt.Sprintf("rolled back to v%d", v.RollbackOf)
	}
	if err := s.d.endRollout(ctx, tx, actor, v, reason); err != nil {
		return err
	}
	if _, err := tx.InsertOutbox(ctx, OutboxPolicy, strconv.FormatInt(v.Number, 10), v.CreatedAt); err != nil {
		return fmt.Errorf("insert outbox row of version %d: %w", v.Number, err)
	}
	return nil
}

// lockHead locks the head and returns its version and what read makes of it; zero
// and nil when there is none.
func lockHead(ctx context.Context, tx Tx, read func(Version) (*policy.Document, error)) (Version, *policy.Document, error) {
	number, err := tx.LockHead(ctx)
	if err != nil || number == 0 {
		return Version{}, nil, err
	}
	v, err := tx.Version(ctx, number)
	if err != nil {
		return Version{}, nil, err
	}
	doc, err := read(v)
	return v, doc, err
}

func staleBase(ctx context.Context, tx Tx, base int64, head Version, headDoc *policy.Document) error {
	detail := StaleBase{Base: base, Head: head.Number}
	if baseDoc, err := documentOf(ctx, tx, base); err == nil {
		detail.Changes = policy.Diff(baseDoc, headDoc)
	}
	text := fmt.Sprintf("This is based on v%d, and v%d is in force now.", base, head.Number)
	if base > head.Number {
		text = fmt.Sprintf("There is no v%d; v%d is in force.", base, head.Number)
	}
	return &Error{Code: CodeConflict, Public: text, Detail: detail}
}

func invalidDocument(r policy.Report) error {
	fields := make([]FieldError, len(r.Problems))
	for i, p := range r.Problems {
		fields[i] = FieldError{Field: p.Path, Message: p.Message}
	}
	return &Error{Code: CodeInvalid, Public: "The policy has problems.", Fields: fields, Detail: r}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
