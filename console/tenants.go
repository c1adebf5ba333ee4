package console

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// Tenants manages customer organisations.
type Tenants struct{ d Deps }

// NewTenants returns the tenants service.
func NewTenants(d Deps) *Tenants { return &Tenants{d.withDefaults()} }

// NewTenant is what an operator says of a new tenant. TimeZone defaults to UTC.
// QuotaAnchor is a date, YYYY-MM-DD; without one anniversaries are the calendar's.
type NewTenant struct {
	Name, ExternalID, Plan, TimeZone, QuotaAnchor string
	Contacts                                      []string // e-mail addresses, at most 10
}

// TenantPatch changes a tenant; nil keeps.
type TenantPatch struct {
	Name, ExternalID, Plan, TimeZone, QuotaAnchor *string
	Contacts                                      *[]string
	// Seq refuses the change (CodeConflict, with the Tenant as it is now) when the tenant has another sequence by
	// now: somebody has changed it since it was looked at.
	Seq    *int64
	Reason string // for the audit trail; may be empty
}

// TenantQuery filters tenants. Q is a part of the name, or a whole id or
// external id. State "" means all but deleted.
type TenantQuery struct {
	Q             string
	Plan          string
	State         policy.TenantState
	WithOverrides bool       // only those with values of their own or boosts
	Sort          TenantSort // by name leaves deleted ones out
	Page          Page
}

// TenantSort is an order of tenants.
type TenantSort string

// Orders of tenants.
const (
	SortNewest TenantSort = "" // the newest first
	SortName   TenantSort = "name"
)

// Create makes a tenant. Its plan must be in the policy in force; before the
// first publication any well-formed plan will do, and that publication must
// then have it.
func (s *Tenants) Create(ctx context.Context, actor Actor, in NewTenant) (Tenant, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return Tenant{}, err
	}
	var p problems
	t := Tenant{
		Name: p.name("name", in.Name), ExternalID: p.text("external_id", in.ExternalID, maxName, false),
		Plan: p.plan(in.Plan), TimeZone: p.timeZone(in.TimeZone), QuotaAnchor: p.date("quota_anchor", in.QuotaAnchor),
		Contacts: p.contacts(in.Contacts), State: policy.TenantActive, Seq: 1,
	}
	if err := p.err(); err != nil {
		return Tenant{}, err
	}
	var err error
	if t.ID, err = s.d.newID("ten"); err != nil {
		return Tenant{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		t.CreatedAt = s.d.now()
		t.UpdatedAt = t.CreatedAt
		if err := planInForce(ctx, tx, t.Plan); err != nil {
			return err
		}
		if err := tx.InsertTenant(ctx, t); err != nil {
			return err
		}
		_, err := s.saved(ctx, tx, actor, event{action: "tenant.create", after: viewTenant(t)}, t)
		return err
	})
	return s.done(t, err)
}

// Update changes what a tenant is called, its plan, and what else is said of it.
func (s *Tenants) Update(ctx context.Context, actor Actor, id string, in TenantPatch) (Tenant, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return Tenant{}, err
	}
	reason, err := optionalReason(in.Reason)
	if err != nil {
		return Tenant{}, err
	}
	var t Tenant
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		before, err := lockLiveTenant(ctx, tx, id)
		if err != nil {
			return err
		}
		if in.Seq != nil && *in.Seq != before.Seq {
			return &Error{Code: CodeConflict, Public: "Somebody has changed the tenant since. Look at it again.", Detail: before}
		}
		if t, err = patched(before, in); err != nil {
			return err
		}
		if reflect.DeepEqual(t, before) {
			return nil
		}
		if t.Plan != before.Plan {
			if err := planInForce(ctx, tx, t.Plan); err != nil {
				return err
			}
		}
		_, err = s.update(ctx, tx, actor, "tenant.update", reason, before, &t)
		return err
	})
	return s.done(t, err)
}

func patched(t Tenant, in TenantPatch) (Tenant, error) {
	var p problems
	if in.Name != nil {
		t.Name = p.name("name", *in.Name)
	}
	if in.ExternalID != nil {
		t.ExternalID = p.text("external_id", *in.ExternalID, maxName, false)
	}
	if in.Plan != nil {
		t.Plan = p.plan(*in.Plan)
	}
	if in.TimeZone != nil {
		t.TimeZone = p.timeZone(*in.TimeZone)
	}
	if in.QuotaAnchor != nil {
		t.QuotaAnchor = p.date("quota_anchor", *in.QuotaAnchor)
	}
	if in.Contacts != nil {
		t.Contacts = p.contacts(*in.Contacts)
	}
	return t, p.err()
}

// Get returns a tenant, also a deleted one.
func (s *Tenants) Get(ctx context.Context, id string) (t Tenant, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		t, err = tx.Tenant(ctx, id)
		return err
	})
	return t, err
}

// List returns tenants, the newest first, and the cursor to the next page.
func (s *Tenants) List(ctx context.Context, q TenantQuery) (items []Tenant, next string, err error) {
	return paged(ctx, s.d.Store, q.Page, func(tx Tx, after Cursor, limit int) ([]Tenant, error) {
		return tx.Tenants(ctx, q, after, limit)
	}, func(t Tenant) Cursor { return Cursor{At: t.CreatedAt, ID: t.ID} })
}

// Count counts tenants that are not deleted.
func (s *Tenants) Count(ctx context.Context) (n int64, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		n, err = tx.CountTenants(ctx)
		return err
	})
	return n, err
}

// CountByPlan counts the tenants on each plan, those that are not deleted.
func (s *Tenants) CountByPlan(ctx context.Context) (n map[string]int64, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		n, err = tx.CountByPlan(ctx)
		return err
	})
	return n, err
}

// Suspend stops all of a tenant's calls until Resume. A reason is compulsory.
func (s *Tenants) Suspend(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	reason, err := requiredReason(reason)
	if err != nil {
		return Change{}, err
	}
	return s.move(ctx, actor, id, "tenant.suspend", reason, policy.TenantActive, policy.TenantSuspended)
}

// Resume ends a suspension.
func (s *Tenants) Resume(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	reason, err := optionalReason(reason)
	if err != nil {
		return Change{}, err
	}
	return s.move(ctx, actor, id, "tenant.resume", reason, policy.TenantSuspended, policy.TenantActive)
}

func (s *Tenants) move(ctx context.Context, actor Actor, id, action, reason string, from, to policy.TenantState) (Change, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return Change{}, err
	}
	var c Change
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		before, err := lockLiveTenant(ctx, tx, id)
		if err != nil {
			return err
		}
		if before.State != from {
			return conflict("The tenant is " + string(before.State) + ".")
		}
		t := before
		t.State, t.Reason = to, ""
		if to == policy.TenantSuspended {
			t.Reason = reason
		}
		c, err = s.update(ctx, tx, actor, action, reason, before, &t)
		return err
	})
	_, err = s.done(Tenant{}, err)
	return c, err
}

// Delete ends a tenant for good: its keys are revoked, its rotations and its own
// values ended. The rows are kept. A reason is compulsory.
func (s *Tenants) Delete(ctx context.Context, actor Actor, id, reason string) (Change, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return Change{}, err
	}
	reason, err := requiredReason(reason)
	if err != nil {
		return Change{}, err
	}
	var c Change
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		before, err := lockLiveTenant(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := s.d.offboard(ctx, tx, actor, id, reason); err != nil {
			return err
		}
		own, err := NewOverrides(s.d).open(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if err := own.endAll(ctx, reason); err != nil {
			return err
		}
		t := before
		t.State, t.Reason = policy.TenantDeleted, reason
		c, err = s.update(ctx, tx, actor, "tenant.delete", reason, before, &t)
		return err
	})
	_, err = s.done(Tenant{}, err)
	return c, err
}

// RecordView writes the audit event of an operator who looks at a tenant's own
// page, and returns the tenant.
func (s *Tenants) RecordView(ctx context.Context, actor Actor, id string) (Tenant, error) {
	if err := actor.need(PermViewAsTenant); err != nil {
		return Tenant{}, err
	}
	var t Tenant
	err := s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		if t, err = tx.Tenant(ctx, id); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, s.d.now(), event{action: "tenant.view-as", object: "tenant", objectID: id, tenantID: id})
	})
	return t, err
}

// update writes t over before, with its record for the gateways and its event.
func (s *Tenants) update(ctx context.Context, tx Tx, actor Actor, action, reason string, before Tenant, t *Tenant) (Change, error) {
	t.Seq, t.UpdatedAt = before.Seq+1, s.d.now()
	if err := tx.UpdateTenant(ctx, *t); err != nil {
		return Change{}, err
	}
	return s.saved(ctx, tx, actor, event{action: action, reason: reason, before: viewTenant(before), after: viewTenant(*t)}, *t)
}

func (s *Tenants) saved(ctx context.Context, tx Tx, actor Actor, ev event, t Tenant) (Change, error) {
	id, err := tx.InsertOutbox(ctx, OutboxTenant, t.ID, t.UpdatedAt)
	if err != nil {
		return Change{}, fmt.Errorf("insert outbox row of tenant %s: %w", t.ID, err)
	}
	ev.object, ev.objectID, ev.tenantID = "tenant", t.ID, t.ID
	return Change{OutboxID: id}, s.d.record(ctx, tx, actor, t.UpdatedAt, ev)
}

func (s *Tenants) done(t Tenant, err error) (Tenant, error) {
	if err != nil {
		return Tenant{}, err
	}
	s.d.Nudge()
	return t, nil
}

func lockLiveTenant(ctx context.Context, tx Tx, id string) (Tenant, error) {
	t, err := tx.LockTenant(ctx, id)
	if err != nil {
		return Tenant{}, err
	}
	if t.State == policy.TenantDeleted {
		return Tenant{}, conflict("The tenant has been deleted.")
	}
	return t, nil
}

// planInForce refuses a plan that the version in force lacks, and keeps
// publishers waiting until the transaction ends, so that none drops it meanwhile.
func planInForce(ctx context.Context, tx Tx, plan string) error {
	number, err := tx.ShareHead(ctx)
	if err != nil || number == 0 {
		return err
	}
	v, err := tx.Version(ctx, number)
	if err != nil {
		return err
	}
	doc, err := v.Document()
	if err != nil {
		return fmt.Errorf("read version %d: %w", number, err)
	}
	return planIn(doc, plan)
}

// planIn refuses a plan that a document lacks.
func planIn(doc *policy.Document, plan string) error {
	if _, ok := doc.Plans[plan]; ok {
		return nil
	}
	names := make([]string, 0, len(doc.Plans))
	for n := range doc.Plans {
		names = append(names, n)
	}
	slices.Sort(names)
	return invalid(FieldError{Field: "plan", Message: "The policy in force has no such plan; it has " + strings.Join(names, ", ") + "."})
}

// minTime is the earlier of two times, of which nil is never.
func minTime(a time.Time, b *time.Time) time.Time {
	if b != nil && b.Before(a) {
		return *b
	}
	return a
}
