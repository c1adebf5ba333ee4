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
var errRow = errors.New("row holds another type")

// call is one or several requests on their way to the script: the distinct keys
// of their rows and the packed requests. Layout in take.lua.
type call struct {
	keys  []string
	index map[string]uint16 // 1-based place in keys
	arg   []byte
}

// add appends one request whose rows have the given keys, one per charge.
func (c *call) add(charges []limiter.Charge, keys []string) {
	c.arg = append(c.arg, byte(len(charges)))
	for i := range charges {
		n := charges[i].Numbers
		c.arg = binary.LittleEndian.AppendUint16(c.arg, c.place(keys[i]))
		c.arg = binary.LittleEndian.AppendUint64(c.arg, charges[i].Hash)
		c.arg = appendUint48(c.arg, n.Tokens)
		c.arg = appendUint48(c.arg, n.Period)
		c.arg = appendUint48(c.arg, n.Burst)
		c.arg = appendUint48(c.arg, charges[i].Cost)
	}
}

func (c *call) place(key string) uint16 {
	if at, ok := c.index[key]; ok {
		return at
	}
	if c.index == nil {
		c.index = map[string]uint16{}
	}
	c.keys = append(c.keys, key)
	at := uint16(len(c.keys))
	c.index[key] = at
	return at
}

func appendUint48(b []byte, v int64) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40))
}

// reply reads the script's answer, request by request in the order of add.
type reply struct {
	nowMicros int64
	rest      []byte
}

// openReply checks that the answer has a time and exactly what the requests
// with these numbers of charges need; anything else is an error, never an
// admission or a refusal.
func openReply(text string, charges ...int) (reply, error) {
	want := 8
	for _, n := range charges {
		want += 1 + n*levelBytes
	}
	if len(text) != want {
		return reply{}, fmt.Errorf("%w: %d bytes instead of %d", errReply, len(text), want)
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
