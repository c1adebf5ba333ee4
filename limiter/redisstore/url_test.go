package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
)

func TestParseURL_ReadsEveryKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, want string }{
		{"redis://h", "standalone [h:6379]   db0 tls=false"},
		{"redis://u:p@h:1/3", "standalone [h:1] u p db3 tls=false"},
		{"rediss://:p@h:1", "standalone [h:1]  p db0 tls=true"},
		{"redis://[::1]:7/0", "standalone [[::1]:7]   db0 tls=false"},
		{"unix:///run/redis.sock?db=2", "standalone [/run/redis.sock]   db2 tls=false"},
		{"redis-sentinel://h:1/mymaster", "sentinel [h:1]   db0 tls=false mymaster"},
		{"redis-sentinel://u:p@h:1,i:2,j/mymaster?db=4&sentinel_username=s&sentinel_password=q%26", "sentinel [h:1 i:2 j:6379] u p db4 tls=false mymaster s/q&"},
		{"rediss-sentinel://u:p%40@[::1]:1,h/m", "sentinel [[::1]:1 h:6379] u p@ db0 tls=true m"},
		{"redis-cluster://h:1,i:2", "cluster [h:1 i:2]   db0 tls=false"},
		{"redis-cluster://u:p@h:1/", "cluster [h:1] u p db0 tls=false"},
		{"rediss-cluster://h:1,i:2?skip_verify=true", "cluster [h:1 i:2]   db0 tls=true"},
	} {
		o, kind, err := redisstore.ParseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		got := fmt.Sprintf("%s %v %s %s db%d tls=%t", kind, o.Addrs, o.Username, o.Password, o.DB, o.TLSConfig != nil)
		if kind == redisstore.Sentinel {
			got += " " + o.MasterName
			if o.SentinelUsername != "" {
				got += " " + o.SentinelUsername + "/" + o.SentinelPassword
			}
		}
		if got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.url, got, c.want)
		}
		if o.IsClusterMode != (kind == redisstore.Cluster) {
			t.Errorf("%s: cluster mode %t", c.url, o.IsClusterMode)
		}
		if kind != redisstore.Standalone && o.TLSConfig != nil && o.TLSConfig.ServerName != "" {
			t.Errorf("%s: one server's name for all", c.url)
		}
	}
}

// badURLs hold a password each, which no error may tell.
func badURLs() []string {
	return []string{
		"", "canary", "http://u:canary@h", "redis://u:canary@h:port/0", "redis://u:canary@h/%zz", "redis://u:canary@h/x",
		"redis://u:canary@h?nonsense=1", "redis-ring://u:canary@h", "unix-cluster://u:canary@/x",
		"redis-sentinel://u:canary@h", "redis-sentinel://u:canary@h/a/b", "redis-sentinel://u:canary@h,,i/m",
		"redis-sentinel://u:canary@/m", "redis-cluster://u:canary@h/1", "redis-cluster://u:canary@h?db=1", "redis-cluster://u:canary@h:x,i",
	}
}

func TestParseURL_NeverQuotesWhatItRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range badURLs() {
		for name, read := range map[string]func(string) error{
			"parse": func(url string) error { _, _, err := redisstore.ParseURL(url); return err },
			"open":  func(url string) error { _, err := redisstore.Open(url, redisstore.Options{}); return err },
		} {
			if err := read(url); err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "redis://") {
				t.Errorf("%s %q: error %v", name, url, err)
			}
		}
	}
}

// FuzzParseURL: no text makes the reader panic, and what it takes names at least
// one server.
func FuzzParseURL(f *testing.F) {
	for _, url := range append(badURLs(), "redis-sentinel://u:p@h:1,i:2/m?db=1", "rediss-cluster://h:1,[::1]:2", "unix:///x") {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		o, kind, err := redisstore.ParseURL(url)
		switch {
		case err != nil:
		case len(o.Addrs) == 0 || kind == redisstore.Sentinel && o.MasterName == "":
			t.Errorf("%q: %+v", url, o)
		}
	})
}

func TestOpen_BoundsWhatAnOutageMayCost(t *testing.T) {
	t.Parallel()
	o, err := redisstore.DecisionOptions("redis://user:secret@127.0.0.1:6380/3?pool_size=7", 75*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(o.Addrs, o.Username, o.Password, o.DB, o.MaxActiveConns, o.MaxRetries, o.ContextTimeoutEnabled)
	if want := fmt.Sprint([]string{"127.0.0.1:6380"}, "user", "secret", 3, 7, -1, true); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if o.ReadTimeout != 75*time.Millisecond || o.WriteTimeout != 75*time.Millisecond || o.DialTimeout != 100*time.Millisecond {
		t.Errorf("for a budget of 75 ms: read %v, write %v, dial %v", o.ReadTimeout, o.WriteTimeout, o.DialTimeout)
	}
}

func TestOpen_ServesAndEnds(t *testing.T) {
	t.Parallel()
	opts := options
	opts.Budget = 10 * time.Second
	store, err := redisstore.Open(testkit.RedisURL(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	if store.Clustered() {
		t.Error("one server is no Cluster")
	}
	if out := take(t, store, storetest.Draw(tenant, "l", small, 1)); !out.Admitted {
		t.Errorf("%+v", out)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Take(within(t, time.Second), one("l")); err == nil {
		t.Error("a closed store decides")
	}
}
