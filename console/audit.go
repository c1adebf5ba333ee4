package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/policy"
)

// Audit reads the audit trail. Services write it, in the transaction of the
// change itself: a change whose event cannot be written does not happen.
type Audit struct{ d Deps }

// NewAudit returns the audit service.
func NewAudit(d Deps) *Audit { return &Audit{d.withDefaults()} }

// AuditQuery filters the trail; "" matches everything.
type AuditQuery struct {
	Actor    string // an operator's id, or a part of the name or address that somebody has today
	Action   string // "tenant.create", or "tenant" for all of them
	Object   string // "tenant"
	ObjectID string
	TenantID string
	Page     Page
}

// List returns events, the newest first, and the cursor to the next page.
func (s *Audit) List(ctx context.Context, q AuditQuery) (items []AuditEvent, next string, err error) {
	return paged(ctx, s.d.Store, q.Page, func(tx Tx, after Cursor, limit int) ([]AuditEvent, error) {
		before, err := after.number()
		if err != nil {
			return nil, err
		}
		return tx.AuditEvents(ctx, q, before, limit)
	}, func(e AuditEvent) Cursor { return Cursor{At: e.At, ID: strconv.FormatInt(e.Seq, 10)} })
}

// AuditProblem is where a trail stops being whole.
type AuditProblem struct {
	Seq    int64 // the first row that is not as it was written
	Reason string
}

// Verify walks the whole trail from its beginning. It returns the number of
// rows that are good and the first problem, if any. Rows missing at the end
// cannot be seen from the trail alone: compare head with what was seen before.
func (s *Audit) Verify(ctx context.Context) (good int64, head []byte, problem *AuditProblem, err error) {
	prev := make([]byte, sha256.Size)
	for {
		var rows []AuditEvent
		err = s.d.Store.Read(ctx, func(tx Tx) error {
			rows, err = tx.AuditForward(ctx, good, 1000)
			return err
		})
		if err != nil || len(rows) == 0 {
			return good, prev, nil, err
		}
		for _, e := range rows {
			if p := checkLink(e, good+1, prev); p != nil {
				return good, prev, p, nil
			}
			good, prev = e.Seq, e.Hash
		}
	}
}

func checkLink(e AuditEvent, want int64, prev []byte) *AuditProblem {
	switch {
	case e.Seq != want:
		return &AuditProblem{Seq: want, Reason: "row is missing"}
	case !bytes.Equal(e.PrevHash, prev):
		return &AuditProblem{Seq: e.Seq, Reason: "row does not follow the one before it"}
	case !bytes.Equal(AuditHash(e), e.Hash):
		return &AuditProblem{Seq: e.Seq, Reason: "row was changed"}
	}
	return nil
}

// AuditHash is SHA-256 over the previous row's hash and all fields of the row,
// each with its length before it, so that no two rows have the same bytes.
func AuditHash(e AuditEvent) []byte {
	h := sha256.New()
	changes, _ := json.Marshal(e.Changes) // strings only: cannot fail
	for _, part := range [][]byte{
		e.PrevHash, []byte(strconv.FormatInt(e.Seq, 10)), []byte(strconv.FormatInt(e.At.UnixMicro(), 10)),
		[]byte(e.ActorID), []byte(e.Actor), []byte(e.Role), []byte(e.Via), []byte(e.Action), []byte(e.Object), []byte(e.ObjectID),
		[]byte(e.TenantID), e.Before, e.After, changes, []byte(e.Reason), []byte(e.IP), []byte(e.RequestID),
	} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		_, _ = h.Write(n[:])
		_, _ = h.Write(part)
	}
	return h.Sum(nil)
}

// event is what a service says about its change; record adds who, when and the chain.
type event struct {
	action   string
	object   string
	objectID string
	tenantID string
	before   any // a view without secrets; nil when it did not exist
	after    any
	changes  []policy.Change
	reason   string
}

// record appends an event in the transaction of the change. The trail has one
// writer at a time, so this is the last thing that a transaction does.
func (d Deps) record(ctx context.Context, tx Tx, actor Actor, now time.Time, ev event) error {
	seq, prev, err := tx.LockAuditHead(ctx)
	if err != nil {
		return fmt.Errorf("lock audit trail: %w", err)
	}
	e := AuditEvent{
		Seq: seq + 1, At: now, ActorID: actor.ID, Actor: actor.Name, Role: actor.Role, Via: actor.Via,
		Action: ev.action, Object: ev.object, ObjectID: ev.objectID, TenantID: ev.tenantID,
		Changes: ev.changes, Reason: ev.reason, IP: actor.IP, RequestID: actor.RequestID, PrevHash: prev,
	}
	if e.Before, err = viewJSON(ev.before); err != nil {
		return err
	}
	if e.After, err = viewJSON(ev.after); err != nil {
		return err
	}
	e.Hash = AuditHash(e)
	if err := tx.InsertAudit(ctx, e); err != nil {
		return fmt.Errorf("append audit event %s: %w", ev.action, err)
	}
	return nil
}

func viewJSON(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode audit view: %w", err)
	}
	return b, nil
}
