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
	return r.all()
}

// all is the batch with its entries.
func (r *Reader) all() (*Batch, error) {
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
	r, err := t.openMessage(raw)
	if err != nil {
		return nil, err
	}
	r.head.Body = body
	return r, nil
}

// openMessage opens a batch that is not compressed any more.
func (t *Texts) openMessage(raw []byte) (*Reader, error) {
	r := &Reader{}
	if err := r.open(raw, t); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
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
	signed := int64(v)
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
		r.left = int(v)
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
	if !r.point() {
		r.err = fmt.Errorf("%w: entry %d from the end points nowhere", ErrBatch, r.left)
		return false
	}
	e.At, e.Seq = at+protowire.DecodeZigZag(r.next(fieldAt)), seq+protowire.DecodeZigZag(r.next(fieldSeqs))
	return r.err == nil
}

// point makes the entry of what it points to in the tables, without its time and
// number.
func (r *Reader) point() bool {
	caller, ok1 := pick(r.callers, r.next(fieldCaller))
	target, ok2 := pick(r.targets, r.next(fieldTarget))
	values, ok3 := pick(r.values, r.next(fieldValue))
	result, ok4 := pick(r.results, r.next(fieldResult))
	order := r.next(fieldOrders)
	if !ok1 || !ok2 || !ok3 || !ok4 || order > 1<<32-1 {
		return false
	}
	flags := result.flags
	r.entry = Entry{
		Kind: Kind(flags & 3), Order: int32(uint32(order)),
		Tenant: caller[0], Credential: caller[1], User: caller[2], IP: caller[3],
		Method: target[0], Host: target[1], Path: target[2], Route: target[3], Values: *values,
		Policy: result.policy, Cost: result.cost, Hits: result.hits, Reason: result.reason, Limit: result.limit,
		Allowed: flags&flagAllowed != 0, Degraded: flags&flagDegraded != 0, Cached: flags&flagCached != 0, Leased: flags&flagLeased != 0,
		Priced: flags&flagPriced != 0, Renewed: flags&flagRenewed != 0, ByUser: flags&flagByUser != 0,
	}
	if flags&flagWait != 0 {
		r.entry.Wait = int64(r.next(fieldWaits))
	}
	if flags&flagRef != 0 {
		r.entry.Ref = r.ref()
	}
	return true
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
