package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/limiter"
)

// Operations in amend.lua.
const (
	amendBucket = 1
	amendQuota  = 2
	renewLease  = 3
	endLease    = 4
)

// Statuses in amend.lua's reply.
const (
	amendSeen   = 0
	amendDone   = 1
	amendBroken = 2
)

// lanesAtOnce bounds the lanes of a Cluster that one call of Amend, Renew or
// Release asks at the same time.
const lanesAtOnce = 8

// Amend makes the corrections, together where they lie in one lane. It ends with
// ctx. In a Cluster an id is remembered by each lane, so a call that failed in
// one may be made again.
func (s *Store) Amend(ctx context.Context, id string, corrections []limiter.Amendment) error {
	_, err := s.AmendAt(ctx, id, corrections)
	return err
}

// AmendAt is Amend that says when: the latest time, where several lanes were asked.
func (s *Store) AmendAt(ctx context.Context, id string, corrections []limiter.Amendment) (int64, error) {
	if err := limiter.CheckAmendments(id, corrections); err != nil {
		return 0, storeError("amend", err)
	}
	plain := make([]correction, len(corrections))
	for i := range corrections {
		plain[i].Amendment = corrections[i]
	}
	at, err := s.correctAt(ctx, id, plain)
	if err != nil {
		return 0, storeError("amend", err)
	}
	return at, nil
}

func (s *Store) correct(ctx context.Context, id string, corrections []correction) error {
	_, err := s.correctAt(ctx, id, corrections)
	return err
}

func (s *Store) correctAt(ctx context.Context, id string, corrections []correction) (int64, error) {
	var done latest
	err := s.byLane(ctx, len(corrections), func(i int) limiter.Row { return corrections[i].Row },
		func(ctx context.Context, lane int, mine []int) error {
			a := newAmend()
			for _, i := range mine {
				s.keys.packCorrection(&a.request, &corrections[i])
			}
			if id != "" {
				a.mark(func(b []byte) []byte { return s.keys.appendMark(b, lane, id) })
			}
			answer, err := s.amendIn(ctx, lane, a)
			if err == nil && !answer.seen {
				done.note(answer.at)
			}
			return err
		})
	return done.at.Load(), err
}

// latest is the latest of several times, noted by several goroutines.
type latest struct{ at atomic.Int64 }

func (l *latest) note(at int64) {
	for old := l.at.Load(); at > old && !l.at.CompareAndSwap(old, at); old = l.at.Load() {
		continue // somebody else noted another one
	}
}

// Renew lets each lease last for its hold from now on, in the order given within
// a lane. What an error leaves unknown is told as not held.
func (s *Store) Renew(ctx context.Context, leases []limiter.Lease) ([]bool, error) {
	if err := limiter.CheckLeases(leases); err != nil {
		return nil, storeError("renew", err)
	}
	held := make([]bool, len(leases))
	err := s.onLeases(ctx, leases, func(ctx context.Context, lane int, mine []int) error {
		a := newAmend()
		for _, i := range mine {
			s.keys.packLease(&a.request, &leases[i], true)
		}
		answer, err := s.amendIn(ctx, lane, a)
		for at, i := range mine {
			held[i] = err == nil && answer.held[at] == 1
		}
		return err
	})
	if err != nil {
		return held, storeError("renew", err)
	}
	return held, nil
}

// Release ends leases.
func (s *Store) Release(ctx context.Context, leases []limiter.Lease) error {
	_, err := s.ReleaseAt(ctx, leases)
	return err
}

// ReleaseAt is Release that says when: the latest time, where several lanes were asked.
func (s *Store) ReleaseAt(ctx context.Context, leases []limiter.Lease) (int64, error) {
	if err := limiter.CheckLeases(leases); err != nil {
		return 0, storeError("release", err)
	}
	var done latest
	err := s.onLeases(ctx, leases, func(ctx context.Context, lane int, mine []int) error {
		a := newAmend()
		for _, i := range mine {
			s.keys.packLease(&a.request, &leases[i], false)
		}
		answer, err := s.amendIn(ctx, lane, a)
		if err == nil {
			done.note(answer.at)
		}
		return err
	})
	if err != nil {
		return 0, storeError("release", err)
	}
	return done.at.Load(), nil
}

func (s *Store) onLeases(ctx context.Context, leases []limiter.Lease, do func(context.Context, int, []int) error) error {
	return s.byLane(ctx, len(leases), func(i int) limiter.Row { return leases[i].Row }, do)
}

// byLane does something with the indexes of each lane's share, several lanes at
// once, and joins their errors.
func (s *Store) byLane(ctx context.Context, n int, row func(int) limiter.Row, do func(context.Context, int, []int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	shares := map[int][]int{}
	for i := range n {
		lane := commonLane
		if s.shards != nil {
			lane = s.keys.lane(row(i))
		}
		shares[lane] = append(shares[lane], i)
	}
	if len(shares) == 1 {
		for lane, mine := range shares {
			return do(ctx, lane, mine)
		}
	}
	var mu sync.Mutex
	var all []error
	var wg sync.WaitGroup
	room := make(chan struct{}, lanesAtOnce)
	for lane, mine := range shares {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if err := do(ctx, lane, mine); err != nil {
				mu.Lock()
				all = append(all, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(all...)
}

// amend is one call of amend.lua on its way.
type amend struct {
	request
	marked byte
}

func newAmend() *amend { return &amend{} }

// mark adds the key that remembers the call. It comes after all others.
func (a *amend) mark(write func(b []byte) []byte) {
	a.marked = 1
	from := len(a.text)
	a.text = write(a.text)
	a.refs = append(a.refs, ref{part: otherKeys, at: -1, from: from, end: len(a.text)})
}

// amended is the answer of amend.lua.
type amended struct {
	at   int64  // the store's µs
	seen bool   // the id was known: nothing was done
	held string // a byte per renewal
}

// amendIn makes one call.
func (s *Store) amendIn(ctx context.Context, lane int, a *amend) (amended, error) {
	c := newCall()
	c.add(&a.request)
	c.finish()
	c.arg[2] = a.marked
	text, err := s.run(ctx, lane%len(s.lanes), &s.scripts.amend, c.keys[:], c.arg)
	if err != nil {
		return amended{}, err
	}
	return openAmended(text, a.shape.slots)
}

// openAmended checks the answer of amend.lua.
func openAmended(text string, renewals int) (amended, error) {
	if len(text) < 9 {
		return amended{}, fmt.Errorf("%w: %d bytes", errReply, len(text))
	}
	head, err := openReply(text[:8], 8)
	if err != nil {
		return amended{}, err
	}
	switch status := text[8]; {
	case status == amendBroken && len(text) == 9:
		return amended{}, errRow
	case status == amendSeen && len(text) == 9, status == amendDone && len(text) == 9+renewals:
		return amended{at: head.nowMicros, seen: status == amendSeen, held: text[9:]}, nil
	default:
		return amended{}, fmt.Errorf("%w: status %d, %d bytes", errReply, status, len(text))
	}
}

func (k *keyspace) packCorrection(r *request, c *correction) {
	if c.Quota {
		r.arg = append(r.arg, amendQuota)
		r.key(otherKeys, func(b []byte) []byte { return k.appendPart(b, 'q', c.Row, c.Hash, c.Start) })
		r.arg = appendUint(r.arg, 8, -c.Tokens)
		r.arg = appendUint(r.arg, 8, c.End)
		return
	}
	r.arg = append(r.arg, amendBucket)
	r.key(rowKeys, func(b []byte) []byte {
		if c.overflow {
			return k.appendOverflow(b, c.Row)
		}
		return k.appendRow(b, c.Row)
	})
	r.arg = appendUint(r.arg, 8, int64(c.Hash))
	r.arg = appendNumbers(r.arg, c.Numbers)
	r.arg = appendUint(r.arg, 8, c.Tokens)
	r.arg = appendUint(r.arg, 8, c.Since)
}

func (k *keyspace) packLease(r *request, l *limiter.Lease, renew bool) {
	kind := byte(endLease)
	if renew {
		kind = renewLease
		r.shape.slots++
	}
	r.arg = append(r.arg, kind)
	r.key(otherKeys, func(b []byte) []byte { return k.appendPart(b, 'z', l.Row, l.Hash, 0) })
	if renew {
		r.arg = appendUint(r.arg, 4, l.Max)
		r.arg = appendUint(r.arg, 6, l.HoldMicros)
	}
	r.arg = append(append(r.arg, byte(len(l.ID))), l.ID...)
}
