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
	d.Base = head.Number
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

// SaveDraft replaces a draft's source. A conflict means that someone else
// saved it since etag was read.
func (s *Policies) SaveDraft(ctx context.Context, actor Actor, id, etag string, src []byte) (Draft, error) {
	var p problems
	source := p.source(src)
	if err := p.err(); err != nil {
		return Draft{}, err
	}
	return s.changeDraft(ctx, actor, id, etag, "draft.save", func(_ Tx, d *Draft) error {
		d.Source = source
		return nil
	})
}

// SaveTests replaces a draft's tests, "" for none. A conflict is as for SaveDraft.
func (s *Policies) SaveTests(ctx context.Context, actor Actor, id, etag string, tests []byte) (Draft, error) {
	return Draft{}, noProver()
}

// RenameDraft gives a draft another name.
func (s *Policies) RenameDraft(ctx context.Context, actor Actor, id, etag, name string) (Draft, error) {
	return Draft{}, noProver()
}

// MergeDraft puts what was published since the draft's base into the draft and
// bases it on the version in force. Where both changed the same thing the
// draft's stays and the place is among the clashes.
func (s *Policies) MergeDraft(ctx context.Context, actor Actor, id, etag string) (Draft, []string, error) {
	return Draft{}, nil, noProver()
}

// RebaseDraft keeps a draft's source and bases it on the version in force: its
// author has seen what changed and wants the draft as it stands.
func (s *Policies) RebaseDraft(ctx context.Context, actor Actor, id, etag string) (Draft, error) {
	return s.changeDraft(ctx, actor, id, etag, "draft.rebase", func(tx Tx, d *Draft) error {
		head, err := tx.Head(ctx)
		if err != nil && !IsNotFound(err) {
			return err
		}
		d.Base = head.Number
		return nil
	})
}

func (s *Policies) changeDraft(ctx context.Context, actor Actor, id, etag, action string, fn func(Tx, *Draft) error) (Draft, error) {
	if err := actor.need(PermEditDrafts); err != nil {
		return Draft{}, err
	}
	fresh, err := s.d.newETag()
	if err != nil {
		return Draft{}, err
	}
	var d Draft
	err = s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		if d, err = tx.Draft(ctx, id); err != nil {
			return err
		}
		before := d
		if err := fn(tx, &d); err != nil {
			return err
		}
		d.ETag, d.UpdatedAt = fresh, s.d.now()
		if ok, err := tx.UpdateDraft(ctx, d, etag); err != nil || !ok {
			return firstError(err, staleDraft())
		}
		return s.d.record(ctx, tx, actor, d.UpdatedAt, event{
			action: action, object: "draft", objectID: d.ID, before: viewDraft(before), after: viewDraft(d),
		})
	})
	return d, err
}

// DeleteDraft deletes a draft, unless someone else saved it since etag was read.
func (s *Policies) DeleteDraft(ctx context.Context, actor Actor, id, etag string) error {
	if err := actor.need(PermEditDrafts); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		d, err := tx.Draft(ctx, id)
		if err != nil {
			return err
		}
		if ok, err := tx.DeleteDraft(ctx, id, etag); err != nil || !ok {
			return firstError(err, staleDraft())
		}
		return s.d.record(ctx, tx, actor, s.d.now(), event{action: "draft.delete", object: "draft", objectID: id, before: viewDraft(d)})
	})
}

func staleDraft() error {
	return conflict("Someone else has changed this draft since you opened it.")
}

func viewDraft(d Draft) draftView {
	return draftView{d.Name, d.Base, policy.DigestOf([]byte(d.Source))}
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

func (d Deps) newETag() (string, error) {
	var b [10]byte
	if _, err := io.ReadFull(d.Rand, b[:]); err != nil {
		return "", err
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:])), nil
}
