package db

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
	"github.com/headgate/headgate/policy"
)

// CheckBulk implements console.BulkSteps. What a step changes is locked in the
// order in which everything else locks it: tenants, then credentials, each by id.
func (t tx) CheckBulk(ctx context.Context, kind console.BulkKind, s console.BulkSpan, terms console.BulkTerms) error {
	if err := t.lockBulk(ctx, kind, s); err != nil {
		return fmt.Errorf("lock rows %d to %d: %w", s.After, s.Through, err)
	}
	switch kind {
	case console.BulkImportKeys:
		return t.q.MarkKeyImports(ctx, gen.MarkKeyImportsParams{Job: s.Job, After: s.After, Through: s.Through, Unfit: terms.Unfit, Now: &terms.Now})
	case console.BulkImportTenants:
		return t.q.MarkTenantImports(ctx, gen.MarkTenantImportsParams{
			Job: s.Job, After: s.After, Through: s.Through, Unfit: terms.Unfit, Plans: orEmpty(terms.Plans),
		})
	case console.BulkChangePlan:
		return t.q.MarkPlanChanges(ctx, gen.MarkPlanChangesParams{Job: s.Job, After: s.After, Through: s.Through, Unfit: terms.Unfit, ToPlan: terms.ToPlan})
	case console.BulkSuspend, console.BulkResume:
		from, to := stateMove(kind)
		return t.q.MarkTenantMoves(ctx, gen.MarkTenantMovesParams{Job: s.Job, After: s.After, Through: s.Through, Unfit: terms.Unfit, FromState: from, ToState: to})
	case console.BulkRevokeUnused:
		return t.q.MarkKeyEnds(ctx, gen.MarkKeyEndsParams{Job: s.Job, After: s.After, Through: s.Through, Unfit: terms.Unfit})
	case console.BulkSetExpiry:
		if err := t.q.MarkKeyEnds(ctx, gen.MarkKeyEndsParams{Job: s.Job, After: s.After, Through: s.Through, Unfit: terms.Unfit}); err != nil {
			return err
		}
		return t.q.MarkKeyExpiries(ctx, gen.MarkKeyExpiriesParams{
			Job: s.Job, After: s.After, Through: s.Through, ExpiresAt: &terms.ExpiresAt, Extend: terms.Extend,
		})
	}
	return fmt.Errorf("check rows: unknown kind of job %q", kind)
}

// stateMove is between which states a job moves tenants.
func stateMove(kind console.BulkKind) (from, to string) {
	if kind == console.BulkSuspend {
		return string(policy.TenantActive), string(policy.TenantSuspended)
	}
	return string(policy.TenantSuspended), string(policy.TenantActive)
}

func (t tx) lockBulk(ctx context.Context, kind console.BulkKind, s console.BulkSpan) (err error) {
	switch kind {
	case console.BulkImportKeys:
		_, err = t.q.ShareBulkTenants(ctx, gen.ShareBulkTenantsParams{Job: s.Job, After: s.After, Through: s.Through})
	case console.BulkChangePlan, console.BulkSuspend, console.BulkResume:
		_, err = t.q.LockBulkTenants(ctx, gen.LockBulkTenantsParams{Job: s.Job, After: s.After, Through: s.Through})
	case console.BulkRevokeUnused, console.BulkSetExpiry:
		_, err = t.q.LockBulkCredentials(ctx, gen.LockBulkCredentialsParams{Job: s.Job, After: s.After, Through: s.Through})
	case console.BulkImportTenants: // of which there are no rows yet
	}
	return err
}

// DoBulk implements console.BulkDeeds.
func (t tx) DoBulk(ctx context.Context, kind console.BulkKind, s console.BulkSpan, terms console.BulkTerms) ([]string, error) {
	if err := t.q.PlanChecksOnce(ctx); err != nil {
		return nil, err
	}
	changed, err := t.doBulk(ctx, kind, s, terms)
	if err != nil || len(changed) == 0 {
		return nil, err
	}
	about := console.OutboxKey
	if kind == console.BulkImportTenants || kind.OfTenants() {
		about = console.OutboxTenant
	}
	return changed, t.q.InsertBulkOutbox(ctx, gen.InsertBulkOutboxParams{Kind: string(about), Refs: changed, Now: terms.Now})
}

func (t tx) doBulk(ctx context.Context, kind console.BulkKind, s console.BulkSpan, terms console.BulkTerms) ([]string, error) {
	switch kind {
	case console.BulkImportKeys:
		if err := t.q.ImportCredentials(ctx, gen.ImportCredentialsParams{Job: s.Job, After: s.After, Through: s.Through, Now: terms.Now}); err != nil {
			return nil, err
		}
		return t.q.ImportKeyVersions(ctx, gen.ImportKeyVersionsParams{Job: s.Job, After: s.After, Through: s.Through, Now: terms.Now})
	case console.BulkImportTenants:
		return t.q.ImportTenants(ctx, gen.ImportTenantsParams{Job: s.Job, After: s.After, Through: s.Through, Now: terms.Now})
	case console.BulkChangePlan:
		return t.q.ChangeBulkPlans(ctx, gen.ChangeBulkPlansParams{Job: s.Job, After: s.After, Through: s.Through, ToPlan: terms.ToPlan, Now: terms.Now})
	case console.BulkSuspend, console.BulkResume:
		from, to := stateMove(kind)
		return t.q.MoveBulkTenants(ctx, gen.MoveBulkTenantsParams{
			Job: s.Job, After: s.After, Through: s.Through, FromState: from, ToState: to, Reason: terms.Reason, Now: terms.Now,
		})
	case console.BulkRevokeUnused:
		return t.q.RevokeBulkKeys(ctx, gen.RevokeBulkKeysParams{Job: s.Job, After: s.After, Through: s.Through, Now: terms.Now, Category: terms.Category})
	case console.BulkSetExpiry:
		err := t.q.ExpireBulkCredentials(ctx, gen.ExpireBulkCredentialsParams{Job: s.Job, After: s.After, Through: s.Through, ExpiresAt: terms.ExpiresAt})
		if err != nil {
			return nil, err
		}
		return t.q.ExpireBulkKeys(ctx, gen.ExpireBulkKeysParams{Job: s.Job, After: s.After, Through: s.Through, ExpiresAt: terms.ExpiresAt})
	}
	return nil, fmt.Errorf("do rows: unknown kind of job %q", kind)
}
