package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// PutConverged implements console.EffectRows.
func (t tx) PutConverged(ctx context.Context, number int64, replicas int, after time.Duration, now time.Time) error {
	return t.q.PutConverged(ctx, gen.PutConvergedParams{Number: number, Replicas: int32(replicas), AfterMs: after.Milliseconds(), Now: now})
}

// PutTraffic implements console.EffectRows.
func (t tx) PutTraffic(ctx context.Context, number int64, before, since *console.Share, now time.Time) error {
	p := gen.PutTrafficParams{Number: number, Now: now}
	if before != nil {
		p.BeforeRequests, p.BeforeRefused = &before.Requests, &before.Refused
	}
	if since != nil {
		p.AfterRequests, p.AfterRefused = &since.Requests, &since.Refused
	}
	return t.q.PutTraffic(ctx, p)
}

// Effects implements console.EffectRows.
func (t tx) Effects(ctx context.Context, numbers []int64) (map[int64]console.Effect, error) {
	rows, err := t.q.ListEffects(ctx, numbers)
	out := make(map[int64]console.Effect, len(rows))
	for _, r := range rows {
		out[r.Number] = console.Effect{
			Number: r.Number, Replicas: int(orZero(r.Replicas)), After: time.Duration(orZero(r.AfterMs)) * time.Millisecond,
			Before: shareOf(r.BeforeRequests, r.BeforeRefused), Since: shareOf(r.AfterRequests, r.AfterRefused), Judged: r.Judged,
		}
	}
	return out, err
}

func shareOf(requests, refused *int64) *console.Share {
	if requests == nil || refused == nil {
		return nil
	}
	return &console.Share{Requests: *requests, Refused: *refused}
}

// VersionOfDraft implements console.EffectRows.
func (t tx) VersionOfDraft(ctx context.Context, draft string) (int64, error) {
	n, err := t.q.GetVersionOfDraft(ctx, draft)
	return n, absent(err, "version")
}
