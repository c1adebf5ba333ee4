package console

import (
	"context"
	"fmt"
	"time"
)

// gapIgnored is how long a gap in what is known may be that a key counts as unused
// all the same: a gateway that is killed never tells its last seconds.
const gapIgnored = time.Minute

// gather adds the next keys or tenants that a selection asks for.
func (s *Bulk) gather(ctx context.Context, r BulkRecord) (more bool, err error) {
	created := s.unusedBefore(r)
	var found []BulkCandidate
	next := ""
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		found, next, err = tx.BulkCandidates(ctx, r.Kind, r.Selection, r.Gathered, created, gatherStep)
		return err
	})
	if err != nil {
		return false, err
	}
	rows, err := s.selected(ctx, r, found)
	if err != nil {
		return false, err
	}
	for i := range rows {
		rows[i].Line = r.Total + int64(i) + 1
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		now, err := tx.LockBulk(ctx, r.ID)
		if err != nil || !s.mine(now) || now.Gathered != r.Gathered || now.Loaded {
			more = false
			return err
		}
		if err := tx.PutBulkInput(ctx, now.Num, rows); err != nil {
			return err
		}
		now.Total += int64(len(rows))
		now.Gathered, now.Loaded = next, next == ""
		s.renew(&now)
		more = true
		return tx.UpdateBulk(ctx, now)
	})
	return more, err
}

// unusedBefore is since when a key must not have been used; nil for other kinds.
func (s *Bulk) unusedBefore(r BulkRecord) *time.Time {
	if r.Kind != BulkRevokeUnused {
		return nil
	}
	at := s.d.now().AddDate(0, 0, -r.Selection.UnusedDays)
	return &at
}

// selected makes rows of candidates; of keys to revoke only those that nobody used.
func (s *Bulk) selected(ctx context.Context, r BulkRecord, found []BulkCandidate) ([]BulkInput, error) {
	var uses map[string]KeyUse
	cutoff := s.unusedBefore(r)
	if cutoff != nil {
		kids := make([]string, len(found))
		for i, f := range found {
			kids[i] = f.ID
		}
		var err error
		if uses, err = s.uses(ctx, kids, *cutoff); err != nil {
			return nil, err
		}
	}
	rows := make([]BulkInput, 0, len(found))
	for _, f := range found {
		row := BulkInput{Subject: f.ID, ObjectID: f.Credential, Tenant: f.Tenant, Name: f.Name, Plan: f.Plan}
		switch r.Kind {
		case BulkChangePlan:
			row.ObjectID, row.Note = f.ID, fmt.Sprintf("%s: %s → %s", f.Name, f.Plan, r.Selection.ToPlan)
		case BulkSuspend:
			row.ObjectID, row.Note = f.ID, f.Name+": suspended, all of its calls are refused"
		case BulkResume:
			row.ObjectID, row.Note = f.ID, f.Name+": resumed"
		case BulkSetExpiry:
			row.Note = fmt.Sprintf("%s of %s: expires %s", f.Name, f.Tenant, r.Selection.ExpiresAt.Format(time.RFC3339))
		default:
			if usedAfter(uses[f.ID], *cutoff) {
				continue
			}
			row.Note = fmt.Sprintf("%s of %s: %s", f.Name, f.Tenant, lastUse(uses[f.ID]))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func usedAfter(u KeyUse, cutoff time.Time) bool {
	return u.LastUsedAt != nil && u.LastUsedAt.After(cutoff)
}

func lastUse(u KeyUse) string {
	if u.LastUsedAt == nil {
		return "never used"
	}
	return "last used " + u.LastUsedAt.UTC().Format(time.RFC3339)
}

// uses asks who used keys. That nothing was heard of a key counts as unused only
// when every gateway has told what it saw, and for long enough: otherwise the job waits.
func (s *Bulk) uses(ctx context.Context, kids []string, cutoff time.Time) (map[string]KeyUse, error) {
	if s.d.KeyUse == nil {
		return nil, errWaits{"Nobody knows which keys are used: this console does not collect it."}
	}
	out, age, err := s.d.KeyUse.Uses(ctx, kids)
	if err != nil {
		return nil, err
	}
	switch {
	case age.Since.IsZero() || age.Since.After(cutoff):
		return nil, errWaits{"The use of keys is known since " + sinceText(age.Since) + "; that is not long enough to tell which were not used."}
	case age.Behind:
		return nil, errWaits{"What is known of the use of keys is behind (" + throughText(age) + "); the job goes on when it has caught up."}
	}
	for _, gap := range []*UseGap{age.Longest, age.Missing} { // a short one after it hides no long one
		if gap != nil && gap.To.After(cutoff) && gap.To.Sub(gap.From) > gapIgnored {
			return nil, errWaits{fmt.Sprintf("What %s saw from %s to %s was lost; nobody can tell which keys were used then.", gap.Replica,
				gap.From.UTC().Format(time.RFC3339), gap.To.UTC().Format(time.RFC3339))}
		}
	}
	return out, nil
}

func sinceText(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

func throughText(a UseAge) string {
	if a.Through.IsZero() {
		return "nothing has come in yet"
	}
	return "it tells what was seen up to " + a.Through.UTC().Format(time.RFC3339)
}

// usedSince lists rows of a span that are to be revoked as unused, and were used
// after all since they were gathered.
func (s *Bulk) usedSince(ctx context.Context, r BulkRecord, span BulkSpan) ([]BulkMark, error) {
	cutoff := s.unusedBefore(r)
	if cutoff == nil {
		return nil, nil
	}
	var rows []BulkRow
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		rows, err = tx.BulkSubjects(ctx, span, r.State == BulkChecking) // a new check looks at all of them
		return err
	})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	kids := make([]string, len(rows))
	for i, row := range rows {
		kids[i] = row.Subject
	}
	uses, err := s.uses(ctx, kids, *cutoff)
	if err != nil {
		return nil, err
	}
	outcome := RowWouldSkip
	if r.State == BulkRunning {
		outcome = RowFailed
	}
	var marks []BulkMark
	for _, row := range rows {
		if u := uses[row.Subject]; usedAfter(u, *cutoff) {
			marks = append(marks, BulkMark{Line: row.Line, Outcome: outcome, Message: "It stays: it was used again, " + lastUse(u) + "."})
		}
	}
	return marks, nil
}

// markUsed writes the marks of rows that were used after all.
func (s *Bulk) markUsed(ctx context.Context, tx Tx, span BulkSpan, used []BulkMark) error {
	if len(used) == 0 {
		return nil
	}
	return tx.PutBulkMarks(ctx, span.Job, used)
}
