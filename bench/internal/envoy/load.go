package envoy

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate/bench/internal/meas"
)

// Conns is the number of connections, InFlight that of calls on all of them: about
// what an Envoy with a few workers has.
const (
	Conns    = 4
	InFlight = 64
)

// Load has calls in flight to a service. It is a case's Before, Op and After.
type Load struct {
	Address  string
	Messages [][]byte

	conns []*conn
}

// Open connects.
func (l *Load) Open(ctx context.Context) error {
	for range Conns {
		c, err := dial(ctx, l.Address)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		l.conns = append(l.conns, c)
	}
	return nil
}

// Close ends the connections, with the calls that are in flight.
func (l *Load) Close() error {
	var problems []error
	for _, c := range l.conns {
		problems = append(problems, c.close())
	}
	l.conns = nil
	return errors.Join(problems...)
}

// Op waits for one call of the caller's connection and begins another one. There
// must be as many callers as connections.
func (l *Load) Op(_ context.Context, caller int, i uint64) (meas.Tally, error) {
	c := l.conns[caller]
	message := func(k uint64) []byte { return l.Messages[(k*7919+uint64(caller)*104729)%uint64(len(l.Messages))] }
	if i == 0 {
		for k := range uint64(InFlight/Conns - 1) {
			if err := c.send(message(k)); err != nil {
				return meas.Tally{}, err
			}
		}
	}
	if err := c.send(message(i + InFlight/Conns)); err != nil {
		return meas.Tally{}, err
	}
	admitted, took, err := c.receive()
	if err != nil {
		return meas.Tally{}, fmt.Errorf("call %d: %w", i, err)
	}
	t := meas.Tally{Decisions: 1, Took: took}
	if admitted {
		t.Admitted = 1
	}
	return t, nil
}
