package ledger_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"testing"

	"github.com/headgate/headgate/usage/ledger"
)

func squeeze(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSalvage_U08_OneBadEventLeavesTheOthers: a NUL in one name does not cost the batch.
func TestSalvage_U08_OneBadEventLeavesTheOthers(t *testing.T) {
	t.Parallel()
	body := squeeze(t, `{"replica":"gw","boot":"b","first":7,"names":["ten_a","","admitted","ten_\u0000","ten_b"],`+
		`"events":[[1700000000,0,1,1,2,1,2],[1700000000,3,1,1,2,1,0],[1700000000,4,1,1,2,3,0]]}`)
	if _, err := ledger.Decode(body); !errors.Is(err, ledger.ErrBatch) {
		t.Fatalf("the batch passes: %v", err)
	}
	b, bad, err := ledger.Salvage(body)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Events) != 3 || len(bad) != 1 || bad[8] == "" || b.Events[2].Tenant != "ten_b" || b.Events[2].Second != 1_700_000_000 {
		t.Errorf("%+v, bad %v", b, bad)
	}
}

func TestSalvage_U08_WhatNamesNobodyIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{`, `{"boot":"b","first":1}`, `{"replica":"gw","boot":"b","first":0}`, `{"replica":"g\u0000","boot":"b","first":1}`} {
		if _, _, err := ledger.Salvage(squeeze(t, text)); !errors.Is(err, ledger.ErrBatch) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, _, err := ledger.Salvage([]byte("x")); !errors.Is(err, ledger.ErrBatch) {
		t.Errorf("%v", err)
	}
}

func FuzzSalvage(f *testing.F) {
	b := batch()
	body, err := ledger.Encode(&b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		b, bad, err := ledger.Salvage(body)
		switch _, strict := ledger.Decode(body); {
		case err != nil && !errors.Is(err, ledger.ErrBatch):
			t.Errorf("%v does not say what it is about", err)
		case err != nil && strict == nil:
			t.Errorf("a good batch is lost: %v", err)
		case err == nil && len(bad) == 0 && strict != nil:
			t.Errorf("nothing is bad in %+v, and yet: %v", b, strict)
		}
	})
}
