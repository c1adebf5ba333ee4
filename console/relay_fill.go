package console

import (
	"context"

	"github.com/headgate/headgate/policy"
)

// putRecords sends some records to Redis.
type putRecords = func(context.Context, []policy.SignedRecord) error

// fillAll puts every record there is, tenants first, and returns how many. It
// takes a minute or two for a million keys; what changes meanwhile and cannot
// wait is sent in between.
func (r *Relay) fillAll(ctx context.Context, put putRecords) (int, error) {
	since := r.d.now().Add(-keepFinal)
	between := r.urgentBetween()
	step := func(ctx context.Context, records []policy.SignedRecord) error {
		ask, cancel := context.WithTimeout(ctx, relayTimeout)
		defer cancel()
		if err := put(ask, records); err != nil {
			return err
		}
		return between(ctx)
	}
	tenants, err := fill(ctx, r.store, step, func(tx Tx, after string) ([]tenantTerms, error) {
		rows, err := tx.DirectoryTenants(ctx, after, since, relayBatch)
		if err != nil {
			return nil, err
		}
		return withOverrides(ctx, tx, rows)
	}, func(t tenantTerms) string { return t.ID }, r.tenantRecord)
	if err != nil {
		return 0, err
	}
	keys, err := fill(ctx, r.store, step, func(tx Tx, after string) ([]KeyVersion, error) {
		return tx.DirectoryKeys(ctx, after, since, relayBatch)
	}, func(k KeyVersion) string { return k.KID }, r.keyRecord)
	return tenants + keys, err
}

// page is one step of a reading.
type page[T any] struct {
	rows []T
	err  error
}

// fill sends all rows of one kind, in steps, and returns how many. The next
// step is read while one is signed and sent, and no more than that is held.
func fill[T any](ctx context.Context, store Store, put putRecords, list func(Tx, string) ([]T, error), id func(T) string, sign func(T) (policy.SignedRecord, error)) (int, error) {
	ctx, stop := context.WithCancel(ctx)
	pages := make(chan page[T])
	defer func() {
		stop()
		for range pages { // until the reader has ended
		}
	}()
	go func() {
		defer close(pages)
		for after := ""; ; {
			var p page[T]
			p.err = store.Read(ctx, func(tx Tx) (err error) {
				p.rows, err = list(tx, after)
				return err
			})
			if p.err == nil && len(p.rows) == 0 {
				return
			}
			select {
			case pages <- p:
			case <-ctx.Done():
				return
			}
			if p.err != nil {
				return
			}
			after = id(p.rows[len(p.rows)-1])
		}
	}()
	total := 0
	for p := range pages {
		if p.err != nil {
			return total, p.err
		}
		signed, err := signAll(p.rows, sign)
		if err != nil {
			return total, err
		}
		if err := put(ctx, signed); err != nil {
			return total, err
		}
		total += len(p.rows)
	}
	return total, ctx.Err()
}

// urgentBetween returns what sends pending records of keys and tenants between
// two steps of a filling, each once: a revocation does not wait until a million
// keys are in place. The rows stay pending: only the whole directory has a place
// that gateways can confirm.
func (r *Relay) urgentBetween() func(context.Context) error {
	sent := map[int64]bool{}
	return func(ctx context.Context) error {
		rows, err := r.pending(ctx)
		if err != nil || len(rows) == 0 || rows[0].Bulk {
			return err
		}
		var fresh []OutboxRow
		for _, row := range rows {
			if !sent[row.ID] && (row.Kind == OutboxKey || row.Kind == OutboxTenant) {
				fresh = append(fresh, row)
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		records, err := r.records(ctx, fresh)
		if err != nil {
			return err
		}
		ask, cancel := context.WithTimeout(ctx, relayTimeout)
		defer cancel()
		if err := r.putUnlessNewer(ask, records); err != nil {
			return err
		}
		for _, row := range fresh {
			sent[row.ID] = true
		}
		return nil
	}
}
