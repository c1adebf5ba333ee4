package web

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views/ui"
)

func TestHealthLine_LeavesGapsWithoutSampleOrRedis(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 30, 12, 0, 3, 0, time.UTC)
	base := from.Truncate(sampleStep)
	samples := []console.Sample{
		{At: base.Add(-time.Second), RedisUp: true, InSync: 9},
		{At: base.Add(time.Second), RedisUp: true, InSync: 3, RTT: 2 * time.Millisecond},
		{At: base.Add(21 * time.Second), InSync: 2},
		{At: base.Add(31 * time.Second), RedisUp: true, InSync: 1},
		{At: base.Add(time.Hour), RedisUp: true, InSync: 9},
	}
	p := healthLine(ui.StatProps{}, samples, from, from.Add(41*time.Second), 5*time.Second, func(x console.Sample) float64 { return float64(x.InSync) })
	want := []float64{3, math.NaN(), math.NaN(), 1}
	if p.Step != sampleStep || len(p.Values) != len(want) {
		t.Fatalf("%d points, one each %v", len(p.Values), p.Step)
	}
	for i, v := range p.Values {
		if v != want[i] && !(math.IsNaN(v) && math.IsNaN(want[i])) {
			t.Errorf("point %d is %v, want %v", i, v, want[i])
		}
	}
	if got := roundTrip(samples[1]); got != 2 {
		t.Errorf("round trip %v ms", got)
	}
}

func TestWorstMinute_IsReplicasTimesBurstPlusRefill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate     policy.Rate
		burst    int64
		replicas int64
		want     int64
	}{
		{policy.Rate{Tokens: 200, Period: time.Minute}, 200, 3, 1200},
		{policy.Rate{Tokens: 1, Period: time.Hour}, 5, 2, 10},
		{policy.Rate{Tokens: 10, Period: time.Second}, 10, 1, 610},
		{policy.Rate{}, 0, 4, 0},
	} {
		if got := worstMinute(policy.Fallback{Rate: c.rate, Burst: c.burst}, c.replicas); got != c.want {
			t.Errorf("%v, burst %d on %d: %d, want %d", c.rate, c.burst, c.replicas, got, c.want)
		}
	}
}
