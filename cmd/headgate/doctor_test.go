package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
)

func doctor(args ...string) (status int, out, errs string) {
	var stdout, stderr bytes.Buffer
	status = run(append([]string{"doctor"}, args...), nil, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

func codesOf(t *testing.T, out string) map[string]policy.Hazard {
	t.Helper()
	var found []policy.Hazard
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	by := map[string]policy.Hazard{}
	for _, h := range found {
		if _, worse := by[h.Code]; !worse { // the worst come first
			by[h.Code] = h
		}
		if h.Text == "" || h.Mend == "" || h.Server == "" {
			t.Errorf("%+v says too little", h)
		}
	}
	return by
}

func TestDoctor_FindsWhatEndangersRedisAndSaysWhatMendsIt(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	for _, command := range [][]any{
		{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"},
		{"SET", "hg:l:{7}:t:stuck", "1"},                  // no TTL
		{"SET", "somebody:else", "1"},                     // not ours
		{"CONFIG", "SET", "slowlog-log-slower-than", "0"}, // then everything is in the slow log, and nothing of it is slow
		{"EVAL", "return 1", "0"},
	} {
		if err := client.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	status, out, errs := doctor("--redis-url", server.URL, "-o", "json")
	by := codesOf(t, out)
	for _, code := range []string{policy.HazardEvictionPolicy, policy.HazardNoTTL, policy.HazardShared} {
		if _, ok := by[code]; !ok {
			t.Errorf("%s was not found: %v", code, by)
		}
	}
	if _, ok := by[policy.HazardSlowScript]; ok {
		t.Errorf("a script that took no time is called slow: %+v", by[policy.HazardSlowScript])
	}
	if status != 1 || !strings.Contains(errs, "have to be mended") {
		t.Errorf("%d: %s", status, errs)
	}
	if _, out, _ := doctor("--redis-url", server.URL); !strings.Contains(out, "red   ") || !strings.Contains(out, "→ ") {
		t.Errorf("for people:\n%s", out)
	}
}

func TestDoctor_FindsSlowScripts(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	busy := "local t = redis.call('TIME'); local b = t[1] * 1000000 + t[2]; repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] - b > 30000; return 1"
	if err := client.Eval(t.Context(), busy, nil).Err(); err != nil {
		t.Fatal(err)
	}
	_, out, _ := doctor("--redis-url", server.URL, "-o", "json")
	if h, ok := codesOf(t, out)[policy.HazardSlowScript]; !ok || !strings.HasPrefix(h.Text, "1 calls") {
		t.Errorf("%+v", h)
	}
}

func TestDoctor_U05_FindsMissingMonthsAndUnsafeSettings(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	status, out, errs := doctor("--database-url", dsn, "-o", "json")
	by := codesOf(t, out)
	// The servers of tests are fast and lose everything in a crash.
	if h := by[policy.HazardDurability]; status != 1 || h.Severity != policy.SeverityRed || !strings.Contains(h.Text, "off") {
		t.Errorf("%d: %+v %s", status, h, errs)
	}
	if h := by[policy.HazardPartitions]; h.Severity != policy.SeverityRed {
		t.Errorf("no month is there, and it says %+v", h)
	}
	if _, err := conn.Exec(t.Context(), `SELECT usage_make_month((date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => n))::date) FROM generate_series(0, 3) AS n`); err != nil {
		t.Fatal(err)
	}
	_, out, _ = doctor("--database-url", dsn, "-o", "json")
	if h, ok := codesOf(t, out)[policy.HazardPartitions]; ok {
		t.Errorf("all months are there, and it says %+v", h)
	}
	if _, err := conn.Exec(t.Context(), "UPDATE goose_db_version SET version_id = 99999 WHERE id = (SELECT max(id) FROM goose_db_version)"); err != nil {
		t.Fatal(err)
	}
	_, out, _ = doctor("--database-url", dsn, "-o", "json")
	if h := codesOf(t, out)[policy.HazardSchema]; !strings.Contains(h.Text, "newer") {
		t.Errorf("a newer schema: %+v", h)
	}
}

func TestDoctor_SaysWhatItCannotLookAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"nothing":           {nil, "nothing to look over"},
		"no Redis there":    {[]string{"--redis-url", "redis://127.0.0.1:1"}, "Redis"},
		"no database there": {[]string{"--database-url", "postgres://127.0.0.1:1/x"}, "PostgreSQL"},
		"no URL":            {[]string{"--redis-url", "x"}, "--redis-url"},
	} {
		if status, _, errs := doctor(c.args...); status != 1 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d %s", name, status, errs)
		}
	}
}
