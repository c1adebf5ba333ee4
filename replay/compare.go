package replay

import (
	"context"
	"fmt"
	"sync"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
)

// Bounds of a comparison's work in memory.
const (
	chunkEntries = 512
	chunksAhead  = 8
)

// Compare replays a log under both documents and says what the draft would have
// decided otherwise. Both begin with full buckets. progress, if any, is told the share
// done, from one goroutine. A log may have two methods besides: Live() int64 is the
// version that the live document has (default: the highest in the log), and
// Sample() uint32 the smallest of its batches (default: the log is read for it first).
func (Engine) Compare(
	ctx context.Context, live, draft *policy.Document, log decisionlog.Log, tenants Tenants, progress func(float64),
) (decisionlog.Comparison, error) {
	liveCompiled, err := compile(live, "live policy")
	if err != nil {
		return decisionlog.Comparison{}, err
	}
	draftCompiled, err := compile(draft, "draft")
	if err != nil {
		return decisionlog.Comparison{}, err
	}
	sample, err := sampleOf(ctx, log)
	if err != nil {
		return decisionlog.Comparison{}, err
	}
	if tenants == nil {
		tenants = func(string) (policy.TenantRecord, bool) { return policy.TenantRecord{}, false }
	}
	c := &comparer{
		log: &watched{Log: log, boots: map[string]numbers{}}, sample: sample, tenants: (&book{find: tenants}).of, progress: progress,
		judging: newJudging(liveCompiled, draftCompiled, sample), quotas: len(liveCompiled.Quotas)+len(draftCompiled.Quotas) > 0,
		free: make(chan *chunk, chunksAhead),
	}
	for range chunksAhead {
		c.free <- &chunk{entries: make([]decisionlog.Entry, 0, chunkEntries)}
	}
	return c.run(ctx, liveCompiled, draftCompiled)
}

// sampleOf is the share of the subjects that are whole in all of the log.
func sampleOf(ctx context.Context, log decisionlog.Log) (uint32, error) {
	if known, ok := log.(interface{ Sample() uint32 }); ok {
		return known.Sample(), nil
	}
	sample := decisionlog.Whole
	err := log.Batches(ctx, func(b *decisionlog.Batch) error {
		sample = min(sample, b.Sample)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read how the log was sampled: %w", err)
	}
	return sample, nil
}

// watched notes what the heads of the batches say. It is read when all are.
type watched struct {
	decisionlog.Log
	boots    map[string]numbers // of a replica's boot
	dropped  int64
	unjudged int64 // requests that no limiter saw
}

// numbers are those of the batches of a boot: how many, and the highest.
type numbers struct{ count, highest int64 }

// Batches passes the batches on.
func (w *watched) Batches(ctx context.Context, yield func(*decisionlog.Batch) error) error {
	return w.Log.Batches(ctx, func(b *decisionlog.Batch) error {
		w.dropped += b.Dropped
		w.unjudged += b.Unjudged
		boot := b.Replica + " " + b.Boot
		n := w.boots[boot]
		w.boots[boot] = numbers{n.count + 1, max(n.highest, b.Seq)}
		return yield(b)
	})
}

// gaps reports whether something was decided that the log does not have, from the
// start of each replica on.
func (w *watched) gaps() bool {
	for _, n := range w.boots {
		if n.count != n.highest { // they count from 1
			return true
		}
	}
	return w.dropped > 0
}

// book asks for each tenant once, whoever wants it.
type book struct {
	mu    sync.Mutex
	find  Tenants
	known map[string]policy.TenantRecord
	none  map[string]bool
}

func (b *book) of(id string) (policy.TenantRecord, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, ok := b.known[id]; ok {
		return t, true
	}
	if b.none[id] {
		return policy.TenantRecord{}, false
	}
	if b.known == nil {
		b.known, b.none = map[string]policy.TenantRecord{}, map[string]bool{}
	}
	t, ok := b.find(id)
	if ok {
		b.known[id] = t
	} else {
		b.none[id] = true
	}
	return t, ok
}

// chunk is a part of the log in order, with what both sides made of it.
type chunk struct {
	entries     []decisionlog.Entry
	live, draft []outcome
}

// comparer is one comparison under way: one goroutine reads the log, one replays each
// side, and the caller's adds up.
type comparer struct {
	log      *watched
	sample   uint32
	tenants  Tenants
	judging  *judging
	progress func(float64)
	quotas   bool // a document has some
	free     chan *chunk
	skipped  skipped
}

func (c *comparer) run(ctx context.Context, live, draft *policy.Compiled) (decisionlog.Comparison, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	liveSide, err := newSide(live, c.judging, c.tenants)
	if err != nil {
		return decisionlog.Comparison{}, err
	}
	draftSide, err := newSide(draft, c.judging, c.tenants)
	if err != nil {
		return decisionlog.Comparison{}, err
	}
	pipes := [4]chan *chunk{}
	for i := range pipes {
		pipes[i] = make(chan *chunk, chunksAhead) // room for all that there are: no send ever waits
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.read(ctx, pipes[0], pipes[1]); err != nil {
			cancel(err)
		}
	})
	wg.Go(func() { liveSide.all(pipes[0], pipes[2], true, cancel) })
	wg.Go(func() { draftSide.all(pipes[1], pipes[3], false, cancel) })
	f := newFolder(c, live)
	for liveDone := range pipes[2] {
		draftDone, ok := <-pipes[3]
		if !ok || draftDone != liveDone {
			break
		}
		f.chunk(liveDone)
		c.free <- liveDone
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return decisionlog.Comparison{}, fmt.Errorf("compare on the decision log: %w", err)
	}
	if c.progress != nil {
		c.progress(1)
	}
	return f.result(draftSide), nil
}

// read merges the log into chunks.
func (c *comparer) read(ctx context.Context, pipes ...chan *chunk) error {
	defer func() {
		for _, pipe := range pipes {
			close(pipe)
		}
	}()
	var current *chunk
	send := func() {
		for _, pipe := range pipes {
			pipe <- current
		}
		current = nil
	}
	err := decisionlog.Merge(ctx, c.log, func(_ *decisionlog.Batch, e *decisionlog.Entry) error {
		if !c.wanted(e) {
			return nil
		}
		if current == nil {
			select {
			case current = <-c.free:
				current.entries = current.entries[:0]
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if current.entries = append(current.entries, *e); len(current.entries) == chunkEntries {
			send()
		}
		return nil
	})
	if current != nil {
		send()
	}
	return err
}

// skipped counts what is not replayed, by why.
type skipped struct{ sampled, degraded, tenantless, left int64 }

// wanted reports whether an entry is replayed.
func (c *comparer) wanted(e *decisionlog.Entry) bool {
	if c.sample < decisionlog.Whole && e.Kind == decisionlog.KindDecision && decisionlog.Bucket(e.Subject()) >= c.sample {
		c.skipped.sampled++
		return false
	}
	if e.Kind != decisionlog.KindDecision {
		return true
	}
	switch {
	case e.Degraded:
		c.skipped.degraded++
		return false
	case !e.Allowed && c.judging.left(e.Limit):
		c.skipped.left++
		return false
	case e.Tenant != "":
		if _, known := c.tenants(e.Tenant); !known {
			c.skipped.tenantless++
			return false
		}
	}
	return true
}

// all replays chunks until there are no more, or one fails.
func (s *side) all(in <-chan *chunk, out chan<- *chunk, live bool, fail func(error)) {
	defer close(out)
	for c := range in {
		outcomes := &c.draft
		if live {
			outcomes = &c.live
		}
		if len(*outcomes) < len(c.entries) {
			*outcomes = make([]outcome, chunkEntries)
		}
		for i := range c.entries {
			if err := s.entry(&c.entries[i], &(*outcomes)[i]); err != nil {
				fail(err)
				return
			}
		}
		out <- c
	}
}
