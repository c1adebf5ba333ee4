package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/headgate/headgate/internal/child"
)

// demoPrefix begins the names of demos' folders.
const demoPrefix = "headgate-demo-"

// demoDir is a demo's folder. Its lock is held for as long as the demo lives,
// so that the next one can tell a dead one's folder from a living one's.
//
//	lock        held by flock
//	logs/       one file a part
//	secrets/    0600: URLs with passwords, keys of sample tenants, signing key
//	postgres/ redis/ console/ gateway-1/ …   what a part keeps
type demoDir struct {
	path string
	lock *os.File
}

func newDemoDir() (*demoDir, error) {
	// 0755, because PostgreSQL may run as somebody else and has to walk through.
	// It gets its name once it is locked: another demo that is just cleaning up
	// must never see it without its lock.
	name := strings.ToLower(rand.Text()[:8])
	path, making := filepath.Join(child.TempParent(), demoPrefix+name), filepath.Join(child.TempParent(), ".headgate-new-"+name)
	if err := os.Mkdir(making, 0o755); err != nil { //nolint:gosec // as said above
		return nil, fmt.Errorf("make the demo's folder: %w", err)
	}
	lock, err := lockFile(filepath.Join(making, "lock"))
	if err != nil {
		return nil, fmt.Errorf("lock the demo's folder: %w", err)
	}
	if err := os.Rename(making, path); err != nil {
		return nil, fmt.Errorf("make the demo's folder: %w", err)
	}
	d := &demoDir{path: path, lock: lock}
	for _, sub := range []string{"logs", "secrets"} {
		if err := os.Mkdir(filepath.Join(path, sub), 0o700); err != nil {
			return nil, fmt.Errorf("make the demo's folder: %w", err)
		}
	}
	return d, nil
}

// lockFile opens and locks a file; it fails at once when somebody holds it.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// cleanStaleDemos ends and removes what demos that died have left. It leaves
// alone what it may not touch: another user's is that user's.
func cleanStaleDemos() {
	dirs, _ := filepath.Glob(filepath.Join(child.TempParent(), demoPrefix+"*"))
	for _, path := range dirs {
		st, err := os.Lstat(path)
		if err != nil || !st.IsDir() || !ownedByUs(st) {
			continue
		}
		if _, err := os.Stat(filepath.Join(path, "lock")); err != nil {
			continue // not a demo's folder, or one that is just being made
		}
		lock, err := lockFile(filepath.Join(path, "lock"))
		if err != nil {
			continue // its demo lives
		}
		d := &demoDir{path: path, lock: lock}
		d.endLeftovers()
		d.remove()
	}
}

func ownedByUs(st os.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}

func (d *demoDir) logs() string              { return filepath.Join(d.path, "logs") }
func (d *demoDir) log(part string) string    { return filepath.Join(d.logs(), part+".log") }
func (d *demoDir) secret(name string) string { return filepath.Join(d.path, "secrets", name) }
func (d *demoDir) sub(name string) string    { return filepath.Join(d.path, name) }

// remove deletes the folder and gives up the lock.
func (d *demoDir) remove() {
	if err := os.RemoveAll(d.path); err != nil {
		fmt.Fprintln(os.Stderr, "headgate: remove the demo's folder:", err)
	}
	_ = d.lock.Close()
}

// removeAllButLogs deletes what else is there after a start that failed. The
// next demo removes the rest.
func (d *demoDir) removeAllButLogs() {
	entries, _ := os.ReadDir(d.path)
	for _, e := range entries {
		if e.Name() != "logs" && e.Name() != "lock" {
			_ = os.RemoveAll(filepath.Join(d.path, e.Name()))
		}
	}
	_ = d.lock.Close()
}

// writeSecret writes a file that only its owner can read and returns its path.
func (d *demoDir) writeSecret(name, content string) (string, error) {
	path := d.secret(name)
	if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}

// lastLine is what a log ends with, or a word that says there is nothing.
func lastLine(log string) string {
	b, err := os.ReadFile(log)
	text := strings.TrimSpace(string(b))
	if err != nil || text == "" {
		return "its log is empty"
	}
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// endLeftovers kills the parts that still run in this folder: a killed demo's
// own where the kernel did not end them, and those that somebody started again
// from the ready file. On systems without /proc there is nothing it can see.
func (d *demoDir) endLeftovers() {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() || !d.isPart(p) {
			continue
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// isPart reports whether a process (its folder in /proc) is a part of this
// demo: one of the programs that a demo runs, working in or on this folder. A
// shell or an editor that looks into it is not.
func (d *demoDir) isPart(proc string) bool {
	exe, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil {
		return false
	}
	name := filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
	if !strings.HasPrefix(name, "headgate") && name != "postgres" && !strings.HasPrefix(name, "redis-") && !strings.HasPrefix(name, "valkey-") {
		return false
	}
	cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
	if err == nil && strings.HasPrefix(cwd, d.path+"/") {
		return true
	}
	cmdline, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	return err == nil && strings.Contains(string(cmdline), d.path+"/")
}
