package console

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
)

// NewQuotaGrant is units to give once.
type NewQuotaGrant struct {
	Units  int64 // 1 to policy.MaxAmount with what there is
	Reason string
}

// GrantGiven is a grant and how it travels to gateways.
type GrantGiven struct {
	Grant  QuotaGrant
	Change Change
}

// Grant gives a tenant units on top of its quota, in the period that it is in. They end with
// the period. There is no way to take them back: who wants less lowers the amount.
func (s *Quotas) Grant(ctx context.Context, actor Actor, tenantID string, in NewQuotaGrant) (out GrantGiven, err error) {
	if err := actor.need(PermManageTenants); err != nil {
		return out, err
	}
	reason, err := requiredReason(in.Reason)
	if err != nil {
		return out, err
	}
	id, err := s.d.newID("gra")
	if err != nil {
		return out, err
	}
	at := s.redisNow(ctx)
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		t, err := lockLiveTenant(ctx, tx, tenantID)
		if err != nil {
			return err
		}
		c, err := s.caseOf(ctx, tx, tenantID, at)
		if err != nil {
			return err
		}
		if in.Units < 1 || in.Units > policy.MaxAmount-c.amount {
			return invalid(FieldError{Field: "units", Message: fmt.Sprintf("From 1 to %d: a grant adds to the %d that the quota has.", policy.MaxAmount-c.amount, c.amount)})
		}
		out.Grant = QuotaGrant{
			ID: id, TenantID: tenantID, Start: c.counter.Start.UTC(), End: c.end(), Units: in.Units,
			Reason: reason, AuthorID: actor.ID, Author: actor.Name, At: s.d.now(),
		}
		if err := tx.InsertQuotaGrant(ctx, out.Grant); err != nil {
			return fmt.Errorf("insert grant of tenant %s: %w", tenantID, err)
		}
		ev := event{
			action: "quota.grant", reason: reason, before: quotaAmountView{c.amount, c.granted}, after: quotaAmountView{c.amount + in.Units, c.granted + in.Units},
		}
		out.Change, err = s.tell(ctx, tx, actor, t, ev)
		return err
	})
	if err != nil {
		return GrantGiven{}, err
	}
	s.d.Nudge()
	return out, nil
}

// quotaAmountView is an amount in the audit trail.
type quotaAmountView struct {
	Amount  int64 `json:"amount"`
	Granted int64 `json:"granted"`
}

// quotaUsedView is use in the audit trail.
type quotaUsedView struct {
	Used int64 `json:"used"`
}

// tell gives the tenant's record a new sequence, sends it on its way and writes the event.
func (s *Quotas) tell(ctx context.Context, tx Tx, actor Actor, t Tenant, ev event) (Change, error) {
	t.Seq, t.UpdatedAt = t.Seq+1, s.d.now()
	if err := tx.UpdateTenant(ctx, t); err != nil {
		return Change{}, err
	}
	id, err := tx.InsertOutbox(ctx, OutboxTenant, t.ID, t.UpdatedAt)
	if err != nil {
		return Change{}, fmt.Errorf("insert outbox row of tenant %s: %w", t.ID, err)
	}
	ev.object, ev.objectID, ev.tenantID = "tenant", t.ID, t.ID
	return Change{OutboxID: id}, s.d.record(ctx, tx, actor, t.UpdatedAt, ev)
}

// Grants lists a tenant's grants, the newest first, at most 100.
func (s *Quotas) Grants(ctx context.Context, actor Actor, tenantID string) (out []QuotaGrant, err error) {
	if err := actor.needOf(tenantID, PermView, PermOwnTenant); err != nil {
		return nil, err
	}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.QuotaGrants(ctx, tenantID, maxGrantsShown)
		return err
	})
	return out, err
}

const maxGrantsShown = 100

// redisNow is Redis' clock, by which periods are chosen; the console's own while Redis is away.
func (s *Quotas) redisNow(ctx context.Context) time.Time {
	if now, err := s.d.Feed.Now(ctx); err == nil {
		return now
	}
	return s.d.now()
}

// Reset begins a lifetime quota's counting anew. The ledger keeps what was used; so many units
// of it no longer count. It is CodeConflict for a quota that renews by itself, and when nothing was used. When Redis
// is away, its counter follows within a minute of its return.
func (s *Quotas) Reset(ctx context.Context, actor Actor, tenantID, reason string) (QuotaReset, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return QuotaReset{}, err
	}
	reason, err := requiredReason(reason)
	if err != nil {
		return QuotaReset{}, err
	}
	c, used, err := s.lifetimeUse(ctx, tenantID)
	if err != nil {
		return QuotaReset{}, err
	}
	id, err := s.d.newID("qrs")
	if err != nil {
		return QuotaReset{}, err
	}
	r := QuotaReset{
		ID: id, TenantID: tenantID, Start: c.counter.Start.UTC(), Units: used, Reason: reason, AuthorID: actor.ID, Author: actor.Name, At: s.d.now(),
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		if _, err := lockLiveTenant(ctx, tx, tenantID); err != nil {
			return err
		}
		since, err := tx.QuotaResets(ctx, []string{tenantID})
		if err != nil {
			return err
		}
		for _, have := range since {
			if have.Start.Equal(r.Start) && have.Units != c.forgiven {
				return conflict("Somebody has reset the quota just now. Look at it again.")
			}
		}
		if err := tx.InsertQuotaReset(ctx, r); err != nil {
			return fmt.Errorf("insert reset of tenant %s: %w", tenantID, err)
		}
		return s.d.record(ctx, tx, actor, r.At, event{
			action: "quota.reset", object: "tenant", objectID: tenantID, tenantID: tenantID, reason: reason, before: quotaUsedView{used}, after: quotaUsedView{0},
		})
	})
	if err != nil {
		return QuotaReset{}, err
	}
	if s.feed != nil {
		c.counter.Units = used
		if _, err := s.feed.LowerQuotas(ctx, []policy.QuotaCounter{c.counter}); err != nil {
			s.d.Log.WarnContext(ctx, "counter of a quota follows its reset later", "tenant", tenantID, "error", err)
		}
	}
	return r, nil
}

// lifetimeUse is a lifetime quota and what was used of it: by Redis or by the ledger,
// whichever has more.
func (s *Quotas) lifetimeUse(ctx context.Context, tenantID string) (quotaCase, int64, error) {
	at := s.redisNow(ctx)
	var c quotaCase
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		c, err = s.caseOf(ctx, tx, tenantID, at)
		return err
	})
	if err != nil {
		return c, 0, err
	}
	if c.quota.Period != policy.PeriodLifetime {
		return c, 0, conflict(fmt.Sprintf("This quota renews by itself on %s. Grant units instead.", c.counter.End.In(locationOf(c.zone)).Format("2 January 2006 15:04 MST")))
	}
	cases := []quotaCase{c}
	if err := s.sums(ctx, cases); err != nil {
		return c, 0, err
	}
	used := cases[0].ledger
	if s.feed != nil {
		if units, err := s.feed.QuotaUnits(ctx, []policy.QuotaCounter{c.counter}); err == nil {
			used = max(used, units[0])
		}
	}
	if used == 0 {
		return c, 0, conflict("Nothing of this quota has been used.")
	}
	return cases[0], used, nil
}

func locationOf(zone string) *time.Location {
	if z, err := time.LoadLocation(zone); err == nil {
		return z
	}
	return time.UTC
}
