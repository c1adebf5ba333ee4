package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/policy"
)

func TestDemoPolicy_HasNoProblemsAndServesTheSampleTenants(t *testing.T) {
	t.Parallel()
	doc, report := policy.Parse([]byte(demoPolicy))
	if len(report.Problems) > 0 || len(report.Warnings) > 0 {
		t.Fatalf("problems %v, warnings %v", report.Problems, report.Warnings)
	}
	for _, tenant := range sampleTenants(true) {
		if _, ok := doc.Plans[tenant.Plan]; !ok {
			t.Errorf("%s is on the plan %q, which the policy lacks", tenant.Name, tenant.Plan)
		}
	}
	free := doc.Plans["free"].Limits
	if len(free) != 1 || free[0].Rate.Tokens != 60 || free[0].Burst != 60 {
		t.Errorf("the README says that free is 60 a minute with a burst of 60: %+v", free)
	}
}

func TestSampleTenants_SomeAreLeftAlone(t *testing.T) {
	t.Parallel()
	quiet := map[string]int{}
	busy := 0
	for _, tenant := range sampleTenants(true) {
		if tenant.Traffic {
			busy++
		} else {
			quiet[tenant.Plan]++
		}
	}
	if quiet["free"] < 1 || quiet["pro"] < 1 || busy != len(habits()) {
		t.Errorf("quiet %v, busy %d for %d habits", quiet, busy, len(habits()))
	}
	for _, tenant := range sampleTenants(false) {
		if tenant.Traffic {
			t.Errorf("%s has traffic where there is none", tenant.Name)
		}
	}
}

func TestTakePorts_TwoDemosNeverShareOne(t *testing.T) {
	t.Parallel()
	a, err := takePorts(0, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer a.release()
	b, err := takePorts(0, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer b.release()
	seen := map[int]bool{}
	for _, p := range append(all(a), all(b)...) {
		if p == 0 || seen[p] {
			t.Errorf("port %d is taken twice", p)
		}
		seen[p] = true
	}
	if len(seen) != 2*(3+3*3) {
		t.Errorf("%d ports", len(seen))
	}
}

func all(p demoPorts) []int {
	ports := []int{p.console, p.upstream, p.redis}
	return append(append(append(ports, p.proxy...), p.decide...), p.admin...)
}

func TestTakePorts_AFixedPortThatIsTakenIsAnError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	if p, err := takePorts(port, 1); err == nil || !strings.Contains(err.Error(), strconv.Itoa(port)) {
		p.release()
		t.Errorf("takePorts(%d) = %v", port, err)
	}
}

func TestCleanStaleDemos_RemovesTheDeadAndLeavesTheLiving(t *testing.T) {
	t.Parallel()
	living, err := newDemoDir()
	if err != nil {
		t.Fatal(err)
	}
	defer living.remove()
	dead, err := newDemoDir()
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.lock.Close() // as the kernel does for a killed demo
	foreign, err := os.MkdirTemp(child.TempParent(), demoPrefix)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(foreign) }()
	if !cleanedAway(dead.path) {
		t.Error("a dead demo's folder is still there")
	}
	for _, path := range []string{living.path, foreign} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("removed what is not a dead demo's: %v", err)
		}
	}
}

// cleanedAway cleans until a folder is gone, at most 20 s. One pass need not do:
// another test's cleaning may be at the folder, and a child of this process that
// is just being started holds its lock until it runs its own program.
func cleanedAway(path string) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		cleanStaleDemos()
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return true
		}
		<-tick.C
	}
	return false
}

func TestNewDemoDir_IsNeverTakenForADeadOnes(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	var cleaning sync.WaitGroup
	cleaning.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				cleanStaleDemos()
			}
		}
	})
	for range 100 {
		d, err := newDemoDir()
		if err != nil {
			t.Error(err)
			break
		}
		if _, err := os.Stat(d.sub("secrets")); err != nil {
			t.Errorf("a living demo's folder was cleaned away: %v", err)
		}
		d.remove()
	}
	close(stop)
	cleaning.Wait()
}

func TestIsPart_IsOurProgramsOnly(t *testing.T) {
	t.Parallel()
	d, err := newDemoDir()
	if err != nil {
		t.Fatal(err)
	}
	defer d.remove()
	// A shell that looks into the folder is nobody's part.
	shell := exec.Command("/bin/sh", "-c", "read x", d.path+"/logs/console.log")
	shell.Dir = d.logs()
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = shell.Wait() }()
	if d.isPart("/proc/" + strconv.Itoa(shell.Process.Pid)) {
		t.Error("a shell that works in the folder is taken for a part")
	}
	if d.isPart("/proc/self") || d.isPart("/proc/nonexistent") {
		t.Error("a process elsewhere is taken for a part")
	}
}

func TestWaitPart_TellsWhatAPartSaidLast(t *testing.T) {
	t.Parallel()
	d := &demo{dir: &demoDir{path: t.TempDir()}}
	if err := os.Mkdir(d.dir.logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ script, want string }{
		"console":   {"echo starting; echo address already in use", "console has ended: address already in use; see "},
		"gateway-1": {":", "gateway-1 has ended: its log is empty; see "},
	} {
		proc, err := child.Start(child.Spec{Argv: []string{"/bin/sh", "-c", c.script}, LogFile: d.dir.log(name)})
		if err != nil {
			t.Fatal(err)
		}
		d.parts = append(d.parts, &part{name: name, proc: proc})
		err = d.waitPart(t.Context(), name, func() error { return errors.New("not yet") })
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want it to begin with %q", err, c.want)
		}
	}
}

func TestReadyFile_IsWholeAndPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ready.json")
	if err := writeReadyFile(path, readyFile{Console: "http://x", GRPC: []string{}}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"console", "gateways", "gateway_admin", "gateway_decide", "grpc", "redis", "postgres", "operator", "api_token", "tenants", "processes"} {
		if _, ok := fields[want]; !ok {
			t.Errorf("no field %q", want)
		}
	}
	if list, ok := fields["grpc"].([]any); !ok || len(list) != 0 {
		t.Errorf("grpc is %v, want an empty list", fields["grpc"])
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: it holds secrets", st.Mode(), err)
	}
	if err := writeReadyFile(filepath.Join(t.TempDir(), "no", "dir"), readyFile{}); err == nil {
		t.Error("a folder that is not there is no error")
	}
}

func TestDescribe_IsEnoughToStartAPartAgain(t *testing.T) {
	t.Parallel()
	d := &demo{self: "/opt/headgate"}
	p, err := child.Start(child.Spec{Argv: []string{"/bin/true", "-D", "x"}, Env: []string{"A=b=c", "D="}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	got := d.describe(p)
	if strings.Join(got.Argv, " ") != "/bin/true -D x" || got.Env["A"] != "b=c" || len(got.Env) != 2 || got.Cwd != "/" || got.PID != p.PID() {
		t.Errorf("described as %+v", got)
	}
	argv := d.postgresArgv(child.Spec{Argv: []string{"/bin/postgres", "-D", "/d/data"}, Dir: "/d", Credential: &syscall.Credential{Uid: 7, Gid: 8}})
	if got, want := strings.Join(argv, " "), "/opt/headgate run-as --uid=7 --gid=8 --idle-dir=/d/data -- /bin/postgres -D /d/data"; got != want {
		t.Errorf("PostgreSQL is started again by %q, want %q", got, want)
	}
}
