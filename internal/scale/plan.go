package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Scan is one step of a plan that read a table.
type Scan struct {
	Node     string // "Seq Scan", "Index Scan", …
	Relation string
	Index    string
	Rows     float64 // that it looked at, over all its loops, those that a filter removed included
}

// String is a line for a report.
func (s Scan) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s on %s %s: %.0f rows", s.Node, s.Relation, s.Index, s.Rows))
}

// node is a node of EXPLAIN (ANALYZE, FORMAT JSON).
type node struct {
	Type      string  `json:"Node Type"`
	Relation  string  `json:"Relation Name"`
	Index     string  `json:"Index Name"`
	Rows      float64 `json:"Actual Rows"` // of one loop
	Loops     float64 `json:"Actual Loops"`
	Filtered  float64 `json:"Rows Removed by Filter"`
	Rechecked float64 `json:"Rows Removed by Index Recheck"`
	Plans     []node  `json:"Plans"`
}

// Reads tells what a statement reads, by running it under EXPLAIN ANALYZE with
// the same arguments, in a transaction that is rolled back. Statements that do
// not read (BEGIN, SET) have no scans. The plan is made for these arguments, as
// the console's connections do.
func Reads(ctx context.Context, conn *pgx.Conn, st Statement) ([]Scan, error) {
	if !reading(st.SQL) {
		return nil, nil
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL random_page_cost = 1.1"); err != nil {
		return nil, fmt.Errorf("plan as the console does: %w", err)
	}
	var raw []byte
	if err := tx.QueryRow(ctx, "EXPLAIN (ANALYZE, FORMAT JSON) "+st.SQL, st.Args...).Scan(&raw); err != nil {
		return nil, fmt.Errorf("explain %s: %w", Name(st), err)
	}
	return decodePlan(raw)
}

// decodePlan lists the scans of a plan in EXPLAIN's JSON.
func decodePlan(raw []byte) ([]Scan, error) {
	var plans []struct {
		Plan node `json:"Plan"`
	}
	if err := json.Unmarshal(raw, &plans); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	var out []Scan
	for _, p := range plans {
		out = p.Plan.scans(out)
	}
	return out, nil
}

func (n node) scans(out []Scan) []Scan {
	if strings.Contains(n.Type, "Scan") && (n.Relation != "" || n.Index != "") {
		out = append(out, Scan{Node: n.Type, Relation: n.Relation, Index: n.Index, Rows: (n.Rows + n.Filtered + n.Rechecked) * n.Loops})
	}
	for _, p := range n.Plans {
		out = p.scans(out)
	}
	return out
}

var named = regexp.MustCompile(`-- name: (\w+)`)

// Name is what a statement is called in queries/, or its beginning.
func Name(st Statement) string {
	if m := named.FindStringSubmatch(st.SQL); m != nil {
		return m[1]
	}
	return st.SQL[:min(len(st.SQL), 60)]
}

// reading reports whether a statement is one that reads: EXPLAIN ANALYZE runs
// it, and a write would count as a reading of what it writes to.
func reading(sql string) bool {
	for line := range strings.Lines(sql) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		word, _, _ := strings.Cut(strings.ToUpper(line), " ")
		return word == "SELECT" || word == "WITH"
	}
	return false
}
