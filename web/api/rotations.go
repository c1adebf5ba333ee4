package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// Rotation replaces one key version by another; both work until it ends.
type Rotation struct {
	ID           string     `json:"id" example:"rot_abcdefghij234567"`
	CredentialID string     `json:"credential_id"`
	TenantID     string     `json:"tenant_id"`
	OldKID       string     `json:"old_kid"`
	NewKID       string     `json:"new_kid"`
	State        string     `json:"state" enum:"overlap,completed,forced,cancelled"`
	Reason       string     `json:"reason"`
	Overlap      string     `json:"overlap" example:"24h0m0s"`
	StartedAt    time.Time  `json:"started_at"`
	EndsAt       time.Time  `json:"ends_at"`
	EndedAt      *time.Time `json:"ended_at,omitempty"`
	EndReason    string     `json:"end_reason,omitempty"`
	Extensions   int        `json:"extensions"`
	Shown        string     `json:"shown" enum:"overlap,ready,overdue,completed,forced,cancelled" doc:"The state, with what is known of the use of the old version: ready when it was silent for long enough, overdue when under a day is left and it is still used"`
	OldLastSeen  *time.Time `json:"old_last_seen,omitempty" doc:"When the old version was presented last, as far as is known"`
	WhyNotReady  string     `json:"why_not_ready,omitempty" doc:"In words"`
}

// RotationDetail is a rotation with what is known of the use of its versions.
type RotationDetail struct {
	Rotation
	Readiness RotationReadiness `json:"readiness"`
	Sources   []RotationSource  `json:"sources" nullable:"false" doc:"Who uses which version; those that have not switched first"`
	Brownouts []Brownout        `json:"brownouts" nullable:"false" doc:"The newest first"`
}

// RotationReadiness says whether the old version can be ended.
type RotationReadiness struct {
	Ready         bool       `json:"ready"`
	Overdue       bool       `json:"overdue"`
	QuietSeconds  int64      `json:"quiet_seconds" doc:"For how long the old version has been silent, as far as is known"`
	NeededSeconds int64      `json:"needed_seconds" doc:"For how long it has to be"`
	ReadyAt       *time.Time `json:"ready_at,omitempty" doc:"When it is ready if nobody uses the old version again"`
	Use           UseAge     `json:"use"`
}

// RotationSource is one source in a rotation.
type RotationSource struct {
	Network     string     `json:"network"`
	Agent       string     `json:"agent"`
	Stand       string     `json:"stand" enum:"old,both,awaited,switched,new" doc:"awaited: used the old version in the last week, and was not seen since the rotation began"`
	OldRequests int64      `json:"old_requests"`
	OldRefused  int64      `json:"old_refused"`
	OldLast     *time.Time `json:"old_last,omitempty"`
	NewRequests int64      `json:"new_requests"`
	NewLast     *time.Time `json:"new_last,omitempty"`
}

// Brownout is a refusal of an old version for a short while.
type Brownout struct {
	ID        string     `json:"id,omitempty" example:"brn_abcdefghij234567"`
	Network   string     `json:"network,omitempty" doc:"Of the sources concerned; absent: all"`
	From      time.Time  `json:"from"`
	Until     time.Time  `json:"until"`
	StoppedAt *time.Time `json:"stopped_at,omitempty" doc:"Before its time"`
	Author    string     `json:"author,omitempty"`
	Reason    string     `json:"reason,omitempty"`
}

func brownoutOf(b console.Brownout) Brownout {
	return Brownout{ID: b.ID, Network: b.Network, From: b.From, Until: b.Until, StoppedAt: b.StoppedAt, Author: b.Author, Reason: b.Reason}
}

func brownoutInForce(b *policy.Brownout) *Brownout {
	if b == nil {
		return nil
	}
	return &Brownout{Network: b.Network, From: b.From, Until: b.Until}
}

func ratedOf(r console.RatedRotation) Rotation {
	out := rotationOf(r.Rotation)
	out.Shown, out.OldLastSeen, out.WhyNotReady = string(r.Shown), r.OldLast, r.WhyNot
	return out
}

func detailOf(e console.Evidence, brownouts []console.Brownout) RotationDetail {
	out := RotationDetail{
		Rotation: rotationOf(e.Rotation),
		Readiness: RotationReadiness{
			Ready: e.Ready, Overdue: e.Overdue, QuietSeconds: int64(e.Quiet / time.Second), NeededSeconds: int64(e.Needed / time.Second),
			ReadyAt: e.ReadyAt, Use: useAgeOf(e.Age),
		},
		Sources: []RotationSource{}, Brownouts: []Brownout{},
	}
	out.Shown, out.OldLastSeen, out.WhyNotReady = string(e.Shown), e.OldLast, e.WhyNot
	for _, s := range e.Sources {
		out.Sources = append(out.Sources, RotationSource{
			Network: s.Network, Agent: s.Agent, Stand: string(s.Stand), OldRequests: s.OldRequests, OldRefused: s.OldRefused, OldLast: s.OldLast,
			NewRequests: s.NewRequests, NewLast: s.NewLast,
		})
	}
	for _, b := range brownouts {
		out.Brownouts = append(out.Brownouts, brownoutOf(b))
	}
	return out
}

func rotationOf(r console.Rotation) Rotation {
	return Rotation{ID: r.ID, CredentialID: r.CredentialID, TenantID: r.TenantID, OldKID: r.OldKID, NewKID: r.NewKID,
		State: string(r.State), Reason: r.Reason, Overlap: r.Overlap.String(), StartedAt: r.StartedAt, EndsAt: r.EndsAt,
		EndedAt: r.EndedAt, EndReason: r.EndReason, Extensions: r.Extensions, Shown: string(r.State)}
}

type (
	newRotation struct {
		Overlap string `json:"overlap,omitempty" maxLength:"32" doc:"How long the old key works on, a Go duration; 168h when left out, 0s ends it now"`
		Reason  string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; kept in the audit trail"`
	}
	rotationStartIn struct {
		CredentialPath
		Repeatable
		Body newRotation
	}
	rotationStarted struct {
		Rotation   Rotation   `json:"rotation"`
		KeyVersion KeyVersion `json:"key_version"`
		Key        string     `json:"key" doc:"The new secret. It is in this answer and nowhere else"`
		Converged
	}
	// RotationPath names a rotation. Exported, as the framework reads only exported parts.
	RotationPath struct {
		Rotation string `path:"rotation" maxLength:"64"`
	}
	rotationListIn struct {
		Paging
		Open   bool   `query:"open" doc:"Only those that still run"`
		State  string `query:"state" enum:"overlap,ready,overdue,completed,forced,cancelled" doc:"As it is shown; overlap is all that run. A page of ready or overdue ones may hold less than its limit although there are more"`
		Tenant string `query:"tenant" maxLength:"64"`
	}
	brownoutIn struct {
		RotationPath
		Waiting
		Body struct {
			Network string `json:"network,omitempty" maxLength:"64" doc:"Of the sources concerned, as the sources name it, or an address in it; all when left out"`
			For     string `json:"for,omitempty" maxLength:"32" doc:"A Go duration up to 60s, which is the default"`
			Reason  string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; kept in the audit trail"`
		}
	}
	brownoutStopIn struct {
		RotationPath
		Waiting
	}
	brownoutStarted struct {
		Brownout Brownout `json:"brownout"`
		Converged
	}
	rotationExtendIn struct {
		RotationPath
		Waiting
		Body struct {
			By     string `json:"by" maxLength:"32" doc:"A Go duration" example:"24h"`
			Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; kept in the audit trail"`
		}
	}
	rotationActIn struct {
		RotationPath
		Waiting
		Body Reason
	}
	rotationAct struct {
		Rotation Rotation `json:"rotation"`
		Converged
	}
)

func (a *API) registerRotations() {
	register(a, op{id: "list-rotations", method: "GET", path: "/rotations", summary: "List rotations, those at risk first", perm: console.PermView}, a.listRotations)
	register(a, op{id: "start-rotation", method: "POST", path: "/credentials/{credential}/rotations", summary: "Issue a new key and retire the old one", perm: console.PermManageKeys, status: 201, errors: []int{404, 409}}, a.startRotation)
	register(a, op{id: "get-rotation", method: "GET", path: "/rotations/{rotation}", summary: "Get a rotation, who uses which version, and whether the old one can be ended", perm: console.PermView, errors: []int{404}}, a.getRotation)
	register(a, op{id: "extend-rotation", method: "POST", path: "/rotations/{rotation}/extend", summary: "Let the old key work longer", perm: console.PermManageKeys, errors: []int{404, 409}}, a.extendRotation)
	register(a, op{id: "end-rotation", method: "POST", path: "/rotations/{rotation}/end", summary: "Refuse the old key now", perm: console.PermManageKeys, errors: []int{404, 409}}, a.endRotation)
	register(a, op{id: "cancel-rotation", method: "POST", path: "/rotations/{rotation}/cancel", summary: "Revoke the new key and keep the old one", perm: console.PermManageKeys, errors: []int{404, 409}}, a.cancelRotation)
	register(a, op{id: "start-brownout", method: "POST", path: "/rotations/{rotation}/brownouts", summary: "Refuse the old key for a minute at most, to find out who depends on it", perm: console.PermManageKeys, status: 201, errors: []int{404, 409}}, a.startBrownout)
	register(a, op{id: "stop-brownout", method: "POST", path: "/rotations/{rotation}/brownouts/stop", summary: "End a brown-out before its time", perm: console.PermManageKeys, errors: []int{404, 409}}, a.stopBrownout)
}

func (a *API) listRotations(ctx context.Context, in *rotationListIn) (*Body[List[Rotation]], error) {
	q := console.RotationQuery{State: console.RotationShown(in.State), TenantID: in.Tenant, Page: in.page()}
	if in.Open && q.State == "" {
		q.State = console.ShownOverlap
	}
	items, next, err := a.Rotations.ListByRisk(ctx, q)
	if err != nil {
		return nil, err
	}
	return &Body[List[Rotation]]{listOf(items, next, ratedOf)}, nil
}

func (a *API) startRotation(ctx context.Context, in *rotationStartIn) (*Body[rotationStarted], error) {
	overlap := console.DefaultOverlap
	if in.Body.Overlap != "" {
		var err error
		if overlap, err = time.ParseDuration(in.Body.Overlap); err != nil {
			return nil, fieldProblem("overlap", "must be a duration such as 24h")
		}
	}
	request := struct {
		Credential string
		Body       newRotation
	}{in.Credential, in.Body}
	public := func(b *Body[rotationStarted]) any {
		return map[string]string{"rotation": b.Body.Rotation.ID, "kid": b.Body.KeyVersion.KID}
	}
	return once(ctx, a, "rotations.start", in.Repeatable, request, true, public, func() (*Body[rotationStarted], error) {
		started, err := a.Rotations.Start(ctx, actorOf(ctx), in.Credential, console.NewRotation{Overlap: overlap, Reason: in.Body.Reason})
		if err != nil {
			return nil, err
		}
		return &Body[rotationStarted]{rotationStarted{Rotation: rotationOf(started.Rotation), KeyVersion: keyVersionOf(started.KeyVersion),
			Key: started.Secret.Reveal(), Converged: converged(a.Fleet.WaitChange(ctx, started.Change, issueWait), accepted)}}, nil
	})
}

func (a *API) getRotation(ctx context.Context, in *RotationPath) (*Body[RotationDetail], error) {
	e, err := a.Rotations.Evidence(ctx, actorOf(ctx), in.Rotation)
	if err != nil {
		return nil, err
	}
	brownouts, err := a.Rotations.Brownouts(ctx, in.Rotation)
	if err != nil {
		return nil, err
	}
	return &Body[RotationDetail]{detailOf(e, brownouts)}, nil
}

func (a *API) startBrownout(ctx context.Context, in *brownoutIn) (*Body[brownoutStarted], error) {
	var d time.Duration
	if in.Body.For != "" {
		var err error
		if d, err = time.ParseDuration(in.Body.For); err != nil || d <= 0 {
			return nil, fieldProblem("for", "must be a duration such as 30s")
		}
	}
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	b, change, err := a.Rotations.StartBrownout(ctx, actorOf(ctx), in.Rotation, console.NewBrownout{Network: in.Body.Network, For: d, Reason: in.Body.Reason})
	if err != nil {
		return nil, err
	}
	out := &Body[brownoutStarted]{brownoutStarted{Brownout: brownoutOf(b)}}
	out.Body.Converged, err = a.converge(ctx, change, in.Waiting, refused)
	return out, err
}

func (a *API) stopBrownout(ctx context.Context, in *brownoutStopIn) (*Body[rotationAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := a.Rotations.StopBrownout(ctx, actorOf(ctx), in.Rotation)
	return a.afterRotationAct(ctx, in.Rotation, change, err, in.Waiting, accepted)
}

func (a *API) extendRotation(ctx context.Context, in *rotationExtendIn) (*Body[rotationAct], error) {
	by, err := time.ParseDuration(in.Body.By)
	if err != nil || by <= 0 {
		return nil, fieldProblem("by", "must be a duration such as 24h")
	}
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := a.Rotations.Extend(ctx, actorOf(ctx), in.Rotation, by, in.Body.Reason)
	return a.afterRotationAct(ctx, in.Rotation, change, err, in.Waiting, accepted)
}

func (a *API) endRotation(ctx context.Context, in *rotationActIn) (*Body[rotationAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := a.Rotations.End(ctx, actorOf(ctx), in.Rotation, in.Body.Reason)
	return a.afterRotationAct(ctx, in.Rotation, change, err, in.Waiting, refused)
}

func (a *API) cancelRotation(ctx context.Context, in *rotationActIn) (*Body[rotationAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := a.Rotations.Cancel(ctx, actorOf(ctx), in.Rotation, in.Body.Reason)
	return a.afterRotationAct(ctx, in.Rotation, change, err, in.Waiting, refused)
}

func (a *API) afterRotationAct(ctx context.Context, id string, change console.Change, err error, wait Waiting, s side) (*Body[rotationAct], error) {
	if err != nil {
		return nil, err
	}
	out := &Body[rotationAct]{}
	if out.Body.Converged, err = a.converge(ctx, change, wait, s); err != nil {
		return nil, err
	}
	r, err := a.Rotations.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	out.Body.Rotation = rotationOf(r)
	return out, nil
}
