package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy/feed"
)

// headgate runs the command line and returns its exit status and what it
// printed on standard error.
func headgate(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var stderr bytes.Buffer
	code := run(args, nil, io.Discard, &stderr)
	return code, stderr.String()
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestMigrate_BringsAnEmptyDatabaseUpAndMayRunAgain(t *testing.T) {
	t.Parallel()
	dsn := testkit.PostgresEmpty(t)
	for _, args := range [][]string{{"--status"}, {}, {}, {"--status"}} {
		if code, out := headgate(t, append([]string{"migrate", "--database-url", dsn}, args...)...); code != 0 {
			t.Fatalf("migrate %v: %d %s", args, code, out)
		}
	}
}

func TestMigrate_NeedsADatabase(t *testing.T) {
	t.Parallel()
	if code, out := headgate(t, "migrate"); code != 1 || !strings.Contains(out, "--database-url: is required") {
		t.Fatalf("%d %s", code, out)
	}
}

func TestUser_CreateRefusesBadInputInWords(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	password := writeFile(t, "password", "correct horse battery\n")
	create := func(email, role string) (int, string) {
		return headgate(t, "user", "create", "--database-url", dsn, "--email", email, "--name", "Ann", "--role", role, "--password-file", password)
	}
	if code, out := create("ann@example.com", "owner"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if code, out := create("ANN@example.com", "owner"); code != 1 || !strings.Contains(out, "Another operator has this e-mail address.") {
		t.Fatalf("the same address again: %d %s", code, out)
	}
	if code, out := create("bob", "root"); code != 1 || !strings.Contains(out, "email:") || !strings.Contains(out, "role:") {
		t.Fatalf("bad input: %d %s", code, out)
	}
	if code, out := headgate(t, "user", "password", "--database-url", dsn, "--email", "ann@example.com", "--password-file", password); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	if code, out := headgate(t, "user", "token", "--database-url", dsn, "--email", "nobody@example.com", "--name", "ci"); code != 1 || !strings.Contains(out, "no such operator") {
		t.Fatalf("token of nobody: %d %s", code, out)
	}
	if code, out := headgate(t, "user", "token", "--database-url", dsn, "--email", "ann@example.com", "--name", "ci", "--expires", "1h"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
}

func TestConsole_AllProblemsOfTheConfigurationAreToldAtOnce(t *testing.T) {
	t.Parallel()
	code, out := headgate(t, "console", "--redis-url", "http://user:hunter2@x")
	for _, flag := range []string{"--database-url", "--redis-url", "--signing-key-file"} {
		if code != 1 || !strings.Contains(out, flag) {
			t.Errorf("%s is not named: %d %s", flag, code, out)
		}
	}
	if strings.Contains(out, "hunter2") {
		t.Error("the message holds a password")
	}
}

func TestConsole_RefusesASchemaThatIsNotUpToDate(t *testing.T) {
	t.Parallel()
	private, _, err := writeSigningKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	code, out := headgate(t, "console", "--database-url", testkit.PostgresEmpty(t), "--redis-url", "redis://127.0.0.1:1", "--signing-key-file", private, "--listen", "127.0.0.1:0")
	if code != 1 || !strings.Contains(out, "run headgate migrate first") {
		t.Fatalf("%d %s", code, out)
	}
}

// startConsole runs a console until the test ends and returns its address.
func startConsole(t *testing.T, dsn, redisURL string) string {
	t.Helper()
	private, _, err := writeSigningKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return startConsoleWith(t, dsn, redisURL, private)
}

// startConsoleWith is startConsole with a signing key that the test knows.
func startConsoleWith(t *testing.T, dsn, redisURL, private string) string {
	t.Helper()
	address := filepath.Join(t.TempDir(), "address")
	c := consoleCmd{
		DatabaseURL: dsn, RedisURL: redisURL, RedisNamespace: "hg", Deployment: "test", SigningKeyFile: private,
		Listen: "127.0.0.1:0", AddrFile: address, Drain: time.Second, MinQuiet: 15 * time.Minute, LogLevel: slog.LevelError + 1,
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("stopped with %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("not stopped within 20 s")
		}
	})
	var bound struct{ Listen string }
	eventually(t, "address", func() bool {
		b, err := os.ReadFile(address)
		return err == nil && json.Unmarshal(b, &bound) == nil
	})
	return bound.Listen
}

// eventually waits for a condition of another process's making.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	again, late := time.NewTicker(5*time.Millisecond), time.After(30*time.Second)
	defer again.Stop()
	for !cond() {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func TestConsole_ServesWithoutRedisAndStops(t *testing.T) {
	t.Parallel()
	res, err := http.Get("http://" + startConsole(t, testkit.Postgres(t), "redis://127.0.0.1:1") + "/signin")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestConsole_RedisThatLostEverythingIsFilledAgain(t *testing.T) {
	t.Parallel()
	dsn, server := testkit.Postgres(t), testkit.Redis(t)
	startConsole(t, dsn, server.URL)
	client := wireClient(&redis.UniversalOptions{Addrs: []string{server.Addr}}, "")
	t.Cleanup(func() { _ = client.Close() })
	publisher, err := feed.NewPublisher(feed.Config{Client: client, Namespace: "hg", Deployment: "test"})
	if err != nil {
		t.Fatal(err)
	}
	store, err := db.Open(t.Context(), dsn, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	deps := console.Deps{Store: store, Feed: publisher, Deployment: "test"}
	if _, err := console.NewTenants(deps).Create(t.Context(), shellActor(), console.NewTenant{Name: "A", Plan: "free"}); err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("demo_policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := console.NewPolicies(deps).Publish(t.Context(), shellActor(), document, nil, 0, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	var epochs []string
	whole := func() bool {
		st, err := publisher.State(t.Context())
		if err != nil || st.Version != 1 || st.Directory.Epoch == "" || st.Directory.Seq < 1 {
			return false
		}
		epochs = append(epochs, st.Directory.Epoch)
		return true
	}
	eventually(t, "first fill", whole)
	server.Kill()
	server.Start()
	begun := time.Now()
	eventually(t, "second fill", whole)
	t.Logf("policy and directory were back %s after Redis was", time.Since(begun).Round(time.Millisecond))
	if epochs[0] == epochs[len(epochs)-1] {
		t.Error("Redis kept its directory: nothing was lost")
	}
}

func TestConsole_NamesAllProblemsOfItsConfigurationAtOnce(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3tpw"
	code, out := headgate(t, "console", "--database-url", "postgres://u:"+secret+"@h:badport/x", "--redis-url", "redis://u:"+secret+"@h:port/0",
		"--signing-key-file", "/nonexistent", "--deployment", "Not Valid", "--public-url", "ftp://x/y?z", "--listen", "nonsense",
		"--database-conns=-5", "--drain=-3s")
	if code != 1 {
		t.Fatalf("exit %d", code)
	}
	for _, field := range []string{"--database-url", "--redis-url", "--signing-key-file", "--deployment", "--public-url", "--listen", "--database-conns", "--drain"} {
		if !strings.Contains(out, field+": ") {
			t.Errorf("%s is not named", field)
		}
	}
	if strings.Contains(out, secret) {
		t.Error("a password is repeated")
	}
	if t.Failed() {
		t.Log(out)
	}
}
