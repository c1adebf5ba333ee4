package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/internal/testkit"
)

// crash is a moment of a publication at which the console is killed.
type crash struct {
	name string
	db   *testkit.Trap // between console and PostgreSQL
	wire *testkit.Trap // between console and Redis
	kept bool          // the version was committed
}

// crashes are the moments, each with one console less. A trap finds a statement by
// the text that it is prepared with, which a console sends once: what only
// publishing prepares is fresh in a console that has not published yet, and what
// the relay prepares in one that has not relayed. Version is what is published.
func crashes(version int64) []crash {
	const inserted, body = "name: InsertVersion", `"apiVersion"`
	stamp := fmt.Sprintf(`"version":%d,`, version)
	return []crash{
		{name: "before the head is locked", db: &testkit.Trap{At: "name: LockHead"}},
		{name: "before the outbox row is finished", db: &testkit.Trap{At: "name: FinishOutbox"}, kept: true},
		{name: "before the version is inserted", db: &testkit.Trap{At: inserted}},
		{name: "after the outbox row is finished", db: &testkit.Trap{Once: "name: FinishOutbox", At: "commit", Reply: true}, kept: true},
		{name: "after the version is inserted", db: &testkit.Trap{At: inserted, Skip: 1, Reply: true}},
		{name: "before Redis has it", wire: &testkit.Trap{At: body}, kept: true},
		{name: "after the head is set", db: &testkit.Trap{At: "name: SetHead", Skip: 1, Reply: true}},
		{name: "after Redis has it and has rung the bell", wire: &testkit.Trap{At: body, Reply: true}, kept: true},
		{name: "after the outbox row is written", db: &testkit.Trap{Once: inserted, At: "name: InsertOutbox", Skip: 1, Reply: true}},
		{name: "before the stamp", wire: &testkit.Trap{At: stamp}, kept: true},
		{name: "after the audit event", db: &testkit.Trap{Once: inserted, At: "name: InsertAudit", Skip: 1, Reply: true}},
		{name: "after the stamp", wire: &testkit.Trap{At: stamp, Reply: true}, kept: true},
		{name: "before the commit", db: &testkit.Trap{Once: inserted, At: "commit"}},
		{name: "after the commit, its answer lost", db: &testkit.Trap{Once: inserted, At: "commit", Reply: true}, kept: true},
	}
}

// TestPolicy_C01_AConsoleKilledAnywhereLeavesAVersionWholeOrAbsent kills a console
// process at each moment of a publication, while another one stands by. The
// version is nowhere, or in PostgreSQL and soon in Redis; never in Redis alone.
func TestPolicy_C01_AConsoleKilledAnywhereLeavesAVersionWholeOrAbsent(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	victim := p.console()
	leader := p.leads(0)
	if a := victim.publish(t, 0, 100); a.Status != http.StatusOK && a.Status != http.StatusAccepted {
		t.Fatalf("the first version: status %d: %s", a.Status, a.Body)
	}
	p.redisHas(t, 1)
	victim.kill()
	victim = p.console()
	version := int64(1)
	for i := range crashes(0) {
		leader = p.leads(leader)
		heir := p.console()
		version = p.crashes(t, crashes(version + 1)[i], victim, version)
		victim = heir
	}
	if a := victim.publish(t, version, 500); a.Status != http.StatusOK && a.Status != http.StatusAccepted {
		t.Errorf("a publication after all that: status %d: %s", a.Status, a.Body)
	}
	p.redisHas(t, version+1)
	if n := p.count(t, "SELECT count(*) FROM policy_versions"); n != version+1 {
		t.Errorf("%d versions, want %d without a gap", n, version+1)
	}
	if n := p.count(t, "SELECT count(*) FROM audit_events WHERE action = 'policy.publish'"); n != version+1 {
		t.Errorf("%d events of %d publications", n, version+1)
	}
}

// crashes kills the victim at a moment of publishing the version after base, and
// returns the version that is in force then.
func (p *pair) crashes(t *testing.T, c crash, victim *consoleProcess, base int64) int64 {
	t.Helper()
	trap, proxy := c.db, victim.db
	if c.wire != nil {
		trap, proxy = c.wire, victim.wire
	}
	proxy.Arm(trap)
	answered := make(chan Answer, 1)
	go func() { answered <- victim.publish(t, base, int(base)+100) }()
	select {
	case <-trap.Sprung():
	case <-time.After(time.Minute):
		t.Fatalf("%s: the moment does not come", c.name)
	}
	victim.kill()
	died := time.Now()
	<-answered
	want := base
	if c.kept {
		want++
	}
	p.redisHas(t, want)
	took(t, c.name+": another console heals it", time.Since(died), 2*time.Second)
	if n := p.count(t, "SELECT max(number) FROM policy_versions"); n != want {
		t.Fatalf("%s: PostgreSQL has v%d, want v%d", c.name, n, want)
	}
	eventually(t, time.Minute, c.name+": nothing is left to send", func() error {
		if n := p.count(t, "SELECT count(*) FROM outbox WHERE done_at IS NULL"); n > 0 {
			return fmt.Errorf("%d rows", n)
		}
		return nil
	})
	if v := p.redis.HGet(t.Context(), "hg:{policy}:head", "version").Val(); v != fmt.Sprint(want) {
		t.Fatalf("%s: Redis has v%s, want v%d", c.name, v, want)
	}
	return want
}

// pair is a database and a Redis with consoles that come and go.
type pair struct {
	t                   testing.TB
	dir, database       string
	redisURL, redisAddr string
	token               string
	redis               *redis.Client
	sql                 *pgx.Conn
	consoles            int
}

// consoleProcess is one console, behind proxies of its own.
type consoleProcess struct {
	p        *pair
	proc     *child.Process
	db, wire *testkit.FaultProxy
	url, log string
}

func newPair(t testing.TB) *pair {
	t.Helper()
	server := testkit.Redis(t)
	p := &pair{t: t, dir: t.TempDir(), database: testkit.Postgres(t), redisURL: server.URL, redisAddr: server.Addr}
	o, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.redis = redis.NewClient(o)
	t.Cleanup(func() { _ = p.redis.Close() })
	if p.sql, err = pgx.Connect(context.Background(), p.database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.sql.Close(context.Background()) })
	p.run("", "keys", p.dir)
	p.run("a password of this test alone", "user", "create", "--database-url="+p.database, "--email=o@example.com", "--name=O", "--role=owner", "--password-file=-")
	p.token = strings.TrimSpace(p.run("", "user", "token", "--database-url="+p.database, "--email=o@example.com", "--name=test"))
	return p
}

func (p *pair) run(stdin string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Stdin = []string{}, strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("headgate %s: %v", strings.Join(args[:2], " "), err)
	}
	return string(out)
}

// console starts a console and waits until it answers.
func (p *pair) console() *consoleProcess {
	p.t.Helper()
	p.consoles++
	name := fmt.Sprintf("console-%d", p.consoles)
	base := filepath.Join(p.dir, name)
	c := &consoleProcess{p: p, log: base + ".log", db: testkit.Proxy(p.t, postgresAddr(p.t, p.database)), wire: testkit.Proxy(p.t, p.redisAddr)}
	addresses := base + ".json"
	proc, err := child.Start(child.Spec{
		Argv: []string{
			binary, "console", "--listen=127.0.0.1:0", "--addr-file=" + addresses, "--database-url=" + throughProxy(p.t, p.database, c.db.Addr),
			"--redis-url=" + c.wire.URL, "--signing-key-file=" + filepath.Join(p.dir, "signing-key.pem"),
		},
		Env: []string{"PATH=/usr/bin:/bin", "TZ=UTC"}, Dir: p.dir, LogFile: c.log, DeathSignal: syscall.SIGKILL,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	c.proc = proc
	p.t.Cleanup(func() {
		c.kill()
		if p.t.Failed() {
			p.t.Logf("%s ends:\n%s", filepath.Base(c.log), tail(c.log))
		}
	})
	eventually(p.t, time.Minute, "a console is up", func() error {
		select {
		case <-proc.Done():
			p.t.Fatalf("the console ended: %v\n%s", proc.Err(), tail(c.log))
		default:
		}
		raw, err := os.ReadFile(addresses)
		if err != nil {
			return err
		}
		var at map[string]string
		if err := json.Unmarshal(raw, &at); err != nil {
			return err
		}
		for _, addr := range at {
			c.url = "http://" + strings.TrimPrefix(addr, "http://")
		}
		if a := c.api(http.MethodGet, "/api/v1/health", nil); a.Status == 0 {
			return fmt.Errorf("%s", a.Body)
		}
		return nil
	})
	return c
}

// kill ends the console as kill -9 does; its connections end with it.
func (c *consoleProcess) kill() {
	c.proc.Kill()
	c.db.Cut()
	c.wire.Cut()
}

func (c *consoleProcess) api(method, path string, body any) Answer {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // of the test's own
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return fetch(ctx, http.DefaultClient, method, c.url+path, string(raw), http.Header{
		"Authorization": {"Bearer " + c.p.token}, "Content-Type": {"application/json"},
	})
}

// publish publishes a version over base.
func (c *consoleProcess) publish(t *testing.T, base int64, rate int) Answer {
	t.Helper()
	return c.api(http.MethodPost, "/api/v1/policy/publish", map[string]any{"document": document(rate, rate), "base_version": base, "note": "test"})
}

// leads waits until a console relays that did not before, and returns which
// connection of the database is its lock's. Start the next console after it.
func (p *pair) leads(before int64) (holder int64) {
	p.t.Helper()
	eventually(p.t, time.Minute, "a console relays", func() error {
		holder = p.count(p.t, `SELECT coalesce(max(l.pid), 0) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE l.locktype = 'advisory' AND l.granted AND l.objid = 7234003 AND a.datname = current_database()`)
		if holder == 0 || holder == before {
			return fmt.Errorf("connection %d holds the lock", holder)
		}
		return nil
	})
	return holder
}

// redisHas waits until Redis offers a version.
func (p *pair) redisHas(t *testing.T, version int64) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("Redis has v%d", version), func() error {
		v, err := p.redis.HGet(t.Context(), "hg:{policy}:head", "version").Int64()
		if err != nil || v != version {
			return fmt.Errorf("v%d, %w", v, err)
		}
		return nil
	})
}

func (p *pair) count(t testing.TB, sql string) (n int64) {
	t.Helper()
	if err := p.sql.QueryRow(context.Background(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// postgresAddr is where the PostgreSQL of a URL listens.
func postgresAddr(t testing.TB, dsn string) string {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(c.Host, "/") {
		return fmt.Sprintf("%s/.s.PGSQL.%d", c.Host, c.Port)
	}
	return fmt.Sprintf("%s:%d", c.Host, c.Port)
}

// throughProxy is a database URL with another address.
func throughProxy(t testing.TB, dsn, addr string) string {
	t.Helper()
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Host: addr, Path: "/" + c.Database, RawQuery: "sslmode=disable"}
	return u.String()
}
