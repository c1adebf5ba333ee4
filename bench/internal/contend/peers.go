package contend

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"
)

// plenty is more than any machine asks for in a minute.
const plenty = 1_000_000_000

// layers are the keys of one request with four limits: the first is everybody's.
func layers() [4][]string {
	all := [4][]string{make([]string, Subjects), names(":plan"), names(":shared"), names(":route")}
	for i := range all[0] {
		all[0][i] = "global"
	}
	return all
}

// RedisRate is go-redis/redis_rate v10, a generic cell rate algorithm in one script.
func RedisRate(client *redis.Client) Decide {
	l, keys := redis_rate.NewLimiter(client), names("")
	return func(ctx context.Context, subject int) (bool, error) {
		r, err := l.Allow(ctx, keys[subject], redis_rate.PerMinute(plenty))
		if err != nil {
			return false, err
		}
		return r.Allowed > 0, nil
	}
}

// RedisRateFour asks redis_rate four times for one request, which is neither
// atomic nor all-or-nothing, but all that it offers.
func RedisRateFour(client *redis.Client) Decide {
	l, keys := redis_rate.NewLimiter(client), layers()
	return func(ctx context.Context, subject int) (bool, error) {
		for i := range keys {
			r, err := l.Allow(ctx, keys[i][subject], redis_rate.PerMinute(plenty))
			if err != nil || r.Allowed == 0 {
				return false, err
			}
		}
		return true, nil
	}
}

// RedisRateRefused asks redis_rate about subjects that have used up their hour.
func RedisRateRefused(client *redis.Client) Decide {
	l, keys := redis_rate.NewLimiter(client), names(":refused")
	return func(ctx context.Context, subject int) (bool, error) {
		r, err := l.Allow(ctx, keys[subject], redis_rate.PerHour(1))
		if err != nil {
			return false, err
		}
		return r.Allowed > 0, nil
	}
}

// RedisRateByName asks redis_rate about any subject, with a limit whose state lasts.
func RedisRateByName(client *redis.Client) func(context.Context, string) (bool, error) {
	l := redis_rate.NewLimiter(client)
	return func(ctx context.Context, subject string) (bool, error) {
		r, err := l.Allow(ctx, subject, redis_rate.Limit{Rate: 10, Period: time.Hour, Burst: 10})
		if err != nil {
			return false, err
		}
		return r.Allowed > 0, nil
	}
}

// Throttled is throttled v2 with its store on go-redis v9.
func Throttled(client *redis.Client) (one, four Decide, err error) {
	store, err := throttledstore.NewCtx(client, "throttled:")
	if err != nil {
		return nil, nil, fmt.Errorf("throttled: %w", err)
	}
	const perMinute = 100_000_000 // its arithmetic wants whole nanoseconds a request
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(perMinute), MaxBurst: perMinute})
	if err != nil {
		return nil, nil, fmt.Errorf("throttled: %w", err)
	}
	keys, layered := names(""), layers()
	one = func(ctx context.Context, subject int) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, keys[subject], 1)
		return !limited, err
	}
	four = func(ctx context.Context, subject int) (bool, error) {
		for i := range layered {
			limited, _, err := l.RateLimitCtx(ctx, layered[i][subject], 1)
			if err != nil || limited {
				return false, err
			}
		}
		return true, nil
	}
	return one, four, nil
}

// Ulule is ulule/limiter v3 with its Redis store: fixed windows.
func Ulule(client *redis.Client) (one, four Decide, err error) {
	store, err := ululestore.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: "ulule"})
	if err != nil {
		return nil, nil, fmt.Errorf("ulule/limiter: %w", err)
	}
	l := ulule.New(store, ulule.Rate{Period: time.Minute, Limit: plenty})
	keys, layered := names(""), layers()
	one = func(ctx context.Context, subject int) (bool, error) {
		r, err := l.Get(ctx, keys[subject])
		return !r.Reached, err
	}
	four = func(ctx context.Context, subject int) (bool, error) {
		for i := range layered {
			r, err := l.Get(ctx, layered[i][subject])
			if err != nil || r.Reached {
				return false, err
			}
		}
		return true, nil
	}
	return one, four, nil
}

// SethVargo is sethvargo/go-limiter with its own memory: it counts within one
// process and shares nothing, because its Redis store is for another client.
func SethVargo() (Decide, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: plenty, Interval: time.Minute})
	if err != nil {
		return nil, fmt.Errorf("sethvargo/go-limiter: %w", err)
	}
	keys := names("")
	return func(ctx context.Context, subject int) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, keys[subject])
		return ok, err
	}, nil
}
