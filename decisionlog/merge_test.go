package decisionlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headgate/headgate/decisionlog"
)

// gather merges a log and returns its entries with their boots.
func gather(t *testing.T, log batches) (entries []decisionlog.Entry, boots []string) {
	t.Helper()
	err := decisionlog.Merge(t.Context(), log, func(b *decisionlog.Batch, e *decisionlog.Entry) error {
		entries, boots = append(entries, *e), append(boots, b.Boot)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return entries, boots
}

// TestMerge_OverlappingReplicasComeInTheOrderOfTheStore: whether batches are encoded or
// not, and whatever they overlap.
func TestMerge_OverlappingReplicasComeInTheOrderOfTheStore(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	var log batches
	total := 0
	for replica := range 5 {
		at := t0.UnixMicro()
		for seq := range 20 {
			b := &decisionlog.Batch{Replica: fmt.Sprint(replica), Boot: fmt.Sprint("boot", replica), Seq: int64(seq + 1), From: at, Sample: decisionlog.Whole}
			for i := range 50 {
				// Every fourth lies in the time of the batches after it.
				jump := rnd.Int64N(40_000)
				if i%4 == 0 {
					jump += 100_000
				}
				e := decisionlog.Entry{Kind: decisionlog.KindDecision, At: at + jump, Order: int32(i % 3), Seq: int64(seq*50 + i), Tenant: fmt.Sprint(replica)}
				b.Entries = append(b.Entries, e)
				b.To = max(b.To, e.At)
			}
			slices.SortFunc(b.Entries, func(x, y decisionlog.Entry) int {
				if x.Before(&y) {
					return -1
				}
				return 1
			})
			b.From = b.Entries[0].At
			at += 50_000
			total += len(b.Entries)
			if (replica+seq)%2 == 0 {
				b = &decisionlog.Batch{From: b.From, Body: encode(t, b)}
			}
			log = append(log, b)
		}
	}
	slices.SortStableFunc(log, func(a, b *decisionlog.Batch) int { return int(a.From - b.From) })
	entries, boots := gather(t, log)
	if len(entries) != total {
		t.Fatalf("%d entries, want %d", len(entries), total)
	}
	for i := range entries {
		if boots[i] != "boot"+entries[i].Tenant {
			t.Fatalf("entry %d of replica %s is said to be of %s", i, entries[i].Tenant, boots[i])
		}
		if i == 0 {
			continue
		}
		before, e := &entries[i-1], &entries[i]
		if e.At < before.At || boots[i] == boots[i-1] && e.Before(before) {
			t.Fatalf("entry %d (%d, %d, %d) comes after (%d, %d, %d)", i, e.At, e.Order, e.Seq, before.At, before.Order, before.Seq)
		}
	}
}

func TestMerge_EntriesOfOneCallStayInItsOrder(t *testing.T) {
	t.Parallel()
	at := t0.UnixMicro()
	call := func(boot string) *decisionlog.Batch {
		return &decisionlog.Batch{Boot: boot, From: at, To: at, Entries: []decisionlog.Entry{
			{Kind: 1, At: at, Order: 2, Seq: 1}, {Kind: 1, At: at, Order: 0, Seq: 2}, {Kind: 1, At: at, Order: 1, Seq: 3}, {Kind: 1, At: at, Order: 1, Seq: 4},
		}}
	}
	entries, boots := gather(t, batches{call("b"), call("a")})
	want := []int64{2, 3, 4, 1, 2, 3, 4, 1}
	for i, e := range entries {
		if e.Seq != want[i] || boots[i] != []string{"a", "b"}[i/4] {
			t.Fatalf("place %d has number %d of %s", i, e.Seq, boots[i])
		}
	}
}

// TestMerge_EntriesThatAreUsedAgainDoNotChangeWhatWasRead: a log may yield one batch
// after the other in the same memory.
func TestMerge_EntriesThatAreUsedAgainDoNotChangeWhatWasRead(t *testing.T) {
	t.Parallel()
	shared := reused{room: make([]decisionlog.Entry, 1)}
	var tenants []string
	err := decisionlog.Merge(t.Context(), &shared, func(_ *decisionlog.Batch, e *decisionlog.Entry) error {
		tenants = append(tenants, e.Tenant)
		return nil
	})
	if err != nil || fmt.Sprint(tenants) != "[ten_0 ten_1 ten_2]" {
		t.Fatalf("%v, %v", tenants, err)
	}
}

type reused struct {
	batches
	room []decisionlog.Entry
}

func (r *reused) Batches(_ ctx, yield func(*decisionlog.Batch) error) error {
	for i := range 3 {
		r.room[0] = decisionlog.Entry{Kind: 1, At: int64(10 + i), Tenant: fmt.Sprint("ten_", i)}
		if err := yield(&decisionlog.Batch{From: 5, To: 20, Entries: r.room}); err != nil {
			return err
		}
	}
	return nil
}

func TestMerge_ManyMoreOverlapsThanThereCanBeLoseNothing(t *testing.T) {
	t.Parallel()
	var log batches
	for i := range 5000 {
		log = append(log, &decisionlog.Batch{Boot: fmt.Sprint(i), From: 1, To: 9, Entries: []decisionlog.Entry{{Kind: 1, At: 1}, {Kind: 1, At: 9}}})
	}
	if entries, _ := gather(t, log); len(entries) != 10_000 {
		t.Fatalf("%d entries, want 10 000", len(entries))
	}
}

func TestMerge_StopsAtAnErrorAndAtABrokenBatch(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	log := batches{traffic(1, 10)}
	n := 0
	err := decisionlog.Merge(t.Context(), log, func(*decisionlog.Batch, *decisionlog.Entry) error {
		if n++; n == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 3 {
		t.Fatalf("%v after %d entries", err, n)
	}
	broken := batches{{From: 1, Body: []byte("no batch")}}
	if err := decisionlog.Merge(t.Context(), broken, nil); !errors.Is(err, decisionlog.ErrBatch) {
		t.Fatalf("%v, want ErrBatch", err)
	}
	empty := batches{{From: 1, Body: encode(t, &decisionlog.Batch{Replica: "a", From: 1, To: 1})}, {From: 2}}
	if entries, _ := gather(t, empty); len(entries) != 0 {
		t.Fatalf("%d entries of empty batches", len(entries))
	}
}
