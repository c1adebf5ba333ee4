package child

import (
	"os"
	"path/filepath"
)

// TempParent is a folder for temporary data that other users can walk into:
// PostgreSQL refuses to run as root and runs as somebody else then. It is
// $TMPDIR, or /tmp when $TMPDIR lies where only root can go.
func TempParent() string {
	dir := os.TempDir()
	if os.Geteuid() != 0 || walkable(dir) {
		return dir
	}
	return "/tmp"
}

// walkable reports whether everybody may enter dir and all folders above it.
func walkable(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	for {
		st, err := os.Stat(dir)
		if err != nil || !st.IsDir() || st.Mode().Perm()&0o001 == 0 {
			return false
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}
