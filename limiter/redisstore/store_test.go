package redisstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
)

var options = redisstore.Options{Namespace: "hg", Deployment: "test"}

// clientTo connects as the product does.
func clientTo(t testing.TB, url string) *redis.Client {
	t.Helper()
	opts, err := redisstore.ClientOptions(url)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, opts)
}

func newClient(t testing.TB, opts *redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// patient connects with time limits for a busy test machine.
func patient(t testing.TB, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries, opts.ContextTimeoutEnabled = -1, true
	return newClient(t, opts)
}

func TestStore_Conforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) (limiter.Store, storetest.Clock) {
		clock := storetest.NewManual()
		return redisstore.NewVirtual(patient(t, testkit.RedisURL(t)), options, clock.Now), clock
	})
}
