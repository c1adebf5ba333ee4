package testkit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/redislocal"
)

// Node is one server of a topology, or one Sentinel. Its methods are those of a
// RedisServer.
type Node = RedisServer

// topologyNodes are the three primaries of a Cluster with a replica of each, or
// three servers and three Sentinels.
const topologyNodes = 6

// planned is one server of a topology before its start.
type planned struct {
	id       string // 40 hex digits
	port     int
	bus      int // of a Cluster
	ports    []*port
	dir      string
	sentinel bool
	lines    []string
}

// topology starts the six servers that plan fills in, at once. When another
// process took one of the ports meanwhile, all begin anew with other ports.
func topology(t testing.TB, plan func([]planned) error) []*Node {
	t.Helper()
	var err error
	for range 5 {
		var nodes []*Node
		if nodes, err = tryTopology(t, plan); err == nil {
			return nodes
		}
	}
	t.Fatalf("testkit: start Redis topology: %v", err)
	return nil
}

func tryTopology(t testing.TB, plan func([]planned) error) ([]*Node, error) {
	t.Helper()
	ps := make([]planned, topologyNodes)
	for i := range ps {
		id := make([]byte, 20)
		_, _ = rand.Read(id) // never fails
		ps[i] = planned{id: hex.EncodeToString(id), dir: tempDir(t, "hgredis-")}
		for _, number := range []*int{&ps[i].port, &ps[i].bus} {
			p, err := takePort()
			if err != nil {
				letGo(ps)
				return nil, err
			}
			*number, ps[i].ports = p.number, append(ps[i].ports, p)
		}
	}
	if err := plan(ps); err != nil {
		letGo(ps)
		return nil, err
	}
	return startAll(t, ps)
}

func letGo(ps []planned) {
	for i := range ps {
		for _, p := range ps[i].ports {
			p.letGo()
		}
	}
}

// startAll starts what is planned; when one cannot start, none is left running.
func startAll(t testing.TB, ps []planned) ([]*Node, error) {
	t.Helper()
	nodes, errs := make([]*Node, len(ps)), make([]error, len(ps))
	done := make(chan struct{})
	for i, p := range ps {
		n := &Node{t: t, ports: p.ports, opts: redislocal.Options{Dir: p.dir, Port: p.port, Lines: p.lines, Sentinel: p.sentinel}}
		nodes[i] = n
		go func() {
			defer func() { done <- struct{}{} }()
			if errs[i] = n.start(); errs[i] == nil {
				n.URL, n.Addr = n.srv.URL(), n.srv.Addr
			}
		}()
	}
	for range ps {
		<-done
	}
	err := errors.Join(errs...)
	for _, n := range nodes {
		if err != nil {
			n.end()
		} else {
			t.Cleanup(n.end)
		}
	}
	return nodes, err
}

// ask opens a connection to one node and closes it after use.
func ask(n *Node, use func(ctx context.Context, c *redis.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c := redis.NewClient(&redis.Options{
		Addr: n.Addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true, Protocol: 2,
	})
	defer func() { _ = c.Close() }()
	return use(ctx, c)
}

// await waits until ok returns nil and fails the test with its last error after
// a minute: what it waits for takes some seconds at most.
func await(t testing.TB, what string, ok func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(startTimeout)
	err := ok()
	for ; err != nil; err = ok() {
		if time.Now().After(deadline) {
			t.Fatalf("testkit: wait for %s: %v", what, err)
		}
		<-tick.C
	}
}
