package suite

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/bench/internal/contend"
	"github.com/headgate/headgate/bench/internal/lab"
	"github.com/headgate/headgate/bench/internal/meas"
	"github.com/headgate/headgate/policy"
)

// Names of the cases, as the table shows them and the targets refer to them.
const (
	ping             = "PING, pool of 64"
	bareScript       = "EVALSHA return 1, pool of 64"
	oursOne          = "headgate, one limit"
	redisRateOne     = "redis_rate v10, one limit"
	throttledOne     = "throttled v2, one limit"
	ululeOne         = "ulule/limiter v3, one limit"
	vargoOne         = "sethvargo/go-limiter, one limit, own memory only"
	oursFour         = "headgate, four layers, all or nothing"
	redisRateFour    = "redis_rate v10, four calls"
	throttledFour    = "throttled v2, four calls"
	ululeFour        = "ulule/limiter v3, four calls"
	bareAlone        = "EVALSHA return 1, one caller"
	oursAlone        = "headgate, one limit, one caller"
	hotExact         = "headgate, hot key, exact"
	hotUncombined    = "the same script, hot key, one call each, pool of 64"
	hotRedisRate     = "redis_rate v10, hot key"
	hotLeased        = "headgate, hot key, leased"
	hotReplicas      = "headgate, hot key, exact, 12 replicas, 64 callers in all"
	hotReplicasEach  = "headgate, hot key, exact, 12 replicas, 64 callers each"
	overExact        = "headgate, hot key far over its limit, exact, 12 replicas"
	overLeased       = "headgate, hot key far over its limit, leased, 12 replicas"
	refusedCached    = "headgate, refused, remembered"
	refusedAlone     = "headgate, refused, remembered, one caller"
	refusedAsked     = "headgate, refused, asked of Redis"
	refusedRedisRate = "redis_rate v10, refused"
	tuned            = ", GOGC=400"
)

const (
	callers    = 64
	replicasT8 = 12      // that share one hot key
	server     = "redis" // its name in the measures
)

// bench is what the cases run on.
type bench struct {
	redis      *lab.Redis
	client     *redis.Client // of the peers: a connection for each caller
	replicas   []*contend.Replica
	forgetting *contend.Replica // remembers no refusal
	bounds     map[string]*contend.Bound
	close      []func()
}

func newBench(ctx context.Context) (*bench, error) {
	r, err := lab.Start(ctx)
	if err != nil {
		return nil, err
	}
	b := &bench{redis: r, bounds: map[string]*contend.Bound{}, close: []func(){r.Stop}}
	if err := b.connect(); err != nil { //nolint:contextcheck // replicas live as long as the bench, not as a context
		b.stop()
		return nil, err
	}
	return b, nil
}

func (b *bench) connect() (err error) {
	if b.client, err = b.redis.NewClient(callers); err != nil {
		return err
	}
	b.close = append(b.close, func() { _ = b.client.Close() })
	for range replicasT8 {
		replica, err := b.replica(0)
		if err != nil {
			return err
		}
		b.replicas = append(b.replicas, replica)
	}
	b.forgetting, err = b.replica(-1)
	return err
}

func (b *bench) replica(deny int) (*contend.Replica, error) {
	replica, err := contend.NewReplica(b.redis, deny)
	if err == nil {
		b.close = append(b.close, replica.Close)
	}
	return replica, err
}

func (b *bench) stop() {
	for i := len(b.close) - 1; i >= 0; i-- {
		b.close[i]()
	}
}

// cases are all cases on one Redis, in the order of the table.
func (b *bench) cases(ctx context.Context) ([]meas.Case, error) {
	var cases []meas.Case
	for _, part := range []func(context.Context) ([]meas.Case, error){b.floors, b.layered, b.hot, b.refused} {
		more, err := part(ctx)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	for i := range cases {
		c := &cases[i]
		c.Processes = append(c.Processes, meas.Process{Name: server, PID: b.redis.PID()})
		c.Counter = b.redis.ScriptCalls
		before := c.Before
		c.Before = func(ctx context.Context) error {
			if err := b.redis.Flush(ctx); err != nil || before == nil {
				return err
			}
			return before(ctx)
		}
	}
	return cases, nil
}

// floors are what no limiter on this client can go below, and a lone caller.
func (b *bench) floors(ctx context.Context) ([]meas.Case, error) {
	bare, err := contend.BareScript(ctx, b.client)
	if err != nil {
		return nil, err
	}
	ours := b.replicas[0].Decide(contend.OneLimit())
	return []meas.Case{
		{Name: ping, Op: contend.Ping(b.client).Op()},
		{Name: bareScript, Op: bare.Op()},
		{Name: bareAlone, Callers: 1, Op: bare.Op()},
		{Name: oursAlone, Callers: 1, Op: ours.Op()},
	}, nil
}

// layered are requests of one limit and of four, ours and the peers'.
func (b *bench) layered(context.Context) ([]meas.Case, error) {
	throttled, throttled4, err := contend.Throttled(b.client)
	if err != nil {
		return nil, err
	}
	ulule, ulule4, err := contend.Ulule(b.client)
	if err != nil {
		return nil, err
	}
	vargo, err := contend.SethVargo()
	if err != nil {
		return nil, err
	}
	ours, ours4 := b.replicas[0].Decide(contend.OneLimit()), b.replicas[0].Decide(contend.FourLayers())
	rate, rate4 := contend.RedisRate(b.client), contend.RedisRateFour(b.client)
	var cases []meas.Case
	both := func(name string, d contend.Decide) {
		cases = append(cases, meas.Case{Name: name, Op: d.Op()}, meas.Case{Name: name + tuned, GCPercent: 400, Op: d.Op()})
	}
	both(oursOne, ours)
	both(redisRateOne, rate)
	both(throttledOne, throttled)
	both(ululeOne, ulule)
	cases = append(cases, meas.Case{Name: vargoOne, Op: vargo.Many(64)})
	both(oursFour, ours4)
	both(redisRateFour, rate4)
	return append(cases,
		meas.Case{Name: throttledFour, Op: throttled4.Op()},
		meas.Case{Name: ululeFour, Op: ulule4.Op()}), nil
}

// hot is about one key that everybody draws from.
func (b *bench) hot(ctx context.Context) ([]meas.Case, error) {
	ours := b.replicas[0].Decide(contend.OneLimit())
	recorded, err := b.redis.Record(ctx, func() error { _, err := ours(ctx, 0); return err })
	if err != nil {
		return nil, err
	}
	plenty, flood := contend.Plenty(), contend.Flood()
	leased := contend.Requests(contend.Leased("plan.leased", flood))
	over := policy.Numbers{Tokens: 1, Period: 200, Burst: 500} // 5 000 a second
	exact, slices := contend.PerTenant("plan.over", over), contend.Leased("plan.leasedover", over)
	return []meas.Case{
		b.bounded(hotExact, plenty, plenty.Burst, meas.Case{Op: ours.HotOp()}),
		{Name: hotUncombined, Op: contend.Replay(b.client, recorded).HotOp()},
		{Name: hotRedisRate, Op: contend.RedisRate(b.client).HotOp()},
		b.bounded(hotLeased, flood, flood.LeasedBurst(), meas.Case{Op: b.replicas[0].Decide(leased).HotMany(16)}),
		b.bounded(hotReplicas, plenty, plenty.Burst, meas.Case{Op: b.spread(contend.OneLimit())}),
		b.bounded(hotReplicasEach, plenty, plenty.Burst, meas.Case{Callers: callers * replicasT8, Op: b.spread(contend.OneLimit())}),
		b.bounded(overExact, over, over.Burst, meas.Case{Op: b.spread(contend.Requests(exact))}),
		b.bounded(overLeased, over, over.LeasedBurst(), meas.Case{Op: b.spread(contend.Requests(slices))}),
	}, nil
}

// refused is about subjects that have used up their hour.
func (b *bench) refused(context.Context) ([]meas.Case, error) {
	ours := b.replicas[0].Decide(contend.Refused())
	// Each subject's first request is admitted, its second asked about and remembered.
	usedUp := func(ctx context.Context) error {
		_, err := ours.Many(2*contend.Subjects)(ctx, 0, 0)
		return err
	}
	return []meas.Case{
		{Name: refusedCached, Before: usedUp, Op: ours.Many(64)},
		{Name: refusedAlone, Callers: 1, Before: usedUp, Op: ours.Many(64)},
		{Name: refusedAsked, Op: b.forgetting.Decide(contend.Refused()).Op()},
		{Name: refusedRedisRate, Op: contend.RedisRateRefused(b.client).Op()},
	}, nil
}
