package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// shards is the number of primaries of a Cluster; slots are dealt out evenly.
const (
	shards       = 3
	clusterSlots = 16384
)

// ClusterSet is a Redis Cluster of three primaries with one replica each (a node
// is down after 1.5 s). Its methods fail the test when they cannot do what they
// say; they are not for concurrent use.
type ClusterSet struct {
	Nodes []*Node // Nodes[0..2] are the first primaries, Nodes[3+i] the replica of Nodes[i]

	ids []string // of the nodes, in the same order
	t   testing.TB
}

// Cluster starts the nodes and stops them at the end of the test. It returns
// when every node says that the Cluster is whole.
func Cluster(t testing.TB) *ClusterSet {
	t.Helper()
	c := &ClusterSet{t: t}
	c.Nodes = topology(t, func(ps []planned) error {
		c.ids = nil
		for _, p := range ps {
			c.ids = append(c.ids, p.id)
		}
		return planCluster(ps)
	})
	await(t, "the Cluster", c.whole)
	return c
}

// planCluster writes each node's view of the Cluster, as if it had been one
// already: so nothing is left to be negotiated.
func planCluster(ps []planned) error {
	for i := range ps {
		p := &ps[i]
		p.lines = []string{
			"cluster-enabled yes", fmt.Sprintf("cluster-port %d", p.bus), "cluster-config-file nodes.conf",
			"cluster-node-timeout 1500", "cluster-replica-validity-factor 0",
			"repl-diskless-sync yes", "repl-diskless-sync-delay 0",
		}
		if err := os.WriteFile(filepath.Join(p.dir, "nodes.conf"), []byte(nodesConf(ps, i)), 0o600); err != nil {
			return fmt.Errorf("write nodes of the Cluster: %w", err)
		}
	}
	return nil
}

func nodesConf(ps []planned, me int) string {
	var b strings.Builder
	for i, p := range ps {
		flags, primary, slots := "master", "-", ""
		if i < shards {
			slots = fmt.Sprintf(" %d-%d", i*clusterSlots/shards, (i+1)*clusterSlots/shards-1)
		} else {
			flags, primary = "slave", ps[i-shards].id
		}
		if i == me {
			flags = "myself," + flags
		}
		fmt.Fprintf(&b, "%s 127.0.0.1:%d@%d %s %s 0 0 %d connected%s\n", p.id, p.port, p.bus, flags, primary, i%shards+1, slots)
	}
	fmt.Fprintf(&b, "vars currentEpoch %d lastVoteEpoch 0\n", shards)
	return b.String()
}

// URL names all nodes: redis-cluster://host:port,….
func (c *ClusterSet) URL() string { return "redis-cluster://" + strings.Join(c.Addrs(), ",") }

// Addrs are the addresses of all nodes.
func (c *ClusterSet) Addrs() []string { return addrs(c.Nodes) }

// whole reports whether all six nodes see a Cluster without a fault in which
// each primary has a replica that is in step.
func (c *ClusterSet) whole() error {
	for _, n := range c.Nodes {
		err := ask(n, func(ctx context.Context, r *redis.Client) error {
			info, err := r.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			if !strings.Contains(info, "cluster_state:ok") {
				return fmt.Errorf("node %s: the Cluster is not ok", n.Addr)
			}
			rep, err := r.Info(ctx, "replication").Result()
			if err != nil {
				return err
			}
			if !strings.Contains(rep, "master_link_status:up") && !strings.Contains(rep, "state=online") {
				return fmt.Errorf("node %s is not replicated", n.Addr)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Slot is the slot of a key.
func (c *ClusterSet) Slot(key string) int {
	c.t.Helper()
	var slot int
	c.do(c.anyNode(), func(ctx context.Context, r *redis.Client) error {
		v, err := r.ClusterKeySlot(ctx, key).Result()
		slot = int(v)
		return err
	})
	return slot
}

// Owner is the primary that serves a slot now, in the eyes of a node that runs.
func (c *ClusterSet) Owner(slot int) *Node {
	c.t.Helper()
	n, err := c.owner(slot)
	if err != nil {
		c.t.Fatalf("testkit: %v", err)
	}
	return n
}

func (c *ClusterSet) owner(slot int) (*Node, error) {
	var owner *Node
	err := ask(c.anyNode(), func(ctx context.Context, r *redis.Client) error {
		ranges, err := r.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS names failed nodes too; this names who serves
		if err != nil {
			return err
		}
		for _, s := range ranges {
			if s.Start <= slot && slot <= s.End && len(s.Nodes) > 0 {
				owner = c.at(s.Nodes[0].Addr)
			}
		}
		if owner == nil {
			return fmt.Errorf("nobody serves slot %d", slot)
		}
		return nil
	})
	return owner, err
}

// ReplicaOf is the replica of a primary that has not failed over yet.
func (c *ClusterSet) ReplicaOf(primary *Node) *Node {
	c.t.Helper()
	return c.Nodes[(c.index(primary)+shards)%len(c.Nodes)]
}

func (c *ClusterSet) at(addr string) *Node {
	for _, n := range c.Nodes {
		if n.Addr == addr {
			return n
		}
	}
	return nil
}

func (c *ClusterSet) index(n *Node) int {
	for i := range c.Nodes {
		if c.Nodes[i] == n {
			return i
		}
	}
	c.t.Fatalf("testkit: %s is no node of this Cluster", n.Addr)
	return 0
}

// anyNode is a node that answers.
func (c *ClusterSet) anyNode() *Node {
	for _, n := range c.Nodes {
		if ask(n, func(ctx context.Context, r *redis.Client) error { return r.Ping(ctx).Err() }) == nil {
			return n
		}
	}
	c.t.Fatal("testkit: no node of the Cluster answers")
	return nil
}

func (c *ClusterSet) do(n *Node, use func(context.Context, *redis.Client) error) {
	c.t.Helper()
	if err := ask(n, use); err != nil {
		c.t.Fatalf("testkit: node %s: %v", n.Addr, err)
	}
}

// KillNode kills a node as kill -9 does. When it was a primary, it waits until
// its replica serves the slots in the eyes of all nodes that run.
func (c *ClusterSet) KillNode(n *Node) {
	c.t.Helper()
	slot := -1
	for s := range shards {
		if at := s * clusterSlots / shards; c.Owner(at) == n {
			slot = at
		}
	}
	n.Kill()
	if slot < 0 {
		return
	}
	await(c.t, "another primary", func() error {
		now, err := c.owner(slot)
		if err == nil && now == n {
			err = errors.New("the killed one is still named")
		}
		return err
	})
	await(c.t, "the Cluster to be ok again", func() error {
		return ask(c.anyNode(), func(ctx context.Context, r *redis.Client) error {
			info, err := r.ClusterInfo(ctx).Result()
			if err == nil && !strings.Contains(info, "cluster_state:ok") {
				err = errors.New("it is not")
			}
			return err
		})
	})
}

// MoveSlots moves slots from, …, to-1 with all their keys to another primary, one
// after the other and under load if there is any.
func (c *ClusterSet) MoveSlots(from, to int, target *Node) {
	c.t.Helper()
	for slot := from; slot < to; slot++ {
		c.BeginMove(slot, target)()
	}
}

// BeginMove leaves a slot half-way to another primary: keys that are not there
// yet are asked for at the target (ASK). finish moves its keys and hands it over.
func (c *ClusterSet) BeginMove(slot int, target *Node) (finish func()) {
	c.t.Helper()
	source := c.Owner(slot)
	if source == target {
		return func() {}
	}
	src, dst := c.ids[c.index(source)], c.ids[c.index(target)]
	c.do(target, func(ctx context.Context, r *redis.Client) error {
		return r.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", src).Err()
	})
	c.do(source, func(ctx context.Context, r *redis.Client) error {
		return r.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", dst).Err()
	})
	return func() {
		c.t.Helper()
		c.do(source, func(ctx context.Context, r *redis.Client) error { return moveKeys(ctx, r, slot, target.Addr) })
		for _, n := range []*Node{target, source} {
			c.do(n, func(ctx context.Context, r *redis.Client) error {
				return r.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", dst).Err()
			})
		}
	}
}

// moveKeys empties a slot that is being handed over.
func moveKeys(ctx context.Context, source *redis.Client, slot int, target string) error {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return err
	}
	for {
		found, err := source.ClusterGetKeysInSlot(ctx, slot, 100).Result()
		if err != nil || len(found) == 0 {
			return err
		}
		args := []any{"MIGRATE", host, port, "", 0, int64(time.Second / time.Millisecond), "KEYS"}
		for _, k := range found {
			args = append(args, k)
		}
		if err := source.Do(ctx, args...).Err(); err != nil {
			return fmt.Errorf("migrate slot %d: %w", slot, err)
		}
	}
}
