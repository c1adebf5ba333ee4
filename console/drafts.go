package console

import (
	"bytes"
	"context"
	"encoding/base32"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate/policy"
)

// maxSource bounds a draft, in bytes.
const maxSource = 8 << 20

// maxTests bounds a draft's tests, in bytes.
const maxTests = 1 << 20

// starterSource is what the first draft begins with.
const starterSource = `apiVersion: headgate/v1
plans:
  free:
    limits:
      - {name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}
routes:
  - name: everything
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 300/minute, burst: 300}}
`

// CreateDraft starts a draft from src, or from the version in force when src is
// empty, or from a small example before the first publication. A draft may have
// problems; publishing it may not.
func (s *Policies) CreateDraft(ctx context.Context, actor Actor, name string, src []byte) (Draft, error) {
	if err := actor.need(PermEditDrafts); err != nil {
		return Draft{}, err
	}
	var p problems
	d := Draft{Name: p.name("name", name), Source: p.source(src), Author: actor.Name, AuthorID: actor.ID}
	err := p.err()
	if err != nil {
		return Draft{}, err
	}
	if d.ID, err = s.d.newID("drf"); err != nil {
		return Draft{}, err
	}
	if d.ETag, err = s.d.newETag(); err != nil {
		return Draft{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		d.CreatedAt = s.d.now()
		d.UpdatedAt = d.CreatedAt
		if err := startFrom(ctx, tx, &d); err != nil {
			return err
		}
		if err := tx.InsertDraft(ctx, d); err != nil {
			return err
		}
		if err := tx.PutWriter(ctx, d.ID, actor, d.CreatedAt); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, d.CreatedAt, event{action: "draft.create", object: "draft", objectID: d.ID, after: viewDraft(d)})
	})
	return d, err
}

// startFrom sets the draft's base, and its source when it has none.
func startFrom(ctx context.Context, tx Tx, d *Draft) error {
	head, err := tx.Head(ctx)
	switch {
	case IsNotFound(err):
		if d.Source == "" {
			d.Source = starterSource
		}
		return nil
	case err != nil:
		return err
	}
	d.Base, d.Tests = head.Number, head.Tests
	if d.Source != "" {
		return nil
	}
	doc, err := head.Document()
	if err != nil {
		return err
	}
	d.Source = string(doc.YAML())
	return nil
}

// GetDraft returns one draft.
func (s *Policies) GetDraft(ctx context.Context, id string) (d Draft, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		d, err = tx.Draft(ctx, id)
		return err
	})
	return d, err
}

// ListDrafts returns drafts without their sources, the last changed first, at
// most 500.
func (s *Policies) ListDrafts(ctx context.Context) (out []Draft, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Drafts(ctx, 500)
		return err
	})
	return out, err
}

// SaveDraft replaces a draft's source. When someone else saved it since etag was
// read, nothing is overwritten: the conflict's Detail is the Draft as it is now.
func (s *Policies) SaveDraft(ctx context.Context, actor Actor, id, etag string, src []byte) (Draft, error) {
	var p problems
	source := p.source(src)
	if err := p.err(); err != nil {
		return Draft{}, err
	}
	return s.changeDraft(ctx, actor, id, etag, draftChange{action: "draft.save", save: true, fn: func(_ Tx, d *Draft) error {
		d.Source = source
		return nil
	}})
}

// SaveTests replaces a draft's tests, "" for none. A conflict is as for SaveDraft.
func (s *Policies) SaveTests(ctx context.Context, actor Actor, id, etag string, tests []byte) (Draft, error) {
	var p problems
	text := p.tests(tests)
	if err := p.err(); err != nil {
		return Draft{}, err
	}
	return s.changeDraft(ctx, actor, id, etag, draftChange{action: "draft.save", save: true, fn: func(_ Tx, d *Draft) error {
		d.Tests = text
		return nil
	}})
}

// RenameDraft gives a draft another name. Its content, and with it approvals, stay.
func (s *Policies) RenameDraft(ctx context.Context, actor Actor, id, etag, name string) (Draft, error) {
	var p problems
	name = p.name("name", name)
	if err := p.err(); err != nil {
		return Draft{}, err
	}
	return s.changeDraft(ctx, actor, id, etag, draftChange{action: "draft.rename", fn: func(_ Tx, d *Draft) error {
		d.Name = name
		return nil
	}})
}

// RebaseDraft keeps a draft's source and bases it on the version in force: its
// author has seen what changed and wants the draft as it stands.
func (s *Policies) RebaseDraft(ctx context.Context, actor Actor, id, etag string) (Draft, error) {
	return s.changeDraft(ctx, actor, id, etag, draftChange{action: "draft.rebase", writes: true, fn: func(tx Tx, d *Draft) error {
		head, _, err := tx.HeadNumber(ctx)
		if err != nil && !IsNotFound(err) {
			return err
		}
		d.Base = head
		return nil
	}})
}

// draftChange is one change of a draft.
type draftChange struct {
	action string
	save   bool // of content, maybe one of many: the audit trail may tell it later
	writes bool // makes the actor somebody who wrote in it
	fn     func(Tx, *Draft) error
}

func (s *Policies) changeDraft(ctx context.Context, actor Actor, id, etag string, c draftChange) (Draft, error) {
	if err := actor.need(PermEditDrafts); err != nil {
		return Draft{}, err
	}
	fresh, err := s.d.newETag()
	if err != nil {
		return Draft{}, err
	}
	var d Draft
	err = s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		if d, err = tx.LockDraft(ctx, id); err != nil {
			return err
		}
		if d.ETag != etag {
			return staleDraft(d)
		}
		before := d
		if err := c.fn(tx, &d); err != nil || d == before {
			return err
		}
		d.ETag, d.UpdatedAt = fresh, s.d.now()
		if ok, err := tx.UpdateDraft(ctx, d, etag); err != nil || !ok {
			return firstError(err, staleDraft(before))
		}
		if c.save {
			return s.d.recordSave(ctx, tx, actor, before, d)
		}
		err = s.d.recordDraft(ctx, tx, actor, before, d.UpdatedAt, event{
			action: c.action, object: "draft", objectID: d.ID, before: viewDraft(before), after: viewDraft(d),
		})
		if err != nil || !c.writes {
			return err
		}
		return tx.PutWriter(ctx, id, actor, d.UpdatedAt) // after what is not told of the same writer
	})
	return d, err
}

// DeleteDraft deletes a draft, unless someone else saved it since etag was read.
func (s *Policies) DeleteDraft(ctx context.Context, actor Actor, id, etag string) error {
	if err := actor.need(PermEditDrafts); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		d, err := tx.LockDraft(ctx, id)
		if err != nil {
			return err
		}
		if d.ETag != etag {
			return staleDraft(d)
		}
		untold, err := tx.Writers(ctx, id) // they go with the draft
		if err != nil {
			return err
		}
		if ok, err := tx.DeleteDraft(ctx, id, etag); err != nil || !ok {
			return firstError(err, staleDraft(d))
		}
		if err := tx.DeleteComments(ctx, id); err != nil {
			return err
		}
		now := s.d.now()
		if err := s.d.tell(ctx, tx, untold, d, now); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{action: "draft.delete", object: "draft", objectID: id, before: viewDraft(d)})
	})
}

// staleDraft is the conflict of a change that was made to an older state; now is
// the draft as it is stored.
func staleDraft(now Draft) error {
	return &Error{Code: CodeConflict, Public: "Someone else has changed this draft since you opened it.", Detail: now}
}

func viewDraft(d Draft) draftView {
	v := draftView{Name: d.Name, Base: d.Base, Digest: policy.DigestOf([]byte(d.Source))}
	if d.Tests != "" {
		v.Tests = policy.DigestOf([]byte(d.Tests))
	}
	return v
}

func (p *problems) source(src []byte) string {
	switch {
	case len(src) > maxSource:
		p.add("document", "At most 8 MiB.")
	case !utf8.Valid(src):
		p.add("document", "This is not valid UTF-8.")
	case bytes.IndexByte(src, 0) >= 0:
		p.add("document", "A document has no NUL bytes.")
	}
	return strings.ReplaceAll(string(src), "\r\n", "\n")
}

func (p *problems) tests(src []byte) string {
	switch {
	case len(src) > maxTests:
		p.add("tests", "At most 1 MiB.")
	case !utf8.Valid(src):
		p.add("tests", "This is not valid UTF-8.")
	case bytes.IndexByte(src, 0) >= 0:
		p.add("tests", "Tests have no NUL bytes.")
	}
	return strings.ReplaceAll(string(src), "\r\n", "\n")
}

func (d Deps) newETag() (string, error) {
	var b [10]byte
	if _, err := io.ReadFull(d.Rand, b[:]); err != nil {
		return "", err
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:])), nil
}
