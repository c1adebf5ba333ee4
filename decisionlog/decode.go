package decisionlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
)

// ErrBatch says that bytes are no batch of decisions.
var ErrBatch = errors.New("no batch of decisions")

//nolint:gochecknoglobals // costly to make, and stateless
var zstdReader = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxDecoded), zstd.WithDecoderLowmem(true))
})

// Decode reads what Encode wrote, strictly: every error wraps ErrBatch. It takes
// nothing larger than a batch may be, however it is packed.
func Decode(body []byte) (*Batch, error) {
	r, err := NewReader(body)
	if err != nil {
		return nil, err
	}
	b := r.Batch()
	b.Body, b.Entries = nil, make([]Entry, 0, r.Len())
	for r.Next() {
		b.Entries = append(b.Entries, *r.Entry())
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return &b, nil
}

// Texts lets Readers that follow one another share what they read, so that texts which
// many batches have are kept once. The zero Texts is ready. Not safe for concurrent use.
type Texts struct {
	known map[string]string
	bytes int
}

// maxKnown bounds what a Texts keeps, in bytes; beyond it, it begins anew.
const maxKnown = 64 << 20

func (t *Texts) of(b []byte) string {
	if t == nil {
		return string(b)
	}
	if s, known := t.known[string(b)]; known {
		return s
	}
	if t.known == nil || t.bytes > maxKnown {
		t.known, t.bytes = map[string]string{}, 0
	}
	s := string(b)
	t.known[s] = s
	t.bytes += len(s) + 64
	return s
}

// Reader reads the entries of one batch, one at a time, without keeping them.
type Reader struct {
	head    Batch
	columns [fieldLast + 1][]byte
	texts   []string
	callers [][4]string
	targets [][4]string
	values  []map[string]string
	results []readResult
	left    int
	entry   Entry
	err     error
}

// readResult is a result, ready to be copied from.
type readResult struct {
	flags              uint64
	policy, cost, hits int64
	reason, limit      string
}

// NewReader opens a batch. The tables are read, and with them most of what can be
// wrong; the error wraps ErrBatch.
func NewReader(body []byte) (*Reader, error) { return new(Texts).Open(body) }

// Open is NewReader that shares texts with other readers.
func (t *Texts) Open(body []byte) (*Reader, error) {
	if len(body) > MaxCompressed {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrBatch, len(body), MaxCompressed)
	}
	z, err := zstdReader()
	if err != nil {
		return nil, fmt.Errorf("decompress decisions: %w", err)
	}
	raw, err := z.DecodeAll(body, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	r := &Reader{}
	if err := r.open(raw, t); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	r.head.Body = body
	return r, nil
}

// open reads the message: each field once, in order.
func (r *Reader) open(raw []byte, texts *Texts) error {
	for want := fieldReplica; want <= fieldLast; want++ {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 || number != want {
			return fmt.Errorf("field %d is missing", want)
		}
		raw = raw[n:]
		switch {
		case kind == protowire.VarintType && want >= fieldSeq && want <= fieldCount:
			v, n := protowire.ConsumeVarint(raw)
			if n < 0 {
				return fmt.Errorf("field %d: %w", want, protowire.ParseError(n))
			}
			raw = raw[n:]
			if err := r.number(want, v); err != nil {
				return err
			}
		case kind == protowire.BytesType && (want < fieldSeq || want > fieldCount):
			v, n := protowire.ConsumeBytes(raw)
			if n < 0 {
				return fmt.Errorf("field %d: %w", want, protowire.ParseError(n))
			}
			r.columns[want], raw = v, raw[n:]
		default:
			return fmt.Errorf("field %d has another type", want)
		}
	}
	if len(raw) > 0 {
		return fmt.Errorf("%d bytes too many", len(raw))
	}
	return r.tables(texts)
}

func (r *Reader) number(field protowire.Number, v uint64) error {
	signed := int64(v) //nolint:gosec // as it was written
	if signed < 0 {
		return fmt.Errorf("field %d is negative", field)
	}
	switch field {
	case fieldSeq:
		r.head.Seq = signed
	case fieldFrom:
		r.head.From = signed
	case fieldSpan:
		if r.head.To = r.head.From + signed; r.head.To < r.head.From {
			return errors.New("it ends before it begins")
		}
	case fieldSample:
		if v > uint64(Whole) {
			return fmt.Errorf("sample %d, at most %d", v, Whole)
		}
		r.head.Sample = uint32(v)
	case fieldDropped:
		r.head.Dropped = signed
	case fieldUnjudged:
		r.head.Unjudged = signed
	default:
		if v > MaxEntries {
			return fmt.Errorf("%d entries, at most %d", v, MaxEntries)
		}
		r.left = int(v) //nolint:gosec // bounded above
	}
	return nil
}

// tables reads the tables. None may be longer than the batch can use: each entry
// brings at most one of each.
func (r *Reader) tables(texts *Texts) error {
	if len(r.columns[fieldReplica]) > maxText || len(r.columns[fieldBoot]) > maxText {
		return errors.New("the replica's name is too long")
	}
	r.head.Replica, r.head.Boot = texts.of(r.columns[fieldReplica]), texts.of(r.columns[fieldBoot])
	if err := r.readTexts(texts); err != nil {
		return err
	}
	var err error
	if r.callers, err = r.tuples(fieldCallers); err != nil {
		return err
	}
	if r.targets, err = r.tuples(fieldTargets); err != nil {
		return err
	}
	if err := r.readValues(); err != nil {
		return err
	}
	return r.readResults()
}

// maxTexts is how many texts so many entries can have: ten of their own and, all
// together, a pair for each value.
func maxTexts(entries int) int { return entries*10 + min(entries*maxValues, maxPairs)*2 + 1 }

func (r *Reader) readTexts(known *Texts) error {
	blob := r.columns[fieldTexts]
	r.texts = append(make([]string, 0, min(r.left*2, len(blob))+1), "")
	for len(blob) > 0 {
		size, n := binary.Uvarint(blob)
		if n <= 0 || size == 0 || size > maxText || size > uint64(len(blob)-n) {
			return fmt.Errorf("text %d is empty, cut off or longer than %d bytes", len(r.texts), maxText)
		}
		if len(r.texts) >= maxTexts(r.left) {
			return errors.New("more texts than entries can have")
		}
		r.texts = append(r.texts, known.of(blob[n:n+int(size)])) //nolint:gosec // bounded above
		blob = blob[n+int(size):]                                //nolint:gosec // the same
	}
	return nil
}

func (r *Reader) tuples(field protowire.Number) ([][4]string, error) {
	c := column{rest: r.columns[field]}
	out := make([][4]string, 0, min(r.left, len(c.rest)/4))
	for len(c.rest) > 0 {
		if len(out) == r.left {
			return nil, fmt.Errorf("table %d has more than %d entries", field, r.left)
		}
		var t [4]string
		for i := range t {
			t[i] = c.text(r.texts)
		}
		if c.bad {
			return nil, fmt.Errorf("table %d cannot be read", field)
		}
		out = append(out, t)
	}
	return out, nil
}

func (r *Reader) readValues() error {
	c := column{rest: r.columns[fieldValues]}
	r.values = append(r.values, nil)
	pairs := uint64(0)
	for len(c.rest) > 0 {
		n := c.next()
		if pairs += n; n < 1 || n > maxValues || len(r.values) > r.left || pairs > maxPairs {
			return fmt.Errorf("values %d: %d of them", len(r.values), n)
		}
		values := make(map[string]string, n)
		for range n {
			name := c.text(r.texts)
			values[name] = c.text(r.texts)
		}
		if c.bad || uint64(len(values)) != n {
			return fmt.Errorf("values %d cannot be read", len(r.values))
		}
		r.values = append(r.values, values)
	}
	return nil
}

func (r *Reader) readResults() error {
	c := column{rest: r.columns[fieldResults]}
	r.results = make([]readResult, 0, min(r.left, len(c.rest)/6))
	for len(c.rest) > 0 {
		if len(r.results) == r.left {
			return fmt.Errorf("table %d has more than %d entries", fieldResults, r.left)
		}
		v := readResult{flags: c.next(), policy: c.signed(), cost: c.signed(), hits: c.signed(), reason: c.text(r.texts), limit: c.text(r.texts)}
		if c.bad || v.flags >= flagsEnd || v.flags&3 == 0 {
			return fmt.Errorf("result %d cannot be read", len(r.results))
		}
		r.results = append(r.results, v)
	}
	return nil
}

// Batch is the batch without its entries.
func (r *Reader) Batch() Batch { return r.head }

// Len is how many entries are left.
func (r *Reader) Len() int { return r.left }

// Err says why Next ended early; it wraps ErrBatch.
func (r *Reader) Err() error { return r.err }

// Entry is the current entry. It is overwritten by Next; its texts and Values stay.
func (r *Reader) Entry() *Entry { return &r.entry }

// Next goes to the next entry and reports whether there is one.
func (r *Reader) Next() bool {
	if r.left == 0 || r.err != nil {
		if r.err == nil {
			r.err = r.finish()
		}
		return false
	}
	e := &r.entry
	at, seq := e.At, e.Seq
	if e.Kind == 0 {
		at = r.head.From
	}
	r.left--
	caller, ok1 := pick(r.callers, r.next(fieldCaller))
	target, ok2 := pick(r.targets, r.next(fieldTarget))
	values, ok3 := pick(r.values, r.next(fieldValue))
	result, ok4 := pick(r.results, r.next(fieldResult))
	order := r.next(fieldOrders)
	if !ok1 || !ok2 || !ok3 || !ok4 || order > 1<<32-1 {
		r.err = fmt.Errorf("%w: entry %d from the end points nowhere", ErrBatch, r.left)
		return false
	}
	*e = Entry{
		Kind: Kind(result.flags & 3), At: at + protowire.DecodeZigZag(r.next(fieldAt)), Seq: seq + protowire.DecodeZigZag(r.next(fieldSeqs)),
		Order: int32(uint32(order)), Tenant: caller[0], Credential: caller[1], User: caller[2], IP: caller[3], //nolint:gosec // as it was written
		Method: target[0], Host: target[1], Path: target[2], Route: target[3], Values: *values,
		Policy: result.policy, Cost: result.cost, Hits: result.hits, Reason: result.reason, Limit: result.limit,
		Allowed: result.flags&flagAllowed != 0, Degraded: result.flags&flagDegraded != 0, Cached: result.flags&flagCached != 0,
		Leased: result.flags&flagLeased != 0, Priced: result.flags&flagPriced != 0, Renewed: result.flags&flagRenewed != 0,
		ByUser: result.flags&flagByUser != 0,
	}
	if result.flags&flagWait != 0 {
		e.Wait = int64(r.next(fieldWaits)) //nolint:gosec // as it was written
	}
	if result.flags&flagRef != 0 {
		e.Ref = r.ref()
	}
	return r.err == nil
}

// pick is an entry of a table.
func pick[T any](table []T, at uint64) (*T, bool) {
	if at >= uint64(len(table)) {
		return nil, false
	}
	return &table[at], true
}

// next is the next number of a column.
func (r *Reader) next(field protowire.Number) uint64 {
	c := r.columns[field]
	if len(c) > 0 && c[0] < 0x80 { // most are
		r.columns[field] = c[1:]
		return uint64(c[0])
	}
	v, n := binary.Uvarint(c)
	if n <= 0 {
		r.err = fmt.Errorf("%w: column %d is cut off", ErrBatch, field)
		return 0
	}
	r.columns[field] = c[n:]
	return v
}

func (r *Reader) ref() uint64 {
	c := r.columns[fieldRefs]
	if len(c) < 8 {
		r.err = fmt.Errorf("%w: column %d is cut off", ErrBatch, fieldRefs)
		return 0
	}
	r.columns[fieldRefs] = c[8:]
	return binary.LittleEndian.Uint64(c)
}

// finish finds what is left over.
func (r *Reader) finish() error {
	for f := fieldAt; f <= fieldLast; f++ {
		if len(r.columns[f]) > 0 {
			return fmt.Errorf("%w: column %d is longer than the batch", ErrBatch, f)
		}
	}
	return nil
}

// column reads a table's numbers.
type column struct {
	rest []byte
	bad  bool
}

func (c *column) next() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.bad, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *column) signed() int64 {
	v := int64(c.next()) //nolint:gosec // as it was written
	c.bad = c.bad || v < 0
	return v
}

func (c *column) text(texts []string) string {
	at := c.next()
	if at >= uint64(len(texts)) {
		c.bad = true
		return ""
	}
	return texts[at]
}
