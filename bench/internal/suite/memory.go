package suite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/bench/internal/contend"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// slow is a limit whose buckets outlive the measurement.
func slow() policy.Numbers { return policy.Numbers{Tokens: 1, Period: 360_000_000, Burst: 10} }

// Memory is what identifiers cost.
type Memory struct {
	Identifiers int
	// Bytes of Redis for each identifier, by name of the contender.
	Redis map[string]float64
	// Heap of a replica in bytes after so many identifiers, each of them refused
	// and remembered, or each counted by the fallback.
	Sizes            []int
	Denied, Fallback []uint64
}

// measureRedis asks about n identifiers of each kind.
func (b *bench) measureRedis(ctx context.Context, n int, progress func(string, ...any)) (map[string]float64, error) {
	id := "route:login.per-ip"
	perTenant := contend.PerTenant(id, slow())
	byName := contend.RedisRateByName(b.client)
	kinds := []struct {
		name string
		ask  func(context.Context, int) (bool, error)
	}{
		{memoryAddress, b.fresh(func(i int) limiter.Charge { return contend.PerAddress(id, slow())(address(i)) })},
		{memoryTenant, b.fresh(func(i int) limiter.Charge { return perTenant(fmt.Sprintf("ten_%016x", i)) })},
		{memoryRedisRate, func(ctx context.Context, i int) (bool, error) { return byName(ctx, address(i)) }},
	}
	bytes := map[string]float64{}
	for _, kind := range kinds {
		progress("memory of Redis: %s, %d identifiers", kind.name, n)
		each, err := b.fill(ctx, n, kind.ask)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
		bytes[kind.name] = each
	}
	return bytes, b.redis.Flush(ctx)
}

// fresh asks a replica with one charge.
func (b *bench) fresh(charge func(i int) limiter.Charge) func(context.Context, int) (bool, error) {
	return func(ctx context.Context, i int) (bool, error) {
		d := b.replicas[0].Engine.Decide(ctx, limiter.Request{Route: "login", Draw: limiter.Draw{Charges: []limiter.Charge{charge(i)}}})
		return d.Allowed && !d.Degraded, nil
	}
}

// Names of what is counted by identifier.
const (
	memoryAddress   = "headgate, per ip"
	memoryTenant    = "headgate, per tenant"
	memoryRedisRate = "redis_rate v10"
)

// address is the i-th of some million IPv6 networks.
func address(i int) string { return fmt.Sprintf("2001:db8:%x:%x::", i>>16, i&0xffff) }

// warmUp is how many identifiers are asked about before memory is measured: what
// scripts and connections take is no identifier's.
const warmUp = 1000

// fill asks about n identifiers, and returns the bytes of Redis for each.
func (b *bench) fill(ctx context.Context, n int, ask func(context.Context, int) (bool, error)) (float64, error) {
	if err := each(ctx, min(n, warmUp), ask); err != nil {
		return 0, err
	}
	if err := b.redis.Flush(ctx); err != nil {
		return 0, err
	}
	before, err := b.redis.Memory(ctx)
	if err != nil {
		return 0, err
	}
	if err := each(ctx, n, ask); err != nil {
		return 0, err
	}
	after, err := b.redis.Memory(ctx)
	if err != nil {
		return 0, err
	}
	if keys := b.redis.Client.DBSize(ctx).Val(); keys < int64(n) {
		return 0, fmt.Errorf("%d keys of %d are left", keys, n)
	}
	return float64(after-before) / float64(n), nil
}

var errRefused = errors.New("a fresh identifier was refused")

// each asks about 0 to n-1, 64 at a time.
func each(ctx context.Context, n int, ask func(context.Context, int) (bool, error)) error {
	var next atomic.Int64
	var done sync.WaitGroup
	failures := make(chan error, callers)
	for range callers {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				ok, err := ask(ctx, i)
				if err == nil && !ok {
					err = errRefused
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	done.Wait()
	close(failures)
	return <-failures
}

// refusing is a store that refuses every charge for an hour.
type refusing struct{ limiter.Store }

// Take refuses.
func (refusing) Take(_ context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	out := limiter.Outcome{NowMicros: time.Now().UnixMicro(), Levels: make([]limiter.Level, len(d.Charges))}
	for i := range out.Levels {
		out.Levels[i].WaitMicros = time.Hour.Microseconds()
	}
	return out, nil
}

// away is a store that nobody reaches.
type away struct{ limiter.Store }

// Take fails.
func (away) Take(context.Context, *limiter.Draw) (limiter.Outcome, error) {
	return limiter.Outcome{}, limiter.ErrStore
}

// heaps is the heap of a replica on the store after each number of identifiers.
func heaps(ctx context.Context, store limiter.Store, sizes []int) ([]uint64, error) {
	engine, err := limiter.New(limiter.Config{Store: store})
	if err != nil {
		return nil, fmt.Errorf("make an engine: %w", err)
	}
	charge := contend.PerAddress("route:login.per-ip", slow())
	fail := policy.StoreFailure{Mode: policy.FailOpen, Fallback: &policy.Fallback{Rate: policy.Rate{Tokens: 10, Period: time.Hour}, Burst: 10}}
	var used []uint64
	done := 0
	before := heap()
	for _, size := range sizes {
		from := done
		err := each(ctx, size-from, func(ctx context.Context, i int) (bool, error) {
			subject := address(from + i)
			engine.Decide(ctx, limiter.Request{Route: "login", Identity: subject, Fail: fail, Draw: limiter.Draw{Charges: []limiter.Charge{charge(subject)}}})
			return true, nil
		})
		if err != nil {
			return nil, err
		}
		done = size
		now := heap()
		used = append(used, now-min(before, now))
	}
	runtime.KeepAlive(engine)
	return used, nil
}

// heap is what is reachable now.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// targets judges T9.
func (m *Memory) targets() []Target {
	if m == nil {
		return nil
	}
	var all []Target
	for _, name := range []string{memoryAddress, memoryTenant} {
		all = append(all, Target{
			ID: "T9", What: fmt.Sprintf("Redis a identifier, %s, at %d (redis_rate: %.0f)", name, m.Identifiers, m.Redis[memoryRedisRate]),
			Wants: "≤ 160 bytes", Met: m.Redis[name] <= 160, Figure: fmt.Sprintf("%.1f bytes", m.Redis[name]),
		})
	}
	for _, c := range []struct {
		what string
		used []uint64
	}{{"refused and remembered", m.Denied}, {"counted by the fallback", m.Fallback}} {
		before, last := c.used[max(0, len(c.used)-2)], c.used[len(c.used)-1]
		all = append(all, Target{
			ID: "T9", What: fmt.Sprintf("heap of a replica after %s identifiers, all %s", strings.Trim(fmt.Sprint(m.Sizes), "[]"), c.what), Wants: "flat: last ≤ 1.05 × before",
			Met: float64(last) <= 1.05*float64(before), Figure: mebibytes(c.used),
		})
	}
	return all
}

func mebibytes(sizes []uint64) string {
	text := ""
	for i, size := range sizes {
		if i > 0 {
			text += " → "
		}
		text += fmt.Sprintf("%.1f", float64(size)/(1<<20))
	}
	return text + " MiB"
}
