package db

import (
	"context"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// Keys implements console.KeyLists.
func (t tx) Keys(ctx context.Context, q console.KeyQuery, after console.Cursor, limit int) ([]console.KeyVersion, error) {
	if q.Q == "" {
		rows, err := t.q.ListKeys(ctx, gen.ListKeysParams{
			TenantID: q.TenantID, Environment: q.Environment, State: string(q.State), AfterKID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
		})
		return each(rows, func(r gen.ListKeysRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
	}
	rows, err := t.q.SearchKeys(ctx, gen.SearchKeysParams{
		Q: q.Q, TenantID: q.TenantID, Environment: q.Environment, State: string(q.State), AfterKID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
	})
	return each(rows, func(r gen.SearchKeysRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
}

// CountKeys implements console.KeyLists.
func (t tx) CountKeys(ctx context.Context) (int64, error) { return t.q.CountKeys(ctx) }

// AuditEvents implements console.AuditRows.
func (t tx) AuditEvents(ctx context.Context, q console.AuditQuery, beforeSeq int64, limit int) ([]console.AuditEvent, error) {
	return auditOf(t.q.ListAudit(ctx, gen.ListAuditParams{
		BeforeSeq: beforeSeq, Actor: q.Actor, Action: q.Action, Object: q.Object, ObjectID: q.ObjectID, TenantID: q.TenantID, MaxRows: int32(limit),
	}))
}

// TenantsByID implements console.RecordRows.
func (t tx) TenantsByID(ctx context.Context, ids []string) ([]console.Tenant, error) {
	rows, err := t.q.ListTenantsByID(ctx, orEmpty(ids))
	return each(rows, tenantOf), err
}

// KeysByID implements console.RecordRows.
func (t tx) KeysByID(ctx context.Context, kids []string) ([]console.KeyVersion, error) {
	rows, err := t.q.ListKeysByID(ctx, orEmpty(kids))
	return each(rows, func(r gen.ListKeysByIDRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
}
