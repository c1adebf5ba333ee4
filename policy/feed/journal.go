package feed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"sync"

	"github.com/headgate/headgate/policy"
)

// errCorrupt means that a file of the directory cache is not to be used.
var errCorrupt = errors.New("corrupt directory file")

// maxPending bounds what waits for a slow disk. Beyond it the file is written
// anew from the cache instead.
const maxPending = 4 << 20

// line is one line of the directory file, in JSON behind its CRC-32. Just one
// of the fields is set.
type line struct {
	Head *fileHead `json:"head,omitempty"` // the first line
	Put  []byte    `json:"put,omitempty"`  // a signed record, as in Redis
	Drop *dropLine `json:"drop,omitempty"`
}

type fileHead struct {
	Deployment string       `json:"deployment"`
	Place      policy.Place `json:"place"`
}

type dropLine struct {
	Kind policy.RecordKind `json:"kind"`
	ID   string            `json:"id"`
	Seq  int64             `json:"seq"` // of the change
}

// journal collects what happens to the cache until it is written. Without a
// file it collects nothing. It is safe for concurrent use and never waits.
type journal struct {
	on    bool
	wake  chan struct{} // holds one
	mu    sync.Mutex
	lines bytes.Buffer
	count int           // lines in the buffer
	anew  bool          // what is in the buffer is not all: write the file anew
	place *policy.Place // of a reset that is to be written
}

func newJournal(on bool) *journal { return &journal{on: on, wake: make(chan struct{}, 1)} }

func (j *journal) put(r policy.SignedRecord) {
	if j.on {
		j.add(line{Put: r.Encode()})
	}
}

func (j *journal) drop(id recordID, seq int64) {
	if j.on {
		j.add(line{Drop: &dropLine{Kind: id.kind, ID: id.id, Seq: seq}})
	}
}

// reset says that the cache is empty and stands at a place.
func (j *journal) reset(place policy.Place) {
	if !j.on {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines.Reset()
	j.count, j.anew, j.place = 0, true, &place
	j.signal()
}

func (j *journal) add(l line) {
	raw, err := encodeLine(l)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil || j.lines.Len()+len(raw) > maxPending {
		j.lines.Reset()
		j.count, j.anew = 0, true
	} else if !j.anew {
		j.lines.Write(raw)
		j.count++
	}
	j.signal()
}

func (j *journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// pending takes out what waits to be written. With anew there are no lines.
func (j *journal) pending() (lines []byte, count int, anew bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.anew {
		return nil, 0, true
	}
	lines, count = bytes.Clone(j.lines.Bytes()), j.count
	j.lines.Reset()
	j.count = 0
	return lines, count, false
}

// take empties the journal: its cache is being written whole. It returns the
// place of a reset since the last time, or nil.
func (j *journal) take() *policy.Place {
	j.mu.Lock()
	defer j.mu.Unlock()
	place := j.place
	j.lines.Reset()
	j.count, j.anew, j.place = 0, false, nil
	return place
}

// encodeLine is 8 hex digits of CRC-32, a space, JSON and a line feed.
func encodeLine(l line) ([]byte, error) {
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode directory line: %w", err)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(raw), raw), nil
}

// decodeLine reads a line without its line feed.
func decodeLine(b []byte) (line, error) {
	var l line
	if len(b) < 9 || b[8] != ' ' {
		return l, fmt.Errorf("no checksum: %w", errCorrupt)
	}
	sum, err := strconv.ParseUint(string(b[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.ChecksumIEEE(b[9:]) {
		return l, fmt.Errorf("checksum: %w", errCorrupt)
	}
	if l.Put = plainPut(b[9:]); l.Put != nil {
		return l, nil
	}
	if err := json.Unmarshal(b[9:], &l); err != nil {
		return l, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return l, nil
}

// plainPut reads the one line that a file has a hundred thousand of, as
// encodeLine writes it, without a JSON parser: a gateway that starts waits for
// all of them. It is nil for any other text, which the parser then judges.
func plainPut(b []byte) []byte {
	text, isPut := bytes.CutPrefix(b, []byte(`{"put":"`))
	text, whole := bytes.CutSuffix(text, []byte(`"}`))
	if !isPut || !whole || len(text) == 0 || bytes.ContainsAny(text, "\r\n") { // which the decoder passes over
		return nil
	}
	out, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	if err != nil {
		return nil
	}
	return out
}

// directoryFile is what a directory file says.
type directoryFile struct {
	head    fileHead
	records []policy.SignedRecord // in the order they were put
	lines   int
}

// decodeDirectory reads a directory file. A last line without its line feed was
// being written when the machine went down and is passed over; anything else
// that is wrong spoils the file, for a line that is missed might be the one
// that revoked a key.
//
// Size is how much is expected, 0 when that is not known.
func decodeDirectory(r io.Reader, size int64) (directoryFile, error) {
	var whole bytes.Buffer
	whole.Grow(int(min(max(size, 0), maxDirectoryFile)) + bytes.MinRead) // in one piece: it has some tens of megabytes
	if _, err := whole.ReadFrom(io.LimitReader(r, maxDirectoryFile+1)); err != nil {
		return directoryFile{}, fmt.Errorf("read directory file: %w", err)
	}
	raw := whole.Bytes()
	if len(raw) > maxDirectoryFile {
		return directoryFile{}, fmt.Errorf("over %d bytes: %w", maxDirectoryFile, errCorrupt)
	}
	var f directoryFile
	b := newFileBuilder(len(raw) / plainLine)
	for len(raw) > 0 {
		text, rest, whole := bytes.Cut(raw, []byte{'\n'})
		if !whole {
			break
		}
		raw = rest
		f.lines++
		l, err := decodeLine(text)
		if err == nil {
			err = b.take(&f, l)
		}
		if err != nil {
			return directoryFile{}, fmt.Errorf("line %d: %w", f.lines, err)
		}
	}
	if f.lines == 0 {
		return directoryFile{}, fmt.Errorf("no whole line: %w", errCorrupt)
	}
	f.records = b.kept()
	return f, nil
}

// fileBuilder replays the lines.
type fileBuilder struct {
	records []*policy.SignedRecord // nil: dropped
	at      map[recordID]int
}

// plainLine is less than a line with a record has, in bytes.
const plainLine = 256

func newFileBuilder(lines int) *fileBuilder {
	return &fileBuilder{records: make([]*policy.SignedRecord, 0, lines), at: make(map[recordID]int, lines)}
}

func (b *fileBuilder) take(f *directoryFile, l line) error {
	switch {
	case (f.lines == 1) != (l.Head != nil):
		return fmt.Errorf("the head stands on the first line and nowhere else: %w", errCorrupt)
	case l.Head != nil:
		f.head = *l.Head
	case l.Put != nil:
		r, err := policy.DecodeRecord(l.Put)
		if err != nil {
			return err
		}
		b.remove(recordID{r.Kind, r.ID})
		b.at[recordID{r.Kind, r.ID}] = len(b.records)
		b.records = append(b.records, &r)
	case l.Drop != nil:
		b.remove(recordID{l.Drop.Kind, l.Drop.ID})
		f.head.Place.Seq = max(f.head.Place.Seq, l.Drop.Seq)
	default:
		return fmt.Errorf("an empty line: %w", errCorrupt)
	}
	return nil
}

func (b *fileBuilder) remove(id recordID) {
	if i, held := b.at[id]; held {
		b.records[i] = nil
		delete(b.at, id)
	}
}

func (b *fileBuilder) kept() []policy.SignedRecord {
	out := make([]policy.SignedRecord, 0, len(b.at))
	for _, r := range b.records {
		if r != nil {
			out = append(out, *r)
		}
	}
	return out
}
