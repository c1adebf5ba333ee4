package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy/apikey"
)

// Explanation is why somebody is refused, or that nobody is.
type Explanation struct {
	At       time.Time       `json:"at"`
	Outcome  string          `json:"outcome" enum:"refused,at-times,admitted,unknown" doc:"Of the next request; at-times: some were refused in the last minute, and the next one would pass"`
	Sentence string          `json:"sentence" example:"Acme is refused on POST /v1/search by plan pro, 600/minute, burst 60 per tenant; 60 of its burst of 60 used; clear in 18 s; not related to v42."`
	Whose    string          `json:"whose,omitempty" enum:"ours,theirs" doc:"Absent when nobody is refused, or it is unknown"`
	Why      string          `json:"why,omitempty"`
	Customer string          `json:"customer,omitempty" doc:"An answer for the customer, in plain words, without internals"`
	TenantID string          `json:"tenant_id,omitempty"`
	Tenant   string          `json:"tenant,omitempty" doc:"Its name"`
	Key      *ExplainedKey   `json:"key,omitempty"`
	Receipt  *ExplainedToken `json:"receipt,omitempty"`
	Route    string          `json:"route,omitempty" doc:"That the ladder is of"`
	Match    string          `json:"match,omitempty" doc:"What the route takes"`
	Status   int             `json:"status,omitempty" doc:"That the next request would get from a gateway; 200 when it would be forwarded; absent when it is unknown"`
	Code     string          `json:"code,omitempty" doc:"Of the refusal, as in docs/refusals.md"`
	Reason   string          `json:"reason,omitempty"`
	RetryMS  int64           `json:"retry_after_ms,omitempty"`
	FailMode string          `json:"fail_mode,omitempty" doc:"Of the route, in words"`
	Ladder   []Rung          `json:"ladder" nullable:"false" doc:"Every limit that the request meets, in the order in which they are asked; shadows last"`
	Routes   []RouteOutcome  `json:"routes" nullable:"false" doc:"What the other routes that were asked would answer"`
	LeftOut  int             `json:"routes_left_out,omitempty" doc:"Routes that were not asked"`
	Version  ExplainVersion  `json:"version"`
	Traffic  *TenantTraffic  `json:"traffic,omitempty" doc:"Live counts of the last hour, not the record; absent when they are unknown"`
	Gateways ExplainGateways `json:"gateways"`
	Actions  []ExplainAction `json:"actions" nullable:"false" doc:"What is safe to do"`
	Notes    []string        `json:"notes" nullable:"false"`
}

// ExplainedKey is a key as gateways see it.
type ExplainedKey struct {
	Masked   string `json:"masked"`
	KID      string `json:"kid,omitempty"`
	Known    bool   `json:"known"`
	Accepted bool   `json:"accepted"`
	Standing string `json:"standing" doc:"In words" example:"was revoked on 2 January 2026 15:04 UTC (leak)"`
	State    string `json:"state,omitempty"`
}

// ExplainedToken is what a receipt says, and whether that is so.
type ExplainedToken struct {
	Valid      bool       `json:"valid" doc:"One of our gateways made it as it is"`
	Problem    string     `json:"problem,omitempty"`
	Replica    string     `json:"replica,omitempty"`
	At         *time.Time `json:"at,omitempty"`
	Version    int64      `json:"version,omitempty"`
	TenantID   string     `json:"tenant_id,omitempty"`
	Limit      string     `json:"limit,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Cost       int64      `json:"cost,omitempty"`
	Left       int64      `json:"left"`
	WaitMS     int64      `json:"wait_ms,omitempty"`
	Recomputed bool       `json:"recomputed" doc:"The version of then is here, and the decision was made again by it"`
	Agrees     bool       `json:"agrees" doc:"It came out the same"`
	Differs    []string   `json:"differs,omitempty"`
}

// Rung is one limit as it stands.
type Rung struct {
	Limit     string      `json:"limit" example:"plan.requests"`
	Kind      string      `json:"kind" enum:"rate,concurrency,quota"`
	Per       string      `json:"per,omitempty"`
	Text      string      `json:"text" doc:"The value in force, in words"`
	Source    string      `json:"source"`
	Steps     []LimitStep `json:"steps,omitempty" doc:"Where the value comes from"`
	Known     bool        `json:"known" doc:"used, left and reset_ms are from Redis, live"`
	Missing   string      `json:"missing,omitempty" doc:"What would have to be given to look it up"`
	Used      *int64      `json:"used,omitempty"`
	Of        *int64      `json:"of,omitempty" doc:"Burst, places, or units of the period"`
	Left      *int64      `json:"left,omitempty"`
	ResetMS   int64       `json:"reset_ms,omitempty" doc:"Until there is more"`
	WaitMS    int64       `json:"wait_ms,omitempty" doc:"Until it can pay for the request"`
	Deciding  bool        `json:"deciding,omitempty"`
	Refuses   bool        `json:"refuses,omitempty"`
	Shadow    bool        `json:"shadow,omitempty"`
	Unlimited bool        `json:"unlimited,omitempty"`
}

// RouteOutcome is what a route would answer.
type RouteOutcome struct {
	Route   string `json:"route"`
	Allowed bool   `json:"allowed"`
	Status  int    `json:"status"`
	Code    string `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	RetryMS int64  `json:"retry_after_ms,omitempty"`
}

// ExplainVersion is how a refusal stands to the policy.
type ExplainVersion struct {
	Head     int64  `json:"head" doc:"In force"`
	Answered int64  `json:"answered,omitempty" doc:"By which the answer was made, as Redis has it"`
	Related  int64  `json:"related,omitempty" doc:"Changed the limit that refuses within a day; absent when none did"`
	Change   string `json:"change,omitempty"`
}

// TenantTraffic is what live counts say of a tenant.
type TenantTraffic struct {
	AsOf        time.Time    `json:"as_of"`
	LastMinute  TrafficShare `json:"last_minute"`
	LastHour    TrafficShare `json:"last_hour"`
	Since       *time.Time   `json:"refused_since,omitempty" doc:"Begin of the present run of refusals, ± 5 s"`
	LastRefused *time.Time   `json:"last_refused,omitempty" doc:"± 5 s"`
	RisePercent int64        `json:"rise_percent,omitempty" doc:"Requests a minute since then, of those of the ten minutes before"`
	ByLimit     []LimitCount `json:"by_limit" nullable:"false"`
}

// TrafficShare is how much of some requests was refused.
type TrafficShare struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
}

// LimitCount is how often a limit refused.
type LimitCount struct {
	Limit   string `json:"limit"`
	Refused int64  `json:"refused"`
}

// ExplainGateways is how the gateways stand.
type ExplainGateways struct {
	Known    bool     `json:"known"`
	Of       int      `json:"of"`
	InSync   int      `json:"in_sync"`
	Degraded int      `json:"degraded" doc:"Decide without Redis: there the fail mode holds, not the ladder"`
	Names    []string `json:"names,omitempty"`
	Redis    string   `json:"redis" enum:"up,down"`
}

// ExplainAction is one act that is safe.
type ExplainAction struct {
	Act      string `json:"act" enum:"boost,reset,unlock,resume,key"`
	TenantID string `json:"tenant_id,omitempty"`
	Limit    string `json:"limit,omitempty"`
	KID      string `json:"kid,omitempty"`
	Subject  string `json:"subject,omitempty"`
	Text     string `json:"text"`
}

type (
	// ExplainAsked is what is asked. Exported, as the framework reads only exported parts.
	ExplainAsked struct {
		Tenant  string    `query:"tenant" json:"tenant,omitempty" maxLength:"200" doc:"Id, external id or name"`
		Key     string    `query:"key" json:"key,omitempty" maxLength:"200" doc:"In an address: the kid alone. In a body: the kid or the whole key, which is kept nowhere"`
		IP      string    `query:"ip" json:"ip,omitempty" maxLength:"64"`
		Account string    `query:"account" json:"account,omitempty" maxLength:"200" doc:"Value of the fields of bodies that limits count per"`
		User    string    `query:"user" json:"user,omitempty" maxLength:"200"`
		Receipt string    `query:"receipt" json:"receipt,omitempty" maxLength:"200" doc:"From the body of a refusal"`
		Route   string    `query:"route" json:"route,omitempty" maxLength:"100" doc:"Name of a route"`
		Method  string    `query:"method" json:"method,omitempty" maxLength:"64"`
		Path    string    `query:"path" json:"path,omitempty" maxLength:"1000" doc:"With method: which route is meant"`
		At      time.Time `query:"at" json:"at,omitzero" doc:"A moment of the last hour to look at besides now"`
	}
	explainIn     struct{ ExplainAsked }
	explainBodyIn struct{ Body ExplainAsked }
)

func (a *API) registerExplain() {
	register(a, op{id: "explain", method: "GET", path: "/explain", summary: "Why a tenant, key, address, account or receipt is refused", perm: console.PermView, errors: []int{404}}, a.explain)
	register(a, op{id: "explain-key", method: "POST", path: "/explain", summary: "The same with a body, which may hold a whole key: it is looked up in memory, and neither stored nor logged", perm: console.PermView, errors: []int{404}}, a.explainBody)
}

func (a *API) explain(ctx context.Context, in *explainIn) (*Body[Explanation], error) {
	if in.Key != "" && !apikey.ValidKID(in.Key) {
		return nil, fieldProblem("key", "in an address must be a kid (12 letters and digits): addresses are logged. Send a whole key in the body of POST /api/v1/explain")
	}
	return a.explained(ctx, in.ExplainAsked)
}

func (a *API) explainBody(ctx context.Context, in *explainBodyIn) (*Body[Explanation], error) {
	return a.explained(ctx, in.Body)
}

func (a *API) explained(ctx context.Context, in ExplainAsked) (*Body[Explanation], error) {
	q := console.ExplainQuestion{Tenant: in.Tenant, Key: in.Key, IP: in.IP, Account: in.Account, User: in.User, Receipt: in.Receipt,
		Route: in.Route, Method: in.Method, Path: in.Path}
	if !in.At.IsZero() {
		q.At = &in.At
	}
	e, err := a.Explain.Ask(ctx, actorOf(ctx), q)
	if err != nil {
		return nil, err
	}
	return &Body[Explanation]{explanationOf(e)}, nil
}

func explanationOf(e console.Explanation) Explanation {
	out := Explanation{At: e.At, Outcome: string(e.Outcome), Sentence: e.Sentence, Whose: e.Whose, Why: e.Why, Customer: e.Customer, Route: e.Route,
		Match: e.Match, FailMode: e.FailMode, LeftOut: e.LeftOut, Ladder: []Rung{}, Routes: []RouteOutcome{}, Actions: []ExplainAction{}, Notes: append([]string{}, e.Notes...),
		Version:  ExplainVersion{Head: e.Version.Head, Answered: e.Version.Answered, Related: e.Version.Related, Change: e.Version.Change},
		Gateways: ExplainGateways{Known: e.Gateways.Known, Of: e.Gateways.Of, InSync: e.Gateways.InSync, Degraded: e.Gateways.Degraded, Names: e.Gateways.Names, Redis: "down"}}
	if e.Gateways.RedisUp {
		out.Gateways.Redis = "up"
	}
	if e.Tenant != nil {
		out.TenantID, out.Tenant = e.Tenant.ID, e.Tenant.Name
	}
	if k := e.Key; k != nil {
		out.Key = &ExplainedKey{Masked: k.Masked, KID: k.KID, Known: k.Known, Accepted: k.Accepted, Standing: k.Standing, State: string(k.Version.State)}
	}
	if a := e.Answer; a != nil {
		out.Status, out.Code, out.Reason, out.RetryMS = a.Status, a.Code, a.Reason, ceilMillis(a.RetryAfter)
	}
	out.Receipt = tokenOf(e.Receipt)
	for _, l := range e.Ladder {
		out.Ladder = append(out.Ladder, rungOf(l))
	}
	for _, a := range e.Others {
		out.Routes = append(out.Routes, RouteOutcome{Route: a.Route, Allowed: a.Allowed, Status: a.Status, Code: a.Code, Reason: a.Reason, RetryMS: ceilMillis(a.RetryAfter)})
	}
	for _, a := range e.Actions {
		out.Actions = append(out.Actions, ExplainAction{Act: string(a.Act), TenantID: a.TenantID, Limit: a.Limit, KID: a.KID, Subject: a.Subject, Text: a.Text})
	}
	if t := e.Traffic; t.Known {
		out.Traffic = trafficOf(t)
	}
	return out
}

func tokenOf(r *console.ExplainedReceipt) *ExplainedToken {
	if r == nil {
		return nil
	}
	out := &ExplainedToken{Valid: r.Valid, Problem: r.Problem, Replica: r.Replica, Recomputed: r.Recomputed}
	if r.Valid {
		out.At, out.Version, out.TenantID, out.Reason, out.Cost = &r.Said.At, r.Said.Version, r.Said.Tenant, string(r.Said.Reason), r.Said.Cost
		out.Limit, out.Left, out.WaitMS = r.Found.LimitID, r.Found.Remaining, ceilMillis(time.Duration(r.Said.WaitMicros)*time.Microsecond)
		out.Agrees, out.Differs = r.Recomputed && r.Found.Agrees(), r.Found.Differences
	}
	return out
}

func rungOf(l console.Rung) Rung {
	out := Rung{Limit: l.ID, Kind: l.Kind, Per: l.Per, Text: l.Text, Source: l.Source, Known: l.Known, Missing: l.Missing, Deciding: l.Deciding,
		Refuses: l.Violated && !l.Shadow, Shadow: l.Shadow, Unlimited: l.Unlimited}
	for _, s := range l.Steps {
		out.Steps = append(out.Steps, LimitStep{Source: s.Source, OverrideID: s.OverrideID, Value: valueOf(console.LimitKind(l.Kind), s.Value), Text: s.Text,
			ExpiresAt: s.ExpiresAt, Reason: s.Reason, Author: s.Author})
	}
	if l.Known && !l.Unlimited {
		of := max(l.Burst, 0)
		if l.Kind != string(console.LimitRate) {
			of = l.ProbeLimit.Limit
		}
		out.Used, out.Of, out.Left = &l.Used, &of, &l.Left
		out.ResetMS, out.WaitMS = ceilMillis(l.Next), ceilMillis(l.Wait)
	}
	return out
}

func trafficOf(t console.ExplainTraffic) *TenantTraffic {
	out := &TenantTraffic{AsOf: t.AsOf, LastMinute: TrafficShare(t.LastMinute), LastHour: TrafficShare(t.LastHour), RisePercent: t.RisePercent, ByLimit: []LimitCount{}}
	if !t.Since.IsZero() {
		out.Since = &t.Since
	}
	if !t.LastRefused.IsZero() {
		out.LastRefused = &t.LastRefused
	}
	for _, l := range t.ByLimit {
		out.ByLimit = append(out.ByLimit, LimitCount{Limit: l.Limit, Refused: l.Refused})
	}
	return out
}

// ceilMillis is a span in whole ms, rounded up.
func ceilMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
