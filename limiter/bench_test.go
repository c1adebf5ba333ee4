package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
)

func benchLimiter(b *testing.B) *limiter.Limiter {
	b.Helper()
	l, err := limiter.New(limiter.Config{Store: memstore.New(time.Now), Budget: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// BenchmarkDecide_Cached is a refusal that is known: the budget is 1 µs and two
// allocations.
func BenchmarkDecide_Cached(b *testing.B) {
	for _, limits := range []int{1, 4} {
		b.Run(fmt.Sprint(limits, "_limits"), func(b *testing.B) {
			l := benchLimiter(b)
			slow := perSecond(1)
			slow.Period *= 3600
			var charges []limiter.Charge
			for i := range limits {
				charges = append(charges, charge(tenant("ten_a"), fmt.Sprint(i), slow, 1))
			}
			req := each(closed, charges...)
			ctx := context.Background()
			l.Decide(ctx, req)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if l.Decide(ctx, req).Allowed {
					b.Fatal("admitted")
				}
			}
		})
	}
}

// BenchmarkDecide_Leased is a hot key that slices pay.
func BenchmarkDecide_Leased(b *testing.B) {
	l := benchLimiter(b)
	one := charge(tenant("ten_a"), "l", perMilli(1_000_000, 100_000_000), 1)
	one.Leased = true
	req := each(closed, one)
	ctx := context.Background()
	for l.SliceTokens() == 0 {
		l.Decide(ctx, req)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !l.Decide(ctx, req).Allowed {
				b.Error("refused")
				return
			}
		}
	})
	b.ReportMetric(float64(l.Stats().Local)/float64(b.N), "local/op")
}

// BenchmarkDecide_Exact is what the engine adds to a store in memory.
func BenchmarkDecide_Exact(b *testing.B) {
	l := benchLimiter(b)
	var charges []limiter.Charge
	for i := range 4 {
		charges = append(charges, charge(tenant("ten_a"), fmt.Sprint(i), perMilli(1_000_000, 100_000_000), 1))
	}
	req := each(closed, charges...)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if !l.Decide(ctx, req).Allowed {
			b.Fatal("refused")
		}
	}
}
