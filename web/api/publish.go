package api

import (
	"context"
	"net/http"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// Options is how something is published.
type Options struct {
	Note       string            `json:"note,omitempty" maxLength:"2000"`
	Confirm    map[string]string `json:"confirm,omitempty" doc:"By the code of each confirmation: the word that it asks for, or yes. Left out, typed ones alone are asked for, and the others are in the answer's warnings; {} asks for all"`
	Canary     *Canary           `json:"canary,omitempty" doc:"Few gateways first; all at once when left out"`
	BreakGlass *BreakGlass       `json:"break_glass,omitempty" doc:"Without the approvals that it needs; somebody else reviews it afterwards"`
}

// Canary says who gets a version first, and when that ends by itself.
type Canary struct {
	Count          int     `json:"count,omitempty" minimum:"0" doc:"So many gateways; left out with zone"`
	Zone           string  `json:"zone,omitempty" maxLength:"200" doc:"The gateways of a zone"`
	Hold           string  `json:"hold" example:"10m" doc:"At least so long before it may be promoted: a Go duration, 10s to 24h"`
	Promote        bool    `json:"promote,omitempty" doc:"By itself after hold, when the guards held"`
	MaxRefusedRise float64 `json:"max_refused_rise,omitempty" minimum:"0" maximum:"1" doc:"It stops by itself when its share of refused decisions is above the others' by so much; 0.05 when left out"`
}

// BreakGlass is why approvals are left out, and the password of whoever does.
type BreakGlass struct {
	Reason   string `json:"reason" maxLength:"2000"`
	Password string `json:"password" maxLength:"1000" doc:"Of the operator whose token this is, again"`
}

func (o Options) options() (console.PublishOptions, error) {
	out := console.PublishOptions{Note: o.Note, Confirmed: o.Confirm, ConfirmTypedOnly: o.Confirm == nil}
	if o.BreakGlass != nil {
		out.BreakGlass = &console.BreakGlass{Reason: o.BreakGlass.Reason, Password: o.BreakGlass.Password}
	}
	if c := o.Canary; c != nil {
		hold, err := time.ParseDuration(c.Hold)
		if err != nil {
			return out, fieldProblem("canary.hold", "must be a duration such as 10m, from 10s to 24h")
		}
		out.Canary = &console.CanaryPlan{Count: c.Count, Zone: c.Zone, Hold: hold, Promote: c.Promote, MaxRefusedRise: c.MaxRefusedRise}
	}
	return out, nil
}

// public is what an idempotency key stands for: all but the password.
func (o Options) public() Options {
	if o.BreakGlass != nil {
		o.BreakGlass = &BreakGlass{Reason: o.BreakGlass.Reason}
	}
	return o
}

// Published is a new version and how far it has got.
type Published struct {
	Version     int64    `json:"version"`
	Digest      string   `json:"digest"`
	Canary      bool     `json:"canary,omitempty" doc:"It goes to few gateways first; on and of count those"`
	ConvergedOn *int     `json:"converged_on,omitempty" doc:"Gateways that enforce it; absent when nobody waited, or when it is unknown"`
	Of          *int     `json:"of,omitempty" doc:"Gateways that are not gone; absent when that is unknown"`
	AfterMS     *float64 `json:"after_ms,omitempty"`
	Nacks       []NACK   `json:"nacks,omitempty" doc:"Gateways that refuse it, and why"`

	Warnings []console.Confirmation `json:"warnings,omitempty" doc:"What a call with confirm would have been asked to confirm"`
}

type publishedOut struct {
	Status int `json:"-"`
	Body   Published
}

func (a *API) publishPolicy(ctx context.Context, in *publishIn) (*publishedOut, error) {
	o, err := in.Body.options()
	if err != nil {
		return nil, err
	}
	request := struct {
		Document, Tests string
		TestsKept       bool
		Base            int64
		Options         Options
	}{policy.DigestOf(in.Body.Document.source), policy.DigestOf(in.Body.Tests.of()), in.Body.Tests == nil, in.Body.BaseVersion, in.Body.public()}
	return a.publishing(ctx, "policy.publish", in.Repeatable, in.Waiting, request, o, func() (console.Version, error) {
		release, err := a.alone(ctx, in.Body.Document.source)
		if err != nil {
			return console.Version{}, err
		}
		defer release()
		return a.Policies.Publish(ctx, actorOf(ctx), in.Body.Document.source, in.Body.Tests.of(), in.Body.BaseVersion, o)
	})
}

func (a *API) rollbackPolicy(ctx context.Context, in *rollbackIn) (*publishedOut, error) {
	o, err := in.Body.options()
	if err != nil {
		return nil, err
	}
	request := struct {
		Version int64
		Options Options
	}{in.Version, in.Body.public()}
	return a.publishing(ctx, "policy.rollback", in.Repeatable, in.Waiting, request, o, func() (console.Version, error) {
		return a.Policies.Rollback(ctx, actorOf(ctx), in.Version, o)
	})
}

// publishing makes a version at most once for an idempotency key, and waits for
// the gateways where that was asked for.
func (a *API) publishing(ctx context.Context, scope string, key Repeatable, w Waiting, request any, o console.PublishOptions, make func() (console.Version, error)) (*publishedOut, error) {
	if _, err := w.duration(); err != nil {
		return nil, err
	}
	out, err := once(ctx, a, scope, key, request, false, func(p *publishedOut) any { return p }, func() (*publishedOut, error) {
		return published(make())
	})
	if err != nil {
		return nil, err
	}
	out.Body.Canary = o.Canary != nil
	return a.followed(ctx, out, w)
}

func published(v console.Version, err error) (*publishedOut, error) {
	if err != nil {
		return nil, err
	}
	return &publishedOut{Status: http.StatusOK, Body: Published{Version: v.Number, Digest: v.Digest, Warnings: v.Proof.Unconfirmed}}, nil
}

// followed waits, where that was asked for, until every gateway that the version
// is for enforces it: 200 when all do, 202 when it is stored but not yet everywhere.
func (a *API) followed(ctx context.Context, out *publishedOut, w Waiting) (*publishedOut, error) {
	out.Status = http.StatusOK
	d, err := w.duration()
	if err != nil || d == 0 {
		return out, err
	}
	c := a.Fleet.WaitVersion(ctx, out.Body.Version, d)
	if c.Known {
		out.Body.ConvergedOn, out.Body.Of, out.Body.AfterMS = new(c.On), new(c.Of), new(millis(c.After))
	}
	for _, n := range c.Nacks {
		out.Body.Nacks = append(out.Body.Nacks, nackOf(n.Replica, n.NACK))
	}
	if !c.Known || c.On < c.Of {
		out.Status = http.StatusAccepted
	}
	return out, nil
}
