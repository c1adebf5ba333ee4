package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

// BenchmarkTake measures decisions with 64 callers, by number of limits and of
// calls in flight, and tells what one costs Redis.
func BenchmarkTake(b *testing.B) {
	for _, limits := range []int{1, 4} {
		for _, writers := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("limits=%d/writers=%d", limits, writers), func(b *testing.B) {
				url := testkit.RedisURL(b)
				store, err := redisstore.Open(url, redisstore.Options{Deployment: "bench", Writers: writers, Budget: time.Second})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = store.Close() }()
				benchTake(b, store, limits)
				b.ReportMetric(scriptMicros(b, patient(b, url))/float64(b.N), "redis-µs/op")
			})
		}
	}
}

func benchTake(b *testing.B, store limiter.Store, limits int) {
	n := policy.Numbers{Tokens: 1, Period: 1, Burst: 1_000_000}
	var next atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			tenant := fmt.Sprintf("ten_%d", next.Add(1)%1000)
			charges := make([]limiter.Charge, limits)
			for i := range charges {
				charges[i] = storetest.Draw(storetest.Tenant(tenant), limitNames[i], n, 1)
			}
			if _, err := store.Take(context.Background(), &limiter.Draw{Charges: charges}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// scriptMicros is the time that Redis has spent in scripts.
func scriptMicros(b *testing.B, client *redis.Client) float64 {
	b.Helper()
	match := regexp.MustCompile(`cmdstat_evalsha:calls=\d+,usec=(\d+)`).FindStringSubmatch(
		client.Info(context.Background(), "commandstats").Val())
	if match == nil {
		b.Fatal("no script calls counted")
	}
	micros, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	if err := client.ConfigResetStat(context.Background()).Err(); err != nil {
		b.Fatal(err)
	}
	return micros
}

var limitNames = [...]string{"plan.requests", "shared:search", "route:report.reports", "route:report.burst"}

// BenchmarkLone measures one decision at a time, beside a script that does nothing
// on the same client.
func BenchmarkLone(b *testing.B) {
	url := testkit.RedisURL(b)
	b.Run("decision", func(b *testing.B) {
		store := redisstore.New(patientTo(b, url), options)
		n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 60_000}
		d := draw(storetest.Draw(tenant, "l", n, 1))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := store.Take(context.Background(), d); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		client := patientTo(b, url)
		sha, err := client.ScriptLoad(context.Background(), "return 1").Result()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := client.EvalSha(context.Background(), sha, []string{"k"}).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
