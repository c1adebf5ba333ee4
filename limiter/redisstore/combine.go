package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter"
)

// maxBatch bounds the requests in one call, so that no call holds Redis long.
const maxBatch = 64

// combiner puts concurrent requests together. A request that is alone makes its
// call in the caller's own goroutine. When there is company, a writer takes what
// has gathered by the time that it gets to run, so it waits neither on a timer
// nor for the calls in flight, of which there are at most maxWriters.
type combiner struct {
	maxWriters int
	send       func(context.Context, *call) (reply, error)
	spares     *spares
	answered   atomic.Bool // the last call was: so there is a connection

	mu      sync.Mutex
	writers int  // calls in flight or about to be
	coming  bool // a writer is on its way to the queue
	company bool // the last batch had more than one request
	queue   []*waiter
}

// waiter is one request in the queue or under way. Its deadline is its own: when
// it leaves while under way it may be charged, but nobody is told of an admission.
type waiter struct {
	ctx  context.Context //nolint:containedctx // a queue entry lives as long as its call
	req  request
	out  limiter.Outcome
	err  error
	done chan struct{} // capacity 1; after it out and err are there
	late *time.Timer   // used again with the waiter
	held atomic.Int32  // by whom: the caller and the writer; the last one puts it back
}

// spares are waiters, calls and goroutines that are used again: they are what a
// decision would allocate.
type spares struct {
	waiters, calls sync.Pool
	idle           chan *combiner // to the writers that have nothing to do
}

func newSpares() *spares {
	return &spares{
		waiters: sync.Pool{New: func() any { return &waiter{done: make(chan struct{}, 1)} }},
		calls:   sync.Pool{New: func() any { return newCall() }},
		idle:    make(chan *combiner),
	}
}

// idleWriter is how long a writer waits for more to do before it ends.
const idleWriter = time.Second

// start has a writer make the combiner's calls: an idle one, whose stack has grown as
// far as a call needs, else a new one.
func (s *spares) start(c *combiner) {
	select {
	case s.idle <- c:
	default:
		go s.write(c)
	}
}

// write is a writer.
func (s *spares) write(c *combiner) {
	over := time.NewTimer(idleWriter)
	defer over.Stop()
	for {
		c.write()
		over.Reset(idleWriter)
		select {
		case c = <-s.idle:
		case <-over.C:
			return
		}
	}
}

func (s *spares) waiter(ctx context.Context) *waiter {
	w := s.waiters.Get().(*waiter)
	w.ctx = ctx
	w.held.Store(2)
	return w
}

func (s *spares) call() *call { return s.calls.Get().(*call) }

func (s *spares) putCall(c *call) {
	c.reset()
	s.calls.Put(c)
}

// release gives up one of the two holds on a waiter.
func (s *spares) release(w *waiter) {
	if w.held.Add(-1) > 0 {
		return
	}
	select {
	case <-w.done: // nobody waited for it any more
	default:
	}
	w.ctx, w.out, w.err = nil, limiter.Outcome{}, nil
	s.waiters.Put(w)
}

// take queues the waiter's request and waits for its outcome or the end of its
// context. The waiter is given up.
func (c *combiner) take(w *waiter) (limiter.Outcome, error) {
	c.mu.Lock()
	if c.writers == 0 && !c.company {
		c.writers++
		c.mu.Unlock()
		return c.alone(w)
	}
	c.queue = append(c.queue, w)
	if !c.coming && c.writers < c.maxWriters {
		c.coming = true
		c.writers++
		c.spares.start(c)
	}
	c.mu.Unlock()
	defer c.spares.release(w)
	if err := w.wait(); err != nil {
		return limiter.Outcome{}, err
	}
	return w.out, w.err
}

// timed is a context whose Done makes a timer, and that names the one below it,
// which has none: the Limiter's. Where a timer is at hand, its own is spared.
type timed interface {
	context.Context
	Caller() context.Context
}

// wait waits for the outcome; an error says that the request leaves.
func (w *waiter) wait() error {
	ctx, is := w.ctx.(timed)
	deadline, limited := w.ctx.Deadline()
	if !is || !limited {
		select {
		case <-w.done:
			return nil
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
	if w.late == nil {
		w.late = time.NewTimer(time.Until(deadline))
	} else {
		w.late.Reset(time.Until(deadline))
	}
	defer w.late.Stop()
	caller := ctx.Caller()
	select {
	case <-w.done:
		return nil
	case <-caller.Done():
		return caller.Err()
	case <-w.late.C:
		return context.DeadlineExceeded
	}
}

// left reports whether the request has ended. It asks the clock once for a whole batch.
func (w *waiter) left(now time.Time) bool {
	ctx, is := w.ctx.(timed)
	deadline, limited := w.ctx.Deadline()
	if !is || !limited {
		return w.ctx.Err() != nil
	}
	return ctx.Caller().Err() != nil || !now.Before(deadline)
}

// untimed is a timed context as the client needs it where it has a connection: it
// looks at the deadline, and gives up waiting for one when the caller does. Waiting for
// one to be made takes a timer.
type untimed struct {
	context.Context
	caller context.Context //nolint:containedctx // what makes it one
}

// Done is the caller's.
func (u untimed) Done() <-chan struct{} { return u.caller.Done() }

// alone makes the call for a request that nobody else is with.
func (c *combiner) alone(w *waiter) (limiter.Outcome, error) {
	call := c.spares.call()
	call.add(&w.req)
	var out limiter.Outcome
	ctx := w.ctx
	if t, is := ctx.(timed); is && c.answered.Load() {
		ctx = untimed{ctx, t.Caller()}
	}
	answer, err := c.send(ctx, call)
	c.answered.Store(err == nil)
	if err == nil {
		out, err = answer.next(call.shapes[0])
	}
	c.spares.putCall(call)
	c.mu.Lock()
	if len(c.queue) > 0 && !c.coming {
		c.coming = true
		c.spares.start(c)
	} else {
		c.writers--
	}
	c.mu.Unlock()
	c.spares.release(w)
	c.spares.release(w)
	return out, err
}

// write makes calls until the queue is empty.
func (c *combiner) write() {
	batch := make([]*waiter, 0, maxBatch)
	for {
		runtime.Gosched() // whoever is about to ask comes along
		if batch = c.next(batch[:0]); len(batch) == 0 {
			return
		}
		c.deliver(batch)
	}
}

// next takes a batch off the queue, leaving out who has left. When there is
// none it signs the writer off.
func (c *combiner) next(batch []*waiter) []*waiter {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.coming = false
	taken := 0
	for _, w := range c.queue {
		if len(batch) == maxBatch {
			break
		}
		taken++
		if w.left(now) {
			c.spares.release(w)
		} else {
			batch = append(batch, w)
		}
	}
	rest := copy(c.queue, c.queue[taken:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	if len(batch) == 0 {
		c.writers--
		return nil
	}
	c.company = len(batch) > 1
	return batch
}

// deliver makes one call and tells every waiter its outcome.
func (c *combiner) deliver(batch []*waiter) {
	ctx, cancel := latestDeadline(batch)
	defer cancel()
	call := c.spares.call()
	for _, w := range batch {
		call.add(&w.req)
	}
	answer, err := c.send(ctx, call)
	c.answered.Store(err == nil)
	for i, w := range batch {
		switch {
		case err == nil:
			w.out, w.err = answer.next(call.shapes[i])
		case i == 0:
			w.err = err
		default:
			w.err = fmt.Errorf("%w (%w)", err, limiter.ErrCombined)
		}
		w.done <- struct{}{}
		c.spares.release(w)
	}
	c.spares.putCall(call)
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
