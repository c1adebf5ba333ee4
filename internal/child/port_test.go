package child

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestFreePort_CanBeListenedOn(t *testing.T) {
	t.Parallel()
	const tries = 20 // somebody else on this machine may take the port between the two looks
	for range tries {
		p, err := FreePort()
		if err != nil || p < firstPort || p > lastPort {
			t.Fatalf("FreePort() = %d, %v", p, err)
		}
		if PortFree(p) {
			return
		}
	}
	t.Errorf("none of %d ports that were called free can be listened on", tries)
}

func TestPortFree_SeesAListener(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	if PortFree(port) {
		t.Errorf("port %d is listened on and called free", port)
	}
}

func TestWalkable_NeedsEveryFolderOpen(t *testing.T) {
	t.Parallel()
	root, err := os.MkdirTemp("/tmp", "hgwalk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	inner := filepath.Join(root, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode os.FileMode
		want bool
	}{{0o700, false}, {0o755, true}, {0o711, true}} {
		if err := os.Chmod(root, c.mode); err != nil {
			t.Fatal(err)
		}
		if got := walkable(inner); got != c.want {
			t.Errorf("below a folder of mode %o: %v", c.mode, got)
		}
	}
	if walkable(filepath.Join(root, "absent")) {
		t.Error("an absent folder is walkable")
	}
}

func TestTempParent_IsAFolder(t *testing.T) {
	t.Parallel()
	if st, err := os.Stat(TempParent()); err != nil || !st.IsDir() {
		t.Errorf("%s: %v", TempParent(), err)
	}
}
