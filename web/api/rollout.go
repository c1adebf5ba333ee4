package api

import (
	"context"
	"net/http"
	"time"

	"github.com/headgate/headgate/console"
)

// Rollout is a version on its way to a few gateways before all others.
type Rollout struct {
	Version   int64      `json:"version"`
	Base      int64      `json:"base" doc:"The version that the others enforce"`
	Canary    Canary     `json:"canary"`
	Gateways  []string   `json:"gateways" doc:"Those that were picked"`
	State     string     `json:"state" enum:"running,promoted,stopped"`
	Author    string     `json:"author"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	EndReason string     `json:"end_reason,omitempty"`
	EndedBy   string     `json:"ended_by,omitempty" doc:"headgate when it was a guard"`
	Successor int64      `json:"successor,omitempty" doc:"The version that followed"`
}

func rolloutOf(r console.Rollout) Rollout {
	return Rollout{
		Version: r.Version, Base: r.Base, Canary: canaryOf(r.Plan), Gateways: orEmpty(r.Replicas), State: string(r.State), Author: r.Author,
		StartedAt: r.StartedAt, EndedAt: r.EndedAt, EndReason: r.EndReason, EndedBy: r.By, Successor: r.Successor,
	}
}

// Publication is how far a version has come, as of now.
type Publication struct {
	Version  int64                `json:"version"`
	Digest   string               `json:"digest"`
	Head     int64                `json:"head" doc:"The version in force: above version, this is history"`
	Canary   bool                 `json:"canary" doc:"It is for the gateways of a canary alone"`
	On       int                  `json:"on" doc:"Gateways that it is for and that enforce it, or a later one that is for all"`
	Of       int                  `json:"of" doc:"Gateways that it is for and that are not gone"`
	Silent   int                  `json:"silent" doc:"Of those, not heard of lately: never counted in on"`
	OnTrial  int                  `json:"on_trial" doc:"Of those, on the version on trial instead: not counted in on"`
	Known    bool                 `json:"known" doc:"false when gateways could not be asked: on and of are the last known"`
	Done     bool                 `json:"done" doc:"All that it is for enforce it, and there are some"`
	AfterMS  float64              `json:"after_ms" doc:"From its commit until the last of on enforced it"`
	Nacks    []NACK               `json:"nacks" doc:"Gateways that refuse it, and why"`
	Gateways []PublicationGateway `json:"gateways"`
}

// PublicationGateway is one gateway and a version.
type PublicationGateway struct {
	ID      string   `json:"id"`
	Zone    string   `json:"zone,omitempty"`
	Status  string   `json:"status"`
	Version int64    `json:"version" doc:"That it enforces"`
	Target  bool     `json:"target" doc:"The version is for it"`
	On      bool     `json:"on"`
	AfterMS *float64 `json:"after_ms,omitempty" doc:"From the commit until it was in force there; absent when unknown"`
}

func publicationOf(p console.Publication) Publication {
	out := Publication{
		Version: p.Version, Digest: p.Digest, Head: p.Head, Canary: p.Canary, On: p.On, Of: p.Of, Silent: p.Silent, OnTrial: p.OnTrial, Known: p.Known,
		Done: p.Done(), AfterMS: millis(p.After), Nacks: []NACK{}, Gateways: make([]PublicationGateway, 0, len(p.Rows)),
	}
	for _, n := range p.Nacks {
		out.Nacks = append(out.Nacks, nackOf(n.Replica, n.NACK))
	}
	for _, r := range p.Rows {
		g := PublicationGateway{ID: r.ID, Zone: r.Zone, Status: string(r.Status), Version: r.Version, Target: r.Target, On: r.On}
		if r.After >= 0 {
			g.AfterMS = new(millis(r.After))
		}
		out.Gateways = append(out.Gateways, g)
	}
	return out
}

type (
	promoteIn struct {
		Waiting
		Body struct {
			Version int64  `json:"version" minimum:"1" doc:"Of the canary"`
			Note    string `json:"note,omitempty" maxLength:"2000"`
		}
	}
	stopIn struct {
		Waiting
		Body struct {
			Version int64  `json:"version" minimum:"1" doc:"Of the canary"`
			Reason  string `json:"reason" maxLength:"2000"`
		}
	}
	adoptIn struct {
		Waiting
		Body struct {
			Reason string `json:"reason" maxLength:"2000"`
		}
	}
	rolloutsIn struct {
		Limit int `query:"limit" minimum:"1" maximum:"200" default:"50"`
	}
)

func (a *API) registerRollout() {
	register(a, op{id: "get-publication", method: "GET", path: "/policy/versions/{version}/publication", summary: "How far a version has come", perm: console.PermView, errors: []int{404}}, a.getPublication)
	register(a, op{id: "get-rollout", method: "GET", path: "/policy/rollout", summary: "Get the canary that runs", perm: console.PermView, errors: []int{404}}, a.getRollout)
	register(a, op{id: "list-rollouts", method: "GET", path: "/policy/rollouts", summary: "List canaries, newest first", perm: console.PermView}, a.listRollouts)
	register(a, op{id: "promote-rollout", method: "POST", path: "/policy/rollout/promote", summary: "Give the canary's version to all gateways", perm: console.PermPublish, errors: []int{404, 409}}, a.promote)
	register(a, op{id: "stop-rollout", method: "POST", path: "/policy/rollout/stop", summary: "Take a canary back, by a new version with the old content", perm: console.PermPublish, errors: []int{404, 409}}, a.stopRollout)
	register(a, op{id: "adopt-policy", method: "POST", path: "/policy/adopt", summary: "Take over the version in Redis, after the database was restored from an older copy", perm: console.PermPublish, errors: []int{409}}, a.adopt)
}

func (a *API) getPublication(ctx context.Context, in *VersionPath) (*Body[Publication], error) {
	p, err := a.Fleet.Publication(ctx, in.Version)
	if err != nil {
		return nil, err
	}
	return &Body[Publication]{publicationOf(p)}, nil
}

func (a *API) getRollout(ctx context.Context, _ *struct{}) (*Body[Rollout], error) {
	r, err := a.Rollouts.Current(ctx)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, newProblem(http.StatusNotFound, "No canary is running.").as(string(console.CodeNotFound))
	}
	return &Body[Rollout]{rolloutOf(*r)}, nil
}

func (a *API) listRollouts(ctx context.Context, in *rolloutsIn) (*Body[List[Rollout]], error) {
	items, err := a.Rollouts.List(ctx, in.Limit)
	if err != nil {
		return nil, err
	}
	return &Body[List[Rollout]]{listOf(items, "", rolloutOf)}, nil
}

func (a *API) promote(ctx context.Context, in *promoteIn) (*publishedOut, error) {
	return a.moved(ctx, in.Waiting, func() (console.Version, error) {
		return a.Rollouts.Promote(ctx, actorOf(ctx), in.Body.Version, in.Body.Note)
	})
}

func (a *API) stopRollout(ctx context.Context, in *stopIn) (*publishedOut, error) {
	return a.moved(ctx, in.Waiting, func() (console.Version, error) {
		return a.Rollouts.Stop(ctx, actorOf(ctx), in.Body.Version, in.Body.Reason)
	})
}

func (a *API) adopt(ctx context.Context, in *adoptIn) (*publishedOut, error) {
	return a.moved(ctx, in.Waiting, func() (console.Version, error) {
		return a.Rollouts.Adopt(ctx, actorOf(ctx), in.Body.Reason)
	})
}

// moved does what changes the version in force, and waits where that was asked for.
func (a *API) moved(ctx context.Context, w Waiting, do func() (console.Version, error)) (*publishedOut, error) {
	return a.publishing(ctx, "", Repeatable{}, w, nil, console.PublishOptions{}, do)
}
