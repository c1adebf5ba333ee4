package redisstore_test

import (
	"context"
	"testing"
	"time"

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

// conforms runs the suite on the servers behind a URL.
func conforms(t *testing.T, url string) {
	t.Helper()
	storetest.Conform(t, func(t *testing.T) storetest.World {
		client, clock := patientTo(t, url), storetest.NewManual()
		store := redisstore.NewVirtual(client, options, clock.Now)
		w := storetest.World{
			Store: store, Clock: clock,
			Another:  func() limiter.Store { return redisstore.NewVirtual(patientTo(t, url), options, clock.Now) },
			Flush:    func(t testing.TB) { flush(t, client) },
			Mark:     func(t testing.TB) { mark(t, client, store) },
			Together: store.TakeAll,
		}
		if store.Clustered() {
			w.Lane = store.Lane
		}
		return w
	})
}

func TestStore_ConformsOnOneServer(t *testing.T) {
	t.Parallel()
	conforms(t, testkit.RedisURL(t))
}

// patientTo connects to servers of any kind, with time limits for a busy test
// machine.
func patientTo(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisstore.PatientClient(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// masters does something with each server that holds keys.
func masters(t testing.TB, client redis.UniversalClient, do func(context.Context, *redis.Client) error) {
	t.Helper()
	var err error
	if cluster, is := client.(*redis.ClusterClient); is {
		err = cluster.ForEachMaster(context.Background(), do)
	} else {
		err = do(context.Background(), client.(*redis.Client))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// mark leaves the mark of every lane, as the console does.
func mark(t testing.TB, client redis.UniversalClient, store *redisstore.Store) {
	t.Helper()
	pipe := client.Pipeline()
	for _, key := range store.KeptKeys() {
		pipe.Set(context.Background(), key, "1", time.Hour)
	}
	if _, err := pipe.Exec(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// flush empties all servers.
func flush(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	masters(t, client, func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() })
}
