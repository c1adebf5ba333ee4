package main

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testkit"
)

// withPassword is a Redis URL with another password.
func withPassword(t *testing.T, raw, password string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("default", password)
	return u.String()
}

// A password that is changed in Redis and in the file is picked up by the next
// connection, without a restart.
func TestRedis_R16_ChangedPasswordIsReadAgain(t *testing.T) {
	t.Parallel()
	open := testkit.RedisURL(t)
	change(t, open, "old-password")
	address := withPassword(t, open, "old-password")
	file := filepath.Join(t.TempDir(), "redis-url")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(address)
	var p config.Problems
	_, o := redisURL(&p, "", file)
	if o == nil {
		t.Fatal(p.Err())
	}
	client := wireClient(o, file)
	defer func() { _ = client.Close() }()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	change(t, address, "new-password")
	cut(t, withPassword(t, address, "new-password"))
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("the old password still works: the test shows nothing")
	}
	write("nonsense")
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a file that is no URL let a connection in")
	}
	write(withPassword(t, address, "new-password"))
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("with the new password in the file: %v", err)
	}
}

func admin(t *testing.T, address string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// change sets the default user's password.
func change(t *testing.T, address, password string) {
	t.Helper()
	if err := admin(t, address).ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
		t.Fatal(err)
	}
}

// cut ends all other connections.
func cut(t *testing.T, address string) {
	t.Helper()
	if err := admin(t, address).Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
}
