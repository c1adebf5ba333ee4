package gateway

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestState_IDStaysAndBootIsNew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deep", "state")
	first, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if first.Identity.ID != second.Identity.ID || first.Identity.Boot == second.Identity.Boot {
		t.Errorf("first %+v, then %+v", first.Identity, second.Identity)
	}
	if !regexp.MustCompile(`^gw_[a-z2-7]{16}$`).MatchString(first.Identity.ID) || len(first.Identity.Boot) != 26 {
		t.Errorf("identity %+v", first.Identity)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v", info.Mode(), err)
	}
}

func TestState_SecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := openState(dir, 0); !errors.Is(err, ErrStateInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second opening: %v", err)
	}
}

func TestState_DamagedIDIsAnErrorAndNotANewReplica(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{", `{"id":"other"}`, `{"id":"gw_TOOSHORT"}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, replicaFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenState(dir); err == nil || !strings.Contains(err.Error(), replicaFile) {
			t.Errorf("%q: %v", content, err)
		}
		if err := os.Remove(filepath.Join(dir, replicaFile)); err != nil {
			t.Fatal(err)
		}
		state, err := OpenState(dir) // the failed opening has let go of the folder
		if err != nil {
			t.Fatal(err)
		}
		_ = state.Close()
	}
}

func TestState_FolderIsNeeded(t *testing.T) {
	t.Parallel()
	if _, err := OpenState(""); err == nil {
		t.Error("no folder is accepted")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenState(file); err == nil {
		t.Error("a file is accepted as folder")
	}
}

// A replica that is started again right after a kill finds the lock held for a
// moment more.
func TestState_WaitsForTheDeadOnesLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dying, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { _ = dying.Close() })
	next, err := openState(dir, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	if next.Identity.ID != dying.Identity.ID {
		t.Errorf("the folder's replica is %s, and was %s", next.Identity.ID, dying.Identity.ID)
	}
}
