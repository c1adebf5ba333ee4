package console

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// saveRun is how long saves of one person on one draft count as one run. A form
// that saves by itself every few seconds would bury everything else in the audit
// trail. So a run is told by its first save, at once, and by one summary: before
// whatever else happens to the draft (another person's save, an approval, its
// publication), with the next save after the run, or a minute after the run at
// the latest. Nothing that rests on a draft's content is told before the content is.
const saveRun = 10 * time.Minute

// recordSave tells a save, or notes that it is to be told. The draft is locked.
func (d Deps) recordSave(ctx context.Context, tx Tx, actor Actor, before, after Draft) error {
	writers, err := tx.Writers(ctx, after.ID)
	if err != nil {
		return err
	}
	inRun := func(w Writer) bool { return w.Actor.ID == actor.ID && after.UpdatedAt.Sub(w.LoggedAt) < saveRun }
	if i := slices.IndexFunc(writers, inRun); i >= 0 {
		return d.noteSave(ctx, tx, actor, before, slices.Delete(writers, i, i+1))
	}
	return d.firstOfRun(ctx, tx, actor, writers, before, after)
}

// firstOfRun tells a save at once, after whatever was not told yet.
func (d Deps) firstOfRun(ctx context.Context, tx Tx, actor Actor, writers []Writer, before, after Draft) error {
	if err := d.tell(ctx, tx, writers, before, after.UpdatedAt); err != nil {
		return err
	}
	if err := tx.PutWriter(ctx, after.ID, actor, after.UpdatedAt); err != nil {
		return err
	}
	return d.record(ctx, tx, actor, after.UpdatedAt, event{
		action: "draft.save", object: "draft", objectID: after.ID, before: viewDraft(before), after: viewDraft(after),
	})
}

func (d Deps) noteSave(ctx context.Context, tx Tx, actor Actor, before Draft, others []Writer) error {
	view, err := json.Marshal(viewDraft(before))
	if err != nil {
		return fmt.Errorf("encode audit view: %w", err)
	}
	if err := tx.AddSave(ctx, before.ID, actor, view); err != nil {
		return err
	}
	return d.tell(ctx, tx, others, before, d.now())
}

// tell appends a summary for each writer with saves that were not told. draft is
// as they left it.
func (d Deps) tell(ctx context.Context, tx Tx, writers []Writer, draft Draft, now time.Time) error {
	for _, w := range writers {
		if w.Untold == 0 {
			continue
		}
		if err := tx.TellSaves(ctx, draft.ID, w.Actor.ID, now); err != nil {
			return err
		}
		after := viewDraft(draft)
		after.Saves = w.Untold
		err := d.record(ctx, tx, w.Actor, now, event{
			action: "draft.save", object: "draft", objectID: draft.ID, before: json.RawMessage(w.Before), after: after,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordDraft appends an event about a draft, after the saves that it rests on.
// draft is as it was before the event, and locked.
func (d Deps) recordDraft(ctx context.Context, tx Tx, actor Actor, draft Draft, now time.Time, ev event) error {
	writers, err := tx.Writers(ctx, draft.ID)
	if err != nil {
		return err
	}
	if err := d.tell(ctx, tx, writers, draft, now); err != nil {
		return err
	}
	return d.record(ctx, tx, actor, now, ev)
}

// tellOldSaves tells runs that are over and after which nothing happened.
func (d Deps) tellOldSaves(ctx context.Context) error {
	var ids []string
	err := d.Store.Read(ctx, func(tx Tx) (err error) {
		ids, err = tx.UntoldDrafts(ctx, d.now().Add(-saveRun), 100)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := d.Store.InTx(ctx, func(tx Tx) error {
			draft, err := tx.LockDraft(ctx, id)
			if err != nil {
				return err
			}
			writers, err := tx.Writers(ctx, id)
			if err != nil {
				return err
			}
			return d.tell(ctx, tx, writers, draft, d.now())
		})
		if err != nil && !IsNotFound(err) {
			return err
		}
	}
	return nil
}
