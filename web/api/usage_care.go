package api

import (
	"context"
	"reflect"
	"time"

	"github.com/headgate/headgate/console"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// UsageStanding says how complete the ledger is.
type UsageStanding struct {
	At         time.Time  `json:"at"`
	Through    *time.Time `json:"through,omitempty" doc:"Complete up to then; absent: unknown"`
	LagSeconds float64    `json:"lag_seconds" doc:"How far that is behind, by the slowest gateway that is alive"`
	Missing    int64      `json:"missing" doc:"Events that are missing for good, of all time"`
	Held       int64      `json:"held" doc:"Events in quarantine"`
	RollupLag  int64      `json:"rollup_lag" doc:"Transactions that are not added up yet; they are counted all the same"`
	MonthsTo   *time.Time `json:"months_to,omitempty" doc:"Partitions of events are there up to then"`
	Problems   []string   `json:"problems" nullable:"false" doc:"Each worth an alarm; none: all is well"`

	Runs []UsageRun `json:"runs" nullable:"false" doc:"Boots of gateways that were heard within a day"`
	Gaps []UsageGap `json:"gaps" nullable:"false"`
}

// UsageRun is how far the ledger has one boot of a gateway.
type UsageRun struct {
	Gateway string     `json:"gateway"`
	Boot    string     `json:"boot"`
	Seq     int64      `json:"seq" doc:"All events up to this number are in"`
	Ahead   int64      `json:"ahead" doc:"Events beyond a gap"`
	Through *time.Time `json:"through,omitempty"`
	Ended   bool       `json:"ended"`
	HeardAt time.Time  `json:"heard_at"`
}

// UsageGap is numbers that a gateway did not tell.
type UsageGap struct {
	Gateway string    `json:"gateway"`
	Boot    string    `json:"boot"`
	First   int64     `json:"first"`
	Last    int64     `json:"last"`
	Missing int64     `json:"missing" doc:"0: all of them came later"`
	NotedAt time.Time `json:"noted_at"`
}

// HeldUsage is what the ledger did not take.
type HeldUsage struct {
	ID         int64       `json:"id"`
	Reason     string      `json:"reason" doc:"late, early, unknown-tenant, refused, unreadable"`
	Detail     string      `json:"detail"`
	Event      *UsageEvent `json:"event,omitempty" doc:"Absent for a batch that could not be read"`
	Events     int64       `json:"events"`
	ReceivedAt time.Time   `json:"received_at"`
	State      string      `json:"state" enum:"held,released,discarded"`
	DecidedBy  string      `json:"decided_by,omitempty"`
	DecidedWhy string      `json:"decided_why,omitempty"`
}

// UsagePeriod is a billing period that was closed.
type UsagePeriod struct {
	ID          string    `json:"id"`
	Tenant      string    `json:"tenant"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	ClosedAt    time.Time `json:"closed_at"`
	ClosedBy    string    `json:"closed_by"`
	Note        string    `json:"note,omitempty"`
	Sums        UsageSums `json:"sums" doc:"As they were when it was closed; they never change"`
	Adjusted    UsageSums `json:"adjusted" doc:"What came for it later"`
	Adjustments int64     `json:"adjustments" doc:"Events of those"`

	Lines []UsageAdjustment `json:"lines,omitempty" doc:"What came later, by key, route and outcome; of one period only"`
}

// UsageAdjustment is what came for a period after it was closed.
type UsageAdjustment struct {
	KID      string    `json:"kid"`
	Route    string    `json:"route"`
	Outcome  string    `json:"outcome"`
	Requests int64     `json:"requests"`
	Cost     int64     `json:"cost"`
	Events   int64     `json:"events"`
	FirstAt  time.Time `json:"first_at"`
	LastAt   time.Time `json:"last_at"`
	NotedAt  time.Time `json:"noted_at"`
}

type (
	heldIn struct {
		Paging
		State string `query:"state" enum:"held,released,discarded" default:"held"`
	}
	heldActIn struct {
		Body struct {
			IDs    []int64 `json:"ids" minItems:"1" maxItems:"1000"`
			Reason string  `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail"`
		}
	}
	heldActOut struct {
		Events int64 `json:"events" doc:"Rows that were decided on; those decided before are left as they are"`
	}
	rebuildIn struct {
		Body struct {
			From time.Time `json:"from" doc:"Whole days of UTC are added up again"`
			To   time.Time `json:"to"`
		}
	}
	// RebuiltUsage is what a rebuild did.
	RebuiltUsage struct {
		From    time.Time `json:"from"`
		To      time.Time `json:"to"`
		Rows    int64     `json:"rows" doc:"Rows of sums that are there now"`
		Changed int64     `json:"changed" doc:"Quarters of hours whose sums were wrong"`
	}
	periodsIn struct {
		Paging
		Tenant string `query:"tenant" maxLength:"64"`
	}
	periodIn struct {
		Period string `path:"period" maxLength:"64"`
	}
	periodCloseIn struct {
		Body struct {
			Tenant string    `json:"tenant" maxLength:"64"`
			From   time.Time `json:"from"`
			To     time.Time `json:"to" doc:"The first moment beyond the period, a quarter of an hour ago at the latest"`
			Note   string    `json:"note,omitempty" maxLength:"500"`
		}
	}
	correctionIn struct {
		Repeatable
		Body struct {
			Tenant string    `json:"tenant" maxLength:"64"`
			KID    string    `json:"kid,omitempty" maxLength:"64"`
			Route  string    `json:"route,omitempty" maxLength:"200"`
			At     time.Time `json:"at" doc:"The second that it belongs to"`
			Cost   int64     `json:"cost" doc:"Units to add; negative to give back"`
			Reason string    `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail"`
		}
	}
)

// registerUsageCare is what keeps the ledger right.
func (a *API) registerUsageCare() {
	register(a, op{id: "get-usage-standing", method: "GET", path: "/usage/standing", summary: "How complete the ledger is", perm: console.PermView}, a.usageStanding)
	register(a, op{id: "list-held-usage", method: "GET", path: "/usage/held", summary: "What the ledger did not take", perm: console.PermView}, a.heldUsage)
	register(a, op{id: "release-held-usage", method: "POST", path: "/usage/held/release", summary: "Take held events into the ledger", perm: console.PermManageTenants}, a.heldAct(a.release))
	register(a, op{id: "discard-held-usage", method: "POST", path: "/usage/held/discard", summary: "Decide that held events are never counted", perm: console.PermManageTenants}, a.heldAct(a.discard))
	register(a, op{id: "rebuild-usage", method: "POST", path: "/usage/rebuild", summary: "Add sums up again from the events", perm: console.PermManageTenants}, a.rebuildUsage)
	register(a, op{id: "list-usage-periods", method: "GET", path: "/usage/periods", summary: "Closed billing periods, the last closed first", perm: console.PermView}, a.usagePeriods)
	register(a, op{id: "get-usage-period", method: "GET", path: "/usage/periods/{period}", summary: "A closed billing period, with what came later", perm: console.PermView, errors: []int{404}}, a.usagePeriod)
	register(a, op{id: "close-usage-period", method: "POST", path: "/usage/periods", summary: "Close a billing period: what comes later is an adjustment", perm: console.PermManageTenants, status: 201, errors: []int{409}}, a.closePeriod)
	register(a, op{id: "correct-usage", method: "POST", path: "/usage/corrections", summary: "Add a correction of cost to the ledger, as a row of its own", perm: console.PermManageTenants, status: 201, errors: []int{409}}, a.correctUsage)
}

func (a *API) usageStanding(ctx context.Context, _ *struct{}) (*Body[UsageStanding], error) {
	st, err := a.Ledger.Standing(ctx)
	if err != nil {
		return nil, err
	}
	out := UsageStanding{At: st.At, Through: known(st.Through), LagSeconds: st.Lag.Seconds(), Missing: st.Missing, Held: st.Held + st.HeldBatch, RollupLag: st.RollupLag,
		MonthsTo: known(st.MonthsTo), Problems: orEmpty(st.Problems), Runs: []UsageRun{}, Gaps: []UsageGap{}}
	for _, r := range st.Runs {
		out.Runs = append(out.Runs, UsageRun{Gateway: r.Replica, Boot: r.Boot, Seq: r.Seq, Ahead: r.Ahead, Through: known(r.Through), Ended: r.Final, HeardAt: r.UpdatedAt})
	}
	for _, g := range st.Gaps {
		out.Gaps = append(out.Gaps, UsageGap{Gateway: g.Replica, Boot: g.Boot, First: g.First, Last: g.Last, Missing: g.Missing, NotedAt: g.NotedAt})
	}
	return &Body[UsageStanding]{out}, nil
}

// known is a time, nil when it is not known.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (a *API) heldUsage(ctx context.Context, in *heldIn) (*Body[List[HeldUsage]], error) {
	items, next, err := a.Ledger.Held(ctx, actorOf(ctx), in.State, in.page())
	if err != nil {
		return nil, err
	}
	return &Body[List[HeldUsage]]{listOf(items, next, func(h console.HeldUsage) HeldUsage {
		out := HeldUsage{ID: h.ID, Reason: h.Reason, Detail: h.Detail, Events: h.Events, ReceivedAt: h.ReceivedAt, State: h.State, DecidedBy: h.DecidedBy, DecidedWhy: h.DecidedWhy}
		if h.Event != nil {
			out.Event = new(usageEventOf(h.Event))
		}
		return out
	})}, nil
}

func (a *API) release(ctx context.Context, ids []int64, reason string) (int64, error) {
	return a.Ledger.Release(ctx, actorOf(ctx), ids, reason)
}

func (a *API) discard(ctx context.Context, ids []int64, reason string) (int64, error) {
	return a.Ledger.Discard(ctx, actorOf(ctx), ids, reason)
}

func (a *API) heldAct(act func(context.Context, []int64, string) (int64, error)) func(context.Context, *heldActIn) (*Body[heldActOut], error) {
	return func(ctx context.Context, in *heldActIn) (*Body[heldActOut], error) {
		n, err := act(ctx, in.Body.IDs, in.Body.Reason)
		if err != nil {
			return nil, err
		}
		return &Body[heldActOut]{heldActOut{n}}, nil
	}
}

func (a *API) rebuildUsage(ctx context.Context, in *rebuildIn) (*Body[RebuiltUsage], error) {
	r, err := a.Ledger.Rebuild(ctx, actorOf(ctx), in.Body.From, in.Body.To)
	if err != nil {
		return nil, err
	}
	return &Body[RebuiltUsage]{RebuiltUsage{From: r.From, To: r.To, Rows: r.Rows, Changed: r.Changed}}, nil
}

func (a *API) usagePeriods(ctx context.Context, in *periodsIn) (*Body[List[UsagePeriod]], error) {
	items, next, err := a.Ledger.Periods(ctx, actorOf(ctx), in.Tenant, in.page())
	if err != nil {
		return nil, err
	}
	return &Body[List[UsagePeriod]]{listOf(items, next, usagePeriodOf)}, nil
}

func usagePeriodOf(p console.UsagePeriod) UsagePeriod {
	return UsagePeriod{ID: p.ID, Tenant: p.TenantID, From: p.From, To: p.To, ClosedAt: p.ClosedAt, ClosedBy: p.ClosedBy, Note: p.Note, Sums: usageSumsOf(p.Sums),
		Adjusted: usageSumsOf(p.Adjusted), Adjustments: p.Adjustments}
}

func (a *API) usagePeriod(ctx context.Context, in *periodIn) (*Body[UsagePeriod], error) {
	p, lines, err := a.Ledger.Period(ctx, actorOf(ctx), in.Period)
	if err != nil {
		return nil, err
	}
	out := usagePeriodOf(p)
	for _, l := range lines {
		out.Lines = append(out.Lines, UsageAdjustment{KID: l.KID, Route: l.Route, Outcome: l.Outcome, Requests: l.Requests, Cost: l.Cost, Events: l.Events, FirstAt: l.FirstAt,
			LastAt: l.LastAt, NotedAt: l.NotedAt})
	}
	return &Body[UsagePeriod]{out}, nil
}

func (a *API) closePeriod(ctx context.Context, in *periodCloseIn) (*Body[UsagePeriod], error) {
	p, err := a.Ledger.ClosePeriod(ctx, actorOf(ctx), in.Body.Tenant, in.Body.From, in.Body.To, in.Body.Note)
	if err != nil {
		return nil, err
	}
	return &Body[UsagePeriod]{usagePeriodOf(p)}, nil
}

func (a *API) correctUsage(ctx context.Context, in *correctionIn) (*Body[UsageEvent], error) {
	return once(ctx, a, "usage.correct", in.Repeatable, in.Body, false, func(o *Body[UsageEvent]) any { return o }, func() (*Body[UsageEvent], error) {
		e, err := a.Ledger.Correct(ctx, actorOf(ctx), console.UsageCorrection{TenantID: in.Body.Tenant, KID: in.Body.KID, Route: in.Body.Route, At: in.Body.At, Cost: in.Body.Cost,
			Reason: in.Body.Reason})
		if err != nil {
			return nil, err
		}
		return &Body[UsageEvent]{usageEventOf(&e)}, nil
	})
}
