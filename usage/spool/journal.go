package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// file is what a segment needs of one; *os.File is one.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

// disk makes files; tests make ones that fail.
type disk interface {
	Create(path string) (file, error)
	Remove(path string) error
	// SyncDir makes files last that were made in a folder.
	SyncDir(dir string) error
}

type osDisk struct{}

// Create makes a file that nobody has.
func (osDisk) Create(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

// Remove removes a file.
func (osDisk) Remove(path string) error { return os.Remove(path) }

// SyncDir syncs a folder.
func (osDisk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// segment is one file of a journal.
type segment struct {
	path        string
	f           file
	size        int64
	first, last uint64 // numbers of its frames; last is 0 when it has none
	dirty       bool   // written since it was last synced
	sealed      bool   // of an earlier boot: nothing more is written to it
}

// journal is frames in files. Whoever comes while a write is under way waits for
// the next one and shares it; there is no timer. All fields are guarded by mu, which the
// caller holds at each call.
type journal struct {
	mu      *sync.Mutex
	turn    *sync.Cond // a write of any journal of mu has ended
	disk    disk
	dir     string
	name    string // files are NAME-<number>.log
	most    int64  // bytes of one segment
	head    func(b []byte) []byte
	segs    []*segment // the oldest first; the last is written to
	next    uint64     // number of the next frame
	bytes   int64      // of all segments
	buf     []byte     // frames that nobody writes yet
	spare   []byte
	flight  *flight // of buf
	writing bool
	made    bool   // a segment since the last sync
	skipped uint64 // newest number that was never written, 0: none
	skips   uint64 // how many
}

// flight is one write that several records share.
type flight struct {
	done bool
	err  error
	ends uint64 // number of the last frame
	n    uint64 // frames
	seg  *segment
	base int64 // where in it the write began
}

func newJournal(mu *sync.Mutex, turn *sync.Cond, d disk, dir, name string, most int64, head func([]byte) []byte) *journal {
	return &journal{mu: mu, turn: turn, disk: d, dir: dir, name: name, most: most, head: head, next: 1, flight: &flight{}}
}

// put adds a frame to the next write and returns its number and that write.
func (j *journal) put(payload []byte) (uint64, *flight) {
	n := j.next // its place in the file is flight.base and the length of buf now
	j.next++
	j.buf = appendFrame(j.buf, n, payload)
	j.flight.ends = n
	j.flight.n++
	return n, j.flight
}

// wait returns when a write has ended. It writes itself when nobody does.
func (j *journal) wait(f *flight) error {
	for !f.done {
		if j.writing {
			j.turn.Wait()
			continue
		}
		j.write()
	}
	return f.err
}

// write writes what has been put, without mu while the disk works.
func (j *journal) write() {
	f, buf := j.flight, j.buf
	j.writing, j.flight, j.buf = true, &flight{}, j.spare[:0]
	lead := j.lead(f)
	j.mu.Unlock()
	seg, n, err := j.writeOut(lead, buf)
	j.mu.Lock()
	if seg != nil {
		j.segs = append(j.segs, seg)
		j.bytes += seg.size
		j.made = true
	}
	if err != nil {
		j.skipped, j.skips = f.ends, j.skips+f.n
	} else {
		at := j.segs[len(j.segs)-1]
		f.seg, f.base = at, at.size+n-int64(len(buf))
		at.last, at.dirty = f.ends, true
		at.size += n
		j.bytes += n
		j.skipped, j.skips = 0, 0
	}
	f.done, f.err = true, err
	j.writing, j.spare = false, buf[:0]
	if cap(j.spare) > 1<<20 {
		j.spare = nil
	}
	j.turn.Broadcast()
}

// lead is what has to stand before a write: the beginning of a new segment (nil: none
// is needed), and a word on numbers that were never written.
type lead struct {
	at    *segment // that is written to; nil: one that is new
	first uint64   // of a new segment
	head  []byte
	skip  []byte
}

func (j *journal) lead(f *flight) lead {
	var l lead
	n := len(j.segs)
	if n == 0 || j.segs[n-1].size >= j.most || j.segs[n-1].sealed {
		l.first = f.ends - f.n + 1
		l.head = j.head(nil)
	} else {
		l.at = j.segs[n-1] // never dropped
	}
	if j.skips > 0 {
		l.skip = appendFrame(nil, j.skipped, binary.AppendUvarint([]byte{kindSkip}, j.skips))
	}
	return l
}

// writeOut writes to the last segment, or to one that it makes. Only one caller at a
// time comes here. A write that fails leaves nothing behind, as far as the disk lets us.
func (j *journal) writeOut(l lead, buf []byte) (made *segment, n int64, err error) {
	at := l.at
	if at == nil {
		if made, err = j.begin(l); err != nil {
			return nil, 0, err
		}
		at = made
	}
	if l.skip != nil {
		buf = append(l.skip, buf...)
	}
	if _, err := at.f.WriteAt(buf, at.size); err != nil {
		_ = at.f.Truncate(at.size) // else the next write covers it, or a reader passes over it
		return made, 0, fmt.Errorf("write %s: %w", filepath.Base(at.path), err)
	}
	return made, int64(len(buf)), nil
}

// begin makes a segment. Its head has the number of its first frame, and is none of the
// journal's frames.
func (j *journal) begin(l lead) (*segment, error) {
	path := filepath.Join(j.dir, fmt.Sprintf("%s-%016x.log", j.name, l.first))
	f, err := j.disk.Create(path)
	if err != nil {
		return nil, fmt.Errorf("begin segment: %w", err)
	}
	head := appendFrame(nil, l.first, l.head)
	if _, err := f.WriteAt(head, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("begin segment: %w", err), f.Close(), j.disk.Remove(path))
	}
	return &segment{path: path, f: f, size: int64(len(head)), first: l.first, dirty: true}, nil
}

// sync brings everything that was written onto the disk, without mu meanwhile.
func (j *journal) sync() error {
	var dirty []*segment
	for _, s := range j.segs {
		if s.dirty {
			s.dirty = false
			dirty = append(dirty, s)
		}
	}
	if len(dirty) == 0 {
		return nil
	}
	made := j.made
	j.made = false
	j.mu.Unlock()
	var errs []error
	for _, s := range dirty {
		if err := s.f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // dropped meanwhile
			errs = append(errs, fmt.Errorf("sync %s: %w", filepath.Base(s.path), err))
		}
	}
	if made {
		errs = append(errs, j.disk.SyncDir(j.dir))
	}
	j.mu.Lock()
	return errors.Join(errs...)
}

// dropFront removes the oldest segment.
func (j *journal) dropFront() {
	s := j.segs[0]
	j.segs = j.segs[1:]
	j.bytes -= s.size
	_ = s.f.Close()
	_ = j.disk.Remove(s.path) // one that stays is read again, and found to be covered
}

// finish writes what has been put and waits for its end.
func (j *journal) finish() {
	for j.writing || len(j.buf) > 0 {
		if j.writing {
			j.turn.Wait()
		} else {
			j.write()
		}
	}
}

func (j *journal) close() {
	for _, s := range j.segs {
		_ = s.f.Close()
	}
	j.segs = nil
}
