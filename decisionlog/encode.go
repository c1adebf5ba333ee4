package decisionlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of the message that a batch is. Tables come before the columns that point into
// them. A column has one number for each entry, or for each entry that has such a thing.
const (
	fieldReplica  protowire.Number = 1
	fieldBoot     protowire.Number = 2
	fieldSeq      protowire.Number = 3
	fieldFrom     protowire.Number = 4
	fieldSpan     protowire.Number = 5 // To less From
	fieldSample   protowire.Number = 6
	fieldDropped  protowire.Number = 7
	fieldUnjudged protowire.Number = 8
	fieldCount    protowire.Number = 9
	fieldTexts    protowire.Number = 10 // length and bytes of each; text 0 is "" and left out
	fieldCallers  protowire.Number = 11 // tenant, credential, user, IP
	fieldTargets  protowire.Number = 12 // method, host, path, route
	fieldValues   protowire.Number = 13 // number of pairs, then name and value of each; entry 0 is none and left out
	fieldResults  protowire.Number = 14 // flags, policy, cost, hits, reason, limit
	fieldAt       protowire.Number = 15 // zigzag, against the entry before; the first against From
	fieldSeqs     protowire.Number = 16 // zigzag, against the entry before
	fieldOrders   protowire.Number = 17
	fieldCaller   protowire.Number = 18
	fieldTarget   protowire.Number = 19
	fieldValue    protowire.Number = 20
	fieldResult   protowire.Number = 21
	fieldWaits    protowire.Number = 22 // of results with flagWait
	fieldRefs     protowire.Number = 23 // 8 bytes each, of results with flagRef
	fieldLast                      = fieldRefs
)

// Flags of a result; the kind stands in the lowest two bits.
const (
	flagAllowed = 1 << (2 + iota)
	flagDegraded
	flagCached
	flagLeased
	flagPriced
	flagRenewed
	flagByUser
	flagWait
	flagRef
	flagsEnd
)

// ErrTooLarge says that a batch is beyond the bounds of one.
var ErrTooLarge = errors.New("batch of decisions is too large")

// zstdWriter compresses. It is made when it is first needed, and holds nothing
// between calls.
//
//nolint:gochecknoglobals // costly to make, and stateless
var zstdWriter = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
})

// Encode writes a batch. Its error is ErrTooLarge, wrapped, when nobody could read it.
func Encode(b *Batch) ([]byte, error) {
	if len(b.Entries) > MaxEntries {
		return nil, fmt.Errorf("%w: %d entries, at most %d", ErrTooLarge, len(b.Entries), MaxEntries)
	}
	for i := range b.Entries {
		if !b.Entries[i].fits() {
			return nil, fmt.Errorf("%w: entry %d has a text of more than %d bytes, or more than %d values", ErrTooLarge, i, maxText, maxValues)
		}
	}
	if !pairsFit(b.Entries) {
		return nil, fmt.Errorf("%w: more values than one batch can have", ErrTooLarge)
	}
	raw := message(b)
	if len(raw) > MaxDecoded {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(raw), MaxDecoded)
	}
	z, err := zstdWriter()
	if err != nil {
		return nil, fmt.Errorf("compress decisions: %w", err)
	}
	out := z.EncodeAll(raw, nil)
	if len(out) > MaxCompressed {
		return nil, fmt.Errorf("%w: %d bytes compressed, at most %d", ErrTooLarge, len(out), MaxCompressed)
	}
	return out, nil
}

// message is the batch before it is compressed.
func message(b *Batch) []byte {
	w := writer{
		texts: map[string]uint64{"": 0}, callers: map[[4]uint64]uint64{}, targets: map[[4]uint64]uint64{},
		results: map[result]uint64{}, values: map[string]uint64{},
	}
	return w.batch(b)
}

// Bounds on identifiers: of one entry, and of all tables of a batch. Each of them
// costs a reader a place in a map.
const (
	maxValues = 16
	maxPairs  = 4 * MaxEntries
)

// pairsFit reports whether the entries' values are within maxPairs, even if no two
// entries had the same.
func pairsFit(entries []Entry) bool {
	n := 0
	for i := range entries {
		n += len(entries[i].Values)
	}
	return n <= maxPairs
}

// fits reports whether the entry's parts are within what a reader takes.
func (e *Entry) fits() bool {
	for _, s := range [...]string{e.Tenant, e.Credential, e.User, e.IP, e.Method, e.Host, e.Path, e.Route, e.Reason, e.Limit} {
		if len(s) > maxText {
			return false
		}
	}
	for name, value := range e.Values {
		if len(name) > maxText || len(value) > maxText {
			return false
		}
	}
	return len(e.Values) <= maxValues
}

// result is what many entries of a batch have in common of what came out.
type result struct {
	flags, policy, cost, hits, reason, limit uint64
}

// writer gathers tables and columns.
type writer struct {
	texts            map[string]uint64
	callers, targets map[[4]uint64]uint64
	results          map[result]uint64
	values           map[string]uint64 // by their spelling in the table
	columns          [fieldLast + 1][]byte
}

func (w *writer) add(column protowire.Number, v uint64) {
	w.columns[column] = binary.AppendUvarint(w.columns[column], v)
}

func (w *writer) batch(b *Batch) []byte {
	at, seq := b.From, int64(0)
	for i := range b.Entries {
		e := &b.Entries[i]
		w.add(fieldAt, protowire.EncodeZigZag(e.At-at))
		w.add(fieldSeqs, protowire.EncodeZigZag(e.Seq-seq))
		at, seq = e.At, e.Seq
		w.add(fieldOrders, uint64(uint32(e.Order)))
		w.add(fieldCaller, w.tuple(w.callers, fieldCallers, e.Tenant, e.Credential, e.User, e.IP))
		w.add(fieldTarget, w.tuple(w.targets, fieldTargets, e.Method, e.Host, e.Path, e.Route))
		w.add(fieldValue, w.valuesOf(e.Values))
		w.add(fieldResult, w.resultOf(e))
		if e.Wait != 0 {
			w.add(fieldWaits, uint64(e.Wait))
		}
		if e.Ref != 0 {
			w.columns[fieldRefs] = binary.LittleEndian.AppendUint64(w.columns[fieldRefs], e.Ref)
		}
	}
	return w.message(b)
}

func (w *writer) message(b *Batch) []byte {
	var out []byte
	text := func(n protowire.Number, s string) {
		out = protowire.AppendString(protowire.AppendTag(out, n, protowire.BytesType), s)
	}
	number := func(n protowire.Number, v uint64) {
		out = protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), v)
	}
	text(fieldReplica, b.Replica)
	text(fieldBoot, b.Boot)
	number(fieldSeq, uint64(b.Seq))
	number(fieldFrom, uint64(b.From))
	number(fieldSpan, uint64(b.To-b.From))
	number(fieldSample, uint64(b.Sample))
	number(fieldDropped, uint64(b.Dropped))
	number(fieldUnjudged, uint64(b.Unjudged))
	number(fieldCount, uint64(len(b.Entries)))
	for n := fieldTexts; n <= fieldLast; n++ {
		out = protowire.AppendBytes(protowire.AppendTag(out, n, protowire.BytesType), w.columns[n])
	}
	return out
}

func (w *writer) text(s string) uint64 {
	at, known := w.texts[s]
	if !known {
		at = uint64(len(w.texts))
		w.texts[s] = at
		w.columns[fieldTexts] = append(binary.AppendUvarint(w.columns[fieldTexts], uint64(len(s))), s...)
	}
	return at
}

func (w *writer) tuple(table map[[4]uint64]uint64, column protowire.Number, a, b, c, d string) uint64 {
	key := [4]uint64{w.text(a), w.text(b), w.text(c), w.text(d)}
	at, known := table[key]
	if !known {
		at = uint64(len(table))
		table[key] = at
		for _, v := range key {
			w.add(column, v)
		}
	}
	return at
}

func (w *writer) valuesOf(values map[string]string) uint64 {
	if len(values) == 0 {
		return 0
	}
	spelt := binary.AppendUvarint(nil, uint64(len(values)))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		spelt = binary.AppendUvarint(binary.AppendUvarint(spelt, w.text(name)), w.text(values[name]))
	}
	at, known := w.values[string(spelt)]
	if !known {
		at = uint64(len(w.values)) + 1
		w.values[string(spelt)] = at
		w.columns[fieldValues] = append(w.columns[fieldValues], spelt...)
	}
	return at
}

func (w *writer) resultOf(e *Entry) uint64 {
	r := result{
		flags: e.flags(), policy: uint64(e.Policy), cost: uint64(e.Cost), hits: uint64(e.Hits),
		reason: w.text(e.Reason), limit: w.text(e.Limit),
	}
	at, known := w.results[r]
	if !known {
		at = uint64(len(w.results))
		w.results[r] = at
		for _, v := range [...]uint64{r.flags, r.policy, r.cost, r.hits, r.reason, r.limit} {
			w.add(fieldResults, v)
		}
	}
	return at
}

func (e *Entry) flags() uint64 {
	flags := uint64(e.Kind) & 3
	for _, f := range [...]struct {
		set  bool
		flag uint64
	}{
		{e.Allowed, flagAllowed}, {e.Degraded, flagDegraded}, {e.Cached, flagCached}, {e.Leased, flagLeased}, {e.Priced, flagPriced},
		{e.Renewed, flagRenewed}, {e.ByUser, flagByUser}, {e.Wait != 0, flagWait}, {e.Ref != 0, flagRef},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}
