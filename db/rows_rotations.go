package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// longestQuiet is how far back the use of an old version matters at most.
const longestQuiet = 24 * time.Hour

// RunningRotations implements console.RotationLists.
func (t tx) RunningRotations(ctx context.Context, atRisk bool, w console.RiskWindow, tenantID string, after console.Cursor, limit int) ([]console.RatedRotation, error) {
	p := gen.ListRotationsAtRiskParams{
		Soon: w.Soon, LongestAgo: w.Now.Add(-longestQuiet), LeastAgo: w.Now.Add(-w.MinQuiet), Now: w.Now,
		TenantID: tenantID, AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
	}
	if atRisk {
		rows, err := t.q.ListRotationsAtRisk(ctx, p)
		return each(rows, ratedOf), err
	}
	rows, err := t.q.ListRotationsRunning(ctx, gen.ListRotationsRunningParams(p))
	return each(rows, func(r gen.ListRotationsRunningRow) console.RatedRotation {
		return ratedOf(gen.ListRotationsAtRiskRow(r))
	}), err
}

func ratedOf(r gen.ListRotationsAtRiskRow) console.RatedRotation {
	return console.RatedRotation{
		Rotation: rotationOf(gen.GetRotationRow{Rotation: r.Rotation, CredentialName: r.CredentialName, TenantName: r.TenantName}), OldLast: r.OldLast,
	}
}

// EndedRotations implements console.RotationLists.
func (t tx) EndedRotations(ctx context.Context, state console.RotationState, tenantID string, after console.Cursor, limit int) ([]console.RatedRotation, error) {
	rows, err := t.q.ListRotationsOver(ctx, gen.ListRotationsOverParams{
		State: string(state), TenantID: tenantID, AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
	})
	return each(rows, func(r gen.ListRotationsOverRow) console.RatedRotation {
		return console.RatedRotation{Rotation: rotationOf(gen.GetRotationRow(r))}
	}), err
}

// RotationGaps implements console.RotationLists.
func (t tx) RotationGaps(ctx context.Context, ids []string, since time.Time) (map[string]time.Duration, error) {
	rows, err := t.q.ListRotationGaps(ctx, gen.ListRotationGapsParams{Ids: orEmpty(ids), Since: since})
	out := make(map[string]time.Duration, len(rows))
	for _, r := range rows {
		out[r.ID] = time.Duration(r.LongestGap) * time.Second
	}
	return out, err
}

// OpenRotationsOf implements console.RotationLists.
func (t tx) OpenRotationsOf(ctx context.Context, credentialIDs []string) ([]console.Rotation, error) {
	rows, err := t.q.ListOpenRotationsOf(ctx, orEmpty(credentialIDs))
	return each(rows, func(r gen.ListOpenRotationsOfRow) console.Rotation { return rotationOf(gen.GetRotationRow(r)) }), err
}
