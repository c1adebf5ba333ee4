package decisionlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/decisionlog"
)

func encode(t testing.TB, b *decisionlog.Batch) []byte {
	t.Helper()
	body, err := decisionlog.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestCodec_EveryBatchComesBackAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := decisionlog.Batch{
			Replica: rapid.StringN(0, 9, 20).Draw(rt, "replica"), Boot: "b", Seq: rapid.Int64Min(0).Draw(rt, "seq"), From: t0.UnixMicro(),
			Sample: rapid.Uint32Range(0, decisionlog.Whole).Draw(rt, "sample"), Dropped: rapid.Int64Min(0).Draw(rt, "dropped"),
			Unjudged: rapid.Int64Min(0).Draw(rt, "unjudged"), Entries: []decisionlog.Entry{},
		}
		b.To = b.From + 5_000_000
		for range rapid.IntRange(0, 12).Draw(rt, "entries") {
			b.Entries = append(b.Entries, anyEntry(rt))
		}
		body, err := decisionlog.Encode(&b)
		if err != nil {
			rt.Fatal(err)
		}
		back, err := decisionlog.Decode(body)
		if err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(*back, b) {
			rt.Fatalf("came back as\n%+v, was\n%+v", *back, b)
		}
	})
}

func TestCodec_RealTrafficTakesAtMostTwentyBytesAnEntry(t *testing.T) {
	t.Parallel()
	b := traffic(1, 2000)
	body := encode(t, b)
	perEntry := float64(len(body)) / float64(len(b.Entries))
	t.Logf("%.1f bytes an entry", perEntry)
	if perEntry > 20 {
		t.Fatalf("%d bytes for %d entries", len(body), len(b.Entries))
	}
}

//nolint:paralleltest // it counts allocations
func TestReader_ReusesItsEntryAndSharesTexts(t *testing.T) {
	var texts decisionlog.Texts
	b := traffic(1, 500)
	body := encode(t, b)
	if _, err := texts.Open(body); err != nil {
		t.Fatal(err)
	}
	perBatch := testing.AllocsPerRun(20, func() {
		r, err := texts.Open(body)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; r.Next(); i++ {
			if r.Entry().Path != b.Entries[i].Path {
				t.Fatalf("entry %d is %+v", i, *r.Entry())
			}
		}
	})
	if perBatch > 40 {
		t.Fatalf("%.0f allocations for 500 entries whose texts are known", perBatch)
	}
}

func TestEncode_WritesNothingThatNobodyReads(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 9<<10)
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprint(i)] = "v"
	}
	for name, b := range map[string]*decisionlog.Batch{
		"a long path":    {Entries: []decisionlog.Entry{{Kind: 1, Path: long}}},
		"a long value":   {Entries: []decisionlog.Entry{{Kind: 1, Values: map[string]string{"body:x": long}}}},
		"many values":    {Entries: []decisionlog.Entry{{Kind: 1, Values: many}}},
		"many entries":   {Entries: make([]decisionlog.Entry, decisionlog.MaxEntries+1)},
		"too many bytes": {Entries: noise(2000, 8000)},
	} {
		if _, err := decisionlog.Encode(b); !errors.Is(err, decisionlog.ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge", name, err)
		}
	}
}

// noise is entries whose paths cannot be compressed.
func noise(entries, pathBytes int) []decisionlog.Entry {
	out := make([]decisionlog.Entry, entries)
	state := uint64(1)
	for i := range out {
		path := make([]byte, pathBytes)
		for j := range path {
			state = state*6364136223846793005 + 1442695040888963407
			path[j] = byte(state >> 56)
		}
		out[i] = decisionlog.Entry{Kind: decisionlog.KindDecision, Path: string(path)}
	}
	return out
}

// packer and unpacker are made once: they are costly.
var (
	packer   = sync.OnceValues(func() (*zstd.Encoder, error) { return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)) })
	unpacker = sync.OnceValues(func() (*zstd.Decoder, error) { return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)) })
)

func pack(t testing.TB, raw []byte) []byte {
	t.Helper()
	w, err := packer()
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(raw, nil)
}

func unpack(t testing.TB, body []byte) []byte {
	t.Helper()
	r, err := unpacker()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := r.DecodeAll(body, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestDecode_RefusesWhatIsNoBatch(t *testing.T) {
	t.Parallel()
	good := unpack(t, encode(t, traffic(1, 20)))
	for name, body := range map[string][]byte{
		"nothing":              {},
		"no compressed bytes":  []byte("decisions"),
		"an empty message":     pack(t, nil),
		"a cut message":        pack(t, good[:len(good)-1]),
		"more than a message":  pack(t, append(bytes.Clone(good), 0)),
		"too large compressed": bytes.Repeat([]byte{1}, decisionlog.MaxCompressed+1),
		"a bomb":               pack(t, make([]byte, decisionlog.MaxDecoded+1)),
	} {
		if _, err := decisionlog.Decode(body); !errors.Is(err, decisionlog.ErrBatch) {
			t.Errorf("%s: %v, want ErrBatch", name, err)
		}
	}
}

// TestDecode_EveryBrokenByteIsAnErrorOrABatch: no byte that is changed makes it panic,
// or read more entries than a batch may have.
func TestDecode_EveryBrokenByteIsAnErrorOrABatch(t *testing.T) {
	t.Parallel()
	good := unpack(t, encode(t, traffic(1, 12)))
	for at := range good {
		for _, bit := range []byte{1, 0x80, 0xff} {
			bad := bytes.Clone(good)
			bad[at] ^= bit
			b, err := decisionlog.Decode(pack(t, bad))
			if err != nil && !errors.Is(err, decisionlog.ErrBatch) {
				t.Fatalf("byte %d: %v", at, err)
			}
			if err == nil && len(b.Entries) > decisionlog.MaxEntries {
				t.Fatalf("byte %d: %d entries", at, len(b.Entries))
			}
		}
	}
}

// message makes a batch out of its fields by hand; numbers are fields 3 to 9.
func message(t testing.TB, numbers map[protowire.Number]uint64, columns map[protowire.Number][]byte) []byte {
	t.Helper()
	var raw []byte
	for n := protowire.Number(1); n <= 23; n++ {
		if n >= 3 && n <= 9 {
			raw = protowire.AppendVarint(protowire.AppendTag(raw, n, protowire.VarintType), numbers[n])
			continue
		}
		raw = protowire.AppendBytes(protowire.AppendTag(raw, n, protowire.BytesType), columns[n])
	}
	return pack(t, raw)
}

func TestDecode_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	type numbers = map[protowire.Number]uint64
	type columns = map[protowire.Number][]byte
	if _, err := decisionlog.Decode(message(t, numbers{6: 7}, nil)); err != nil {
		t.Fatalf("a batch without entries: %v", err)
	}
	one := func() columns { // one decision with nothing in it
		return columns{
			11: {0, 0, 0, 0}, 12: {0, 0, 0, 0}, 14: {1, 0, 0, 0, 0, 0},
			15: {0}, 16: {2}, 17: {0}, 18: {0}, 19: {0}, 20: {0}, 21: {0},
		}
	}
	if b, err := decisionlog.Decode(message(t, numbers{9: 1}, one())); err != nil || len(b.Entries) != 1 || b.Entries[0].Seq != 1 {
		t.Fatalf("%+v, %v; want one entry", b, err)
	}
	with := func(n protowire.Number, column ...byte) columns {
		c := one()
		c[n] = column
		return c
	}
	for name, bad := range map[string][]byte{
		"a sample of more than all":   message(t, numbers{6: 1<<16 + 1}, nil),
		"more entries than there may": message(t, numbers{9: decisionlog.MaxEntries + 1}, nil),
		"a negative number":           message(t, numbers{3: 1 << 63}, nil),
		"an end before the beginning": message(t, numbers{4: 1<<63 - 1, 5: 1}, nil),
		"entries without columns":     message(t, numbers{9: 1}, nil),
		"a column that is too long":   message(t, numbers{9: 1}, with(17, 0, 0)),
		"a caller that is not there":  message(t, numbers{9: 1}, with(18, 1)),
		"a value that is not there":   message(t, numbers{9: 1}, with(20, 1)),
		"a text that is not there":    message(t, numbers{9: 1}, with(11, 0, 0, 0, 1)),
		"two callers of one entry":    message(t, numbers{9: 1}, with(11, 0, 0, 0, 0, 0, 0, 0, 0)),
		"half a caller":               message(t, numbers{9: 1}, with(11, 0, 0)),
		"an entry of no kind":         message(t, numbers{9: 1}, with(14, 4, 0, 0, 0, 0, 0)),
		"an unknown flag":             message(t, numbers{9: 1}, with(14, 0x81, 16, 0, 0, 0, 0, 0)),
		"an empty text":               message(t, numbers{9: 1}, with(10, 0)),
		"a text that is cut off":      message(t, numbers{9: 1}, with(10, 5, 'a')),
		"a wait that is missing":      message(t, numbers{9: 1}, with(14, 0x81, 4, 0, 0, 0, 0, 0)),
		"values of a name twice":      message(t, numbers{9: 1}, with(13, 2, 0, 0, 0, 0)),
		"no values":                   message(t, numbers{9: 1}, with(13, 0)),
		"more values than there may":  message(t, numbers{9: 1}, with(13, 17)),
		"a wait of nobody":            message(t, numbers{9: 1}, with(22, 1)),
	} {
		if b, err := decisionlog.Decode(bad); !errors.Is(err, decisionlog.ErrBatch) {
			t.Errorf("%s: %+v, %v; want ErrBatch", name, b, err)
		}
	}
}

// TestDecode_ABombOfTextsIsRefused: many tiny texts take more room than they are long.
func TestDecode_ABombOfTextsIsRefused(t *testing.T) {
	t.Parallel()
	texts := bytes.Repeat([]byte{1, 'a'}, 1<<20)
	bomb := message(t, map[protowire.Number]uint64{9: 10}, map[protowire.Number][]byte{10: texts})
	if len(bomb) > decisionlog.MaxCompressed {
		t.Fatal("it is no bomb")
	}
	if _, err := decisionlog.Decode(bomb); !errors.Is(err, decisionlog.ErrBatch) {
		t.Fatalf("%v, want ErrBatch", err)
	}
}

// FuzzDecode leaves the compression out: it is others' and would be most of the work.
func FuzzDecode(f *testing.F) {
	f.Add(decisionlog.Message(traffic(1, 3)))
	b := traffic(2, 2)
	b.Entries[0].Values, b.Entries[1].Ref = map[string]string{"body:username": "x", "header:X-Client": decisionlog.Unreadable}, 7
	f.Add(decisionlog.Message(b))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := decisionlog.DecodeMessage(raw)
		switch {
		case err != nil && !errors.Is(err, decisionlog.ErrBatch):
			t.Fatal(err)
		case err != nil:
			return
		}
		back, err := decisionlog.DecodeMessage(decisionlog.Message(b))
		if err != nil || !reflect.DeepEqual(back, b) {
			t.Fatalf("%+v came back as %+v, %v", b, back, err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	batch := traffic(1, 2000)
	b.ReportAllocs()
	for b.Loop() {
		encode(b, batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/entry")
}

func BenchmarkReader(b *testing.B) {
	var texts decisionlog.Texts
	body := encode(b, traffic(1, 2000))
	b.ReportAllocs()
	for b.Loop() {
		r, err := texts.Open(body)
		if err != nil {
			b.Fatal(err)
		}
		for r.Next() {
			continue
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/entry")
}
