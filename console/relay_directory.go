package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"
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
	if errors.Is(err, policy.ErrNewerRecord) {
		// What was passed over would never be in force, a revocation as little as anything else.
		r.distrust(ctx, err.Error())
	}
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

// records reads and signs what rows name, each once, as it is now; tenants first.
func (r *Relay) records(ctx context.Context, rows []OutboxRow) ([]policy.SignedRecord, error) {
	tenants, keys := refsOf(rows, OutboxTenant), refsOf(rows, OutboxKey)
	var terms []tenantTerms
	var versions []KeyVersion
	err := r.store.Read(ctx, func(tx Tx) error {
		found, err := tx.TenantsByID(ctx, tenants)
		if err != nil {
			return err
		}
		if terms, err = withOverrides(ctx, tx, found); err != nil {
			return err
		}
		versions, err = tx.KeysByID(ctx, keys)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %d tenants and %d keys: %w", len(tenants), len(keys), err)
	}
	if len(terms) != len(tenants) || len(versions) != len(keys) {
		return nil, fmt.Errorf("the outbox names %d tenants and %d keys, of which there are %d and %d", len(tenants), len(keys), len(terms), len(versions))
	}
	out, err := signAll(terms, r.tenantRecord)
	if err != nil {
		return nil, err
	}
	more, err := signAll(versions, r.keyRecord)
	return append(out, more...), err
}

// refsOf lists what rows of a kind name, each once.
func refsOf(rows []OutboxRow, kind OutboxKind) []string {
	var out []string
	seen := map[string]bool{}
	for _, row := range rows {
		if row.Kind == kind && !seen[row.Ref] {
			seen[row.Ref] = true
			out = append(out, row.Ref)
		}
	}
	return out
}

// signAll makes the records of rows, in their order, on all cores: a signature
// takes longer than anything else that is done to a record.
func signAll[T any](rows []T, sign func(T) (policy.SignedRecord, error)) ([]policy.SignedRecord, error) {
	out, errs := make([]policy.SignedRecord, len(rows)), make([]error, len(rows))
	part := max(50, (len(rows)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var signing sync.WaitGroup
	for first := 0; first < len(rows); first += part {
		signing.Go(func() {
			for i := first; i < min(first+part, len(rows)); i++ {
				out[i], errs[i] = sign(rows[i])
			}
		})
	}
	signing.Wait()
	return out, errors.Join(errs...)
}

// tenantRecord makes a tenant's record. Row and overrides may be read in two
// steps: a change between them has a sequence and an outbox row of its own.
func (r *Relay) tenantRecord(t tenantTerms) (policy.SignedRecord, error) {
	return policy.SignRecord(r.d.Signer, r.d.Deployment, policy.RecordTenant, t.ID, t.Seq, t.record())
}

func (r *Relay) keyRecord(k KeyVersion) (policy.SignedRecord, error) {
	return policy.SignRecord(r.d.Signer, r.d.Deployment, policy.RecordKey, k.KID, k.Seq, policy.KeyRecord{
		KID: k.KID, Tenant: k.TenantID, Credential: k.CredentialID, Environment: k.Environment, Digest: k.Digest, State: k.State,
		RetiringAt: k.RetiringAt, NotAfter: k.NotAfter, Scopes: k.Scopes, Brownout: k.Brownout,
	})
}

// refill writes the whole directory anew.
func (r *Relay) refill(ctx context.Context) error {
	begun := time.Now()
	if err := r.d.Feed.BeginDirectory(ctx); err != nil {
		return err
	}
	total, err := r.fillAll(ctx, func(ctx context.Context, records []policy.SignedRecord) error {
		return r.putUnlessNewer(ctx, records)
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

// putUnlessNewer puts records while the directory is filled: one that changed after
// it was read was put in between, and is newer.
func (r *Relay) putUnlessNewer(ctx context.Context, records []policy.SignedRecord) error {
	_, err := r.d.Feed.PutRecords(ctx, records)
	if errors.Is(err, policy.ErrNewerRecord) {
		return nil
	}
	return err
}

// distrust has the directory filled anew in the next round: it holds what this
// database does not know, because it was restored from an older copy. Numbers that
// it gives are not newer than those there, and keys that it does not know work.
func (r *Relay) distrust(ctx context.Context, why string) {
	r.d.Log.ErrorContext(ctx, "the directory is ahead of the database, which was restored; it is filled anew", "why", why)
	r.place = policy.Place{}
}

// doubt looks once, when this relay takes over, whether the directory has seen more
// changes than the database knows of: each change has an outbox row, which stays
// pending until its place is noted.
func (r *Relay) doubt(ctx context.Context, at policy.Place) error {
	if r.doubted || r.place.Epoch == "" || at.Epoch != r.place.Epoch {
		r.doubted = true
		return nil
	}
	var pending int64
	err := r.store.Read(ctx, func(tx Tx) (err error) {
		pending, err = tx.CountPendingOutbox(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("count what is pending: %w", err)
	}
	if ahead := at.Seq - r.place.Seq; ahead > pending {
		r.distrust(ctx, fmt.Sprintf("it is %d changes further on, and %d are pending", ahead, pending))
	}
	r.doubted = true
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

func (r *Relay) setPlace(ctx context.Context, p policy.Place) error {
	err := r.store.InTx(ctx, func(tx Tx) error { return tx.SetFeedPlace(ctx, p, r.d.now()) })
	if err == nil {
		r.place = p
	}
	return err
}
