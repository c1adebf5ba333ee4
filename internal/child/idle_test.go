package child_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/child"
)

func TestWaitIdle_ReturnsWhenTheLastProcessLeaves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := sh(t, "exec sleep 60", func(s *child.Spec) { s.Dir = dir })
	if child.WaitIdle(dir, 30*time.Millisecond) {
		t.Error("a folder that a process works in is called idle")
	}
	go func() { p.Signal(syscall.SIGKILL) }()
	if !child.WaitIdle(dir, 20*time.Second) {
		t.Error("not idle after the process has ended")
	}
	if !child.WaitIdle(filepath.Join(dir, "absent"), time.Second) {
		t.Error("an absent folder is not idle")
	}
}
