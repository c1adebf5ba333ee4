package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	policyFile = "policy.json"
	markFile   = "policy-mark.json"
	// maxPolicyFile is a body in base64 and some room.
	maxPolicyFile = 12 << 20
)

// mark is the highest version that was ever in force here.
type mark struct {
	Version int64  `json:"version"`
	Digest  string `json:"digest"`
}

// policyCopy is the last good version as it lies on disk.
type policyCopy struct {
	Version   int64     `json:"version"`
	Digest    string    `json:"digest"`
	Parent    string    `json:"parent"`
	Signer    string    `json:"signer"`
	Signature []byte    `json:"signature"`
	Issued    time.Time `json:"issued"`
	Since     time.Time `json:"since"`
	Body      []byte    `json:"body"`
	Trial     bool      `json:"trial,omitempty"` // taken as a canary, and not promoted since
}

func copyOf(p policy.SignedPolicy, since time.Time) policyCopy {
	return policyCopy{
		Version: p.Version, Digest: p.Digest, Parent: p.Parent, Signer: p.Signer, Signature: p.Signature,
		Issued: p.Issued, Since: since, Body: p.Body, Trial: p.Trial,
	}
}

func (c policyCopy) signed() policy.SignedPolicy {
	return policy.SignedPolicy{
		Version: c.Version, Digest: c.Digest, Parent: c.Parent, Body: c.Body, Signer: c.Signer, Signature: c.Signature, Issued: c.Issued,
		Trial: c.Trial,
	}
}

// policyDisk keeps the copy and the mark in two files, so that a copy that is
// torn does not take the mark with it.
type policyDisk struct {
	dir   string // "" keeps nothing
	mu    sync.Mutex
	saved int64
}

func newPolicyDisk(dir string) *policyDisk { return &policyDisk{dir: dir} }

// save writes the copy, then the mark. A save that comes late, after a newer
// one, does nothing.
func (d *policyDisk) save(c policyCopy) error {
	if d.dir == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Version < d.saved {
		return nil
	}
	if err := d.saveBoth(c); err != nil {
		return fmt.Errorf("save version %d: %w", c.Version, err)
	}
	d.saved = c.Version
	return nil
}

func (d *policyDisk) saveBoth(c policyCopy) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(d.dir, policyFile), raw); err != nil {
		return err
	}
	m, err := json.Marshal(mark{Version: c.Version, Digest: c.Digest})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(d.dir, markFile), m)
}

type diskState struct {
	copy *policyCopy // nil when there is none
	mark mark
}

// load reads both files. It returns what it could read also with an error.
func (d *policyDisk) load() (diskState, error) {
	var s diskState
	if d.dir == "" {
		return s, nil
	}
	markErr := readJSON(filepath.Join(d.dir, markFile), 4096, &s.mark)
	if s.mark.Version < 0 || s.mark.Version > maxVersion {
		s.mark = mark{}
	}
	var c policyCopy
	copyErr := readJSON(filepath.Join(d.dir, policyFile), maxPolicyFile, &c)
	if copyErr == nil && c.Version != 0 {
		s.copy = &c
	}
	return s, errors.Join(markErr, copyErr)
}

// readJSON leaves v alone when there is no such file.
func readJSON(path string, most int64, v any) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open state: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	if int64(len(raw)) > most {
		return fmt.Errorf("read %s: over %d bytes", filepath.Base(path), most)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}

// writeFile replaces a file so that at any moment, power cuts included, either
// the old or the new content is there, whole.
func writeFile(path string, content []byte) error {
	return replaceFile(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

func replaceFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("create temporary file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("rename to %s: %w", filepath.Base(path), err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open state folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync state folder: %w", err)
	}
	return nil
}
