package pglocal

import (
	"syscall"

	"github.com/headgate/headgate/internal/child"
)

// fastRoom is the room a memory file system needs for a test binary's cluster.
const fastRoom = 1 << 30

// FastTemp is a folder for clusters that may be thrown away: /dev/shm where it
// has at least 1 GiB to spare, else the temporary folder.
func FastTemp() string {
	var st syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &st) == nil && st.Bavail*uint64(st.Bsize) >= fastRoom {
		return "/dev/shm"
	}
	return child.TempParent()
}
