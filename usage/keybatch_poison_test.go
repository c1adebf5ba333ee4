package usage

import (
	"errors"
	"testing"
)

// TestDecodeKeys_RefusesCountsThatNoReplicaReaches: whoever may write to the stream
// may write any number, and sums of such numbers overflow what keeps them.
func TestDecodeKeys_RefusesCountsThatNoReplicaReaches(t *testing.T) {
	t.Parallel()
	row := KeyRow{KID: "0123456789AB", FirstUsed: 10, LastUsed: 20, Requests: maxRowCount}
	for name, c := range map[string]struct {
		change func(*KeyBatch)
		good   bool
	}{
		"the most that can be": {func(*KeyBatch) {}, true},
		"requests":             {func(b *KeyBatch) { b.Rows[0].Requests++ }, false},
		"limited":              {func(b *KeyBatch) { b.Rows[0].Limited = maxRowCount + 1; b.Rows[0].Requests = maxRowCount + 1 }, false},
		"refused": {func(b *KeyBatch) {
			b.Rows[0] = KeyRow{KID: row.KID, FirstRefused: 1, LastRefused: 2, Requests: maxRowCount + 1, Refused: maxRowCount + 1}
		}, false},
		"seconds": {func(b *KeyBatch) { b.Rows[0].LastUsed = maxCount + 1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := KeyBatch{Replica: "gw_a", Boot: "b", Seq: 1, Rows: []KeyRow{row}}
			c.change(&b)
			body, err := EncodeKeys(&b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeKeys(body); c.good != (err == nil) || err != nil && !errors.Is(err, ErrKeyBatch) {
				t.Fatalf("error is %v", err)
			}
		})
	}
}
