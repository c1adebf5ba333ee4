package meas

import (
	"math/bits"
	"time"
)

// sub is the number of parts that each power of two is counted in: a quantile is
// at most 1/64 too low.
const sub = 64

// Hist counts durations. It is not safe for concurrent use: each caller has one.
type Hist struct{ counts [64 * sub]uint32 }

// Record counts one duration.
func (h *Hist) Record(d time.Duration) { h.counts[place(uint64(max(0, d)))]++ }

// Add counts what o has counted.
func (h *Hist) Add(o *Hist) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// Quantile is the duration below which the share q of all lie, 0 when there are none.
func (h *Hist) Quantile(q float64) time.Duration {
	var total, run uint64
	for _, n := range h.counts {
		total += uint64(n)
	}
	if total == 0 {
		return 0
	}
	want := min(uint64(float64(total)*q), total-1)
	for i, n := range h.counts {
		run += uint64(n)
		if run > want {
			return start(i)
		}
	}
	return 0
}

// place is the part that a number of nanoseconds is counted in.
func place(n uint64) int {
	if n < sub {
		return int(n)
	}
	power := bits.Len64(n) - 1
	return (power-5)*sub + int(n>>(power-6))&(sub-1)
}

// start is the lowest duration of a part.
func start(place int) time.Duration {
	if place < sub {
		return time.Duration(place)
	}
	power := place/sub + 5
	return time.Duration(uint64(1)<<power + uint64(place%sub)<<(power-6))
}

// Count is how many durations were recorded.
func (h *Hist) Count() uint64 {
	var total uint64
	for _, n := range h.counts {
		total += uint64(n)
	}
	return total
}
