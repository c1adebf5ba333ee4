package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// shell is a folder in which somebody runs headgate, with a way to the console.
type shell struct {
	t   *testing.T
	d   *Demo
	dir string
}

// ends runs a command of `headgate policy`, which must end with a status and say
// some words, on either output. It returns all that was said.
func (s shell) ends(status int, words []string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(binary, append([]string{"policy"}, args...)...)
	cmd.Dir, cmd.Env = s.dir, []string{"HEADGATE_CONSOLE_URL=" + s.d.Console, "HEADGATE_TOKEN=" + s.d.APIToken}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		s.t.Fatalf("headgate policy %s ends with %d, want %d:\n%s", strings.Join(args, " "), got, status, &said)
	}
	for _, w := range words {
		if !strings.Contains(said.String(), w) {
			s.t.Errorf("headgate policy %s does not say %q:\n%s", strings.Join(args, " "), w, &said)
		}
	}
	return said.String()
}

// edit replaces a text that stands once in a file.
func (s shell) edit(file, from, to string) {
	s.t.Helper()
	path := filepath.Join(s.dir, file)
	b, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if bytes.Count(b, []byte(from)) != 1 {
		s.t.Fatalf("%s does not have %q once:\n%s", file, from, b)
	}
	s.write(file, strings.Replace(string(b), from, to, 1))
}

func (s shell) write(file, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// TestPolicy_G11_FromPullToRollBackInAShell does with files and exit codes what CI
// does: check, compare, test, push, publish and wait, roll back; 3 when a gateway
// does not answer.
func TestPolicy_G11_FromPullToRollBackInAShell(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, exact)
	s := shell{t, d, t.TempDir()}
	s.ends(0, nil, "pull")
	s.ends(0, []string{"no problems"}, "validate", "policy.yaml")
	const had, mistake, less = "rate: 60/minute\n        burst: 60\n", "rate: 60/minute\n        burst: -1\n", "rate: 60/minute\n        burst: 20\n"
	s.edit("policy.yaml", had, mistake)
	s.ends(2, []string{"policy.yaml:", "plans.free.limits[0].burst"}, "validate", "policy.yaml")
	s.edit("policy.yaml", mistake, less)
	s.ends(0, []string{"High risk", "plan free: limit requests, burst: 60 → 20"}, "diff", "policy.yaml")
	s.tests(21)
	s.ends(2, []string{"FAIL", "twenty at once"}, "test")
	s.tests(20)
	s.ends(0, []string{"1 of 1 test passed"}, "test")
	s.ends(0, []string{"/policy/drafts/drf_"}, "push", "--name=by hand")
	s.ends(2, []string{"--confirm cut-half=yes"}, "publish", "--wait")
	s.ends(0, []string{"v2 is stored", "3 of 3 gateways enforce v2"}, "publish", "--wait", "--note=twenty are enough", "--confirm=cut-half=yes")
	heldTo(t, d, 20)

	head := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/policy", nil)
	d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/policy/publish", map[string]any{"document": document(60, 60), "base_version": head["version"], "tests": "", "confirm": map[string]string{"limit-gone": "yes", "route-gone": "yes"}, "note": "by somebody else"})
	s.edit("policy.yaml", less, "rate: 60/minute\n        burst: 30\n")
	s.ends(1, []string{"v3"}, "publish", "--wait") // not over what somebody else published

	stopped := d.Processes.Gateways[2].PID
	signal(t, stopped, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(stopped, syscall.SIGCONT) })
	s.ends(3, []string{"v4 is stored", "2 of 3 gateways enforce v4"}, "rollback", "v1", "--note=back", "--wait", "--timeout=4s")
	signal(t, stopped, syscall.SIGCONT)
	eventually(t, startWithin, "the gateway that was stopped follows", func() error {
		if v := d.version(2); v != "v4" {
			return fmt.Errorf("it answers by %s", v)
		}
		return nil
	})
	if d.digestOf(4) != d.digestOf(1) {
		t.Error("v4 has not the content of v1")
	}
}

// tests writes tests that say how many are admitted at once.
func (s shell) tests(admitted int) {
	s.t.Helper()
	s.write("policy.tests.yaml", fmt.Sprintf(`tests:
  - name: twenty at once
    given: {plan: free}
    steps:
      - {send: %d, request: GET /v1/anything}
      - {request: GET /v1/anything, expect: {refused_by: plan.requests, at: 1}}
`, admitted))
}

func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("%s to %d: %v", sig, pid, err)
	}
}
