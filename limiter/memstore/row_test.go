package memstore

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// plainRow is what a row means: every touch mends all of its buckets.
type plainRow map[uint64]limiter.Bucket

func (r plainRow) mend(now int64) {
	for hash, b := range r {
		if b.TimeMicros > now {
			b.TimeMicros = now
			r[hash] = b
		}
		if b.Forgotten(now) {
			delete(r, hash)
		}
	}
}

// TestRow_MeansWhatAPlainMapDoes touches and writes buckets of rows that are small and
// large, at times that also step back.
func TestRow_MeansWhatAPlainMapDoes(t *testing.T) {
	t.Parallel()
	forgotten, back := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limits := 1 + rng.IntN(4*indexed)
		r, plain, now := &row{}, plainRow{}, int64(1_000_000_000)
		for range 500 {
			switch rng.IntN(10) {
			case 0:
				now -= rng.Int64N(3_000_000)
				back++
			case 1:
				now += rng.Int64N(10_000_000)
			default:
				now += rng.Int64N(100_000)
			}
			r.mend(now)
			before := len(plain)
			plain.mend(now)
			forgotten += before - len(plain)
			hash := uint64(rng.IntN(limits))
			if at := r.find(hash); (at >= 0) != (func() bool { _, ok := plain[hash]; return ok })() || at >= 0 && r.buckets[at] != plain[hash] {
				t.Fatalf("seed %d: bucket %d is at %d, in a map %+v", seed, hash, at, plain[hash])
			}
			n := policy.Numbers{Tokens: 1 + rng.Int64N(5), Period: 1 + rng.Int64N(100_000), Burst: 1 + rng.Int64N(50)}
			b := limiter.Bucket{Numbers: n, Units: rng.Int64N(n.Full() + 1), TimeMicros: now}
			r.put(hash, b)
			plain[hash] = b
		}
		if len(r.hashes) != len(plain) || len(r.buckets) != len(plain) || r.index != nil && len(r.index) != len(plain) {
			t.Fatalf("seed %d: %d hashes, %d buckets, %d in the index, %d in a map", seed, len(r.hashes), len(r.buckets), len(r.index), len(plain))
		}
		useless := true
		for _, b := range plain {
			useless = useless && b.Forgotten(now+60_000_000)
		}
		if got := r.forgotten(now + 60_000_000); got != useless {
			t.Errorf("seed %d: forgotten %t, want %t", seed, got, useless)
		}
	}
	if forgotten < 1000 || back < 1000 {
		t.Errorf("%d buckets forgotten, %d steps back: too few", forgotten, back)
	}
}

func TestTable_LooksAtAllInTurn(t *testing.T) {
	t.Parallel()
	table := newTable[string, int64]()
	for i := range int64(100) {
		*table.of(fmt.Sprint(i)) = i
	}
	*table.of("7") = 1000
	if table.len() != 100 || *table.get("7") != 1000 || table.get("none") != nil {
		t.Fatalf("%d entries, %d", table.len(), *table.get("7"))
	}
	seen := map[int64]int{}
	for range 100 / sweepProbes {
		table.sweep(50, func(v *int64, past int64) bool {
			seen[*v]++
			return *v < past
		})
	}
	for v, times := range seen {
		if times > 2 {
			t.Errorf("%d was looked at %d times", v, times)
		}
	}
	for range 100 {
		table.sweep(50, func(v *int64, past int64) bool { return *v < past })
	}
	if table.len() != 51 || len(table.byKey) != 51 { // 50 to 99, and 7
		t.Errorf("%d entries are left", table.len())
	}
	for key, item := range table.byKey {
		if table.items[item.at] != item || item.key != key {
			t.Errorf("%s lies elsewhere", key)
		}
	}
}
