package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestGatewaysRedisUser_ReadsPolicyAndCannotWriteIt(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=1")
	b, err := os.ReadFile(filepath.Join(d.Dir, "secrets", "gateway-redis-url"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := redis.ParseURL(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	if v, err := c.HGet(t.Context(), "hg:{policy}:head", "version").Result(); err != nil || v != "1" {
		t.Errorf("reading the head: %q, %v", v, err)
	}
	for name, err := range map[string]error{
		"set a body":    c.Set(t.Context(), "hg:{policy}:body:1", "x", 0).Err(),
		"set a key":     c.Set(t.Context(), "hg:key:abc", "x", 0).Err(),
		"change a head": c.HSet(t.Context(), "hg:{policy}:head", "version", 9).Err(),
		"write by EVAL": c.Eval(t.Context(), "return redis.call('SET', KEYS[1], 'x')", []string{"hg:tenant:x"}).Err(),
		"flush":         c.FlushAll(t.Context()).Err(),
		"configure":     c.ConfigSet(t.Context(), "maxmemory", "1").Err(),
	} {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
}
