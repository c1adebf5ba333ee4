package feed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	directoryName = "directory.log"
	// maxDirectoryFile is far above what 100 000 records and their doubles take.
	maxDirectoryFile = 512 << 20
	// writeGather is how long records are gathered before they are written. What was
	// dropped is written at once.
	writeGather = 20 * time.Millisecond
	// dropWait bounds how long a place waits for the file to hold what was dropped
	// before it.
	dropWait = 500 * time.Millisecond
	// contactEvery is how often the time of the last contact is noted.
	contactEvery = 2 * time.Second
	// slack is how many lines beyond twice the records the file may have.
	slack = 1000
)

// journalFile keeps the cache on disk: the records as they were signed (they
// hold digests and no secret), then what happened since. The file's
// modification time is the last moment at which Redis confirmed the cache.
type journalFile struct {
	path string
	d    *Directory
	busy chan struct{} // holds one while somebody writes, who owns the rest

	f     *os.File // nil: to be written anew
	lines int
}

func newJournalFile(path string, d *Directory) *journalFile {
	return &journalFile{path: path, d: d, busy: make(chan struct{}, 1)}
}

// run writes until ctx ends, and then once more.
func (j *journalFile) run(ctx context.Context) {
	tick := time.NewTicker(contactEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			j.step(ctx)
			j.close(ctx)
			return
		case <-tick.C:
		case <-j.d.cache.journal.wake:
			gather := time.NewTimer(writeGather)
			select {
			case <-ctx.Done():
				gather.Stop()
			case <-gather.C:
			}
		}
		j.step(ctx)
	}
}

// step writes what waits.
func (j *journalFile) step(ctx context.Context) {
	j.busy <- struct{}{}
	defer func() { <-j.busy }()
	err := j.write()
	if err == nil {
		err = j.noteContact()
	}
	j.note(ctx, err)
}

// dropped writes what was dropped, so that a kill brings no revoked key back to a
// replica that then starts without Redis. A file that takes too long is waited for
// no longer: it is written all the same.
func (j *journalFile) dropped(ctx context.Context) {
	wait := time.NewTimer(dropWait)
	defer wait.Stop()
	select {
	case j.busy <- struct{}{}:
	case <-wait.C:
		return
	}
	defer func() { <-j.busy }()
	j.note(ctx, j.write())
}

// note keeps what is wrong with the file, which is written anew then.
func (j *journalFile) note(ctx context.Context, err error) {
	j.d.noteDisk(ctx, err)
	if err != nil && j.f != nil {
		j.d.cfg.Log.DebugContext(ctx, "close directory file", "error", j.f.Close())
		j.f = nil
	}
}

func (j *journalFile) write() error {
	lines, count, anew := j.d.cache.journal.pending()
	records, _ := j.d.cache.sizes()
	if anew || j.f == nil || j.lines+count > 2*records+slack {
		return j.rewrite()
	}
	if count == 0 {
		return nil
	}
	j.lines += count
	if _, err := j.f.Write(lines); err != nil {
		return fmt.Errorf("append to directory file: %w", err)
	}
	return nil
}

// rewrite writes the whole cache to a new file.
func (j *journalFile) rewrite() error {
	if j.f != nil {
		if err := j.f.Close(); err != nil {
			return fmt.Errorf("close directory file: %w", err)
		}
		j.f = nil
	}
	// The place first: a change that comes between is then followed twice. After
	// a reset the cache is ahead of the place for a moment.
	place := j.d.Place()
	records, reset := j.d.cache.all()
	if reset != nil && reset.Epoch != place.Epoch {
		place = *reset
	}
	err := replaceFile(j.path, func(w io.Writer) error {
		return writeDirectory(w, fileHead{Deployment: j.d.cfg.Deployment, Place: place}, records)
	})
	if err != nil {
		return err
	}
	if j.f, err = os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("open directory file: %w", err)
	}
	j.lines = len(records) + 1
	return nil
}

func writeDirectory(w io.Writer, head fileHead, records []policy.SignedRecord) error {
	b := bufio.NewWriterSize(w, 64<<10)
	raw, err := encodeLine(line{Head: &head})
	if err != nil {
		return err
	}
	if _, err := b.Write(raw); err != nil {
		return err
	}
	for _, r := range records {
		if raw, err = encodeLine(line{Put: r.Encode()}); err != nil {
			return err
		}
		if _, err := b.Write(raw); err != nil {
			return err
		}
	}
	return b.Flush()
}

func (j *journalFile) noteContact() error {
	at := j.d.lastContact()
	if at.IsZero() {
		at = time.Unix(0, 0) // never confirmed: not to be believed after a restart
	}
	if err := os.Chtimes(j.path, at, at); err != nil {
		return fmt.Errorf("note contact: %w", err)
	}
	return nil
}

func (j *journalFile) close(ctx context.Context) {
	if j.f == nil {
		return
	}
	err := errors.Join(j.f.Sync(), j.noteContact(), j.f.Close())
	j.d.noteDisk(ctx, err)
	j.f = nil
}

// loadDirectory reads the file of a state folder and the time of its last
// contact. It returns a zero file when there is none.
func loadDirectory(path string) (f directoryFile, contact time.Time, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return directoryFile{}, time.Time{}, nil
	}
	if err != nil {
		return directoryFile{}, time.Time{}, fmt.Errorf("open directory file: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil {
		return directoryFile{}, time.Time{}, fmt.Errorf("look at directory file: %w", err)
	}
	f, err = decodeDirectory(file, info.Size())
	return f, info.ModTime(), err
}

func directoryPath(stateDir string) string { return filepath.Join(stateDir, directoryName) }
