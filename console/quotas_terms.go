package console

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
)

// quotaPage is how many tenants are looked at together.
const quotaPage = 500

// cases are the quotas of those of the tenants that have one, at a time of Redis'
// clock, as gateways see them.
func (s *Quotas) cases(ctx context.Context, tx Tx, tenants []Tenant, now time.Time) ([]quotaCase, error) {
	have, err := s.laws.inForce(ctx, tx)
	if err != nil || have == nil {
		return nil, err
	}
	var with []Tenant
	var ids []string
	for _, t := range tenants {
		if t.State != policy.TenantDeleted && have.Quotas[t.Plan] != nil {
			with, ids = append(with, t), append(ids, t.ID)
		}
	}
	if len(with) == 0 {
		return nil, nil
	}
	terms, err := withOverrides(ctx, tx, with)
	if err != nil {
		return nil, err
	}
	resets, err := tx.QuotaResets(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read resets of quotas: %w", err)
	}
	forgiven := map[string]int64{}
	for _, r := range resets {
		forgiven[counterName(r.TenantID, r.Start)] = r.Units
	}
	out := make([]quotaCase, 0, len(with))
	for _, t := range terms {
		if c, limited := t.quota(have.Quotas[t.Plan], now); limited {
			c.forgiven = forgiven[counterName(t.ID, c.counter.Start)]
			out = append(out, c)
		}
	}
	return out, nil
}

// counterName tells periods of tenants apart.
func counterName(tenantID string, start time.Time) string {
	return fmt.Sprintf("%s %d", tenantID, start.UnixMicro())
}

// quota is what a plan's quota comes to for the tenant; false when it is unlimited.
// What cannot be read of the tenant's own does not hold, here as on gateways.
func (t tenantTerms) quota(q *policy.CompiledQuota, now time.Time) (quotaCase, bool) {
	record := t.record()
	c := quotaCase{tenant: t.Tenant, quota: q, zone: q.TimeZone}
	var zone *time.Location
	if record.TimeZone != "" {
		if z, err := time.LoadLocation(record.TimeZone); err == nil {
			zone, c.zone = z, record.TimeZone
		}
	}
	var anchor time.Time
	if a, err := time.Parse(time.DateOnly, record.QuotaAnchor); err == nil {
		anchor = a
	}
	c.counter.Tenant = t.ID
	c.counter.Start, c.counter.End = q.PeriodAt(now, anchor, zone)
	own, err := policy.CompileOverrides(record.Overrides)
	if err != nil {
		own = nil
	}
	grants, err := policy.CompileGrants(record.Grants)
	if err != nil {
		grants = nil
	}
	amount, most, from := own.Quota(q, now.UnixMicro())
	c.amount, c.most, from = grants.Add(c.counter.Start.UnixMicro(), amount, most, from)
	c.granted = from.Granted
	return c, !from.Unlimited
}

// began is when the tenant can first have used anything of the period.
func (c *quotaCase) began() time.Time {
	if c.tenant.CreatedAt.After(c.counter.Start) {
		return c.tenant.CreatedAt
	}
	return c.counter.Start
}

// sums fills in what the ledger has of each case. Whatever was admitted counts: also what a
// fallback admitted while Redis was away, and what was interrupted.
func (s *Quotas) sums(ctx context.Context, cases []quotaCase) error {
	if len(cases) == 0 {
		return nil
	}
	asks := make([]LedgerAsk, len(cases))
	for i, c := range cases {
		asks[i] = LedgerAsk{TenantID: c.tenant.ID, From: c.counter.Start, To: c.counter.End}
	}
	sums, err := s.ledger.Sums(ctx, asks)
	if err != nil {
		return fmt.Errorf("add up what tenants used: %w", err)
	}
	if len(sums) != len(asks) {
		return fmt.Errorf("add up what tenants used: %d answers for %d asks", len(sums), len(asks))
	}
	for i := range cases {
		units := sums[i].Cost + sums[i].InterruptedCost
		if cases[i].quota.Counts == policy.CountsRequests {
			units = sums[i].Admitted + sums[i].Interrupted
		}
		cases[i].ledger = min(max(units-cases[i].forgiven, 0), policy.MaxAmount)
	}
	return nil
}

// each reads all quotas, some hundred tenants at a time, with what the ledger has of them.
func (s *Quotas) each(ctx context.Context, now time.Time, do func(context.Context, []quotaCase) error) error {
	for after := ""; ; {
		var tenants []Tenant
		var cases []quotaCase
		err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
			if tenants, err = tx.DirectoryTenants(ctx, after, now, quotaPage); err != nil {
				return err
			}
			cases, err = s.cases(ctx, tx, tenants, now)
			return err
		})
		if err != nil {
			return fmt.Errorf("read tenants with quotas: %w", err)
		}
		if len(tenants) == 0 {
			return nil
		}
		after = tenants[len(tenants)-1].ID
		if err := s.sums(ctx, cases); err != nil {
			return err
		}
		if err := do(ctx, cases); err != nil {
			return err
		}
	}
}
