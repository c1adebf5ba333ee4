package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/internal/child"
)

// ModuleRoot is the folder that holds go.mod, at or above the working directory
// (which is the package's folder in a test).
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod at or above the working directory")
		}
		dir = up
	}
}

// tempDir is like t.TempDir with a short name, and forgiving at the end: a
// server that was just killed may still be writing.
func tempDir(t testing.TB, prefix string) string {
	t.Helper()
	dir, err := os.MkdirTemp(child.TempParent(), prefix)
	if err != nil {
		t.Fatalf("testkit: make folder: %v", err)
	}
	t.Cleanup(func() {
		for range 50 { // each time less is left to write into
			if os.RemoveAll(dir) == nil {
				return
			}
		}
	})
	return dir
}
