package testkit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// depsWith runs scripts/deps.sh on a machine that has the given programs and
// nothing else but what the script itself needs. The programs do nothing,
// except id, which says who runs it. It returns what was said on stderr.
func depsWith(t *testing.T, uid string, programs []string, parts ...string) (string, error) {
	t.Helper()
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range []string{"sed", "head", "uname", "dirname", "readlink"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	script := map[string]string{"id": "echo " + uid, "sudo": "exit 1"} // sudo that asks for a password
	for _, name := range append(programs, "id") {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script[name]+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "/bin/sh", append([]string{filepath.Join(root, "scripts", "deps.sh")}, parts...)...)
	c.Env = []string{"PATH=" + bin, "HOME=" + t.TempDir()}
	var said strings.Builder
	c.Stderr = &said
	err = c.Run()
	return said.String(), err
}

func TestDeps_OneCommandForAllThatIsMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		uid      string
		programs []string
		want     string
	}{
		{"sudo with a password", "1000", []string{"apt-get", "sudo"}, "    sudo sh -c 'apt-get update && apt-get install -y redis-server chromium'\n"},
		{"no sudo", "1000", []string{"apt-get"}, "    su -c 'apt-get update && apt-get install -y redis-server chromium'\n"},
		{"Fedora", "1000", []string{"dnf", "sudo"}, "    sudo sh -c 'dnf install -y valkey chromium'\n"},
		{"no package manager that we know", "1000", nil, "redis-server chromium\n"},
		{"the browser is there", "1000", []string{"apt-get", "chromium"}, "    su -c 'apt-get update && apt-get install -y redis-server'\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			said, err := depsWith(t, c.uid, c.programs, "redis", "browser")
			if err == nil || !strings.HasSuffix(said, c.want) {
				t.Errorf("said %q, %v; want it to fail and to end with %q", said, err, c.want)
			}
		})
	}
}

func TestDeps_RootWithoutAnAnswerFromTheArchiveIsToldWhatToRun(t *testing.T) {
	t.Parallel()
	// apt-get does nothing here, so Redis is still missing after it.
	said, err := depsWith(t, "0", []string{"apt-get", "env"}, "redis")
	if want := "\n    apt-get update && apt-get install -y redis-server\n"; err == nil || !strings.HasSuffix(said, want) {
		t.Errorf("said %q, %v; want it to fail and to end with %q", said, err, want)
	}
}

func TestDeps_SaysNothingWhereAllIsThere(t *testing.T) {
	t.Parallel()
	said, err := depsWith(t, "1000", []string{"chromium"}, "browser")
	if err != nil || said != "" {
		t.Errorf("said %q, %v", said, err)
	}
	if said, err := depsWith(t, "1000", nil, "kitchen"); err == nil || !strings.Contains(said, "unknown part: kitchen") {
		t.Errorf("an unknown part: said %q, %v", said, err)
	}
}
