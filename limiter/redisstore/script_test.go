package redisstore_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
)

// TestScript_A15_TextsAreConstants: in the package's code the only things that
// become a script are the embedded files, and they come from nowhere else.
func TestScript_A15_TextsAreConstants(t *testing.T) {
	t.Parallel()
	embedded := []string{"clockSource", "loneSource", "rowsSource", "countsSource", "plainSource", "fullSource", "amendSource", "adminSource", "repairSource"}
	for _, file := range sources(t) {
		inspectScripts(t, file, embedded)
	}
}

// sources are the package's files, tests left out.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

func inspectScripts(t *testing.T, file *ast.File, embedded []string) {
	t.Helper()
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if slices.Contains([]string{"Eval", "EvalRO", "Do", "FunctionLoad", "NewScript", "EvalSha"}, n.Sel.Name) {
				t.Errorf("%s is called: it could be given any text", n.Sel.Name)
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if name, is := left.(*ast.Ident); is && slices.Contains(embedded, name.Name) {
					t.Errorf("%s is assigned to", name.Name)
				}
			}
		case *ast.CallExpr:
			if name, is := n.Fun.(*ast.Ident); is && name.Name == "newScript" {
				ofEmbedded(t, n.Args[0], embedded)
			}
		}
		return true
	})
}

// ofEmbedded wants the argument to be change(a + b + …) of embedded texts alone.
func ofEmbedded(t *testing.T, arg ast.Expr, embedded []string) {
	t.Helper()
	ast.Inspect(arg, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is && name.Name != "change" && !slices.Contains(embedded, name.Name) {
			t.Errorf("a script is made of %s", name.Name)
		}
		return true
	})
}

// TestScript_A15_RedisKnowsThePinnedScriptsOnly runs everything that the store
// can ask and looks at what Redis has loaded.
func TestScript_A15_RedisKnowsThePinnedScriptsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	exercise(t, r.real)
	_, pinned := r.real.Scripts()
	loaded, err := r.client.ScriptExists(context.Background(), pinned...).Result()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(loaded, false) || len(loaded) != 3 {
		t.Errorf("loaded: %v of %v", loaded, pinned)
	}
	info := r.client.Info(context.Background(), "memory").Val()
	if !strings.Contains(info, "number_of_cached_scripts:3\r\n") {
		t.Errorf("Redis knows other scripts too:\n%s", info)
	}
	for _, command := range []string{"eval", "eval_ro", "fcall", "function"} {
		if strings.Contains(r.client.Info(context.Background(), "commandstats").Val(), "cmdstat_"+command+":") {
			t.Errorf("%s was sent", command)
		}
	}
}

// everything is a draw of every kind of part.
func everything(lease string) *limiter.Draw {
	row := limiter.Row{Kind: limiter.RowDimension, Tenant: tenant.Tenant, Subject: "someone"}
	bounded := storetest.Draw(row, "bounded", hourly, 1)
	bounded.Identifiers = 20
	sliced := storetest.Draw(tenant, "sliced", hourly, 1)
	sliced.Extra = 3
	return &limiter.Draw{
		Charges: []limiter.Charge{storetest.Draw(tenant, "l", hourly, 1), bounded, sliced},
		Slots:   []limiter.Slot{{Row: tenant, Hash: 1, Max: 3, Lease: lease, HoldMicros: 60_000_000}},
		Quotas:  []limiter.Quota{{Row: tenant, Hash: 2, Start: 1, End: farEnd, Cost: 1, Amount: 1000}},
	}
}

// farEnd is a time in the far future, in Unix µs.
const farEnd = 4_000_000_000_000_000

// exercise makes every kind of call.
func exercise(t *testing.T, s *redisstore.Store) {
	t.Helper()
	ctx := context.Background()
	d := everything("lease-of-sixteen")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Ping(ctx))
	take(t, s, storetest.Draw(tenant, "plain", small, 1))
	_, err := s.Take(ctx, d)
	must(err)
	lease := []limiter.Lease{d.Slots[0].Held()}
	_, err = s.Renew(ctx, lease)
	must(err)
	must(s.Release(ctx, lease))
	must(s.Amend(ctx, "an id", []limiter.Amendment{
		{Row: tenant, Hash: d.Charges[0].Hash, Numbers: hourly, Tokens: -2}, {Row: tenant, Hash: 2, Tokens: 1, Quota: true, Start: 1, End: farEnd},
	}))
}

// TestStore_A15_ServesAUserConfinedToItsCommands: what docs/redis.md allows the
// gateways' user is enough, and there is nothing in it that empties Redis.
func TestStore_A15_ServesAUserConfinedToItsCommands(t *testing.T) {
	t.Parallel()
	rules := []any{"ACL", "SETUSER", "gateway", "on", ">pw", "~hg:l:*", "resetchannels", "-@all"}
	for _, c := range documentedCommands(t) {
		rules = append(rules, c)
	}
	admit := func(url string) string {
		if err := patient(t, url).Do(context.Background(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
		return strings.Replace(url, "://", "://gateway:pw@", 1)
	}
	cluster := testkit.Cluster(t)
	for _, node := range cluster.Nodes {
		admit(node.URL)
	}
	store := redisstore.New(patientTo(t, strings.Replace(cluster.URL(), "://", "://gateway:pw@", 1)), options)
	exercise(t, store)
	if _, err := store.Take(context.Background(), inAddressToo(store, 1)); err != nil {
		t.Error(err)
	}
	url := admit(testkit.RedisURL(t))
	exercise(t, redisstore.New(patientTo(t, url), options))
	confined := patientTo(t, url)
	for _, forbidden := range [][]any{
		{"FLUSHALL"}, {"CONFIG", "GET", "*"}, {"KEYS", "*"}, {"GET", "hg:{policy}:head"}, {"SET", "hg:key:x", "1"}, {"DEL", "hg:l:{g}:g:all"},
	} {
		if err := confined.Do(context.Background(), forbidden...).Err(); redisstore.Cause(err) != "auth" {
			t.Errorf("%v: %v", forbidden, err)
		}
	}
}

// documentedCommands are the commands that docs/redis.md allows the gateways.
func documentedCommands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "The gateways' Redis user needs")
	line, _, _ := strings.Cut(rest, "Nothing more.")
	var commands []string
	for word := range strings.FieldsSeq(strings.NewReplacer("`", " ", ",", " ").Replace(line)) {
		if strings.HasPrefix(word, "+") {
			commands = append(commands, word)
		}
	}
	if len(commands) < 20 {
		t.Fatalf("found only %v", commands)
	}
	return commands
}
