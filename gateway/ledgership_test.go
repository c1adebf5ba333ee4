package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/usage/spool"
)

// fakeCarrier is Redis with a ledger behind it that commits when it is told to.
type fakeCarrier struct {
	*fakeReporter
	mu        sync.Mutex
	err       error
	committed map[string]int64
	got       []*ledger.Batch
	asked     int
}

func (f *fakeCarrier) ShipEvents(_ context.Context, b *feed.EventBatch) (feed.Shipped, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := feed.Shipped{Committed: f.committed[b.Boot]}
	if f.err != nil {
		return known, f.err
	}
	if len(b.Body) == 0 {
		f.asked++
		return known, nil
	}
	batch, err := ledger.Decode(b.Body)
	if err != nil {
		return known, err
	}
	f.got = append(f.got, batch)
	known.Entry = "1-1"
	return known, nil
}

func (f *fakeCarrier) set(do func(*fakeCarrier)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f)
}

func (f *fakeCarrier) count() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.got) }

func newShipment(t *testing.T) (*fixture, *fakeCarrier, *eventShipment) {
	t.Helper()
	carrier := &fakeCarrier{committed: map[string]int64{}}
	f := newFixture(t, testPolicy, nil, spooled(t, t.TempDir(), 0), func(c *Config) {
		carrier.fakeReporter, _ = c.Reporter.(*fakeReporter)
		c.Reporter = carrier
	})
	return f, carrier, &eventShipment{g: f.g, carrier: carrier, sent: map[*spool.Waiting]eventSending{}}
}

// note notes a request and cuts it.
func (f *fixture) note(second int64) {
	f.t.Helper()
	s := f.g.cfg.Spool
	err := s.Note(&spool.Entry{Second: second, Tenant: "ten_a", Route: "report", Cost: 1}, usage.OutcomeAdmitted)
	if err := errors.Join(err, s.Cut(second+5)); err != nil {
		f.t.Fatal(err)
	}
}

func TestShipment_R107_WhatIsNotCommittedIsSentAgainAndWhatIsIsForgotten(t *testing.T) {
	t.Parallel()
	f, c, sh := newShipment(t)
	f.note(100)
	f.note(200)
	if !sh.round(t.Context(), time.Minute) || c.count() != 2 {
		t.Fatalf("%d batches were sent, want 2", c.count())
	}
	if !sh.round(t.Context(), time.Minute) || c.count() != 2 || c.asked != 1 {
		t.Fatalf("a moment later %d are sent, %d questions", c.count(), c.asked)
	}
	for w := range sh.sent { // as if time had passed
		sh.sent[w] = eventSending{entry: sh.sent[w].entry}
	}
	if !sh.round(t.Context(), time.Minute) || c.count() != 4 {
		t.Fatalf("%d batches were sent, want both again", c.count())
	}
	c.set(func(c *fakeCarrier) { c.committed["b1"] = 1 })
	sh.round(t.Context(), time.Minute)
	if st := f.g.cfg.Spool.Standing(); st.Waiting != 1 {
		t.Fatalf("%d events wait after one is committed", st.Waiting)
	}
	c.set(func(c *fakeCarrier) { c.committed["b1"] = 2 })
	sh.round(t.Context(), time.Minute)
	sh.round(t.Context(), time.Minute)
	if st := f.g.cfg.Spool.Standing(); st.Waiting != 0 || len(sh.sent) != 0 {
		t.Fatalf("%d events wait after all are committed, %d remembered", st.Waiting, len(sh.sent))
	}
}

func TestShipment_AMarkBeyondWhatWasCutIsNotBelieved(t *testing.T) {
	t.Parallel()
	f, c, sh := newShipment(t)
	f.note(100)
	c.set(func(c *fakeCarrier) { c.committed["b1"] = 1 << 40 })
	sh.round(t.Context(), time.Minute)
	sh.round(t.Context(), time.Minute)
	if st := f.g.cfg.Spool.Standing(); st.Waiting != 1 {
		t.Fatalf("%d events wait, want 1", st.Waiting)
	}
}

func TestShipment_AFullStreamOrALostOneKeepsEventsHere(t *testing.T) {
	t.Parallel()
	f, c, sh := newShipment(t)
	f.note(100)
	f.note(200)
	for _, err := range []error{feed.ErrEventsFull, errors.New("connection refused")} {
		c.set(func(c *fakeCarrier) { c.err = err })
		if sh.round(t.Context(), time.Minute) || c.count() != 0 {
			t.Fatalf("%v: something went through", err)
		}
	}
	c.set(func(c *fakeCarrier) { c.err, c.committed["b1"] = feed.ErrEventsFull, 1 })
	sh.round(t.Context(), time.Minute)
	if st := f.g.cfg.Spool.Standing(); st.Waiting != 1 {
		t.Fatalf("a mark that came with a refusal is not heard: %d wait", st.Waiting)
	}
	c.set(func(c *fakeCarrier) { c.err = nil })
	sh.round(t.Context(), time.Minute)
	if c.count() != 1 || c.got[0].First != 2 {
		t.Fatalf("sent %d batches", c.count())
	}
}

// TestShipment_R108_TheLastEventsAreSentWhenItEndsInOrder runs the loop and ends it.
func TestShipment_R108_TheLastEventsAreSentWhenItEndsInOrder(t *testing.T) {
	t.Parallel()
	f, c, _ := newShipment(t)
	key := f.key("ten_a", "free")
	for range 4 {
		f.do("GET", "/api/x", bearer(key)...)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := f.g.ledgerLoop(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if c.count() != 1 {
		t.Fatalf("%d batches were sent", c.count())
	}
	last := c.got[0]
	if !last.Final || len(last.Events) != 1 || last.Events[0].Requests != 4 || last.Events[0].Cost != 4 {
		t.Fatalf("the last batch is %+v", last)
	}
}
