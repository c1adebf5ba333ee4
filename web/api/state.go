package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// Gateway is one replica as it reports itself, and what the console makes of it.
type Gateway struct {
	ID            string    `json:"id" example:"gw_abcdefghij234567"`
	Boot          string    `json:"boot"`
	Host          string    `json:"host"`
	Zone          string    `json:"zone,omitempty"`
	Build         string    `json:"build"`
	Started       time.Time `json:"started"`
	Version       int64     `json:"version" doc:"Of the policy it enforces; 0 for none"`
	Digest        string    `json:"digest"`
	Status        string    `json:"status" enum:"in-sync,behind,nacked,silent,gone,ahead,canary" doc:"canary: enforces the version on trial, as it should"`
	Since         time.Time `json:"since" doc:"When this version came into force there"`
	NACK          *NACK     `json:"nack,omitempty"`
	ViaConsole    bool      `json:"via_console" doc:"It cannot reach Redis and told the console itself"`
	Unsaved       bool      `json:"unsaved" doc:"It could not write its version to its disk, and would not have it after a restart"`
	Mode          string    `json:"mode"`
	Breaker       string    `json:"breaker"`
	RedisRTTMS    float64   `json:"redis_rtt_ms"`
	ClockOffsetMS int64     `json:"clock_offset_ms"`
	DecisionsPerS float64   `json:"decisions_per_s"`
	RefusedPerS   float64   `json:"refused_per_s"`
	FallbackPerS  float64   `json:"fallback_per_s"`
	HeartbeatAge  float64   `json:"heartbeat_age_ms"`
	At            time.Time `json:"at" doc:"Of the heartbeat, by Redis' clock"`
}

func gatewayOf(r console.Replica) Gateway {
	g := Gateway{ID: r.ID, Boot: r.Boot, Host: r.Host, Zone: r.Zone, Build: r.Build, Started: r.Started, Version: r.Version,
		Digest: r.Digest, Status: string(r.Status), Since: r.Since, Mode: string(r.Mode), Breaker: r.Breaker,
		RedisRTTMS: float64(r.RedisRTTMicros) / 1000, ClockOffsetMS: r.ClockOffsetMS, DecisionsPerS: r.DecisionsPerS,
		RefusedPerS: r.RefusedPerS, FallbackPerS: r.FallbackPerS, HeartbeatAge: millis(r.Age), At: r.At,
		ViaConsole: r.ViaConsole, Unsaved: r.Unsaved}
	if r.NACK != nil {
		g.NACK = new(nackOf(r.ID, *r.NACK))
	}
	return g
}

// AuditEvent is one row of the audit trail.
type AuditEvent struct {
	Seq       int64           `json:"seq"`
	At        time.Time       `json:"at"`
	ActorID   string          `json:"actor_id"`
	Actor     string          `json:"actor"`
	Role      string          `json:"role"`
	Via       string          `json:"via"`
	Action    string          `json:"action"`
	Object    string          `json:"object"`
	ObjectID  string          `json:"object_id"`
	TenantID  string          `json:"tenant_id,omitempty"`
	Before    json.RawMessage `json:"before,omitempty"`
	After     json.RawMessage `json:"after,omitempty"`
	Changes   []policy.Change `json:"changes,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	IP        string          `json:"ip,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
	Hash      []byte          `json:"hash" doc:"SHA-256 over the row and the hash before, base64"`
}

func eventOf(e console.AuditEvent) AuditEvent {
	return AuditEvent{Seq: e.Seq, At: e.At, ActorID: e.ActorID, Actor: e.Actor, Role: string(e.Role), Via: e.Via, Action: e.Action,
		Object: e.Object, ObjectID: e.ObjectID, TenantID: e.TenantID, Before: notNull(e.Before), After: notNull(e.After), Changes: e.Changes,
		Reason: e.Reason, IP: e.IP, RequestID: e.RequestID, Hash: e.Hash}
}

// notNull leaves a member out rather than writing null.
func notNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// Health is what the console knows of what it stands on.
type Health struct {
	Status        string    `json:"status" enum:"ok,degraded" doc:"ok: PostgreSQL and Redis answer, and no hazard is red"`
	At            time.Time `json:"at" doc:"Age of this snapshot"`
	Postgres      string    `json:"postgres" enum:"up,down"`
	Redis         string    `json:"redis" enum:"up,down"`
	RedisSince    time.Time `json:"redis_since" doc:"Since when Redis is up or down"`
	RedisRTTMS    *float64  `json:"redis_rtt_ms,omitempty"`
	Version       int64     `json:"version"`
	Digest        string    `json:"digest"`
	InSync        *int      `json:"in_sync,omitempty" doc:"Absent while it is unknown"`
	Of            *int      `json:"of,omitempty"`
	Nacked        *int      `json:"nacked,omitempty"`
	Degraded      *int      `json:"degraded,omitempty"`
	OnCanary      *int      `json:"on_canary,omitempty" doc:"Of of: enforce the version on trial, as they should"`
	ViaConsole    *int      `json:"via_console,omitempty" doc:"Of of: cannot reach Redis and told the console themselves"`
	Stale         *int      `json:"stale,omitempty" doc:"Of of: nobody told them of late that their version is current"`
	Canary        int64     `json:"canary,omitempty" doc:"The version on trial"`
	Behind        int64     `json:"behind,omitempty" doc:"The version that Redis or gateways have above all that the database knows: it was restored from an older copy. POST /policy/adopt"`
	OutboxPending int       `json:"outbox_pending" doc:"Committed changes that have not reached Redis"`

	Hazards   []policy.Hazard `json:"hazards" nullable:"false" doc:"What endangers the limits, the worst first"`
	HazardsAt *time.Time      `json:"hazards_at,omitempty" doc:"When Redis was last looked over; absent before"`
}

type auditIn struct {
	Paging
	Actor    string `query:"actor" maxLength:"200"`
	Action   string `query:"action" maxLength:"100"`
	Object   string `query:"object" maxLength:"100"`
	ObjectID string `query:"object_id" maxLength:"100"`
	Tenant   string `query:"tenant" maxLength:"64"`
}

func (a *API) registerState() {
	register(a, op{id: "list-gateways", method: "GET", path: "/gateways", summary: "List gateways", perm: console.PermView}, a.listGateways)
	register(a, op{id: "list-audit", method: "GET", path: "/audit", summary: "List audit events, newest first", perm: console.PermViewAudit}, a.listAudit)
	register(a, op{id: "get-health", method: "GET", path: "/health", summary: "What the console stands on", perm: console.PermView}, a.getHealth)
}

func (a *API) listGateways(ctx context.Context, _ *struct{}) (*Body[List[Gateway]], error) {
	items, err := a.Fleet.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	return &Body[List[Gateway]]{listOf(items, "", gatewayOf)}, nil
}

func (a *API) listAudit(ctx context.Context, in *auditIn) (*Body[List[AuditEvent]], error) {
	items, next, err := a.Audit.List(ctx, console.AuditQuery{Actor: in.Actor, Action: in.Action, Object: in.Object, ObjectID: in.ObjectID,
		TenantID: in.Tenant, Page: in.page()})
	if err != nil {
		return nil, err
	}
	return &Body[List[AuditEvent]]{listOf(items, next, eventOf)}, nil
}

func (a *API) getHealth(ctx context.Context, _ *struct{}) (*Body[Health], error) {
	h := a.Fleet.Health(ctx)
	out := Health{Status: "ok", At: h.At, Postgres: "up", Redis: "up", RedisSince: h.RedisSince, Version: h.Version, Digest: h.Digest,
		OutboxPending: h.OutboxPending}
	if h.RedisUp {
		out.RedisRTTMS = new(millis(h.RedisRTT))
	} else {
		out.Redis, out.Status = "down", "degraded"
	}
	if !h.PostgresUp {
		out.Postgres, out.Status = "down", "degraded"
	}
	if h.FleetKnown {
		out.InSync, out.Of, out.Nacked, out.Degraded = new(h.InSync), new(h.Of), new(h.Nacked), new(h.Degraded)
		out.OnCanary, out.ViaConsole, out.Stale = new(h.OnCanary), new(h.ViaConsole), new(h.Stale)
	}
	if out.Behind = h.Behind; h.Rollout != nil {
		out.Canary = h.Rollout.Version
	}
	out.Hazards = append([]policy.Hazard{}, h.Hazards...)
	if !h.HazardsAt.IsZero() {
		out.HazardsAt = &h.HazardsAt
	}
	if len(h.Hazards) > 0 && h.Hazards[0].Severity == policy.SeverityRed {
		out.Status = "degraded"
	}
	return &Body[Health]{out}, nil
}
