package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
)

// Lockout is a subject that a limit refuses now.
type Lockout struct {
	ID         string     `json:"id" example:"lko_abcdefghijklmnopqrstuvwx"`
	Limit      string     `json:"limit" example:"plan.requests"`
	Part       string     `json:"part" enum:"rate,concurrency,quota,credentials" doc:"What kind of limit it is; credentials: too many that are not valid, counted by each gateway for itself"`
	Kind       string     `json:"kind" enum:"tenants,accounts,ips,global"`
	TenantID   string     `json:"tenant_id,omitempty" doc:"Absent when it is counted without one"`
	TenantName string     `json:"tenant_name,omitempty"`
	Subject    string     `json:"subject" doc:"Who is refused; masked for roles that may not see it"`
	Masked     bool       `json:"masked,omitempty"`
	Route      string     `json:"route,omitempty" doc:"Of the last refusal"`
	Refusals   int64      `json:"refusals" doc:"Since the list's since, at most; the true number is at most error less"`
	Error      int64      `json:"error" doc:"How much refusals may be too high"`
	FirstAt    time.Time  `json:"first_at"`
	LastAt     time.Time  `json:"last_at"`
	Until      *time.Time `json:"until,omitempty" doc:"When the least that was refused passes if nobody else draws; absent when nobody knows, or never"`
	Never      bool       `json:"never,omitempty" doc:"Waiting does not help"`
	Why        string     `json:"why,omitempty" doc:"What is special about it, and what helps"`
	Shared     bool       `json:"shared,omitempty" doc:"Counted together with others: there are too many identifiers"`
	Verified   bool       `json:"verified" doc:"Redis was asked at at; otherwise a gateway told then"`
	At         time.Time  `json:"at"`
	Cost       int64      `json:"cost" doc:"The least that was refused"`
	Left       int64      `json:"left" doc:"Whole tokens, units or places; below 0 there is a debt"`
	Most       int64      `json:"most" doc:"Tokens of the burst, units or places"`
	Gateways   []string   `json:"gateways" doc:"That told of it"`
	CanUnlock  bool       `json:"can_unlock" doc:"An unlock would let it through"`
}

func lockoutOf(l console.Lockout) Lockout {
	return Lockout{ID: l.ID, Limit: l.Limit, Part: string(l.Part), Kind: string(l.Kind), TenantID: l.Tenant, TenantName: l.TenantName, Subject: l.Subject,
		Masked: l.Masked, Route: l.Route, Refusals: l.Refusals, Error: l.Error, FirstAt: l.First, LastAt: l.Last, Until: l.Until, Never: l.Never, Why: l.Why,
		Shared: l.Shared, Verified: l.Verified, At: l.At, Cost: l.Cost, Left: l.Left, Most: l.Most, Gateways: append([]string{}, l.Replicas...), CanUnlock: l.CanUnlock}
}

// HeldLimit is a limit as Redis has it for one subject.
type HeldLimit struct {
	Limit  string      `json:"limit"`
	Part   string      `json:"part" enum:"rate,concurrency"`
	Used   int64       `json:"used" doc:"Whole tokens or places; above most there is a debt"`
	Most   int64       `json:"most"`
	FullAt *time.Time  `json:"full_at,omitempty" doc:"When a bucket is full again by itself"`
	Broken bool        `json:"broken,omitempty" doc:"Its key holds something that is no limiter state"`
	Leases []HeldLease `json:"leases,omitempty"`
	At     time.Time   `json:"at"`
}

// HeldLease is a place that a request holds.
type HeldLease struct {
	ID      string     `json:"id"`
	Gateway string     `json:"gateway,omitempty" doc:"Absent when no known gateway made it"`
	Since   *time.Time `json:"since,omitempty"`
	EndsAt  time.Time  `json:"ends_at" doc:"Unless it is renewed"`
}

func heldOf(h console.HeldLimit) HeldLimit {
	out := HeldLimit{Limit: h.Limit, Part: string(h.Part), Used: h.Used, Most: h.Most, FullAt: h.Full, Broken: h.Broken, At: h.At}
	for _, l := range h.Leases {
		out.Leases = append(out.Leases, HeldLease{ID: l.ID, Gateway: l.Replica, Since: l.Since, EndsAt: l.Ends})
	}
	return out
}

type (
	lockoutListIn struct {
		Kind   string `query:"kind" enum:"tenants,accounts,ips,global"`
		Tenant string `query:"tenant" maxLength:"64"`
		Limit  string `query:"limit_id" maxLength:"200" doc:"The limit's whole id"`
	}
	lockoutList struct {
		Items      []Lockout `json:"items"`
		At         time.Time `json:"at"`
		Since      time.Time `json:"since" doc:"What refusals are counted from"`
		Reported   int       `json:"reported" doc:"Gateways that told within two minutes"`
		Of         int       `json:"of" doc:"Gateways that are not gone"`
		Candidates int       `json:"candidates" doc:"Subjects that gateways told of; those that are no longer refused are left out"`
		Strays     int       `json:"strays" doc:"Keys of limiter state without a TTL: POST /lockouts/repair mends them"`
	}
	// LockoutRef names a lockout. Exported, as the framework reads only exported parts.
	LockoutRef struct {
		ID      string `json:"id,omitempty" maxLength:"64" doc:"Of a lockout that is listed, instead of limit and subject"`
		Limit   string `json:"limit,omitempty" maxLength:"200" example:"plan.requests"`
		Subject string `json:"subject,omitempty" maxLength:"1200" doc:"A tenant's id, an address, or what the list shows" example:"ten_abcdefghij234567"`
		Reason  string `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail"`
	}
	unlockIn struct {
		Waiting
		Body LockoutRef
	}
	extendLockout struct {
		LockoutRef
		For string `json:"for" maxLength:"32" doc:"A Go duration from now on, up to 24h" example:"1h"`
	}
	extendLockoutIn struct {
		Waiting
		Body extendLockout
	}
	lockoutAct struct {
		Lockout Lockout    `json:"lockout" doc:"As it was"`
		Before  int64      `json:"before" doc:"Whole tokens or places left"`
		After   int64      `json:"after"`
		Until   *time.Time `json:"until,omitempty" doc:"When the least that was refused passes now; absent: at once"`
		Converged
	}
	stateIn struct {
		TenantPath
	}
	tenantState struct {
		TenantID string      `json:"tenant_id"`
		Limits   []HeldLimit `json:"limits"`
	}
	resetIn struct {
		TenantPath
		Waiting
		Body struct {
			Limits []string `json:"limits" minItems:"1" maxItems:"64" doc:"Ids of limits that GET lists"`
			Reason string   `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail"`
		}
	}
	resetState struct {
		Reset []lockoutAct `json:"reset" doc:"One for each limit: what was lost"`
	}
	releaseIn struct {
		TenantPath
		Waiting
		Body struct {
			Limit  string   `json:"limit" maxLength:"200"`
			Leases []string `json:"leases" minItems:"1" maxItems:"1024" doc:"Ids of leases; the requests that hold them go on, uncounted"`
			Reason string   `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail"`
		}
	}
	repairIn struct {
		Body struct {
			Reason string `json:"reason" maxLength:"500" doc:"Why; kept in the audit trail"`
		}
	}
	repaired struct {
		Repaired int `json:"repaired" doc:"Keys that got a TTL"`
	}
)

func (a *API) registerLockouts() {
	register(a, op{id: "list-lockouts", method: "GET", path: "/lockouts", summary: "List who is refused now, by what and until when", perm: console.PermView}, a.listLockouts)
	register(a, op{id: "unlock", method: "POST", path: "/lockouts/unlock", summary: "Let a refused subject through: fill its bucket, and have gateways forget", perm: console.PermUnlock, errors: []int{404, 409}}, a.unlock)
	register(a, op{id: "extend-lockout", method: "POST", path: "/lockouts/extend", summary: "Keep a refused subject out for longer", perm: console.PermUnlock, errors: []int{404, 409}}, a.extendLockout)
	register(a, op{id: "repair-state", method: "POST", path: "/lockouts/repair", summary: "Give limiter state that was found without a TTL the one it should have", perm: console.PermUnlock, errors: []int{409}}, a.repairState)
	register(a, op{id: "get-tenant-state", method: "GET", path: "/tenants/{tenant}/state", summary: "Get what Redis holds of a tenant's limits, with leases", perm: console.PermView, errors: []int{404}}, a.tenantState)
	register(a, op{id: "reset-tenant-state", method: "POST", path: "/tenants/{tenant}/state/reset", summary: "Drop the state of a tenant's limits: buckets are full again, places free", perm: console.PermUnlock, errors: []int{404, 409}}, a.resetState)
	register(a, op{id: "release-leases", method: "POST", path: "/tenants/{tenant}/state/release", summary: "End leases of a tenant's concurrency limit", perm: console.PermUnlock, errors: []int{404, 409}}, a.releaseLeases)
}

func (a *API) listLockouts(ctx context.Context, in *lockoutListIn) (*Body[lockoutList], error) {
	list, err := a.Lockouts.List(ctx, actorOf(ctx), console.LockoutQuery{Kind: console.LockoutKind(in.Kind), Tenant: in.Tenant, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	if !list.Known {
		return nil, &console.Error{Code: console.CodeUnavailable, Public: list.Problem}
	}
	out := lockoutList{Items: []Lockout{}, At: list.At, Since: list.Since, Reported: list.Reported, Of: list.Replicas, Candidates: list.Candidates, Strays: len(a.Lockouts.Strays().Keys)}
	for _, l := range list.Items {
		out.Items = append(out.Items, lockoutOf(l))
	}
	return &Body[lockoutList]{out}, nil
}

func (r *LockoutRef) ref() console.LockoutRef {
	return console.LockoutRef{ID: r.ID, Limit: r.Limit, Subject: r.Subject}
}

func (a *API) unlock(ctx context.Context, in *unlockIn) (*Body[lockoutAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	done, err := a.Lockouts.Unlock(ctx, actorOf(ctx), in.Body.ref(), in.Body.Reason)
	return a.afterLockout(ctx, done, err, in.Waiting)
}

func (a *API) extendLockout(ctx context.Context, in *extendLockoutIn) (*Body[lockoutAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	lasting, err := time.ParseDuration(in.Body.For)
	if err != nil {
		return nil, fieldProblem("for", "must be a duration such as 1h")
	}
	done, err := a.Lockouts.Extend(ctx, actorOf(ctx), in.Body.ref(), lasting, in.Body.Reason)
	return a.afterLockout(ctx, done, err, in.Waiting)
}

// afterLockout waits where that was asked for and tells what was done.
func (a *API) afterLockout(ctx context.Context, done console.LockoutDone, err error, wait Waiting) (*Body[lockoutAct], error) {
	if err != nil {
		return nil, err
	}
	out := lockoutAct{Lockout: lockoutOf(done.Lockout), Before: done.Before, After: done.After, Until: done.Until}
	if out.Converged, err = a.converge(ctx, done.Change, wait, accepted); err != nil {
		return nil, err
	}
	return &Body[lockoutAct]{out}, nil
}

func (a *API) repairState(ctx context.Context, in *repairIn) (*Body[repaired], error) {
	n, err := a.Lockouts.RepairStrays(ctx, actorOf(ctx), in.Body.Reason)
	if err != nil {
		return nil, err
	}
	return &Body[repaired]{repaired{n}}, nil
}

func (a *API) tenantState(ctx context.Context, in *stateIn) (*Body[tenantState], error) {
	list, err := a.Lockouts.OfTenant(ctx, actorOf(ctx), in.Tenant)
	if err != nil {
		return nil, err
	}
	out := tenantState{TenantID: in.Tenant, Limits: []HeldLimit{}}
	for _, h := range list {
		out.Limits = append(out.Limits, heldOf(h))
	}
	return &Body[tenantState]{out}, nil
}

func (a *API) resetState(ctx context.Context, in *resetIn) (*Body[resetState], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	all, err := a.Lockouts.ResetTenant(ctx, actorOf(ctx), in.Tenant, in.Body.Limits, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	out := resetState{Reset: []lockoutAct{}}
	for _, done := range all {
		one, err := a.afterLockout(ctx, done, nil, in.Waiting)
		if err != nil {
			return nil, err
		}
		out.Reset = append(out.Reset, one.Body)
	}
	return &Body[resetState]{out}, nil
}

func (a *API) releaseLeases(ctx context.Context, in *releaseIn) (*Body[lockoutAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	done, err := a.Lockouts.ReleaseTenant(ctx, actorOf(ctx), in.Tenant, in.Body.Limit, in.Body.Leases, in.Body.Reason)
	return a.afterLockout(ctx, done, err, in.Waiting)
}
