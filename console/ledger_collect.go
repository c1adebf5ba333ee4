package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
)

const (
	ledgerEvery = 250 * time.Millisecond
	// eventsPerTx bounds the events of one transaction, so that no statement comes near
	// the time that it may take.
	eventsPerTx = ledger.MaxEvents
	// gapPatience is how long numbers that are missing may still come before the mark
	// moves past them; a replica sends what is not committed again within seconds.
	gapPatience = 2 * time.Minute
	// gapSilence is how long a boot has to be silent before its gap is given up although
	// it sends nothing more.
	gapSilence = time.Hour
	// knownTenants bounds the tenants that are remembered to exist.
	knownTenants = 200_000
	// Beyond these an event is held for a person: sums of such ones could not be added up.
	mostRequests = 1 << 40
	mostCost     = 1 << 44
	// maxUnreadable bounds the batches that are held although nobody can read them: whoever may
	// write to Redis must not fill the database. Others are counted alone.
	maxUnreadable = 100
	// poisonTries is how often an event is tried that the database refuses.
	poisonTries = 3
)

// Reasons for which the ledger does not take an event.
const (
	heldLate       = "late"
	heldEarly      = "early"
	heldUnknown    = "unknown-tenant"
	heldRefused    = "refused"
	heldUnreadable = "unreadable"
)

// intake is what a collector remembers between two rounds.
type intake struct {
	mu    sync.Mutex
	place string          // in the feed
	known map[string]bool // tenants
}

func newIntake(Deps) *intake {
	return &intake{known: map[string]bool{"": true, usage.Rest: true}}
}

// intakeBatch is a batch with what of it is not to be taken.
type intakeBatch struct {
	ledger.Batch
	bad map[int64]heldWhy // by number
}

type heldWhy struct{ reason, detail string }

// Collect takes over everything that the feed has, and tells replicas how far. It does
// nothing where the feed carries no events. A batch may be read any number of times.
func (s *Ledger) Collect(ctx context.Context) error {
	feed, carries := s.d.Feed.(LedgerFeed)
	if !carries {
		return nil
	}
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	for {
		ask, cancel := context.WithTimeout(ctx, 2*time.Second)
		bodies, next, err := feed.Events(ask, s.in.place)
		cancel()
		if err != nil {
			return err
		}
		if next == s.in.place && len(bodies) == 0 {
			return nil
		}
		if err := s.page(ctx, feed, bodies); err != nil {
			return err
		}
		s.in.place = next
		if len(bodies) == 0 {
			continue
		}
		// Whatever it was: what stays, stays for ever, and replicas wait for the room.
		if err := feed.DropEvents(ctx, next); err != nil {
			return fmt.Errorf("forget events that were read: %w", err)
		}
	}
}

// page takes a page of the feed in. What was committed is told even when the rest was
// not.
func (s *Ledger) page(ctx context.Context, feed LedgerFeed, bodies [][]byte) error {
	batches, err := s.readBatches(ctx, bodies)
	if err != nil {
		return err
	}
	if err := s.screen(ctx, batches); err != nil {
		return err
	}
	var failed error
	committed := map[BootName]int64{}
	for len(batches) > 0 && failed == nil {
		n, events := 0, 0
		for n < len(batches) && (n == 0 || events+len(batches[n].Events) <= eventsPerTx) {
			events += len(batches[n].Events)
			n++
		}
		var marks []UsageMark
		marks, failed = s.takeSure(ctx, batches[:n])
		for _, m := range marks {
			name := BootName{m.Replica, m.Boot}
			committed[name] = max(committed[name], m.Seq)
		}
		batches = batches[n:]
	}
	if len(committed) > 0 {
		marks := make([]ledger.Mark, 0, len(committed))
		for name, seq := range committed {
			marks = append(marks, ledger.Mark{Replica: name.Replica, Boot: name.Boot, Seq: seq})
		}
		if err := feed.SetCommitted(ctx, marks); err != nil && failed == nil {
			failed = fmt.Errorf("tell replicas what is committed: %w", err)
		}
	}
	return failed
}

// readBatches reads batches. What cannot be read at all is held: nobody can tell whose
// numbers it has.
func (s *Ledger) readBatches(ctx context.Context, bodies [][]byte) ([]*intakeBatch, error) {
	batches := make([]*intakeBatch, 0, len(bodies))
	for _, body := range bodies {
		b, bad, err := ledger.Salvage(body)
		if err == nil && b.Replica == corrections().Replica {
			err = fmt.Errorf("%w: no replica is called %s", ledger.ErrBatch, b.Replica)
		}
		if err != nil {
			s.d.Log.ErrorContext(ctx, "unreadable batch of usage events", "error", err)
			if err := s.holdBatch(ctx, body, err); err != nil {
				return nil, err
			}
			continue
		}
		in := &intakeBatch{*b, map[int64]heldWhy{}}
		for n, why := range bad {
			in.bad[n] = heldWhy{heldRefused, why}
		}
		batches = append(batches, in)
	}
	return batches, nil
}

func (s *Ledger) holdBatch(ctx context.Context, body []byte, why error) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		if err := tx.CountUnreadable(ctx, 1); err != nil {
			return err
		}
		_, held, err := tx.CountHeldUsage(ctx)
		if err != nil || held >= maxUnreadable {
			return err
		}
		_, err = tx.HoldUsage(ctx, HeldRow{Reason: heldUnreadable, Detail: clip(why.Error()), Body: body}, s.d.now())
		return err
	})
}

// clip keeps a detail to what the database holds.
func clip(s string) string {
	if r := []rune(s); len(r) > 500 {
		return string(r[:500])
	}
	return s
}

// screen finds events that are not to be believed.
func (s *Ledger) screen(ctx context.Context, batches []*intakeBatch) error {
	if len(batches) == 0 {
		return nil
	}
	if err := s.learnTenants(ctx, batches); err != nil {
		return err
	}
	now := s.redisNow(ctx)
	late, early := now.Add(-UsageLate).Unix(), now.Add(usageEarly).Unix()
	for _, b := range batches {
		for i := range b.Events {
			e, n := &b.Events[i], b.First+int64(i)
			if _, ok := b.bad[n]; ok {
				continue
			}
			switch {
			case e.Second < late:
				b.bad[n] = heldWhy{heldLate, fmt.Sprintf("It is of %s, more than %d hours ago.", time.Unix(e.Second, 0).UTC().Format(time.DateTime), int(UsageLate/time.Hour))}
			case e.Second > early:
				b.bad[n] = heldWhy{heldEarly, fmt.Sprintf("It is of %s, which is still to come.", time.Unix(e.Second, 0).UTC().Format(time.DateTime))}
			case !s.in.known[e.Tenant]:
				b.bad[n] = heldWhy{heldUnknown, "There is no such tenant."}
			case e.Requests > mostRequests || e.Cost > mostCost || e.Cost < -mostCost:
				b.bad[n] = heldWhy{heldRefused, fmt.Sprintf("%d requests at a cost of %d in a second cannot be.", e.Requests, e.Cost)}
			}
		}
	}
	return nil
}

// learnTenants finds out which tenants of batches exist. Their rows are kept for ever.
func (s *Ledger) learnTenants(ctx context.Context, batches []*intakeBatch) error {
	if len(s.in.known) > knownTenants {
		s.in.known = newIntake(s.d).known
	}
	ask := map[string]bool{}
	for _, b := range batches {
		for i := range b.Events {
			if id := b.Events[i].Tenant; !s.in.known[id] && printable(id) {
				ask[id] = true
			}
		}
	}
	if len(ask) == 0 {
		return nil
	}
	ids := make([]string, 0, len(ask))
	for id := range ask {
		ids = append(ids, id)
	}
	return s.d.Store.Read(ctx, func(tx Tx) error {
		known, err := tx.KnownTenants(ctx, ids)
		for _, id := range known {
			s.in.known[id] = true
		}
		return err
	})
}

// redisNow is the clock that events are stamped by; our own while it cannot be asked.
func (s *Ledger) redisNow(ctx context.Context) time.Time {
	ask, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	now, err := s.d.Feed.Now(ask)
	if err != nil {
		return s.d.now()
	}
	return now.UTC()
}
