package httpdoor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/headgate/headgate/bench/internal/meas"
)

// Callers is how many callers there are, each with a connection of its own.
const Callers = 64

// Load has callers at a door. It is a case's Before, Op and After.
type Load struct {
	Address, Path string
	Keys          []string // that the calls go round; nil: calls carry a text of the same length

	requests [][]byte
	conns    []*conn
}

type conn struct {
	net.Conn
	answers *bufio.Reader
}

// noKey is as long as a key.
const noKey = "hg_live_000000000000000000000000000000000000000000000000"

// Open connects.
func (l *Load) Open(ctx context.Context) error {
	keys := l.Keys
	if len(keys) == 0 {
		keys = []string{noKey}
	}
	l.requests = nil
	for _, key := range keys {
		l.requests = append(l.requests, fmt.Appendf(nil,
			"GET %s HTTP/1.1\r\nHost: api.example\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: Bearer %s\r\n\r\n", l.Path, key))
	}
	var d net.Dialer
	for range Callers {
		c, err := d.DialContext(ctx, "tcp", l.Address)
		if err != nil {
			return errors.Join(fmt.Errorf("connect a caller: %w", err), l.Close())
		}
		l.conns = append(l.conns, &conn{c, bufio.NewReader(c)})
	}
	return nil
}

// Close ends the connections.
func (l *Load) Close() error {
	var problems []error
	for _, c := range l.conns {
		problems = append(problems, c.Close())
	}
	l.conns = nil
	return errors.Join(problems...)
}

// Op makes one call. An answer that is neither 200 nor 429 is an error.
func (l *Load) Op(_ context.Context, caller int, i uint64) (meas.Tally, error) {
	c := l.conns[caller]
	if _, err := c.Write(l.requests[(i*7919+uint64(caller)*104729)%uint64(len(l.requests))]); err != nil {
		return meas.Tally{}, fmt.Errorf("call %d: %w", i, err)
	}
	res, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return meas.Tally{}, fmt.Errorf("answer %d: %w", i, err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return meas.Tally{}, fmt.Errorf("body %d: %w", i, err)
	}
	switch res.StatusCode {
	case http.StatusOK:
		return meas.Tally{Decisions: 1, Admitted: 1}, nil
	case http.StatusTooManyRequests:
		return meas.Tally{Decisions: 1}, nil
	}
	return meas.Tally{}, fmt.Errorf("answer %d has status %d", i, res.StatusCode)
}
