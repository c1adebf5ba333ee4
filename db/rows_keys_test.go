package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// rotating is a tenant with a rotation that runs.
func rotating(ctx context.Context, tx console.Tx) (console.Rotation, error) {
	old, fresh := version("old000000000", "a"), version("new000000000", "b")
	ends, retired := at.Add(time.Hour), at
	retiring := old
	retiring.State, retiring.RetiringAt, retiring.NotAfter, retiring.Seq = policy.KeyRetiring, &retired, &ends, 2
	r := console.Rotation{
		ID: "rot_aaaaaaaaaaaaaaaa", CredentialID: crdA, TenantID: tenA, CredentialName: "main", TenantName: "A", OldKID: old.KID, NewKID: fresh.KID,
		State: console.RotationOverlap, Reason: "yearly", Overlap: time.Hour, StartedAt: at, EndsAt: ends,
	}
	return r, errors.Join(tx.InsertTenant(ctx, tenant(tenA)), tx.InsertCredential(ctx, credential()), tx.InsertKey(ctx, old), tx.UpdateKey(ctx, retiring),
		tx.InsertKey(ctx, fresh), tx.InsertRotation(ctx, r))
}

func TestRows_BrownoutsComeBackAsTheyWereAndStopWhileTheyRun(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		r, err := rotating(ctx, tx)
		if err != nil {
			return err
		}
		first := console.Brownout{
			ID: "brn_aaaaaaaaaaaaaaaa", RotationID: r.ID, KID: r.OldKID, TenantID: tenA, Network: "198.51.100.0/24", From: at, Until: at.Add(time.Minute),
			Author: "Ann", AuthorID: "opr_x", Reason: "who?",
		}
		second := first
		second.ID, second.From, second.Until = "brn_bbbbbbbbbbbbbbbb", at.Add(2*time.Minute), at.Add(3*time.Minute)
		stop := at.Add(150 * time.Second)
		err = errors.Join(tx.InsertBrownout(ctx, first), tx.InsertBrownout(ctx, second), tx.StopBrownouts(ctx, r.ID, stop))
		second.StoppedAt = &stop
		list, err2 := tx.Brownouts(ctx, r.ID)
		same(t, list, []console.Brownout{second, first})
		return errors.Join(err, err2)
	})
}

func TestRows_OpenRotationsAreFoundByTheirCredentials(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		r, err := rotating(ctx, tx)
		if err != nil {
			return err
		}
		list, err := tx.OpenRotationsOf(ctx, []string{crdA, "crd_zzzzzzzzzzzzzzzz"})
		same(t, list, []console.Rotation{r})
		none, err2 := tx.OpenRotationsOf(ctx, nil)
		same(t, none, []console.Rotation{})
		r.Extensions, r.MemberExtensions, r.EndsAt = 2, 1, at.Add(2*time.Hour)
		err3 := tx.UpdateRotation(ctx, r)
		got, err4 := tx.Rotation(ctx, r.ID)
		same(t, got, r)
		return errors.Join(err, err2, err3, err4)
	})
}

func TestRows_LeakCasesComeBackAsTheyWereOpenOneFirst(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		r, err := rotating(ctx, tx)
		if err != nil {
			return err
		}
		open := console.LeakCase{
			ID: "lek_aaaaaaaaaaaaaaaa", KID: r.OldKID, TenantID: tenA, TenantName: "A", State: console.LeakOpen, Source: "github", Kind: "k", URL: "https://x",
			FoundAt: at, Reports: 1,
		}
		ended := at.Add(time.Hour)
		closed := open
		closed.ID, closed.State, closed.FoundAt, closed.ClosedAt, closed.ClosedBy, closed.Done = "lek_bbbbbbbbbbbbbbbb", console.LeakContained, ended, &ended, "Ann", "revoked"
		err = errors.Join(tx.InsertLeak(ctx, open), tx.InsertLeak(ctx, closed))
		list, err2 := tx.Leaks(ctx, console.LeakQuery{}, console.Cursor{}, 10)
		same(t, list, []console.LeakCase{closed, open})
		list, err3 := tx.Leaks(ctx, console.LeakQuery{KID: r.OldKID}, console.Cursor{At: ended, ID: closed.ID}, 10)
		same(t, list, []console.LeakCase{open})
		newest, err4 := tx.LockNewestLeak(ctx, r.OldKID)
		same(t, newest, open)
		n, err5 := tx.CountOpenLeaks(ctx)
		same(t, n, int64(1))
		open.State, open.ClosedAt, open.ClosedBy, open.Done, open.Reports = console.LeakDismissed, &ended, "Ann", "dismissed", 7
		err6 := tx.UpdateLeak(ctx, open)
		got, err7 := tx.LockLeak(ctx, open.ID)
		same(t, got, open)
		if _, err := tx.LockNewestLeak(ctx, r.NewKID); !console.IsNotFound(err) {
			t.Errorf("a key without a case: %v", err)
		}
		return errors.Join(err, err2, err3, err4, err5, err6, err7)
	})
}
