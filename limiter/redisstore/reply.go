package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// Statuses of one request in a script's reply.
const (
	statusRefused  = 0
	statusAdmitted = 1
	statusBroken   = 2
)

// Lengths in full.lua's reply.
const (
	levelBytes     = 8 + 8
	fullLevelBytes = levelBytes + 6 + 1
	slotBytes      = 4 + 1
	quotaBytes     = 8 + 1
)

// errReply says that the script's answer has not the shape that was asked for.
var errReply = errors.New("reply has another shape")

// errRow says that a request's row holds something that is not a row.
var errRow = fmt.Errorf("%w: it holds another type", limiter.ErrRow)

// reply reads a script's answer, request by request in the order of add.
type reply struct {
	nowMicros int64
	order     int32 // of the next request
	rest      string
	bad       bool            // a number that the script cannot have meant
	levels    []limiter.Level // room for those of all requests
}

// openReply checks that the answer has exactly the given length and begins with
// a time; anything else is an error, never an admission or a refusal.
func openReply(text string, length int) (reply, error) {
	if len(text) != length || length < 8 {
		return reply{}, fmt.Errorf("%w: %d bytes instead of %d", errReply, len(text), length)
	}
	r := reply{rest: text}
	r.nowMicros = r.number(8)
	if r.bad {
		return reply{}, fmt.Errorf("%w: time out of range", errReply)
	}
	return r, nil
}

// next is the outcome of the next request.
func (r *reply) next(s shape) (limiter.Outcome, error) {
	status := r.byte(statusBroken)
	out := limiter.Outcome{Admitted: status == statusAdmitted, NowMicros: r.nowMicros, Order: r.order}
	r.order++
	if s.charges > len(r.levels) {
		r.levels = make([]limiter.Level, s.charges)
	}
	out.Levels, r.levels = r.levels[:s.charges:s.charges], r.levels[s.charges:]
	for i := range out.Levels {
		l := &out.Levels[i]
		l.Units, l.WaitMicros = r.signed(), r.number(8)
		if s.full {
			l.Extra, l.Overflow = r.number(6), r.byte(1) == 1
		}
	}
	if s.full {
		r.parts(s, &out)
	}
	switch {
	case r.bad:
		r.bad = false // of this request alone
		return limiter.Outcome{}, fmt.Errorf("%w: status %d or a number out of range", errReply, status)
	case status == statusBroken:
		return limiter.Outcome{}, errRow
	}
	return out, nil
}

func (r *reply) parts(s shape, out *limiter.Outcome) {
	if s.slots > 0 {
		out.Slots = make([]limiter.SlotLevel, s.slots)
	}
	for i := range out.Slots {
		out.Slots[i] = limiter.SlotLevel{Active: r.number(4), Refused: r.byte(1) == 1}
	}
	if s.quotas > 0 {
		out.Quotas = make([]limiter.QuotaLevel, s.quotas)
	}
	for i := range out.Quotas {
		used, flags := r.number(8), r.byte(7)
		out.Quotas[i] = limiter.QuotaLevel{Used: used, Refused: flags&1 != 0, Overage: flags&2 != 0, Lost: flags&4 != 0}
	}
}

// byte reads a byte that is at most most.
func (r *reply) byte(most byte) byte {
	b := r.rest[0]
	r.rest = r.rest[1:]
	r.bad = r.bad || b > most
	return b
}

// number reads a number below 2^53.
func (r *reply) number(bytes int) int64 {
	v := uint64(0)
	for i := bytes - 1; i >= 0; i-- {
		v = v<<8 | uint64(r.rest[i])
	}
	r.rest = r.rest[bytes:]
	r.bad = r.bad || v >= policy.MaxUnits
	return int64(v)
}

// signed reads eight bytes, between -2^53 and 2^53.
func (r *reply) signed() int64 {
	v := int64(binary.LittleEndian.Uint64([]byte(r.rest[:8])))
	r.rest = r.rest[8:]
	r.bad = r.bad || v >= policy.MaxUnits || v <= -policy.MaxUnits
	return v
}
