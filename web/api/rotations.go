package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
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
}

func rotationOf(r console.Rotation) Rotation {
	return Rotation{ID: r.ID, CredentialID: r.CredentialID, TenantID: r.TenantID, OldKID: r.OldKID, NewKID: r.NewKID,
		State: string(r.State), Reason: r.Reason, Overlap: r.Overlap.String(), StartedAt: r.StartedAt, EndsAt: r.EndsAt,
		EndedAt: r.EndedAt, EndReason: r.EndReason, Extensions: r.Extensions}
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
		Open bool `query:"open" doc:"Only those that still run"`
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

// defaultOverlap is the overlap of a rotation that does not name one.
const defaultOverlap = 7 * 24 * time.Hour

func (a *API) registerRotations() {
	register(a, op{id: "list-rotations", method: "GET", path: "/rotations", summary: "List rotations", perm: console.PermView}, a.listRotations)
	register(a, op{id: "start-rotation", method: "POST", path: "/credentials/{credential}/rotations", summary: "Issue a new key and retire the old one", perm: console.PermManageKeys, status: 201, errors: []int{404, 409}}, a.startRotation)
	register(a, op{id: "get-rotation", method: "GET", path: "/rotations/{rotation}", summary: "Get a rotation", perm: console.PermView, errors: []int{404}}, a.getRotation)
	register(a, op{id: "extend-rotation", method: "POST", path: "/rotations/{rotation}/extend", summary: "Let the old key work longer", perm: console.PermManageKeys, errors: []int{404, 409}}, a.extendRotation)
	register(a, op{id: "end-rotation", method: "POST", path: "/rotations/{rotation}/end", summary: "Refuse the old key now", perm: console.PermManageKeys, errors: []int{404, 409}}, a.endRotation)
	register(a, op{id: "cancel-rotation", method: "POST", path: "/rotations/{rotation}/cancel", summary: "Revoke the new key and keep the old one", perm: console.PermManageKeys, errors: []int{404, 409}}, a.cancelRotation)
}

func (a *API) listRotations(ctx context.Context, in *rotationListIn) (*Body[List[Rotation]], error) {
	items, err := a.Rotations.List(ctx, in.Open)
	if err != nil {
		return nil, err
	}
	return &Body[List[Rotation]]{listOf(items, "", rotationOf)}, nil
}

func (a *API) startRotation(ctx context.Context, in *rotationStartIn) (*Body[rotationStarted], error) {
	overlap := defaultOverlap
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

func (a *API) getRotation(ctx context.Context, in *RotationPath) (*Body[Rotation], error) {
	r, err := a.Rotations.Get(ctx, in.Rotation)
	if err != nil {
		return nil, err
	}
	return &Body[Rotation]{rotationOf(r)}, nil
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
