package testkit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// SentinelSet is one primary with two replicas, watched by three Sentinels
// (quorum 2; a server is down after 1 s). Its methods fail the test when they
// cannot do what they say; they are not for concurrent use.
type SentinelSet struct {
	Nodes     []*Node // the servers; Nodes[0] was the primary at the start
	Sentinels []*Node

	// name is what the Sentinels call the primary. It is this set's alone, because
	// Sentinels believe each other when they speak of one name.
	name string
	t    testing.TB
}

// SentinelOption changes what Sentinel starts.
type SentinelOption func() []string

// WithMinReplicas has each primary refuse writes (NOREPLICAS) within 2 s after
// its last replica has gone: an isolated primary then admits nothing that the
// new one does not know.
func WithMinReplicas() SentinelOption {
	return func() []string { return []string{"min-replicas-to-write 1", "min-replicas-max-lag 1"} }
}

// Sentinel starts the servers and Sentinels and stops them at the end of the
// test. It returns when all see each other and the replicas are in step.
func Sentinel(t testing.TB, opts ...SentinelOption) *SentinelSet {
	t.Helper()
	lines := []string{"repl-diskless-sync yes", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1"}
	for _, o := range opts {
		lines = append(lines, o()...)
	}
	s := &SentinelSet{name: "primary-" + strings.ToLower(rand.Text()[:8]), t: t}
	nodes := topology(t, func(ps []planned) error { planSentinel(ps, s.name, lines); return nil })
	s.Nodes, s.Sentinels = nodes[:3], nodes[3:]
	await(t, "Sentinels and replicas", s.formed)
	return s
}

// formed reports whether all is as it should be, and has the primary come first
// among the nodes: on a machine that stood still for a second the Sentinels may
// have chosen another one already.
func (s *SentinelSet) formed() error {
	at, err := s.primaryBy(s.Sentinels[0])
	if err != nil {
		return err
	}
	first := slices.IndexFunc(s.Nodes, func(n *Node) bool { return n.Addr == at })
	if first < 0 {
		return fmt.Errorf("%s is none of %v", at, addrs(s.Nodes))
	}
	s.Nodes[0], s.Nodes[first] = s.Nodes[first], s.Nodes[0]
	if err := s.inStep(s.Nodes[0], 2); err != nil {
		return err
	}
	return s.agreeOn(at, 2)
}

// planSentinel tells the Sentinels of each other and of the replicas: finding
// out by themselves takes them seconds.
func planSentinel(ps []planned, name string, lines []string) {
	for i := range ps[:3] {
		ps[i].lines = lines
		if i > 0 {
			ps[i].lines = append([]string{fmt.Sprintf("replicaof 127.0.0.1 %d", ps[0].port)}, lines...)
		}
	}
	for i := range ps[3:] {
		p := &ps[3+i]
		p.sentinel = true
		p.lines = []string{
			"sentinel myid " + p.id,
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", name, ps[0].port),
			"sentinel down-after-milliseconds " + name + " 1000",
			"sentinel failover-timeout " + name + " 3000",
			"sentinel parallel-syncs " + name + " 2",
		}
		for _, r := range ps[1:3] {
			p.lines = append(p.lines, fmt.Sprintf("sentinel known-replica %s 127.0.0.1 %d", name, r.port))
		}
		for j, other := range ps[3:] {
			if j != i {
				p.lines = append(p.lines, fmt.Sprintf("sentinel known-sentinel %s 127.0.0.1 %d %s", name, other.port, other.id))
			}
		}
	}
}

// URL names the Sentinels and what they watch: redis-sentinel://host:port,…/name.
func (s *SentinelSet) URL() string {
	return "redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + s.name
}

// Addrs are the addresses of the Sentinels.
func (s *SentinelSet) Addrs() []string { return addrs(s.Sentinels) }

func addrs(nodes []*Node) []string {
	var a []string
	for _, n := range nodes {
		a = append(a, n.Addr)
	}
	return a
}

// Primary is the server that the first Sentinel that answers calls the primary.
// During a failover that is still the old one.
func (s *SentinelSet) Primary() *Node {
	s.t.Helper()
	var errs []error
	for _, watcher := range s.Sentinels {
		at, err := s.primaryBy(watcher)
		if err == nil {
			for _, n := range s.Nodes {
				if n.Addr == at {
					return n
				}
			}
			err = fmt.Errorf("%s is none of %v", at, addrs(s.Nodes))
		}
		errs = append(errs, err)
	}
	s.t.Fatalf("testkit: ask the Sentinels for the primary: %v", errors.Join(errs...))
	return nil
}

// Replicas are the servers that are not the primary, whether they run or not.
func (s *SentinelSet) Replicas() []*Node {
	s.t.Helper()
	primary := s.Primary()
	var rest []*Node
	for _, n := range s.Nodes {
		if n != primary {
			rest = append(rest, n)
		}
	}
	return rest
}

// Failover has the Sentinels promote a replica of a primary that is well, and
// returns the new primary when all Sentinels name it and it takes writes.
func (s *SentinelSet) Failover() *Node {
	s.t.Helper()
	old := s.Primary()
	await(s.t, "the Sentinels to begin a failover", func() error {
		return ask(s.Sentinels[0], func(ctx context.Context, c *redis.Client) error {
			err := c.Do(ctx, "SENTINEL", "FAILOVER", s.name).Err()
			if err != nil && strings.HasPrefix(err.Error(), "INPROG") {
				return nil // the one before has not been forgotten yet
			}
			return err
		})
	})
	return s.Promoted(old)
}

// Promoted waits until all Sentinels that run name another primary than old and
// it takes writes, and returns it: the end of the failover that killing or
// pausing the primary begins.
func (s *SentinelSet) Promoted(old *Node) *Node {
	s.t.Helper()
	var now *Node
	await(s.t, "a new primary", func() error {
		if now = s.Primary(); now == old {
			return errors.New("it is still the old one: " + old.Addr)
		}
		if err := s.agreeOn(now.Addr, 0); err != nil {
			return err
		}
		return s.inStep(now, 0)
	})
	return now
}

// agreeOn reports whether all Sentinels that answer name the same primary and
// know at least so many replicas whose link to it is up.
func (s *SentinelSet) agreeOn(addr string, replicas int) error {
	for _, watcher := range s.Sentinels {
		if at, err := s.primaryBy(watcher); err == nil && at != addr {
			return fmt.Errorf("Sentinel %s names %s", watcher.Addr, at)
		}
		if replicas == 0 {
			continue
		}
		err := ask(watcher, func(ctx context.Context, c *redis.Client) error {
			m := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", s.name)
			if err := c.Process(ctx, m); err != nil {
				return err
			}
			v := m.Val()
			if v["flags"] != "master" || v["num-slaves"] != strconv.Itoa(replicas) || v["num-other-sentinels"] != "2" {
				return fmt.Errorf("Sentinel %s sees %s with %s replicas and %s others", watcher.Addr, v["flags"], v["num-slaves"], v["num-other-sentinels"])
			}
			return s.ready(ctx, c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ready reports whether a Sentinel could fail over now: it reaches the
// others, and has heard from each replica that it is one.
func (s *SentinelSet) ready(ctx context.Context, c *redis.Client) error {
	if err := c.Do(ctx, "SENTINEL", "CKQUORUM", s.name).Err(); err != nil {
		return err
	}
	reply, err := c.Do(ctx, "SENTINEL", "REPLICAS", s.name).Slice()
	if err != nil {
		return err
	}
	for _, r := range reply {
		fields, _ := r.([]any)
		text := fmt.Sprint(fields...)
		if !strings.Contains(text, "master-link-status ok") && !strings.Contains(text, "master-link-statusok") {
			return errors.New("a replica is not known yet")
		}
	}
	return nil
}

// inStep reports whether a server is a primary with at least so many replicas
// that have everything.
func (s *SentinelSet) inStep(n *Node, replicas int) error {
	return ask(n, func(ctx context.Context, c *redis.Client) error {
		info, err := c.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "role:master") || strings.Count(info, "state=online") < replicas {
			return fmt.Errorf("%s is not yet a primary with %d replicas", n.Addr, replicas)
		}
		return nil
	})
}

// primaryBy asks one Sentinel for the primary's address.
func (s *SentinelSet) primaryBy(watcher *Node) (string, error) {
	var at string
	err := ask(watcher, func(ctx context.Context, c *redis.Client) error {
		v, err := c.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.name).StringSlice()
		if err != nil || len(v) != 2 {
			return fmt.Errorf("Sentinel %s: %v, %w", watcher.Addr, v, err)
		}
		at = net.JoinHostPort(v[0], v[1])
		return nil
	})
	return at, err
}
