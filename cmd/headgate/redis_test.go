package main

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// The same holds for each server of a Cluster.
func TestRedis_R16_ChangedPasswordIsReadAgainByAllOfACluster(t *testing.T) {
	t.Parallel()
	c := testkit.Cluster(t)
	file := filepath.Join(t.TempDir(), "redis-url")
	set := func(old, password string) {
		for _, n := range c.Nodes {
			node := n.URL
			if old != "" {
				node = withPassword(t, n.URL, old)
			}
			change(t, node, password)
			cut(t, withPassword(t, n.URL, password))
		}
		if err := os.WriteFile(file, []byte(strings.Replace(c.URL(), "://", "://default:"+password+"@", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("", "old-password")
	var p config.Problems
	_, o := redisURL(&p, "", file)
	if o == nil {
		t.Fatal(p.Err())
	}
	client := wireClient(o, file)
	defer func() { _ = client.Close() }()
	write := func() (err error) {
		for i := range 20 { // on all primaries
			err = errors.Join(err, client.Set(t.Context(), "k"+strconv.Itoa(i), "v", 0).Err())
		}
		return err
	}
	eventually(t, "writes with the first password", func() bool { return write() == nil })
	set("old-password", "new-password")
	eventually(t, "writes with the second password", func() bool { return write() == nil })
}
