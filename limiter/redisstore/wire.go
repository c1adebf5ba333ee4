package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// Statuses of one request in the script's reply.
const (
	statusRefused  = 0
	statusAdmitted = 1
	statusBroken   = 2
)

// chargeBytes is the length of one charge in the script's argument.
const chargeBytes = 2 + 8 + 4*6

// levelBytes is the length of one charge's level in the script's reply.
const levelBytes = 8 + 8

// errReply says that the script's answer has not the shape that was asked for.
var errReply = errors.New("reply has another shape")

// errRow says that a request's row holds something that is not a row.
var errRow = fmt.Errorf("%w: it holds another type", limiter.ErrRow)

// request is one request on its way to the script: the key of each charge's row
// and the packed charges, whose places of rows call.add fills in.
type request struct {
	keys []string
	arg  []byte
}

// pack copies what the script needs, so that the charges stay the caller's.
func (s *Store) pack(charges []limiter.Charge) request {
	r := request{keys: make([]string, len(charges)), arg: make([]byte, 0, 1+len(charges)*chargeBytes)}
	r.arg = append(r.arg, byte(len(charges)))
	for i := range charges {
		r.keys[i] = s.RowKey(charges[i].Row)
		if i > 0 && charges[i].Row == charges[i-1].Row { //nolint:gosec // i > 0
			r.keys[i] = r.keys[i-1]
		}
		r.arg = appendCharge(r.arg, &charges[i])
	}
	return r
}

func appendCharge(b []byte, c *limiter.Charge) []byte {
	b = append(b, 0, 0) // place of the row
	b = binary.LittleEndian.AppendUint64(b, c.Hash)
	b = appendUint48(b, c.Numbers.Tokens)
	b = appendUint48(b, c.Numbers.Period)
	b = appendUint48(b, c.Numbers.Burst)
	return appendUint48(b, c.Cost)
}

func appendUint48(b []byte, v int64) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40))
}

// call is one or several requests in one call of the script: the distinct keys
// of their rows and the packed requests. Layout in take.lua.
type call struct {
	keys     []string
	index    map[string]int // 1-based place in keys
	arg      []byte
	charges  []int // of each request
	replyLen int
}

func newCall() *call { return &call{index: map[string]int{}, replyLen: 8} }

func (c *call) add(r request) {
	start := len(c.arg)
	c.arg = append(c.arg, r.arg...)
	for i, key := range r.keys {
		at := c.arg[start+1+i*chargeBytes:]
		binary.LittleEndian.PutUint16(at, uint16(c.place(key)))
	}
	c.charges = append(c.charges, len(r.keys))
	c.replyLen += 1 + len(r.keys)*levelBytes
}

func (c *call) place(key string) int {
	at := c.index[key]
	if at == 0 {
		c.keys = append(c.keys, key)
		at = len(c.keys)
		c.index[key] = at
	}
	return at
}

// reply reads the script's answer, request by request in the order of add.
type reply struct {
	nowMicros int64
	rest      []byte
}

// openReply checks that the answer has exactly the given length and begins with
// a time; anything else is an error, never an admission or a refusal.
func openReply(text string, length int) (reply, error) {
	if len(text) != length || length < 8 {
		return reply{}, fmt.Errorf("%w: %d bytes instead of %d", errReply, len(text), length)
	}
	r := reply{rest: []byte(text)}
	r.nowMicros = r.number()
	if r.nowMicros < 0 {
		return reply{}, fmt.Errorf("%w: time out of range", errReply)
	}
	return r, nil
}

// next is the outcome of the next request.
func (r *reply) next(charges int) (limiter.Outcome, error) {
	status := r.rest[0]
	r.rest = r.rest[1:]
	out := limiter.Outcome{Admitted: status == statusAdmitted, NowMicros: r.nowMicros, Levels: make([]limiter.Level, charges)}
	bad := false
	for i := range out.Levels {
		out.Levels[i] = limiter.Level{Units: r.number(), WaitMicros: r.number()}
		bad = bad || out.Levels[i].Units < 0 || out.Levels[i].WaitMicros < 0
	}
	switch {
	case status == statusBroken:
		return limiter.Outcome{}, errRow
	case status > statusBroken || bad:
		return limiter.Outcome{}, fmt.Errorf("%w: status %d, number out of range %t", errReply, status, bad)
	}
	return out, nil
}

// number reads eight bytes; -1 stands for what the script cannot have meant.
func (r *reply) number() int64 {
	v := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	if v >= policy.MaxUnits {
		return -1
	}
	return int64(v)
}
