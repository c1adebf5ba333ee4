package scale

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/internal/testkit"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// TestReads_TellsAWalkFromALookup holds what everything else here rests on: that
// a statement which walks a table is seen to do so, whatever it returns.
func TestReads_TellsAWalkFromALookup(t *testing.T) {
	t.Parallel()
	c := connect(t, testkit.PostgresEmpty(t))
	if _, err := c.Exec(t.Context(), `CREATE TABLE things AS SELECT i AS id, 'name ' || i AS name FROM generate_series(1, 20000) i;
		ALTER TABLE things ADD PRIMARY KEY (id); ANALYZE things`); err != nil {
		t.Fatal(err)
	}
	for name, c2 := range map[string]struct {
		st   Statement
		want float64
	}{
		"filter":         {Statement{"SELECT * FROM things WHERE name = $1", []any{"name 7"}}, 20000},
		"limit":          {Statement{"SELECT * FROM things LIMIT $1", []any{10}}, 10},
		"lookup":         {Statement{"SELECT * FROM things WHERE id = $1", []any{7}}, 1},
		"unset filter":   {Statement{"SELECT * FROM things WHERE ($1::text = '' OR name = $1) AND id = $2", []any{"", 7}}, 1},
		"a walk's walk":  {Statement{"SELECT count(*) FROM (VALUES (1), (2)) v(x) JOIN LATERAL (SELECT 1 FROM things WHERE name = 'x' || v.x OFFSET 0) t ON true", nil}, 40000},
		"named, in CTE":  {Statement{"-- name: CountThings :one\nWITH n AS (SELECT count(*) FROM things WHERE name <> '') SELECT * FROM n", nil}, 20000},
		"not a reading":  {Statement{"BEGIN", nil}, 0},
		"would be write": {Statement{"DELETE FROM things", nil}, 0},
	} {
		scans, err := Reads(t.Context(), c, c2.st)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		most := 0.0
		for _, s := range scans {
			most = max(most, s.Rows)
		}
		if most != c2.want {
			t.Errorf("%s: reads %v, want %v", name, scans, c2.want)
		}
	}
	if _, err := Reads(t.Context(), c, Statement{SQL: "SELECT * FROM nothing"}); err == nil {
		t.Error("a statement that fails is no error")
	}
	var left int
	if err := c.QueryRow(t.Context(), "SELECT count(*) FROM things").Scan(&left); err != nil || left != 20000 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

func TestName_IsThatOfTheQuery(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{"-- name: GetThing :one\nSELECT 1": "GetThing", "SELECT 2": "SELECT 2", "": ""} {
		if got := Name(Statement{SQL: sql}); got != want {
			t.Errorf("%q is called %q, want %q", sql, got, want)
		}
	}
}

func TestScan_IsOneLine(t *testing.T) {
	t.Parallel()
	if got := (Scan{"Index Scan", "tenants", "tenants_page", 51}).String(); got != "Index Scan on tenants tenants_page: 51 rows" {
		t.Error(got)
	}
}

func TestTracer_RemembersWatchedContextsAlone(t *testing.T) {
	t.Parallel()
	cfg, err := pgx.ParseConfig(testkit.PostgresEmpty(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Tracer = Tracer{}
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	ctx, watched := Watch(t.Context())
	for _, ctx := range []context.Context{t.Context(), ctx, t.Context()} {
		var n int
		if err := c.QueryRow(ctx, "SELECT $1::int", 3).Scan(&n); err != nil || n != 3 {
			t.Fatal(n, err)
		}
	}
	got := watched.All()
	if len(got) != 1 || got[0].SQL != "SELECT $1::int" || got[0].Args[0] != 3 {
		t.Errorf("remembered are %+v", got)
	}
}

func FuzzDecodePlan(f *testing.F) {
	f.Add([]byte(`[{"Plan": {"Node Type": "Limit", "Plans": [{"Node Type": "Seq Scan", "Relation Name": "t", "Actual Rows": 2, "Actual Loops": 3, "Rows Removed by Filter": 1}]}}]`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		scans, err := decodePlan(raw)
		if err != nil && scans != nil {
			t.Error("scans of a plan that cannot be read")
		}
		for _, s := range scans {
			if s.Relation == "" && s.Index == "" {
				t.Errorf("%+v scans nothing", s)
			}
		}
	})
}

func TestDecodePlan_CountsWhatEachLoopLookedAt(t *testing.T) {
	t.Parallel()
	scans, err := decodePlan([]byte(`[{"Plan": {"Node Type": "Nested Loop", "Plans": [
		{"Node Type": "Seq Scan", "Relation Name": "t", "Actual Rows": 2, "Actual Loops": 3, "Rows Removed by Filter": 5},
		{"Node Type": "CTE Scan", "Actual Rows": 9, "Actual Loops": 1}]}}]`))
	if err != nil || len(scans) != 1 || scans[0].Rows != 21 {
		t.Errorf("scans are %v, %v", scans, err)
	}
}
