//go:build pgbouncer

package db_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/internal/testkit"
)

// pooled starts a pgbouncer in transaction mode with two connections to the server
// that dsn names, and returns the URL of the same database through it.
func pooled(t *testing.T, dsn string) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	socket := u.Query().Get("host")
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatalf("%s: %v", dsn, err)
	}
	owner, err := user.LookupId(strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	config := fmt.Sprintf("[databases]\n* = host=%s port=5432 user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"+
		"default_pool_size = 2\nignore_startup_parameters = statement_timeout,lock_timeout,idle_in_transaction_session_timeout,plan_cache_mode,random_page_cost\n", socket, port)
	if os.Geteuid() == 0 {
		config += "user = " + owner.Username + "\n" // it does not run as root
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755)
	}
	p, err := child.Start(child.Spec{Argv: []string{bin, file}, LogFile: filepath.Join(dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(syscall.SIGTERM, 5*time.Second) })
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("pgbouncer does not listen: %v\n%s", err, log)
		}
	}
	u.Host = "127.0.0.1:" + port
	u.RawQuery = "sslmode=disable&default_query_exec_mode=exec"
	return u.String()
}

// TestReadTenant_A05_P12_ReadsBehindAPoolerNeverMix: pgbouncer gives a connection to
// another client after each transaction.
func TestReadTenant_A05_P12_ReadsBehindAPoolerNeverMix(t *testing.T) {
	t.Parallel()
	s, err := db.Open(t.Context(), pooled(t, testkit.Postgres(t)), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	neverMix(t, s)
}
