package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
)

// Quota is how a tenant's quota stood when Redis and the ledger were compared last.
type Quota struct {
	TenantID    string     `json:"tenant_id"`
	Tenant      string     `json:"tenant" doc:"Its name"`
	Plan        string     `json:"plan"`
	Period      string     `json:"period" enum:"day,week,month,year,lifetime"`
	Start       time.Time  `json:"start" doc:"Of the period"`
	End         *time.Time `json:"end,omitempty" doc:"Absent: it does not renew"`
	TimeZone    string     `json:"time_zone"`
	Counts      string     `json:"counts" enum:"cost,requests"`
	Over        string     `json:"over" enum:"block,bill"`
	Amount      int64      `json:"amount" doc:"Granted units included"`
	Max         int64      `json:"max,omitempty" doc:"Of a quota that bills; absent: no bound"`
	Granted     int64      `json:"granted"`
	Used        int64      `json:"used" doc:"The larger of what Redis and the ledger know"`
	Left        int64      `json:"left" doc:"Of the amount, never below 0"`
	Redis       *int64     `json:"redis,omitempty" doc:"What Redis counts; absent: there is no counter"`
	Ledger      int64      `json:"ledger"`
	Drift       int64      `json:"drift" doc:"Ledger minus Redis; a little below 0 is what is on its way"`
	Complete    bool       `json:"complete" doc:"All live replicas had brought their use to the ledger but for the last seconds"`
	ComparedAt  time.Time  `json:"compared_at"`
	HealedAt    *time.Time `json:"healed_at,omitempty" doc:"When Redis' counter was corrected last"`
	HealedUnits int64      `json:"healed_units,omitempty" doc:"By how much; negative: lowered"`
}

func quotaOf(s console.QuotaStanding) Quota {
	return Quota{
		TenantID: s.TenantID, Tenant: s.TenantName, Plan: s.Plan, Period: s.Period, Start: s.Start, End: s.End, TimeZone: s.TimeZone,
		Counts: s.Counts, Over: s.Over, Amount: s.Amount, Max: s.Most, Granted: s.Granted, Used: s.Used(), Left: s.Left(),
		Redis: s.Redis, Ledger: s.Ledger, Drift: s.Drift(), Complete: s.Complete, ComparedAt: s.ComparedAt, HealedAt: s.HealedAt, HealedUnits: s.HealedUnits,
	}
}

// QuotaForecast is what becomes of a quota if use goes on as in the last four weeks.
type QuotaForecast struct {
	Known    bool       `json:"known"`
	Why      string     `json:"why,omitempty" doc:"Why it is not"`
	Days     int        `json:"days,omitempty" doc:"Of use that it rests on"`
	Use      int64      `json:"use,omitempty" doc:"What will have been used when the period ends, of a lifetime in a year"`
	Low      int64      `json:"low,omitempty" doc:"Four of five futures lie between low and high"`
	High     int64      `json:"high,omitempty"`
	Chance   int        `json:"chance,omitempty" doc:"Percentage of futures in which the amount does not last"`
	RunsOut  *time.Time `json:"runs_out,omitempty" doc:"When it is used up, in the middle future"`
	Earliest *time.Time `json:"earliest,omitempty" doc:"The same in one future of ten"`
	At       time.Time  `json:"at"`
}

func forecastOf(f console.QuotaForecast) QuotaForecast {
	return QuotaForecast{
		Known: f.Known, Why: f.Why, Days: f.Days, Use: f.Use, Low: f.Low, High: f.High, Chance: f.Chance, RunsOut: f.RunsOut, Earliest: f.Earliest, At: f.At,
	}
}

// QuotaGrant is units that were given once.
type QuotaGrant struct {
	ID     string     `json:"id" example:"gra_abcdefghij234567"`
	Start  time.Time  `json:"start" doc:"Of the period that they belong to and end with"`
	End    *time.Time `json:"end,omitempty"`
	Units  int64      `json:"units"`
	Reason string     `json:"reason"`
	Author string     `json:"author"`
	At     time.Time  `json:"at"`
}

func grantOf(g console.QuotaGrant) QuotaGrant {
	return QuotaGrant{ID: g.ID, Start: g.Start, End: g.End, Units: g.Units, Reason: g.Reason, Author: g.Author, At: g.At}
}

// QuotaLoss is that Redis lost counters, and that they were rebuilt.
type QuotaLoss struct {
	SeenAt    time.Time `json:"seen_at"`
	RebuiltAt time.Time `json:"rebuilt_at"`
	Lanes     int       `json:"lanes" doc:"Of 256"`
	Tenants   int64     `json:"tenants"`
	Raised    int64     `json:"raised" doc:"Of these tenants' counters"`
	Complete  bool      `json:"complete"`
	Missing   []string  `json:"missing,omitempty" doc:"Replicas that were not waited for any longer"`
}

func lossOf(l console.QuotaLoss) QuotaLoss {
	return QuotaLoss{SeenAt: l.SeenAt, RebuiltAt: l.RebuiltAt, Lanes: l.Lanes, Tenants: l.Tenants, Raised: l.Raised, Complete: l.Complete, Missing: l.Missing}
}

type (
	quotasIn struct{ Paging }
	// quotaList is a page of the reconciliation.
	quotaList struct {
		List[Quota]
		Tenants int64       `json:"tenants" doc:"That have a quota"`
		Apart   int64       `json:"apart" doc:"Of which Redis and the ledger do not agree"`
		Drift   int64       `json:"drift" doc:"By how many units in all, either way"`
		Losses  []QuotaLoss `json:"losses" nullable:"false" doc:"The newest ten"`
	}
	tenantQuota struct {
		Quota
		Forecast QuotaForecast `json:"forecast"`
		Grants   []QuotaGrant  `json:"grants" nullable:"false" doc:"The newest first, at most 100"`
	}
	quotaGrantIn struct {
		TenantPath
		Repeatable
		Body struct {
			Units  int64  `json:"units" doc:"1 or more: a grant takes nothing away"`
			Reason string `json:"reason" maxLength:"500"`
		}
	}
	quotaResetIn struct {
		TenantPath
		Body struct {
			Reason string `json:"reason" maxLength:"500"`
		}
	}
	quotaReset struct {
		ID    string    `json:"id" example:"qrs_abcdefghij234567"`
		Units int64     `json:"units" doc:"That no longer count"`
		At    time.Time `json:"at"`
	}
)

func (a *API) registerQuotas() {
	register(a, op{id: "list-quotas", method: "GET", path: "/quotas", summary: "Compare Redis' counters and the ledger, the furthest apart first", perm: console.PermView}, a.listQuotas)
	register(a, op{id: "get-quota", method: "GET", path: "/tenants/{tenant}/quota", summary: "Get a tenant's quota, its forecast and grants", perm: console.PermView, errors: []int{404}}, a.getQuota)
	register(a, op{id: "grant-quota", method: "POST", path: "/tenants/{tenant}/quota/grants", summary: "Give units on top of the current period's amount, for good", perm: console.PermManageTenants, status: 201, errors: []int{404, 409}}, a.grantQuota)
	register(a, op{id: "reset-quota", method: "POST", path: "/tenants/{tenant}/quota/reset", summary: "Begin a lifetime quota's counting anew", perm: console.PermManageTenants, errors: []int{404, 409}}, a.resetQuota)
}

func (a *API) listQuotas(ctx context.Context, in *quotasIn) (*Body[quotaList], error) {
	page, err := a.Quotas.Compared(ctx, actorOf(ctx), in.page())
	if err != nil {
		return nil, err
	}
	return &Body[quotaList]{quotaList{
		List: listOf(page.Items, page.Next, quotaOf), Tenants: page.Drift.Tenants, Apart: page.Drift.Apart, Drift: page.Drift.Units,
		Losses: listOf(page.Losses, "", lossOf).Items,
	}}, nil
}

func (a *API) getQuota(ctx context.Context, in *TenantPath) (*Body[tenantQuota], error) {
	standing, err := a.Quotas.Standing(ctx, actorOf(ctx), in.Tenant)
	if err != nil {
		return nil, err
	}
	grants, err := a.Quotas.Grants(ctx, actorOf(ctx), in.Tenant)
	if err != nil {
		return nil, err
	}
	forecast, err := a.Quotas.Forecast(ctx, actorOf(ctx), in.Tenant)
	if err != nil {
		return nil, err
	}
	return &Body[tenantQuota]{tenantQuota{Quota: quotaOf(standing), Forecast: forecastOf(forecast), Grants: listOf(grants, "", grantOf).Items}}, nil
}

func (a *API) grantQuota(ctx context.Context, in *quotaGrantIn) (*Body[QuotaGrant], error) {
	return once(ctx, a, "quota.grant", in.Repeatable, []any{in.Tenant, in.Body}, false, func(o *Body[QuotaGrant]) any { return o }, func() (*Body[QuotaGrant], error) {
		out, err := a.Quotas.Grant(ctx, actorOf(ctx), in.Tenant, console.NewQuotaGrant{Units: in.Body.Units, Reason: in.Body.Reason})
		if err != nil {
			return nil, err
		}
		return &Body[QuotaGrant]{grantOf(out.Grant)}, nil
	})
}

func (a *API) resetQuota(ctx context.Context, in *quotaResetIn) (*Body[quotaReset], error) {
	r, err := a.Quotas.Reset(ctx, actorOf(ctx), in.Tenant, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	return &Body[quotaReset]{quotaReset{ID: r.ID, Units: r.Units, At: r.At}}, nil
}
