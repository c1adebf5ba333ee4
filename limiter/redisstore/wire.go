package redisstore

import (
	"encoding/binary"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// Lengths in the script's argument: of a charge, and of what goes before the
// requests.
const (
	chargeBytes = 2 + 8 + 4*6
	headBytes   = 2 + 2
)

// fullForm begins a request that is more than charges.
const fullForm = 255

// Flags in the script's argument.
const (
	withholdShadows = 1 // of a request: its shadows are not to be spent
	shadowFlag      = 1 // of a charge, slot or quota
	boundedFlag     = 2 // of a charge: its identifiers are bounded
	billFlag        = 2 // of a quota
	recordedFlag    = 4 // of a quota: the index of its lane's mark follows
)

// keyPart says in which part of KEYS a key stands.
type keyPart byte

const (
	rowKeys      keyPart = iota // rows that are looked at in any case
	overflowKeys                // overflow rows
	otherKeys                   // leases, quotas, and an amendment's mark
	keyParts
)

// ref is a place in a request's argument that an index of a key goes to.
type ref struct {
	part      keyPart
	at        int // in arg; -1 for nowhere
	from, end int // of the key in text
}

// shape is what the answer to a request is made of.
type shape struct {
	charges, slots, quotas int
	full                   bool
}

func (s shape) replyBytes() int {
	if !s.full {
		return 1 + s.charges*levelBytes
	}
	return 1 + s.charges*fullLevelBytes + s.slots*slotBytes + s.quotas*quotaBytes
}

// request is one request on its way to a script: its packed argument, and the
// keys that call.add finds a place for. It is used again for other requests.
type request struct {
	shape shape
	arg   []byte
	text  []byte // the keys, one after the other
	refs  []ref
}

func (r *request) reset() {
	r.shape, r.arg, r.text, r.refs = shape{}, r.arg[:0], r.text[:0], r.refs[:0]
}

// key appends a place for the index of the key that write appends to the text.
func (r *request) key(part keyPart, write func(b []byte) []byte) {
	from := len(r.text)
	r.text = write(r.text)
	r.refs = append(r.refs, ref{part, len(r.arg), from, len(r.text)})
	r.arg = append(r.arg, 0, 0)
}

// again appends a place for the index of the row's key that came last.
func (r *request) again() {
	last := len(r.refs) - 1
	for r.refs[last].part != rowKeys {
		last--
	}
	same := r.refs[last]
	same.at = len(r.arg)
	r.refs = append(r.refs, same)
	r.arg = append(r.arg, 0, 0)
}

// pack packs what a script needs of a draw, so that the draw stays the caller's.
// Flags are those of the request.
func (k *keyspace) pack(r *request, d *limiter.Draw, flags byte) {
	r.reset()
	r.shape = shape{len(d.Charges), len(d.Slots), len(d.Quotas), flags != 0 || !plain(d)}
	if r.shape.full {
		r.arg = append(r.arg, fullForm, flags)
	}
	r.arg = append(r.arg, byte(len(d.Charges)))
	if r.shape.full {
		r.arg = append(r.arg, byte(len(d.Slots)), byte(len(d.Quotas)))
	}
	for i := range d.Charges {
		c := &d.Charges[i]
		if i > 0 && c.Row == d.Charges[i-1].Row {
			r.again()
		} else {
			r.key(rowKeys, func(b []byte) []byte { return k.appendRow(b, c.Row) })
		}
		r.arg = appendCharge(r.arg, c)
		if r.shape.full {
			k.packMore(r, c)
		}
	}
	for i := range d.Slots {
		k.packSlot(r, &d.Slots[i])
	}
	for i := range d.Quotas {
		k.packQuota(r, &d.Quotas[i])
	}
}

// plain: nothing but charges that are no more than that.
func plain(d *limiter.Draw) bool {
	if len(d.Slots) > 0 || len(d.Quotas) > 0 {
		return false
	}
	for i := range d.Charges {
		if c := &d.Charges[i]; c.Extra > 0 || c.Shadow || c.Identifiers > 0 {
			return false
		}
	}
	return true
}

func appendCharge(b []byte, c *limiter.Charge) []byte {
	b = binary.LittleEndian.AppendUint64(b, c.Hash)
	b = appendNumbers(b, c.Numbers)
	return appendUint(b, 6, c.Cost)
}

func appendNumbers(b []byte, n policy.Numbers) []byte {
	b = appendUint(b, 6, n.Tokens)
	b = appendUint(b, 6, n.Period)
	return appendUint(b, 6, n.Burst)
}

// appendUint appends the lowest bytes of v, little-endian.
func appendUint(b []byte, bytes int, v int64) []byte {
	for range bytes {
		b = append(b, byte(v))
		v >>= 8
	}
	return b
}

func (k *keyspace) packMore(r *request, c *limiter.Charge) {
	flags := flag(c.Shadow, shadowFlag) | flag(c.Identifiers > 0, boundedFlag)
	r.arg = appendUint(append(r.arg, flags), 6, c.Extra)
	if c.Identifiers > 0 {
		r.key(overflowKeys, func(b []byte) []byte { return k.appendOverflow(b, c.Row) })
		r.arg = binary.LittleEndian.AppendUint64(r.arg, ^c.Hash)
		r.arg = appendNumbers(r.arg, limiter.IdentifierNumbers(c.Numbers, c.Identifiers))
	}
}

func (k *keyspace) packSlot(r *request, s *limiter.Slot) {
	r.key(otherKeys, func(b []byte) []byte { return k.appendPart(b, 'z', s.Row, s.Hash, 0) })
	r.arg = appendUint(r.arg, 4, s.Max)
	r.arg = appendUint(r.arg, 6, s.HoldMicros)
	r.arg = append(r.arg, flag(s.Shadow, shadowFlag), byte(len(s.Lease)))
	r.arg = append(r.arg, s.Lease...)
}

func (k *keyspace) packQuota(r *request, q *limiter.Quota) {
	r.key(otherKeys, func(b []byte) []byte { return k.appendPart(b, 'q', q.Row, q.Hash, q.Start) })
	r.arg = appendUint(r.arg, 7, q.Cost)
	r.arg = appendUint(r.arg, 7, q.Amount)
	r.arg = appendUint(r.arg, 7, q.Cap())
	r.arg = appendUint(r.arg, 8, q.End)
	r.arg = append(r.arg, flag(q.Shadow, shadowFlag)|flag(q.Bill, billFlag)|flag(q.Recorded, recordedFlag))
	if q.Recorded {
		r.key(otherKeys, func(b []byte) []byte { return k.appendKept(b, k.lane(q.Row)) })
	}
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

// call is one or several requests in one call of a script: the distinct keys,
// by part, and the packed requests. Layout in full.lua.
type call struct {
	keys     [keyParts][]string
	index    map[string]uint16 // 1-based place in its part
	arg      []byte
	shapes   []shape
	full     bool // a request is more than charges
	charges  int  // of all requests
	replyLen int
}

func newCall() *call {
	return &call{index: map[string]uint16{}, arg: make([]byte, headBytes, 256), replyLen: 8}
}

// reset makes the call as good as new.
func (c *call) reset() {
	for part := range c.keys {
		clear(c.keys[part])
		c.keys[part] = c.keys[part][:0]
	}
	clear(c.index)
	c.arg, c.shapes, c.full = append(c.arg[:0], 0, 0, 0, 0), c.shapes[:0], false
	c.charges, c.replyLen = 0, 8
}

// add adds a request whose keys all lie in the call's lane, if it has one.
func (c *call) add(r *request) {
	start := len(c.arg)
	c.arg = append(c.arg, r.arg...)
	for i := range r.refs {
		at := &r.refs[i]
		place := c.place(at.part, r.text[at.from:at.end])
		if at.at >= 0 {
			binary.LittleEndian.PutUint16(c.arg[start+at.at:], place)
		}
	}
	c.shapes, c.full = append(c.shapes, r.shape), c.full || r.shape.full
	c.charges += r.shape.charges
	c.replyLen += r.shape.replyBytes()
}

func (c *call) place(part keyPart, key []byte) uint16 {
	if at, known := c.index[string(key)]; known {
		return at
	}
	text := string(key)
	c.keys[part] = append(c.keys[part], text)
	at := uint16(len(c.keys[part]))
	c.index[text] = at
	return at
}

// finish writes what goes before the requests.
func (c *call) finish() {
	binary.LittleEndian.PutUint16(c.arg, uint16(len(c.keys[rowKeys])))
	binary.LittleEndian.PutUint16(c.arg[2:], uint16(len(c.keys[overflowKeys])))
}
