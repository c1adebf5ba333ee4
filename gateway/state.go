package gateway

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Identity names a replica: ID stays with the state folder, Boot is new at each start.
type Identity struct {
	ID   string // gw_ and 16 lower-case base32 characters
	Boot string // 26 characters
}

// State is a replica's state folder, held for this process alone.
type State struct {
	Dir      string
	Identity Identity
	lock     *os.File
}

// ErrStateInUse means that another process holds the state folder.
var ErrStateInUse = errors.New("another gateway is using this state folder")

const replicaFile = "replica.json"

// How long and how often a folder in use is tried again: the kernel lets go of
// the lock of a process that was killed a moment after its death, and who starts
// the next one does not wait for that.
const (
	lockPatience = 2 * time.Second
	lockAgain    = 20 * time.Millisecond
)

// OpenState opens the folder, making it (0700) when it is not there, locks it and
// reads or makes the replica's id. A folder that is in use is waited for, for 2 s.
// Close gives it back.
func OpenState(dir string) (*State, error) { return openState(dir, lockPatience) }

func openState(dir string, patience time.Duration) (*State, error) {
	if dir == "" {
		return nil, errors.New("--state-dir: is needed")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--state-dir: make folder: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder; MkdirAll leaves an existing one as it is
		return nil, fmt.Errorf("--state-dir: restrict folder to its owner: %w", err)
	}
	lock, err := lockWithin(filepath.Join(dir, "lock"), patience)
	if err != nil {
		return nil, fmt.Errorf("--state-dir %s: %w", dir, err)
	}
	id, err := replicaID(filepath.Join(dir, replicaFile))
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	return &State{Dir: dir, Identity: Identity{ID: id, Boot: rand.Text()}, lock: lock}, nil
}

// Close releases the lock.
func (s *State) Close() error { return s.lock.Close() }

// lockWithin tries to take the lock until patience is over.
func lockWithin(path string, patience time.Duration) (*os.File, error) {
	for end := time.Now().Add(patience); ; <-time.After(lockAgain) {
		f, err := lockFile(path)
		if !errors.Is(err, ErrStateInUse) || time.Now().After(end) {
			return f, err
		}
	}
}

// lockFile takes a lock that ends with the process, however that ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrStateInUse
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	return f, nil
}

// replicaID reads the id, or makes one at the first start. A file that cannot be
// read is an error and not a new id: two ids would be one replica counted twice.
func replicaID(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return newReplicaID(path)
	}
	if err != nil {
		return "", fmt.Errorf("read replica id: %w", err)
	}
	var file struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return "", fmt.Errorf("read %s: %w (delete it to become a new replica)", path, err)
	}
	if !regexp.MustCompile(`^gw_[a-z2-7]{16}$`).MatchString(file.ID) {
		return "", fmt.Errorf("read %s: %q is no replica id (delete it to become a new replica)", path, file.ID)
	}
	return file.ID, nil
}

func newReplicaID(path string) (string, error) {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails
	id := "gw_" + strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))
	return id, writeFile(path, fmt.Appendf(nil, "{\"id\":%q}\n", id), 0o600)
}

// writeFile writes a file so that it is there whole or not at all.
func writeFile(path string, content []byte, mode os.FileMode) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
