package child_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/child"
)

func sh(t *testing.T, script string, change func(*child.Spec)) *child.Process {
	t.Helper()
	s := child.Spec{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
	if change != nil {
		change(&s)
	}
	p, err := child.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestStart_ChildSeesItsOwnEnvironmentAndLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	p := sh(t, `echo "$GIVEN-${HOME:-none}"; pwd; echo err >&2`, func(s *child.Spec) {
		s.Env = append(s.Env, "GIVEN=yes")
		s.Dir, s.LogFile = dir, log
	})
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(b), "yes-none\n"+real+"\nerr\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	if st, err := os.Stat(log); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("log's mode: %v, %v", st.Mode(), err)
	}
}

func TestStart_TellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	if _, err := child.Start(child.Spec{}); err == nil {
		t.Error("no command: no error")
	}
	if _, err := child.Start(child.Spec{Argv: []string{"/nonexistent/binary"}}); err == nil || !strings.Contains(err.Error(), "/nonexistent/binary") {
		t.Errorf("missing binary: %v", err)
	}
	if _, err := child.Start(child.Spec{Argv: []string{"/bin/true"}, LogFile: "/nonexistent/log"}); err == nil || !strings.Contains(err.Error(), "log") {
		t.Errorf("log that cannot be made: %v", err)
	}
}

func TestErr_IsHowTheChildEnded(t *testing.T) {
	t.Parallel()
	p := sh(t, "exit 3", nil)
	var exit *exec.ExitError
	if err := p.Err(); err == nil || !asExit(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("Err() = %v, want exit status 3", err)
	}
}

func asExit(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError) //nolint:errorlint // Wait's own error
	*exit = e
	return ok
}

func TestStart_ChildHasAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	p := sh(t, "exec sleep 60", nil)
	group, err := syscall.Getpgid(p.PID())
	if err != nil || group != p.PID() {
		t.Errorf("group %d of child %d, %v", group, p.PID(), err)
	}
}

func TestStop_LetsTheChildFinish(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ready, done := filepath.Join(dir, "ready"), filepath.Join(dir, "done")
	p := sh(t, `trap 'touch `+done+`; exit 0' TERM; touch `+ready+`; while :; do sleep 0.01; done`, nil)
	waitFor(t, func() bool { _, err := os.Stat(ready); return err == nil })
	if !p.Stop(syscall.SIGTERM, 10*time.Second) {
		t.Error("Stop says the child was killed")
	}
	if _, err := os.Stat(done); err != nil {
		t.Error("the child did not get to finish")
	}
}

func TestStop_KillsTheGroupAfterItsGrace(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	p := sh(t, `trap '' TERM; sleep 60 & echo $! ; wait`, func(s *child.Spec) { s.LogFile = out })
	var grandchild int
	waitFor(t, func() bool {
		b, _ := os.ReadFile(out)
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		grandchild = n
		return err == nil && n > 0
	})
	if p.Stop(syscall.SIGTERM, 50*time.Millisecond) {
		t.Error("Stop says that a child which ignores the signal ended by itself")
	}
	waitFor(t, func() bool { return !running(grandchild) })
}

func TestStop_ReachesASuspendedChild(t *testing.T) {
	t.Parallel()
	p := sh(t, "exec sleep 60", nil)
	p.Signal(syscall.SIGSTOP)
	if !p.Stop(syscall.SIGTERM, 10*time.Second) {
		t.Error("a suspended child did not end by the signal")
	}
}

// running reports whether a process runs; one that has ended and was not waited
// for does not.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 4000 {
		if ok() {
			return
		}
		<-tick.C
	}
	t.Fatal("waited 20 s in vain")
}

// helperEnv makes this test binary a parent that starts a child and hangs.
const helperEnv = "HEADGATE_CHILD_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		p, err := child.Start(child.Spec{Argv: []string{"/bin/sleep", "60"}, DeathSignal: syscall.SIGKILL})
		if err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString(strconv.Itoa(p.PID()) + "\n")
		<-p.Done()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestStart_ChildDiesWithAKilledParent(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), helperEnv+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !running(pid) {
		t.Fatalf("child %q does not run: %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	waitFor(t, func() bool { return !running(pid) })
}
