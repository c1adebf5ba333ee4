package db

import (
	"context"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// Up to so many tenants and credentials that a search names are read and
// sorted; beyond that they are so common that a list in its own order meets
// enough of them soon.
const (
	fewTenants    = 800
	fewOfKeys     = 1000
	mostActors    = 50
	noCredentials = 0
)

// Tenants implements console.TenantLists.
func (t tx) Tenants(ctx context.Context, q console.TenantQuery, after console.Cursor, limit int) ([]console.Tenant, error) {
	if q.Q != "" {
		named, err := t.q.FindNamed(ctx, gen.FindNamedParams{Q: q.Q, MostTenants: fewTenants + 1, MostCredentials: noCredentials})
		if err != nil {
			return nil, err
		}
		if len(named.Tenants) <= fewTenants {
			rows, err := t.q.SearchTenants(ctx, gen.SearchTenantsParams{
				Ids: named.Tenants, Plan: q.Plan, State: string(q.State), ByName: q.Sort == console.SortName, WithOverrides: q.WithOverrides,
				AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
			})
			return each(rows, func(r gen.SearchTenantsRow) console.Tenant { return tenantOf(gen.Tenant(r)) }), err
		}
	}
	if q.Sort == console.SortName {
		rows, err := t.q.ListTenantsByName(ctx, gen.ListTenantsByNameParams{
			Q: q.Q, Plan: q.Plan, State: string(q.State), WithOverrides: q.WithOverrides, AfterID: after.ID, MaxRows: int32(limit),
		})
		return each(rows, tenantOf), err
	}
	rows, err := t.q.ListTenants(ctx, gen.ListTenantsParams{
		Q: q.Q, Plan: q.Plan, State: string(q.State), WithOverrides: q.WithOverrides, AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
	})
	return each(rows, tenantOf), err
}

// Keys implements console.KeyLists.
func (t tx) Keys(ctx context.Context, q console.KeyQuery, after console.Cursor, limit int) ([]console.KeyVersion, error) {
	if q.Q != "" {
		named, err := t.q.FindNamed(ctx, gen.FindNamedParams{Q: q.Q, MostTenants: fewOfKeys + 1, MostCredentials: fewOfKeys + 1})
		if err != nil {
			return nil, err
		}
		if len(named.Tenants) <= fewOfKeys && len(named.Credentials) <= fewOfKeys {
			rows, err := t.q.SearchKeys(ctx, gen.SearchKeysParams{
				KID: q.Q, Tenants: named.Tenants, Credentials: named.Credentials, TenantID: q.TenantID, Environment: q.Environment,
				State: string(q.State), AfterKID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
			})
			return each(rows, func(r gen.SearchKeysRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
		}
	}
	rows, err := t.q.ListKeys(ctx, gen.ListKeysParams{
		Q: q.Q, TenantID: q.TenantID, Environment: q.Environment, State: string(q.State), AfterKID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
	})
	return each(rows, func(r gen.ListKeysRow) console.KeyVersion { return keyOf(gen.GetKeyVersionRow(r)) }), err
}

// CountKeys implements console.KeyLists.
func (t tx) CountKeys(ctx context.Context) (int64, error) { return t.q.CountKeys(ctx) }

// AuditEvents implements console.AuditRows.
func (t tx) AuditEvents(ctx context.Context, q console.AuditQuery, beforeSeq int64, limit int) ([]console.AuditEvent, error) {
	if q.Actor == "" {
		return auditOf(t.q.ListAudit(ctx, gen.ListAuditParams{
			BeforeSeq: beforeSeq, Action: q.Action, Object: q.Object, ObjectID: q.ObjectID, TenantID: q.TenantID, MaxRows: int32(limit),
		}))
	}
	actors, err := t.q.FindActors(ctx, gen.FindActorsParams{Q: q.Actor, MaxRows: mostActors})
	if err != nil {
		return nil, err
	}
	return auditOf(t.q.ListAuditBy(ctx, gen.ListAuditByParams{
		Actors: actors, BeforeSeq: beforeSeq, Action: q.Action, Object: q.Object, ObjectID: q.ObjectID, TenantID: q.TenantID, MaxRows: int32(limit),
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
