package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// gates let no more calls to a node be under way than it has connections for. The
// client does not wait for a connection when all are in use: it fails at once, and
// a crowd of settlements would be taken for a Redis that does not answer.
type gates struct {
	cluster *redis.ClusterClient // nil: there is one node
	places  int
	writers int
	one     *gate    // of the one node
	nodes   sync.Map // address → *gate, of a Cluster
}

// gate is one node's.
type gate struct {
	calls chan struct{}
	// amends bounds the calls that decide nothing: decisions are combined into a few
	// calls and have to find a place however many requests end at once.
	amends chan struct{}
}

func newGate(places, writers int) *gate {
	return &gate{make(chan struct{}, places), make(chan struct{}, max(places-writers, 1))}
}

// newGates reads the number of connections from the client; nil: it has no bound.
func newGates(client redis.UniversalClient, writers int) *gates {
	conns, g := 0, &gates{writers: writers}
	switch c := client.(type) {
	case *redis.Client:
		conns = c.Options().MaxActiveConns
	case *redis.ClusterClient:
		conns, g.cluster = c.Options().MaxActiveConns, c
	}
	if conns < 1 {
		return nil
	}
	// Spare ones that are being made, and those that ask a Cluster for its nodes,
	// count as well.
	g.places = max(conns/2, 1)
	g.one = newGate(g.places, g.writers)
	return g
}

// of is the gate of the node that has the key.
func (g *gates) of(ctx context.Context, key string) (*gate, error) {
	if g == nil || g.cluster == nil {
		return g.single(), nil
	}
	node, err := g.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("find node: %w", err)
	}
	addr := node.Options().Addr
	known, ok := g.nodes.Load(addr)
	if !ok {
		known, _ = g.nodes.LoadOrStore(addr, newGate(g.places, g.writers))
	}
	return known.(*gate), nil //nolint:forcetypeassert // nothing else is in there
}

func (g *gates) single() *gate {
	if g == nil {
		return nil
	}
	return g.one
}

// enter waits for a place by the deadline of ctx. leave gives it back.
func (g *gate) enter(ctx context.Context, amends bool) error {
	if g == nil {
		return nil
	}
	if amends {
		if err := place(ctx, g.amends); err != nil {
			return err
		}
	}
	err := place(ctx, g.calls)
	if err != nil && amends {
		<-g.amends
	}
	return err
}

func (g *gate) leave(amends bool) {
	if g == nil {
		return
	}
	<-g.calls
	if amends {
		<-g.amends
	}
}

// place waits by the deadline itself, because not every context tells it by Done
// (see untimed).
func place(ctx context.Context, places chan<- struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	var late <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
		return context.DeadlineExceeded
	}
}
