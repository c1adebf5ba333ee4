package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
)

func (r *Relay) sendRecords(ctx context.Context, rows []OutboxRow) error {
	if len(rows) == 0 {
		return nil
	}
	signed, err := r.records(ctx, rows)
	if err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	place, err := r.d.Feed.PutRecords(ask, signed)
	if err != nil {
		return fmt.Errorf("put %d records: %w", len(signed), err)
	}
	if r.directoryLost(place) { // since it was last looked at; the next pass fills it
		return fmt.Errorf("the directory was lost while %d records were put", len(signed))
	}
	if err := r.finish(ctx, rows, place); err != nil {
		return err
	}
	r.place = place
	return nil
}

// records reads and signs what rows name, each once, as it is now.
func (r *Relay) records(ctx context.Context, rows []OutboxRow) ([]policy.SignedRecord, error) {
	var out []policy.SignedRecord
	seen := map[string]bool{}
	err := r.store.Read(ctx, func(tx Tx) error {
		for _, row := range rows {
			if seen[row.Ref] {
				continue
			}
			seen[row.Ref] = true
			rec, err := r.record(ctx, tx, row)
			if err != nil {
				return fmt.Errorf("make record of %s %s: %w", row.Kind, row.Ref, err)
			}
			out = append(out, rec)
		}
		return nil
	})
	return out, err
}

func (r *Relay) record(ctx context.Context, tx Tx, row OutboxRow) (policy.SignedRecord, error) {
	if row.Kind == OutboxTenant {
		t, err := tx.Tenant(ctx, row.Ref)
		if err != nil {
			return policy.SignedRecord{}, err
		}
		own, err := tx.OpenOverrides(ctx, []string{t.ID})
		if err != nil {
			return policy.SignedRecord{}, err
		}
		return r.tenantRecord(tenantTerms{t, own})
	}
	k, err := tx.Key(ctx, row.Ref)
	if err != nil {
		return policy.SignedRecord{}, err
	}
	return r.keyRecord(k)
}

// tenantRecord makes a tenant's record. Row and overrides may be read in two
// steps: a change between them has a sequence and an outbox row of its own.
func (r *Relay) tenantRecord(t tenantTerms) (policy.SignedRecord, error) {
	return policy.SignRecord(r.d.Signer, r.d.Deployment, policy.RecordTenant, t.ID, t.Seq, t.record())
}

func (r *Relay) keyRecord(k KeyVersion) (policy.SignedRecord, error) {
	return policy.SignRecord(r.d.Signer, r.d.Deployment, policy.RecordKey, k.KID, k.Seq, policy.KeyRecord{
		KID: k.KID, Tenant: k.TenantID, Credential: k.CredentialID, Environment: k.Environment, Digest: k.Digest, State: k.State,
		RetiringAt: k.RetiringAt, NotAfter: k.NotAfter, Scopes: k.Scopes,
	})
}

// refill writes the whole directory anew.
func (r *Relay) refill(ctx context.Context) error {
	begun := time.Now()
	if err := r.d.Feed.BeginDirectory(ctx); err != nil {
		return err
	}
	total, err := r.fillAll(ctx, func(ctx context.Context, records []policy.SignedRecord) error {
		_, err := r.d.Feed.PutRecords(ctx, records)
		return err
	})
	if err != nil {
		return err
	}
	place, err := r.d.Feed.FinishDirectory(ctx, rand.Text())
	if err != nil {
		return err
	}
	if err := r.setPlace(ctx, place); err != nil {
		return err
	}
	r.d.Log.InfoContext(ctx, "directory filled", "records", total, "took", time.Since(begun))
	return nil
}

// mend compares the directory with the database after a server restarted or a
// replica took over: its last records may be lost, and a key that was revoked
// among them be accepted again, while nothing else shows it.
func (r *Relay) mend(ctx context.Context, state policy.FeedState) error {
	mender, ok := r.d.Feed.(DirectoryMender)
	if !ok || state.Servers == "" || state.Servers == state.Compared {
		return nil
	}
	begun, total := time.Now(), 0
	place, err := mender.MendDirectory(ctx, state.Servers, func(put func(context.Context, []policy.SignedRecord) error) (err error) {
		total, err = r.fillAll(ctx, put)
		return err
	})
	if err != nil {
		return err
	}
	if r.directoryLost(place) {
		return errors.New("the directory was lost while it was compared")
	}
	if err := r.setPlace(ctx, place); err != nil {
		return err
	}
	r.d.Log.InfoContext(ctx, "directory compared after a change of servers", "records", total, "took", time.Since(begun))
	return nil
}

// fillAll puts every record there is, tenants first, and returns how many.
func (r *Relay) fillAll(ctx context.Context, put func(context.Context, []policy.SignedRecord) error) (int, error) {
	since := r.d.now().Add(-keepFinal)
	tenants, err := fill(ctx, r, put, func(tx Tx, after string) ([]tenantTerms, error) {
		rows, err := tx.DirectoryTenants(ctx, after, since, relayBatch)
		if err != nil {
			return nil, err
		}
		return withOverrides(ctx, tx, rows)
	}, r.tenantRecord)
	if err != nil {
		return 0, err
	}
	keys, err := fill(ctx, r, put, func(tx Tx, after string) ([]KeyVersion, error) {
		return tx.DirectoryKeys(ctx, after, since, relayBatch)
	}, r.keyRecord)
	return tenants + keys, err
}

// fill sends all rows of one kind, in steps, and returns how many.
func fill[T any](ctx context.Context, r *Relay, put func(context.Context, []policy.SignedRecord) error, list func(Tx, string) ([]T, error), sign func(T) (policy.SignedRecord, error)) (int, error) {
	after, total := "", 0
	for {
		var rows []T
		err := r.store.Read(ctx, func(tx Tx) (err error) {
			rows, err = list(tx, after)
			return err
		})
		if err != nil || len(rows) == 0 {
			return total, err
		}
		signed := make([]policy.SignedRecord, len(rows))
		for i, row := range rows {
			if signed[i], err = sign(row); err != nil {
				return total, err
			}
		}
		ask, cancel := context.WithTimeout(ctx, relayTimeout)
		err = put(ask, signed)
		cancel()
		if err != nil {
			return total, err
		}
		total += len(rows)
		after = signed[len(signed)-1].ID
	}
}

func (r *Relay) setPlace(ctx context.Context, p policy.Place) error {
	err := r.store.InTx(ctx, func(tx Tx) error { return tx.SetFeedPlace(ctx, p, r.d.now()) })
	if err == nil {
		r.place = p
	}
	return err
}
