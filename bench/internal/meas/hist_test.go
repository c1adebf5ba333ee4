package meas

import (
	"testing"
	"time"
)

func TestHist_QuantilesAreAtMostOneSixtyFourthTooLow(t *testing.T) {
	t.Parallel()
	var h Hist
	for i := 1; i <= 1000; i++ {
		h.Record(time.Duration(i) * time.Microsecond)
	}
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Microsecond}, {.5, 501 * time.Microsecond}, {.99, 991 * time.Microsecond}, {1, 1000 * time.Microsecond}} {
		got := h.Quantile(c.q)
		if got > c.want || got < c.want-c.want/sub-1 {
			t.Errorf("quantile %v is %v, want about %v", c.q, got, c.want)
		}
	}
	if h.Count() != 1000 {
		t.Errorf("count is %d", h.Count())
	}
}

func TestHist_OfNothingIsZero(t *testing.T) {
	t.Parallel()
	var h Hist
	if got := h.Quantile(.5); got != 0 {
		t.Errorf("quantile of nothing is %v", got)
	}
}

func TestHist_AddIsTheSameAsRecordingAll(t *testing.T) {
	t.Parallel()
	var a, b, all Hist
	for i := range 500 {
		d := time.Duration(i*i) * time.Microsecond
		all.Record(d)
		if i%2 == 0 {
			a.Record(d)
		} else {
			b.Record(d)
		}
	}
	a.Add(&b)
	if a != all {
		t.Error("the sum of two differs from one of all")
	}
}

func TestPlace_GrowsWithTheDurationAndBeginsAtOrBelowIt(t *testing.T) {
	t.Parallel()
	last := -1
	for _, n := range []uint64{0, 1, 63, 64, 65, 127, 128, 1000, 1 << 20, 1<<20 + 1<<14, 1 << 40, 1<<62 + 12345} {
		p := place(n)
		if p <= last && n > 1 && n != 65 && n != 127 {
			t.Errorf("place(%d) is %d, not above %d", n, p, last)
		}
		last = p
		if begins := uint64(start(p)); begins > n || n-begins > n/sub {
			t.Errorf("the part of %d begins at %d", n, begins)
		}
	}
}
