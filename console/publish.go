package console

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// publication is one attempt to make a new version.
type publication struct {
	src        []byte // document, or nil for a rollback
	tests      []byte // nil: those of the version in force, or of the version that is rolled back to
	base       int64  // -1: whatever is in force
	o          PublishOptions
	rollbackOf int64
	draft      Draft // deleted with the publication; the zero Draft when it is none
	scheduled  *Schedule
}

// Publish makes src the next version. tests nil keeps the tests of the version
// in force. base is the version that src was made from, 0 before the first; when
// another one is in force by now the Error is a conflict with a StaleBase as its
// Detail. A document with problems is CodeInvalid with a policy.Report as its
// Detail, tests that fail with a []scenario.Result, a confirmation that lacks
// with a []Confirmation. CodeApproval says that others have to approve it first:
// their approvals of a draft with the same content and base count.
func (s *Policies) Publish(ctx context.Context, actor Actor, src, tests []byte, base int64, o PublishOptions) (Version, error) {
	if base < 0 {
		return Version{}, invalid(FieldError{Field: "base_version", Message: "This must be 0 or a version's number."})
	}
	return s.publish(ctx, actor, publication{src: src, tests: tests, base: base, o: o})
}

// PublishDraft publishes a draft and deletes it. etag must be the draft's
// current one. Errors are as for Publish.
func (s *Policies) PublishDraft(ctx context.Context, actor Actor, id, etag string, o PublishOptions) (Version, error) {
	d, err := s.GetDraft(ctx, id)
	if err != nil {
		return Version{}, err
	}
	if d.ETag != etag {
		return Version{}, staleDraft(d)
	}
	return s.publish(ctx, actor, ofDraft(d, o))
}

func ofDraft(d Draft, o PublishOptions) publication {
	return publication{src: []byte(d.Source), tests: []byte(d.Tests), base: d.Base, o: o, draft: d}
}

// Rollback makes version n's document, with its tests, the next version. Rules
// hold as for any publication. Since it was in force before, it needs no
// confirmation but one for no limits at all, and tests that fail by now do not
// hold it up. It ends a canary that runs.
func (s *Policies) Rollback(ctx context.Context, actor Actor, n int64, o PublishOptions) (Version, error) {
	return s.publish(ctx, actor, publication{base: -1, o: o, rollbackOf: n})
}

// prepared is what a publication knows before its transaction.
type prepared struct {
	doc     *policy.Document
	body    []byte // canonical
	report  policy.Report
	tests   string
	digest  string // of document and tests
	results []scenario.Result
	others  known
	canary  *canary
	demand  demand
	behind  string // that Redis has a version which this database does not know; "" when it has not
}

func (s *Policies) publish(ctx context.Context, actor Actor, p publication) (Version, error) {
	if err := actor.need(PermPublish); err != nil {
		return Version{}, err
	}
	if err := s.checkOptions(ctx, actor, &p.o); err != nil {
		return Version{}, err
	}
	pre, err := s.prepare(ctx, p)
	if err != nil {
		return Version{}, err
	}
	var v Version
	err = s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		v, err = s.publishIn(ctx, tx, actor, p, pre)
		return err
	})
	if err != nil {
		s.noteRefusal(ctx, actor, p, pre, err)
		return Version{}, err
	}
	s.d.Nudge()
	return v, nil
}

// checkOptions trims texts and, for break-glass, checks the password.
func (s *Policies) checkOptions(ctx context.Context, actor Actor, o *PublishOptions) error {
	var bad problems
	o.Note = bad.text("note", o.Note, maxNote, false)
	if o.BreakGlass != nil {
		glass := *o.BreakGlass
		glass.Reason = bad.text("break_glass.reason", glass.Reason, maxReason, true)
		if glass.Password == "" {
			bad.add("break_glass.password", "Your password again, please.")
		}
		o.BreakGlass = &glass
	}
	if err := bad.err(); err != nil || o.BreakGlass == nil {
		return err
	}
	err := s.d.Passwords.CheckPassword(ctx, actor, o.BreakGlass.Password)
	if CodeOf(err) == CodeInvalid {
		return invalid(FieldError{Field: "break_glass.password", Message: "This is not your password."})
	}
	return err
}

// prepare reads the document and runs the tests, which must not hold the head's lock.
func (s *Policies) prepare(ctx context.Context, p publication) (pre prepared, err error) {
	if n, behind := s.d.behind(ctx); behind {
		pre.behind = fmt.Sprintf("Gateways have v%d, which this database does not know: it was restored from an older copy.", n)
		if p.o.BreakGlass == nil && !p.o.ConfirmTypedOnly {
			return pre, conflict(pre.behind + " Adopt that version first.")
		}
	}
	if p.rollbackOf > 0 {
		if pre.doc, pre.report, pre.tests, err = s.content(ctx, p.rollbackOf); err != nil {
			return pre, err
		}
	} else if pre.doc, pre.report, err = s.parse(ctx, p.src); err != nil {
		return pre, err
	}
	if pre.doc == nil {
		return pre, invalidDocument(pre.report)
	}
	if p.rollbackOf == 0 {
		if pre.tests, err = s.testsFor(ctx, p); err != nil {
			return pre, err
		}
	}
	pre.body = pre.doc.Canonical()
	pre.digest = contentDigest(policy.DigestOf(pre.body), pre.tests)
	if pre.report.OK() { // else it is refused anyway
		if pre.results, err = s.testsOf(ctx, p, pre); err != nil {
			return pre, err
		}
	}
	if p.o.Canary != nil {
		c, err := s.d.chooseCanary(ctx, *p.o.Canary)
		if err != nil {
			return pre, err
		}
		pre.canary = &c
	}
	pre.demand = s.demandNow()
	pre.others = s.d.highestKnown(ctx)
	return pre, nil
}

// content is a version's document and tests.
func (s *Policies) content(ctx context.Context, n int64) (*policy.Document, policy.Report, string, error) {
	v, err := s.Version(ctx, n)
	if err != nil {
		return nil, policy.Report{}, "", err
	}
	doc, report, err := s.parse(ctx, v.Body)
	return doc, report, v.Tests, err
}

// testsFor is what a publication's tests are: those given, or those in force.
func (s *Policies) testsFor(ctx context.Context, p publication) (string, error) {
	if p.tests == nil {
		head, _, err := s.Head(ctx)
		return head.Tests, err
	}
	var bad problems
	text := bad.tests(p.tests)
	return text, bad.err()
}

func (s *Policies) publishIn(ctx context.Context, tx Tx, actor Actor, p publication, pre prepared) (Version, error) {
	head, headDoc, err := lockHead(ctx, tx, s.documents.of) // shared: read it only
	if err != nil {
		return Version{}, err
	}
	if p.base >= 0 && p.base != head.Number {
		return Version{}, staleBase(ctx, tx, p.base, head, headDoc)
	}
	running, err := s.mayFollow(ctx, tx, p, head)
	if err != nil {
		return Version{}, err
	}
	if p.rollbackOf > 0 && running == nil && pre.digest == contentDigest(head.Digest, head.Tests) {
		return Version{}, conflict(fmt.Sprintf("Version %d has the very content of v%d, which is in force: there is nothing to change.", p.rollbackOf, head.Number))
	}
	if p.draft.ID != "" {
		if now, err := tx.LockDraft(ctx, p.draft.ID); err != nil || now.ETag != p.draft.ETag {
			return Version{}, firstError(err, staleDraft(now))
		}
		if err := stillScheduled(ctx, tx, p.scheduled); err != nil {
			return Version{}, err
		}
	}
	report := policy.Report{Problems: slices.Clone(pre.report.Problems), Warnings: pre.report.Warnings}
	if err := addMissingPlans(ctx, tx, pre.doc, &report); err != nil {
		return Version{}, err
	}
	if !report.OK() {
		return Version{}, invalidDocument(report)
	}
	plans, err := readPlans(ctx, tx, pre.demand)
	if err != nil {
		return Version{}, err
	}
	v, err := s.newVersion(ctx, tx, actor, p, pre, head)
	if err != nil {
		return Version{}, err
	}
	changes := policy.Diff(headDoc, pre.doc)
	v.Changes = rate(changes, headDoc, pre.doc, plans, pre.demand)
	g := gate{p: p, pre: pre, head: head, before: headDoc, running: running, actor: actor, changes: v.Changes}
	g.asked = askedOf(headDoc, pre.doc, changes, v.CreatedAt).confirmations(headDoc, pre.doc, plans, pre.demand)
	if v.Proof, err = s.pass(ctx, tx, g); err != nil {
		return Version{}, err
	}
	return v, s.store(ctx, tx, actor, p, pre, head, v)
}

// mayFollow refuses what cannot come after the head: another publication while a
// canary runs, a rollback to what is in force or never was.
func (s *Policies) mayFollow(ctx context.Context, tx Tx, p publication, head Version) (*Rollout, error) {
	running, err := runningRollout(ctx, tx)
	if err != nil {
		return nil, err
	}
	if running != nil && (p.o.Canary != nil || (p.rollbackOf == 0 && p.o.BreakGlass == nil)) {
		return nil, conflict(fmt.Sprintf("v%d is on trial on %d gateways: promote or stop it first.", running.Version, len(running.Replicas)))
	}
	if p.o.Canary != nil && head.Number == 0 {
		return nil, invalid(FieldError{Field: "canary", Message: "The first version goes to all gateways at once."})
	}
	if p.rollbackOf == 0 {
		return running, nil
	}
	if p.rollbackOf == head.Number && running == nil {
		return nil, conflict(fmt.Sprintf("Version %d is the one in force.", p.rollbackOf))
	}
	r, err := tx.Rollout(ctx, p.rollbackOf)
	if err == nil && r.State != RolloutPromoted {
		return nil, conflict(fmt.Sprintf("Version %d was never in force on all gateways: begin a draft with its content.", p.rollbackOf))
	}
	if IsNotFound(err) {
		err = nil
	}
	return running, err
}

// newVersion is the version that a publication would make, without changes and proof.
func (s *Policies) newVersion(ctx context.Context, tx Tx, actor Actor, p publication, pre prepared, head Version) (Version, error) {
	highest, err := tx.HighestVersion(ctx)
	if err != nil {
		return Version{}, err
	}
	v := Version{
		Number: pre.others.next(max(head.Number, highest)), Digest: policy.DigestOf(pre.body), Parent: head.Digest, Body: pre.body, Note: p.o.Note,
		Author: actor.Name, AuthorID: actor.ID, Kind: KindPublish, CreatedAt: s.d.now(), Tests: pre.tests,
	}
	if p.rollbackOf > 0 {
		v.Kind, v.RollbackOf = KindRollback, p.rollbackOf
	}
	return v, nil
}
