package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy/apikey"
)

const (
	// uploadBatch is how many rows of an input are stored at once.
	uploadBatch = 2000
	// uploadLease is how long an upload may pause before it is taken for broken off.
	uploadLease = time.Minute
	// maxBulkRows bounds the rows of an input: a line of two bytes is a row, too.
	maxBulkRows  = 2_000_000
	maxUnused    = 3650 // days
	maxSelection = 1000 // rows named one by one
)

// Create stores a job and, of an import, reads its input; workers then check
// it, row by row, and nothing of it is done before Start. An input that cannot
// be read as a whole is CodeInvalid (field "input", with the line), and the job
// that holds what was read until then is failed. A repeated idempotency key
// gives the first job back.
func (s *Bulk) Create(ctx context.Context, actor Actor, in NewBulk) (BulkJob, error) {
	if in.Kind.Needs() == "" {
		return BulkJob{}, invalid(FieldError{Field: "kind", Message: "Choose one of " + kindsText() + "."})
	}
	if err := actor.need(in.Kind.Needs()); err != nil {
		return BulkJob{}, err
	}
	r, err := s.draft(actor, in)
	if err != nil {
		return BulkJob{}, err
	}
	if in.IdempotencyKey != "" {
		if earlier, err := s.earlier(ctx, actor, in); err == nil || !IsNotFound(err) {
			return earlier, err
		}
	}
	if in.Kind.Imports() {
		return s.upload(ctx, actor, in, r)
	}
	if err := s.insert(ctx, actor, &r); err != nil {
		return BulkJob{}, err
	}
	s.wake()
	return r.BulkJob, nil
}

func kindsText() string {
	kinds := BulkKinds()
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}

// draft checks what was asked for, besides the input.
func (s *Bulk) draft(actor Actor, in NewBulk) (BulkRecord, error) {
	var p problems
	now := s.d.now()
	r := BulkRecord{
		BulkJob: BulkJob{
			Kind: in.Kind, State: BulkChecking, Name: p.text("name", in.Name, 200, false), Reason: p.reason(in.Reason),
			Author: actor.Name, AuthorID: actor.ID, RowsKept: true, CreatedAt: now,
		},
		AuthorRole: actor.Role, AuthorVia: actor.Via, IdempotencyKey: in.IdempotencyKey,
	}
	if in.IdempotencyKey != "" && (len(in.IdempotencyKey) > 255 || !printable(in.IdempotencyKey)) {
		p.add("idempotency_key", "Between 1 and 255 printable characters without blanks.")
	}
	if in.Kind.Imports() {
		if in.Input == nil {
			p.add("input", "This must not be empty.")
		}
	} else {
		r.Selection = checkSelection(&p, in.Kind, in.Selection, now)
		if r.Name == "" && len(p) == 0 {
			r.Name = r.Selection.words(in.Kind)
		}
	}
	err := p.err()
	if err == nil {
		r.ID, err = s.d.newID("blk")
	}
	return r, err
}

// checkSelection keeps what counts for the kind and says what is wrong with it.
func checkSelection(p *problems, k BulkKind, in BulkSelection, now time.Time) BulkSelection {
	out := BulkSelection{Tenants: in.Tenants, Plan: strings.TrimSpace(in.Plan), Environment: strings.TrimSpace(in.Environment)}
	if out.Plan != "" && !planName.MatchString(out.Plan) {
		p.add("selection.plan", "A plan's name has lower-case letters, digits and hyphens.")
	}
	if len(in.Tenants) > maxSelection || len(in.KIDs) > maxSelection {
		p.add("selection", "At most %d can be named one by one.", maxSelection)
	}
	for _, id := range in.Tenants {
		if !strings.HasPrefix(id, "ten_") || !printable(id) {
			p.add("selection.tenants", "These must be tenants' ids (ten_…).")
			break
		}
	}
	if k.OfTenants() {
		checkTenantSelection(p, k, in, &out)
		return out
	}
	out.KIDs = in.KIDs
	if slices.ContainsFunc(in.KIDs, func(kid string) bool { return !apikey.ValidKID(kid) }) {
		p.add("selection.kids", "These must be kids: the 12 letters and digits after hg_live_ or hg_test_.")
		out.KIDs = nil // it may be a whole key
	}
	if out.Environment != "" && out.Environment != apikey.Live && out.Environment != apikey.Test {
		p.add("selection.environment", "Choose live or test.")
	}
	checkKeySelection(p, k, in, &out, now)
	return out
}

func checkTenantSelection(p *problems, k BulkKind, in BulkSelection, out *BulkSelection) {
	if out.Environment != "" || len(in.KIDs) > 0 {
		p.add("selection", "This is about tenants, not about keys.")
	}
	switch out.ToPlan = strings.TrimSpace(in.ToPlan); {
	case k == BulkChangePlan && !planName.MatchString(out.ToPlan):
		p.add("selection.to_plan", "Name the plan to change to.")
	case k != BulkChangePlan && out.ToPlan != "":
		p.add("selection.to_plan", "Only a change of plan has one.")
	case k != BulkChangePlan && len(in.Tenants) == 0 && out.Plan == "":
		p.add("selection", "Name tenants or a plan: all tenants at once is never meant.")
	}
}

func checkKeySelection(p *problems, k BulkKind, in BulkSelection, out *BulkSelection, now time.Time) {
	if k == BulkRevokeUnused {
		if out.UnusedDays = in.UnusedDays; in.UnusedDays < 1 || in.UnusedDays > maxUnused {
			p.add("selection.unused_days", "This must be between 1 and %d days.", maxUnused)
		}
		return
	}
	out.Extend = in.Extend
	if in.ExpiresAt == nil {
		p.add("selection.expires_at", "Give a time in the future.")
		return
	}
	at := in.ExpiresAt.UTC().Truncate(time.Microsecond)
	p.future("selection.expires_at", at, now)
	out.ExpiresAt = &at
}

// words says what a selection is about.
func (b BulkSelection) words(k BulkKind) string {
	var of []string
	if n := len(b.KIDs); n > 0 {
		of = append(of, "among "+counted(n, "key"))
	}
	if b.Environment != "" {
		of = append(of, b.Environment)
	}
	if n := len(b.Tenants); n > 0 {
		of = append(of, "of "+counted(n, "tenant"))
	}
	if b.Plan != "" {
		of = append(of, "on the plan "+b.Plan)
	}
	rest := ""
	if len(of) > 0 {
		rest = ", " + strings.Join(of, ", ")
	}
	switch k {
	case BulkRevokeUnused:
		return "Keys unused for " + counted(b.UnusedDays, "day") + rest
	case BulkSetExpiry:
		return "Keys to expire " + b.ExpiresAt.Format(time.RFC3339) + rest
	case BulkSuspend:
		return "Tenants to suspend" + rest
	case BulkResume:
		return "Tenants to resume" + rest
	default:
		return "Tenants to move to the plan " + b.ToPlan + rest
	}
}

// insert stores a new job with its event.
func (s *Bulk) insert(ctx context.Context, actor Actor, r *BulkRecord) error {
	return s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		if r.Num, err = tx.InsertBulk(ctx, *r); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, r.CreatedAt, event{
			action: "bulk.create", object: "bulk", objectID: r.ID, after: bulkView{Kind: r.Kind, Name: r.Name, Selection: viewSelection(r.BulkJob)}, reason: r.Reason,
		})
	})
}

// earlier is the job that an earlier request with the same key made; CodeNotFound
// when there was none. The same key stands for the same input.
func (s *Bulk) earlier(ctx context.Context, actor Actor, in NewBulk) (BulkJob, error) {
	var r BulkRecord
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		r, err = tx.BulkByKey(ctx, actor.ID, in.IdempotencyKey)
		return err
	})
	if err != nil {
		return BulkJob{}, err
	}
	other := invalid(FieldError{Field: "idempotency_key", Message: "This key was used for another request."})
	if r.Kind != in.Kind {
		return BulkJob{}, other
	}
	if !in.Kind.Imports() {
		want, err := json.Marshal(checkSelection(new(problems), in.Kind, in.Selection, time.Time{}))
		if err != nil {
			return BulkJob{}, err
		}
		if had, err := json.Marshal(r.Selection); err != nil || string(had) != string(want) || r.Reason != strings.TrimSpace(in.Reason) {
			return BulkJob{}, other
		}
		return r.BulkJob, nil
	}
	if !r.Loaded {
		return BulkJob{}, conflict("The same request is running already.")
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(in.Input, MaxBulkInput+1)); err != nil {
		return BulkJob{}, brokeOff(err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != r.InputDigest {
		return BulkJob{}, other
	}
	return r.BulkJob, nil
}

func brokeOff(err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return &Error{Code: CodeInvalid, Public: "The input could not be read to its end.", Cause: err, Fields: []FieldError{{Field: "input", Message: "It could not be read to its end."}}}
}

// metered counts and hashes what is read, and stops at the largest input.
type metered struct {
	in   io.Reader
	sum  hash.Hash
	left int64
}

// Read implements io.Reader.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	m.left -= int64(n)
	if m.left < 0 {
		return 0, inputError(0, "The file is larger than %d MiB; make several of it.", MaxBulkInput>>20)
	}
	_, _ = m.sum.Write(p[:n])
	return n, err
}

// uploading is an input on its way into the database.
type uploading struct {
	s     *Bulk
	r     BulkRecord
	maker rowMaker
	rows  []BulkInput
	marks []BulkMark
}

func (s *Bulk) upload(ctx context.Context, actor Actor, in NewBulk, r BulkRecord) (BulkJob, error) {
	m := &metered{in: in.Input, sum: sha256.New(), left: MaxBulkInput}
	rows, err := openInput(in.Kind, in.Format, m)
	if err != nil {
		return BulkJob{}, brokeOff(err)
	}
	u := &uploading{s: s, r: r, maker: rowMaker{d: s.d, kind: in.Kind}}
	u.lease()
	if err := s.insert(ctx, actor, &u.r); err != nil {
		return BulkJob{}, err
	}
	if err := u.run(ctx, rows); err != nil {
		u.fail(ctx, err)
		return BulkJob{}, brokeOff(err)
	}
	if _, err := io.Copy(io.Discard, m); err != nil { // what a reader of rows leaves
		u.fail(ctx, err)
		return BulkJob{}, brokeOff(err)
	}
	u.r.Loaded, u.r.InputDigest = true, hex.EncodeToString(m.sum.Sum(nil))
	u.r.LeaseOwner, u.r.LeaseUntil = "", nil
	if err := u.flush(ctx); err != nil {
		u.fail(ctx, err)
		return BulkJob{}, err
	}
	s.wake()
	return u.r.BulkJob, nil
}

func (u *uploading) lease() {
	until := u.s.d.now().Add(uploadLease)
	u.r.LeaseOwner, u.r.LeaseUntil = u.s.owner, &until
}

func (u *uploading) run(ctx context.Context, rows rowReader) error {
	for {
		c, err := rows.next()
		if errors.Is(err, io.EOF) {
			if u.r.Total+int64(len(u.rows)) == 0 {
				return inputError(0, "There are no rows in the file.")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if u.r.Total+int64(len(u.rows)) >= u.s.maxRows {
			return inputError(c.line, "more than %d rows; make several files of it.", u.s.maxRows)
		}
		row, problem, err := u.maker.row(c)
		if err != nil {
			return err
		}
		u.rows = append(u.rows, row)
		if problem != "" {
			u.marks = append(u.marks, BulkMark{Line: row.Line, Outcome: RowBad, Message: cutText(problem, 500), Unreadable: true})
		}
		if len(u.rows) < uploadBatch {
			continue
		}
		u.lease()
		if err := u.flush(ctx); err != nil {
			return err
		}
	}
}

// cutText bounds what is said of a row, in characters.
func cutText(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// flush stores what was read since the last time.
func (u *uploading) flush(ctx context.Context) error {
	r := u.r
	r.Total += int64(len(u.rows))
	r.Unreadable += int64(len(u.marks))
	err := u.s.d.Store.InTx(ctx, func(tx Tx) error {
		now, err := tx.LockBulk(ctx, r.ID)
		if err != nil {
			return err
		}
		if now.State != BulkChecking || now.Loaded {
			return conflict("The job was cancelled.")
		}
		if err := tx.PutBulkInput(ctx, r.Num, u.rows); err != nil {
			return fmt.Errorf("store %d rows: %w", len(u.rows), err)
		}
		if err := tx.PutBulkMarks(ctx, r.Num, u.marks); err != nil {
			return fmt.Errorf("store %d marks: %w", len(u.marks), err)
		}
		return tx.UpdateBulk(ctx, r)
	})
	if err == nil {
		u.r, u.rows, u.marks = r, u.rows[:0], u.marks[:0]
	}
	return err
}

// fail notes why nothing can be done with the input; also when the client has gone.
func (u *uploading) fail(ctx context.Context, cause error) {
	ctx = context.WithoutCancel(ctx)
	text := "The upload broke off."
	var e *Error
	if asError(cause, &e) && len(e.Fields) > 0 {
		text = e.Fields[0].Message
	}
	if err := u.s.failed(ctx, u.r.ID, text); err != nil {
		u.s.d.Log.WarnContext(ctx, "a bulk job's upload failed, and that cannot be noted", "job", u.r.ID, "error", err)
	}
}
