package e2e_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
)

// TestDemo_OnACluster_CountsTogetherAndLeavesNothing runs everything on a
// Cluster that is not the demo's own.
func TestDemo_OnACluster_CountsTogetherAndLeavesNothing(t *testing.T) {
	t.Parallel()
	c := testkit.Cluster(t)
	d := StartDemo(t, "--gateways=2", "--redis-url="+c.URL(), "--redis-namespace=borrowed", exact)
	if d.Redis != c.URL() || len(d.Processes.Redis.Argv) != 0 {
		t.Errorf("the ready file names Redis %s, %+v", d.Redis, d.Processes.Redis)
	}
	var counted tally
	counted.hit(t, d, quiet(t, d, "free").Key, 4)
	counted.check(t, "on a Cluster")
	out, err := exec.Command(binary, "demo", "--gateways=1", "--redis-url="+c.URL(), "--redis-namespace=borrowed").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--redis-namespace") {
		t.Errorf("a second demo in the same namespace: %v\n%s", err, out)
	}
	d.Stop()
	left := 0
	for _, n := range c.Nodes {
		r := redis.NewClient(&redis.Options{Addr: n.Addr})
		left += int(r.DBSize(t.Context()).Val())
		_ = r.Close()
	}
	if left != 0 {
		t.Errorf("%d keys are left", left)
	}
}
