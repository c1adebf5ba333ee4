package db

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// InsertCapacity implements console.CapacityRows.
func (t tx) InsertCapacity(ctx context.Context, c console.Capacity) error {
	if c.Steps == nil {
		c.Steps = []console.CapacityStep{}
	}
	steps, err := json.Marshal(c.Steps)
	if err != nil {
		return fmt.Errorf("encode steps of %s: %w", c.ID, err)
	}
	return t.q.InsertCapacity(ctx, gen.InsertCapacityParams{
		ID: c.ID, Route: c.Route, Target: c.Target, Version: c.Version, KneeMilli: c.KneeMilli, BeyondMilli: c.BeyondMilli,
		PlateauUs: c.Plateau.Microseconds(), P99Us: c.P99.Microseconds(), Ended: c.Ended, Why: c.Why, Method: c.Method, Note: c.Note,
		Steps: steps, MeasuredAt: c.MeasuredAt, AuthorID: c.AuthorID, Author: c.Author, CreatedAt: c.CreatedAt,
	})
}

// Capacity implements console.CapacityRows.
func (t tx) Capacity(ctx context.Context, id string) (console.Capacity, error) {
	r, err := t.q.GetCapacity(ctx, id)
	if err != nil {
		return console.Capacity{}, absent(err, "measurement")
	}
	c := capacityOf(gen.ListCapacitiesRow{
		ID: r.ID, Route: r.Route, Target: r.Target, Version: r.Version, KneeMilli: r.KneeMilli, BeyondMilli: r.BeyondMilli, PlateauUs: r.PlateauUs,
		P99Us: r.P99Us, Ended: r.Ended, Why: r.Why, Method: r.Method, Note: r.Note, MeasuredAt: r.MeasuredAt, AuthorID: r.AuthorID,
		Author: r.Author, CreatedAt: r.CreatedAt,
	})
	if err := json.Unmarshal(r.Steps, &c.Steps); err != nil {
		return c, fmt.Errorf("decode steps of %s: %w", id, err)
	}
	return c, nil
}

func capacityOf(r gen.ListCapacitiesRow) console.Capacity {
	return console.Capacity{
		ID: r.ID, Route: r.Route, Target: r.Target, Version: r.Version, KneeMilli: r.KneeMilli, BeyondMilli: r.BeyondMilli,
		Plateau: time.Duration(r.PlateauUs) * time.Microsecond, P99: time.Duration(r.P99Us) * time.Microsecond,
		Ended: r.Ended, Why: r.Why, Method: r.Method, Note: r.Note, MeasuredAt: r.MeasuredAt.UTC(), AuthorID: r.AuthorID,
		Author: r.Author, CreatedAt: r.CreatedAt.UTC(),
	}
}

// Capacities implements console.CapacityRows.
func (t tx) Capacities(ctx context.Context, route string, after console.Cursor, limit int) ([]console.Capacity, error) {
	rows, err := t.q.ListCapacities(ctx, gen.ListCapacitiesParams{Route: route, BeforeAt: after.At, BeforeID: after.ID, MaxRows: int32(limit)})
	return each(rows, capacityOf), err
}

// NewestCapacities implements console.CapacityRows.
func (t tx) NewestCapacities(ctx context.Context) ([]console.Capacity, error) {
	rows, err := t.q.NewestCapacities(ctx)
	return each(rows, func(r gen.NewestCapacitiesRow) console.Capacity { return capacityOf(gen.ListCapacitiesRow(r)) }), err
}
