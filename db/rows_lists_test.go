package db_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// swept fails unless exactly two rows went.
func swept(n int64, err error) error {
	if err == nil && n != 2 {
		err = fmt.Errorf("%d rows were removed, not 2", n)
	}
	return err
}

func TestRows_RowsOfBulkJobsComeLastAndLeaveNoTrace(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		err := tx.InsertBulkOutbox(ctx, console.OutboxKey, []string{"a", "b"}, at)
		id, err2 := tx.InsertOutbox(ctx, console.OutboxTenant, "urgent", at)
		pending, err3 := tx.PendingOutbox(ctx, 10)
		if err := errors.Join(err, err2, err3); err != nil {
			return err
		}
		var refs []string
		for _, r := range pending {
			refs = append(refs, fmt.Sprint(r.Ref, " ", r.Bulk))
		}
		same(t, refs, []string{"urgent false", "a true", "b true"})
		err = tx.DeleteSentOutbox(ctx, []int64{id, pending[1].ID, pending[2].ID})
		left, err2 := tx.PendingOutbox(ctx, 10)
		if len(left) != 1 || left[0].ID != id {
			t.Errorf("left are %+v, want the urgent one, which somebody waits for", left)
		}
		return errors.Join(err, err2)
	})
}

func TestRows_OutboxIsSweptInSteps(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		var ids []int64
		for i := range 5 {
			id, err := tx.InsertOutbox(ctx, console.OutboxKey, fmt.Sprint(i), at)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if err := tx.FinishOutbox(ctx, ids, policy.Place{}, "sent", at); err != nil {
			return err
		}
		var steps []int64
		for n := int64(1); n > 0; steps = append(steps, n) {
			var err error
			if n, err = tx.DeleteDoneOutbox(ctx, at.Add(time.Second), 2); err != nil {
				return err
			}
		}
		same(t, steps, []int64{2, 2, 1, 0})
		return nil
	})
}

// TestRows_NamesAreFoundByTheBeginningsOfTheirWords holds what a search is: of
// words, whatever stands between them, and of nothing that users type by accident.
func TestRows_NamesAreFoundByTheBeginningsOfTheirWords(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	names := []string{"Acme Corp", "acme-tools (EU)", "Beta & Söhne", "o'Brien: backslash \\ shop", "100% Gamma_Ray", "mail@delta.example"}
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		for i, name := range names {
			tn := console.Tenant{ID: fmt.Sprintf("ten_%016d", 2222222222222222+i), Name: name, Plan: "free", TimeZone: "UTC", State: policy.TenantActive,
				Seq: 1, CreatedAt: at.Add(time.Duration(i) * time.Second), UpdatedAt: at}
			if i == 2 {
				tn.ExternalID = "cus_42"
			}
			if err := tx.InsertTenant(ctx, tn); err != nil {
				return err
			}
		}
		for q, want := range map[string][]int{
			"acme": {1, 0}, "ACME": {1, 0}, "acme co": {0}, "corp acme": {0}, "eu": {1}, "tools": {1}, "cme": nil, "söhne": {2}, "o'brien": {3}, "brien": {3},
			"shop \\": {3}, "100%": {4}, "ray": {4}, "gamma_": {4}, "delta": {5}, "mail@delta": {5}, "%": nil, "'": nil, "':*": nil, "!": nil, "& | !(a)": {1, 0},
			"cus_42": {2}, "cus": nil, "ten_2222222222222224": {2}, "a' | 'b": nil,
		} {
			rows, err := tx.Tenants(ctx, console.TenantQuery{Q: q}, console.Cursor{}, 10)
			if err != nil {
				return fmt.Errorf("search %q: %w", q, err)
			}
			var got []int
			for _, r := range rows {
				got = append(got, slices.Index(names, r.Name))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q finds %v, want %v", q, got, want)
			}
		}
		return nil
	})
}

func TestRows_KeysAreFoundByKidAndByBothNames(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		for i, name := range []string{"Acme", "Billing Ltd"} {
			ten, crd := fmt.Sprintf("ten_%016d", 2222222222222222+i), fmt.Sprintf("crd_%016d", 2222222222222222+i)
			err := tx.InsertTenant(ctx, console.Tenant{ID: ten, Name: name, Plan: "free", TimeZone: "UTC", State: policy.TenantActive, Seq: 1, CreatedAt: at, UpdatedAt: at})
			err2 := tx.InsertCredential(ctx, console.Credential{ID: crd, TenantID: ten, Name: []string{"billing worker", "web"}[i], Environment: []string{"live", "test"}[i], CreatedAt: at})
			err3 := tx.InsertKey(ctx, console.KeyVersion{KID: fmt.Sprintf("kid%09d", i), TenantID: ten, CredentialID: crd, Digest: fmt.Sprintf("sha256:%064d", i),
				State: policy.KeyActive, Seq: 1, CreatedAt: at.Add(time.Duration(i) * time.Second), ActivatedAt: at})
			if err := errors.Join(err, err2, err3); err != nil {
				return err
			}
		}
		for _, c := range []struct {
			q    console.KeyQuery
			want []string
		}{
			{console.KeyQuery{Q: "billing"}, []string{"kid000000001", "kid000000000"}}, {console.KeyQuery{Q: "kid000000000"}, []string{"kid000000000"}},
			{console.KeyQuery{Q: "acme"}, []string{"kid000000000"}}, {console.KeyQuery{Q: "acme worker"}, nil}, {console.KeyQuery{Q: "billing", Environment: "test"}, []string{"kid000000001"}},
			{console.KeyQuery{Q: "kid000000000", Environment: "test"}, nil}, {console.KeyQuery{Q: "billing", State: policy.KeyRevoked}, nil},
			{console.KeyQuery{Environment: "live"}, []string{"kid000000000"}}, {console.KeyQuery{TenantID: "ten_2222222222222223"}, []string{"kid000000001"}},
		} {
			rows, err := tx.Keys(ctx, c.q, console.Cursor{}, 10)
			if err != nil {
				return err
			}
			var got []string
			for _, r := range rows {
				got = append(got, r.KID)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v finds %v, want %v", c.q, got, c.want)
			}
		}
		rows, err := tx.Keys(ctx, console.KeyQuery{Q: "billing"}, console.Cursor{At: at.Add(time.Second), ID: "kid000000001"}, 10)
		if len(rows) != 1 || rows[0].KID != "kid000000000" {
			t.Errorf("after the first page of a search: %+v", rows)
		}
		return err
	})
}
