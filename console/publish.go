package console

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/policy"
)

// feedTimeout bounds what publishing asks of Redis before its transaction.
const feedTimeout = 400 * time.Millisecond

// plausibleJump is how far above the version in force a gateway's word may lie.
// Gateways only report; one that has been taken over must not use up the numbers.
const plausibleJump = 1_000_000

// publication is one attempt to make a new version.
type publication struct {
	src        []byte // document, or nil for a rollback
	base       int64  // -1: whatever is in force
	o          PublishOptions
	tests      []byte // nil: those of the version in force; of a rollback, its own
	rollbackOf int64
	draftID    string // deleted with the publication
	draftETag  string
}

// Publish makes src the next version. base is the version that src was made
// from, 0 before the first; when another one is in force by now the Error is a
// conflict with a StaleBase as its Detail. A document with problems is
// CodeInvalid with a policy.Report as its Detail.
func (s *Policies) Publish(ctx context.Context, actor Actor, src, tests []byte, base int64, o PublishOptions) (Version, error) {
	if base < 0 {
		return Version{}, invalid(FieldError{Field: "base_version", Message: "This must be 0 or a version's number."})
	}
	return s.publish(ctx, actor, publication{src: src, tests: tests, base: base, o: o})
}

// PublishDraft publishes a draft and deletes it. etag must be the draft's
// current one.
func (s *Policies) PublishDraft(ctx context.Context, actor Actor, id, etag string, o PublishOptions) (Version, error) {
	d, err := s.GetDraft(ctx, id)
	if err != nil {
		return Version{}, err
	}
	if d.ETag != etag {
		return Version{}, staleDraft()
	}
	return s.publish(ctx, actor, publication{src: []byte(d.Source), tests: []byte(d.Tests), base: d.Base, o: o, draftID: id, draftETag: etag})
}

// Rollback makes version n's document the next version. It is checked like any
// other publication.
func (s *Policies) Rollback(ctx context.Context, actor Actor, n int64, o PublishOptions) (Version, error) {
	return s.publish(ctx, actor, publication{base: -1, o: o, rollbackOf: n})
}

func (s *Policies) publish(ctx context.Context, actor Actor, p publication) (Version, error) {
	if err := actor.need(PermPublish); err != nil {
		return Version{}, err
	}
	var bad problems
	p.o.Note = bad.text("note", p.o.Note, maxNote, false)
	if err := bad.err(); err != nil {
		return Version{}, err
	}
	var doc *policy.Document
	var report policy.Report
	if p.rollbackOf == 0 {
		var err error
		if doc, report, err = s.parse(ctx, p.src); err != nil {
			return Version{}, err
		}
		if doc == nil {
			return Version{}, invalidDocument(report)
		}
	}
	others := s.highestKnown(ctx)
	var v Version
	err := s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		v, err = s.publishIn(ctx, tx, actor, p, doc, report, others)
		return err
	})
	if err != nil {
		return Version{}, err
	}
	s.d.Nudge()
	return v, nil
}

func (s *Policies) publishIn(ctx context.Context, tx Tx, actor Actor, p publication, doc *policy.Document, report policy.Report, others known) (Version, error) {
	head, headDoc, err := lockHead(ctx, tx)
	if err != nil {
		return Version{}, err
	}
	if p.base >= 0 && p.base != head.Number {
		return Version{}, staleBase(ctx, tx, p.base, head, headDoc)
	}
	if p.rollbackOf > 0 {
		if doc, report, err = rollbackDocument(ctx, tx, p.rollbackOf, head.Number); err != nil {
			return Version{}, err
		}
	}
	if err := addMissingPlans(ctx, tx, doc, &report); err != nil {
		return Version{}, err
	}
	if !report.OK() {
		return Version{}, invalidDocument(report)
	}
	body := doc.Canonical()
	v := Version{
		Number: others.next(head.Number), Digest: policy.DigestOf(body), Parent: head.Digest, Body: body, Note: p.o.Note,
		Author: actor.Name, Kind: KindPublish, CreatedAt: s.d.now(), AuthorID: actor.ID, Changes: rated(policy.Diff(headDoc, doc)),
	}
	if p.rollbackOf > 0 {
		v.Kind, v.RollbackOf = KindRollback, p.rollbackOf
	}
	return v, s.store(ctx, tx, actor, p, head, v)
}

// store writes the version, the head, the outbox row and the event, and
// deletes the draft that it came from.
func (s *Policies) store(ctx context.Context, tx Tx, actor Actor, p publication, head, v Version) error {
	if err := tx.InsertVersion(ctx, v); err != nil {
		return fmt.Errorf("insert version %d: %w", v.Number, err)
	}
	if err := tx.SetHead(ctx, v.Number, v.CreatedAt); err != nil {
		return fmt.Errorf("set head to %d: %w", v.Number, err)
	}
	if p.draftID != "" {
		if ok, err := tx.DeleteDraft(ctx, p.draftID, p.draftETag); err != nil || !ok {
			return firstError(err, staleDraft())
		}
	}
	number := strconv.FormatInt(v.Number, 10)
	if _, err := tx.InsertOutbox(ctx, OutboxPolicy, number, v.CreatedAt); err != nil {
		return fmt.Errorf("insert outbox row of version %d: %w", v.Number, err)
	}
	ev := event{
		action: "policy." + string(v.Kind), object: "policy", objectID: number, changes: PlainChanges(v.Changes), reason: v.Note,
		after: versionView{v.Number, v.Digest, string(v.Kind), v.RollbackOf, v.Note},
	}
	if head.Number > 0 {
		ev.before = versionView{Number: head.Number, Digest: head.Digest}
	}
	return s.d.record(ctx, tx, actor, v.CreatedAt, ev)
}

// highestKnown is the highest version that Redis or a replica speaks of, so
// that a restored database reuses none; 0 when Redis cannot be asked.
func (s *Policies) highestKnown(ctx context.Context) known {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	var k known
	if st, err := s.d.Feed.State(ctx); err == nil {
		k.redis = st.Version
	}
	if replicas, err := s.d.Feed.Replicas(ctx); err == nil {
		for _, r := range replicas {
			k.replicas = append(k.replicas, r.Version)
		}
	}
	return k
}

// known are versions that others speak of.
type known struct {
	redis    int64
	replicas []int64
}

// next is the number after head and all that is known.
func (k known) next(head int64) int64 {
	highest := max(head, k.redis)
	limit := highest + plausibleJump
	for _, v := range k.replicas {
		if v <= limit {
			highest = max(highest, v)
		}
	}
	return highest + 1
}

// lockHead locks the head and returns its version and document; zero and nil
// when there is none.
func lockHead(ctx context.Context, tx Tx) (Version, *policy.Document, error) {
	number, err := tx.LockHead(ctx)
	if err != nil || number == 0 {
		return Version{}, nil, err
	}
	v, err := tx.Version(ctx, number)
	if err != nil {
		return Version{}, nil, err
	}
	doc, err := v.Document()
	return v, doc, err
}

func rollbackDocument(ctx context.Context, tx Tx, n, head int64) (*policy.Document, policy.Report, error) {
	if n == head {
		return nil, policy.Report{}, conflict(fmt.Sprintf("Version %d is the one in force.", n))
	}
	v, err := tx.Version(ctx, n)
	if err != nil {
		return nil, policy.Report{}, err
	}
	doc, report := policy.ParseLoose(v.Body)
	if doc == nil {
		return nil, report, invalidDocument(report)
	}
	return doc, report, nil
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
