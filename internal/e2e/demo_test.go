package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// remains lists what is left of a demo: its folder and the processes in it.
func remains(d *Demo) error {
	var errs []error
	if _, err := os.Stat(d.Dir); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("folder %s: %w", d.Dir, err))
	}
	return errors.Join(append(errs, stillRunning(d))...)
}

func stillRunning(d *Demo) error {
	var errs []error
	for _, p := range allProcesses(d) {
		errs = append(errs, gone(p.PID))
	}
	return errors.Join(errs...)
}

func allProcesses(d *Demo) []*Process {
	all := []*Process{d.Processes.Console, d.Processes.Redis, d.Processes.Postgres}
	all = append(all, d.Processes.Gateways...)
	if d.Processes.Traffic != nil {
		all = append(all, d.Processes.Traffic)
	}
	return all
}

func TestDemo_ReadyFileDescribesEverything(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=2", "--traffic")
	if len(d.Gateways) != 2 || len(d.GatewayAdmin) != 2 || len(d.GatewayDecide) != 2 || len(d.GRPC) != 2 {
		t.Errorf("gateways %v, admin %v, decide %v, grpc %v", d.Gateways, d.GatewayAdmin, d.GatewayDecide, d.GRPC)
	}
	if d.Operator["email"] == "" || d.Operator["password"] == "" || !strings.HasPrefix(d.APIToken, "hg_ops_") {
		t.Error("no operator or no API token")
	}
	plans := map[string]int{}
	for _, tenant := range d.Tenants {
		if tenant.ID == "" || tenant.Name == "" || !strings.HasPrefix(tenant.Key, "hg_live_") {
			t.Errorf("tenant %q is not whole", tenant.Name)
		}
		if !tenant.Traffic {
			plans[tenant.Plan]++
		}
	}
	if plans["free"] < 1 || plans["pro"] < 1 {
		t.Errorf("tenants that the traffic leaves alone: %v", plans)
	}
	seen := map[int]bool{}
	for _, p := range allProcesses(d) {
		if err := syscall.Kill(p.PID, 0); err != nil || seen[p.PID] {
			t.Errorf("%v: no process of its own: %v", p.Argv, err)
		}
		seen[p.PID] = true
		if group, err := syscall.Getpgid(p.PID); err != nil || group != p.PID {
			t.Errorf("%v is not in a group of its own: %d, %v", p.Argv, group, err)
		}
		if !filepath.IsAbs(p.Argv[0]) || p.Env["PATH"] == "" {
			t.Errorf("argv %v, env %v", p.Argv, p.Env)
		}
		for _, a := range p.Argv {
			if strings.Contains(a, d.Operator["password"]) || strings.Contains(a, d.APIToken) || strings.Contains(a, "redis://:") {
				t.Error("a secret stands in an argv, for everybody to see")
			}
		}
	}
	stores(t, d)
	console(t, d)
	moves(t, d)
}

// stores holds that the URLs of both stores work.
func stores(t *testing.T, d *Demo) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	var n int
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM tenants").Scan(&n); err != nil || n != len(d.Tenants) {
		t.Errorf("%d tenants in the database, %v, want %d", n, err, len(d.Tenants))
	}
	if v, err := d.RedisClient().HGet(t.Context(), "hg:{policy}:head", "version").Result(); err != nil || v != "1" {
		t.Errorf("version in Redis: %q, %v", v, err)
	}
}

// console holds that the operator can sign in with what the ready file says.
func console(t *testing.T, d *Demo) {
	t.Helper()
	if a := d.Do(http.MethodGet, d.Console+"/signin", "", nil); a.Status != http.StatusOK {
		t.Errorf("sign-in page: status %d", a.Status)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.PostForm(d.Console+"/signin", url.Values{"email": {d.Operator["email"]}, "password": {d.Operator["password"]}})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) == 0 {
		t.Errorf("sign-in: status %d, %d cookies", res.StatusCode, len(res.Cookies()))
	}
	got := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/gateways", nil)
	if list, _ := got["items"].([]any); len(list) != len(d.Gateways) {
		t.Errorf("the console knows %d gateways: %v", len(list), got)
	}
	if out := d.printed(); !strings.Contains(out, d.Console) || !strings.Contains(out, d.Operator["email"]) ||
		!strings.Contains(out, d.Operator["password"]) || !strings.Contains(out, "ssh -L ") {
		t.Errorf("printed:\n%s", out)
	}
}

// moves holds that the traffic reaches the gateways.
func moves(t *testing.T, d *Demo) {
	t.Helper()
	eventually(t, 20*time.Second, "decisions are counted", func() error {
		a := d.Do(http.MethodGet, d.GatewayAdmin[0]+"/metrics", "", nil)
		for line := range strings.Lines(string(a.Body)) {
			if strings.HasPrefix(line, "headgate_decisions_total{") && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				return nil
			}
		}
		return errors.New("no decisions in the metrics")
	})
}

func TestDemo_StopLeavesNothing(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=1", exact)
	d.Kill(d.Processes.Gateways[0])
	d.Restart(d.Processes.Gateways[0]) // a part that somebody started again goes, too
	d.WaitGateway(0)
	d.Stop()
	if err := remains(d); err != nil {
		t.Error(err)
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

func TestDemo_GoesOnWithoutAPartThatWasKilled(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=2", exact)
	d.Kill(d.Processes.Gateways[0])
	tenant := quiet(t, d, "free")
	if a := d.Hit(1, tenant.Key, "/v1/items"); a.Status != http.StatusOK {
		t.Errorf("the other gateway: status %d", a.Status)
	}
	eventually(t, 10*time.Second, "the demo says so", func() error {
		if out := d.printed(); !strings.Contains(out, "gateway-1 (pid") {
			return fmt.Errorf("printed %q", out)
		}
		return nil
	})
	select {
	case <-d.ended:
		t.Error("the demo ended with one of its parts")
	default:
	}
	if d.Hit(0, tenant.Key, "/v1/items").Status != 0 {
		t.Error("the demo started the killed part again by itself")
	}
}

func TestDemo_KilledDemoDoesNotHinderTheNext(t *testing.T) {
	t.Parallel()
	first := StartDemo(t, "--gateways=1", exact)
	first.KillDemo()
	eventually(t, 20*time.Second, "the parts have died with the demo", func() error { return stillRunning(first) })
	second := StartDemo(t, "--gateways=1", exact)
	if err := remains(first); err != nil {
		t.Errorf("the next demo left something of the killed one: %v", err)
	}
	if a := second.Hit(0, quiet(t, second, "free").Key, "/v1/items"); a.Status != http.StatusOK {
		t.Errorf("the next demo: status %d", a.Status)
	}
}

func TestDemo_TwoRunBesideEachOther(t *testing.T) {
	t.Parallel()
	a, b := StartDemo(t, "--gateways=1", exact), StartDemo(t, "--gateways=1")
	if a.Console == b.Console || slices.Equal(a.Gateways, b.Gateways) || a.Redis == b.Redis || a.Dir == b.Dir {
		t.Fatalf("shared: %s %s %v %v", a.Console, b.Console, a.Gateways, b.Gateways)
	}
	if got := a.Hit(0, quiet(t, b, "free").Key, "/v1/items"); got.Status != http.StatusUnauthorized {
		t.Errorf("a key of one demo at the other: status %d", got.Status)
	}
}

func TestDemo_PortIsWhereItWasAskedFor(t *testing.T) {
	t.Parallel()
	port := freeRun(t, 6)
	d := StartDemo(t, "--gateways=1", fmt.Sprintf("--port=%d", port))
	if want := fmt.Sprintf("http://127.0.0.1:%d", port); d.Console != want {
		t.Errorf("console at %s, want %s", d.Console, want)
	}
	out, err := exec.Command(binary, "demo", fmt.Sprintf("--port=%d", port)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprintf("port %d", port)) {
		t.Errorf("a port that is taken: %v, %s", err, out)
	}
}

// freeRun finds n free ports in a row.
func freeRun(t *testing.T, n int) int {
	t.Helper()
	for base := 23000 + os.Getpid()%5000; base < 31000; base += n {
		free := true
		for p := base; p < base+n && free; p++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if free = err == nil; free {
				_ = l.Close()
			}
		}
		if free {
			return base
		}
	}
	t.Fatal("no run of free ports")
	return 0
}

func TestDemo_BadInputIsToldByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ arg, want string }{
		{"--gateways=0", "--gateways"}, {"--gateways=99", "--gateways"}, {"--gateways=x", "--gateways"},
		{"--port=70000", "--port"}, {"--port=-1", "--port"}, {"--ready-file=/nonexistent/dir/f", "--ready-file"},
		{"--no-such", "--no-such"},
	} {
		t.Run(c.arg, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(binary, "demo", "--gateways=1", "--traffic=false", c.arg).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func TestDemo_StateSurvivesARestartOfTheConsoleAndPostgreSQL(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=1", exact)
	before := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/policy", nil)
	d.Kill(d.Processes.Console)
	_ = syscall.Kill(d.Processes.Postgres.PID, syscall.SIGINT)
	eventually(t, 20*time.Second, "PostgreSQL is gone", func() error { return gone(d.Processes.Postgres.PID) })
	d.Restart(d.Processes.Postgres)
	d.Restart(d.Processes.Console)
	eventually(t, 30*time.Second, "the console is back", func() error {
		if a := d.API(http.MethodGet, "/api/v1/policy", nil); a.Status != http.StatusOK {
			return fmt.Errorf("status %d: %s", a.Status, a.Body)
		}
		return nil
	})
	after := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/policy", nil)
	if before["digest"] != after["digest"] || before["digest"] == nil {
		t.Errorf("digest %v, then %v", before["digest"], after["digest"])
	}
}
