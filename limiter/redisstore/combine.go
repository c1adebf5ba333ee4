package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter"
)

// maxBatch bounds the requests in one call, so that no call holds Redis long.
const maxBatch = 64

// combiner puts concurrent requests together: while all writers are busy, what
// gathers goes into the next call. It never waits on a timer, so a lone request
// goes out at once. Writers are goroutines that live as long as there is work;
// there are at most maxWriters of them.
type combiner struct {
	maxWriters int
	send       func(context.Context, *call) (reply, error)

	mu      sync.Mutex
	writers int
	queue   []*waiter
}

// waiter is one request in the queue or under way. Its deadline is its own: when
// it leaves while under way it may be charged, but nobody is told of an admission.
type waiter struct {
	ctx  context.Context //nolint:containedctx // a queue entry lives as long as its call
	req  request
	done chan result // capacity 1
}

type result struct {
	out limiter.Outcome
	err error
}

// take queues the request and waits for its outcome or the end of ctx.
func (c *combiner) take(ctx context.Context, req request) (limiter.Outcome, error) {
	w := &waiter{ctx: ctx, req: req, done: make(chan result, 1)}
	c.mu.Lock()
	c.queue = append(c.queue, w)
	if c.writers < c.maxWriters {
		c.writers++
		go c.write() //nolint:contextcheck // a call lasts as long as its last waiter, not as the first
	}
	c.mu.Unlock()
	select {
	case r := <-w.done:
		return r.out, r.err
	case <-ctx.Done():
		return limiter.Outcome{}, ctx.Err()
	}
}

// write makes calls until the queue is empty.
func (c *combiner) write() {
	for {
		batch := c.next()
		if len(batch) == 0 {
			return
		}
		c.deliver(batch)
	}
}

// next takes a batch off the queue, leaving out who has left. When there is
// none it signs the writer off.
func (c *combiner) next() []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*waiter
	taken := 0
	for _, w := range c.queue {
		if len(batch) == maxBatch {
			break
		}
		taken++
		if w.ctx.Err() == nil {
			batch = append(batch, w)
		}
	}
	rest := copy(c.queue, c.queue[taken:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	if len(batch) == 0 {
		c.writers--
	}
	return batch
}

// deliver makes one call and tells every waiter its outcome.
func (c *combiner) deliver(batch []*waiter) {
	ctx, cancel := latestDeadline(batch)
	defer cancel()
	call := newCall()
	for _, w := range batch {
		call.add(w.req)
	}
	answer, err := c.send(ctx, call)
	for i, w := range batch {
		var r result
		switch {
		case err == nil:
			r.out, r.err = answer.next(call.charges[i])
		case i == 0:
			r.err = err
		default:
			r.err = fmt.Errorf("%w (%w)", err, limiter.ErrCombined)
		}
		w.done <- r
	}
}

// latestDeadline is a context that ends when the last of the waiters must have
// its answer. A waiter without a deadline leaves the client's own time limits.
func latestDeadline(batch []*waiter) (context.Context, context.CancelFunc) {
	var latest time.Time
	for _, w := range batch {
		deadline, ok := w.ctx.Deadline()
		if !ok {
			return context.WithCancel(context.Background())
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	return context.WithDeadline(context.Background(), latest)
}
