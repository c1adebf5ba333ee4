package console

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/decisionlog"
)

// Defaults of a DecisionRetention.
const (
	DecisionsKept  = 7 * 24 * time.Hour
	DecisionsBytes = 2 << 30
)

const (
	decisionsEvery = time.Second
	// decisionPage bounds the batches that are in memory at once; each may be 1 MiB.
	decisionPage = 32
	// decisionsSwept bounds the batches that one transaction drops.
	decisionsSwept = 1000
	// Batches whose times lie further from now are not believed.
	decisionsLate  = 24 * time.Hour
	decisionsEarly = 10 * time.Minute
	decisionsSpan  = time.Hour
)

// DecisionRetention says how much of the decision log is kept: the oldest is
// dropped when either is exceeded. 0 means the default.
type DecisionRetention struct {
	Age   time.Duration
	Bytes int64 // of the batches themselves, as they are compressed
}

// Decisions is the log of what gateways decided, for simulations: a sample by
// subject, without keys and without values of requests. It is no record of usage.
type Decisions struct {
	d    Deps
	keep DecisionRetention
}

// NewDecisions returns the decision log. Its Run must run on at least one console
// for the log to grow.
func NewDecisions(d Deps, keep DecisionRetention) *Decisions {
	if keep.Age <= 0 {
		keep.Age = DecisionsKept
	}
	if keep.Bytes <= 0 {
		keep.Bytes = DecisionsBytes
	}
	return &Decisions{d: d.withDefaults(), keep: keep}
}

// Run moves batches from the feed into the database until ctx ends, and drops the
// oldest. Several consoles may run it: each batch is kept once.
func (s *Decisions) Run(ctx context.Context) error {
	s.d.repeat(ctx, decisionsEvery, "the decision log does not grow", s.d.andSweep(s.Collect, s.Sweep))
	return nil
}

// Collect takes over everything that the feed has. It does nothing where the feed
// carries no decisions.
func (s *Decisions) Collect(ctx context.Context) error {
	feed, carries := s.d.Feed.(DecisionFeed)
	if !carries {
		return nil
	}
	var place string
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		place, err = tx.DecisionPlace(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the decision log's place: %w", err)
	}
	for {
		ask, cancel := context.WithTimeout(ctx, 2*time.Second)
		bodies, next, err := feed.Decisions(ask, place)
		cancel()
		if err != nil {
			return err
		}
		if next == place {
			return nil
		}
		if err := s.keepBatches(ctx, bodies, next); err != nil {
			return fmt.Errorf("keep decisions: %w", err)
		}
		place = next
	}
}

// keepBatches writes batches and the place after them together. What is no batch is
// left out: anyone who may write to the stream may write nonsense.
func (s *Decisions) keepBatches(ctx context.Context, bodies [][]byte, place string) error {
	now := s.d.now()
	rows := make([]DecisionBatch, 0, len(bodies))
	for _, body := range bodies {
		row, err := decisionRow(body, now)
		if err != nil {
			s.d.Log.WarnContext(ctx, "unreadable batch of decisions", "error", err)
			continue
		}
		rows = append(rows, row)
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		for _, row := range rows {
			if _, err := tx.InsertDecisionBatch(ctx, row); err != nil {
				return err
			}
		}
		return tx.SetDecisionPlace(ctx, place, now)
	})
}

// decisionRow reads a batch to its end, so that a simulation meets none that cannot be
// read.
func decisionRow(body []byte, now time.Time) (DecisionBatch, error) {
	r, err := decisionlog.NewReader(body)
	if err != nil {
		return DecisionBatch{}, err
	}
	entries := r.Len()
	for r.Next() {
		if e := r.Entry(); e.At < r.Batch().From || e.At > r.Batch().To {
			return DecisionBatch{}, fmt.Errorf("%w: an entry lies outside of it", decisionlog.ErrBatch)
		}
	}
	if err := r.Err(); err != nil {
		return DecisionBatch{}, err
	}
	b := r.Batch()
	row := DecisionBatch{
		Replica: b.Replica, Boot: b.Boot, Seq: b.Seq, From: time.UnixMicro(b.From).UTC(), To: time.UnixMicro(b.To).UTC(), Entries: entries,
		Sample: b.Sample, Dropped: b.Dropped, Unjudged: b.Unjudged, ReceivedAt: now, Body: body,
	}
	switch {
	case !decisionName(b.Replica), !decisionName(b.Boot), b.Seq < 1:
		err = fmt.Errorf("%w: replica %.70q, boot %.70q, number %d", decisionlog.ErrBatch, b.Replica, b.Boot, b.Seq)
	case row.From.Before(now.Add(-decisionsLate)), row.To.After(now.Add(decisionsEarly)), row.To.Sub(row.From) > decisionsSpan:
		err = fmt.Errorf("%w: %s to %s cannot be", decisionlog.ErrBatch, row.From, row.To)
	}
	return row, err
}

// decisionName reports whether a replica or boot may be called so.
func decisionName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// Sweep drops what is older or more than is to be kept.
func (s *Decisions) Sweep(ctx context.Context) error {
	for _, drop := range []func(Tx) (int64, error){
		func(tx Tx) (int64, error) {
			return tx.DeleteOldDecisions(ctx, s.d.now().Add(-s.keep.Age), decisionsSwept)
		},
		func(tx Tx) (int64, error) { return tx.TrimDecisions(ctx, s.keep.Bytes, decisionsSwept) },
	} {
		for dropped := int64(decisionsSwept); dropped == decisionsSwept; {
			err := s.d.Store.InTx(ctx, func(tx Tx) (err error) {
				dropped, err = drop(tx)
				return err
			})
			if err != nil {
				return fmt.Errorf("drop old decisions: %w", err)
			}
		}
	}
	return nil
}

// Totals says what the log has from one time to another, both included.
func (s *Decisions) Totals(ctx context.Context, from, to time.Time) (t DecisionTotals, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		t, err = tx.DecisionTotals(ctx, DecisionSpan{from.UTC(), to.UTC()})
		return err
	})
	return t, err
}

// Range is the log from one time to another. Batches that reach beyond either end
// are part of it whole. It is an empty log when there is nothing.
func (s *Decisions) Range(ctx context.Context, from, to time.Time) (Log, error) {
	if !from.Before(to) {
		return nil, &Error{Code: CodeInvalid, Public: "The range ends before it begins."}
	}
	totals, err := s.Totals(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return &storedLog{s, DecisionSpan{from.UTC(), to.UTC()}, totals}, nil
}

// storedLog is a span of the log in the database.
type storedLog struct {
	s      *Decisions
	in     DecisionSpan
	totals DecisionTotals
}

// Bounds implements decisionlog.Log.
func (l *storedLog) Bounds() (from, to time.Time, entries int64) {
	return l.totals.First, l.totals.Last, l.totals.Entries
}

// Sample is the smallest share of subjects in the span.
func (l *storedLog) Sample() uint32 { return l.totals.Sample }

// Batches implements decisionlog.Log: batches are not decoded, and come page by page.
func (l *storedLog) Batches(ctx context.Context, yield func(*decisionlog.Batch) error) error {
	var afterAt time.Time
	var afterID int64
	for {
		var page []DecisionBatch
		err := l.s.d.Store.Read(ctx, func(tx Tx) (err error) {
			page, err = tx.DecisionBatches(ctx, l.in, afterAt, afterID, decisionPage)
			return err
		})
		if err != nil {
			return fmt.Errorf("read decisions: %w", err)
		}
		for _, row := range page {
			afterAt, afterID = row.From, row.ID
			b := decisionlog.Batch{
				Replica: row.Replica, Boot: row.Boot, Seq: row.Seq, From: row.From.UnixMicro(), To: row.To.UnixMicro(),
				Sample: row.Sample, Dropped: row.Dropped, Unjudged: row.Unjudged, Body: row.Body,
			}
			if err := yield(&b); err != nil {
				return err
			}
		}
		if len(page) < decisionPage {
			return nil
		}
	}
}
