package child

import (
	"os"
	"path/filepath"
	"time"
)

// WaitIdle waits until no process works in a folder, at most for the given
// time, and reports whether that is so. After a kill of PostgreSQL's first
// process the others go by themselves, a moment later, and a new server cannot
// start before. Where there is no /proc it sees nothing and returns at once.
func WaitIdle(dir string, atMost time.Duration) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for from := time.Now(); workedIn(dir); {
		if time.Since(from) > atMost {
			return false
		}
		<-tick.C
	}
	return true
}

func workedIn(dir string) bool {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, l := range links {
		if at, err := os.Readlink(l); err == nil && at == dir {
			return true
		}
	}
	return false
}
