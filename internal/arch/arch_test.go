package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/testkit"
)

const module = "github.com/headgate/headgate"

// pkg is what the go command says about a package.
type pkg struct {
	ImportPath   string
	Dir          string
	Doc          string
	Standard     bool
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// list asks the go command once for all packages of the module.
var list = sync.OnceValues(func() (map[string]pkg, error) {
	root, err := testkit.ModuleRoot()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Doc,Standard,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	pkgs := map[string]pkg{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs[short(p.ImportPath)] = p
	}
})

// short is the path of our own package within the module; others' as it is.
func short(path string) string { return strings.TrimPrefix(path, module+"/") }

// TestProgram_R104_CarriesTheTimeZonesWithIt: quotas follow calendars also in a container
// that has no time zones of its own.
func TestProgram_R104_CarriesTheTimeZonesWithIt(t *testing.T) {
	t.Parallel()
	pkgs, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if p := pkgs["cmd/headgate"]; !slices.Contains(p.Deps, "time/tzdata") {
		t.Errorf("the program has %d packages in it, and time/tzdata is none of them", len(p.Deps))
	}
}

func ours(path string) bool { return strings.HasPrefix(path, module+"/") }

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	pkgs, err := list()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return pkgs
}

// arrow says what a package may import: of this module, and of others' modules
// (by prefix). "lib/..." allows all below it.
type arrow struct {
	ours   []string
	others []string
	reason string
}

func arrows() map[string]arrow {
	return map[string]arrow{
		"policy":              {nil, []string{"go.yaml.in/yaml"}, "strangers import it: it is pure and small"},
		"policy/apikey":       {nil, nil, "a format, nothing more"},
		"policy/scenario":     {[]string{"policy"}, []string{"go.yaml.in/yaml"}, "a suite is data; package replay runs it"},
		"policy/importer":     {[]string{"policy"}, []string{"go.yaml.in/yaml", "github.com/getkin/kin-openapi"}, "others' formats stay out of policy"},
		"policy/schema":       {nil, nil, "files"},
		"decisionlog":         {[]string{"policy"}, []string{"github.com/klauspost/compress", "google.golang.org/protobuf"}, "a format and its arithmetic"},
		"replay":              {[]string{"decisionlog", "gateway", "limiter", "limiter/memstore", "policy", "policy/feed", "policy/scenario", "usage"}, nil, "it runs the gateway's own engine on a virtual clock; the console sees it through a port"},
		"policy/graphql":      {nil, []string{"github.com/vektah/gqlparser"}, "strangers may price queries with it: it is pure"},
		"policy/feed":         {[]string{"decisionlog", "policy", "usage", "usage/ledger"}, []string{"github.com/redis/go-redis", "github.com/hashicorp/golang-lru"}, "the only wire between the planes; it knows neither of them"},
		"limiter":             {[]string{"policy"}, nil, "strangers import it: a Store brings its own client"},
		"limiter/memstore":    {[]string{"limiter", "policy"}, nil, "simulation and tests run on it, without Redis"},
		"limiter/storetest":   {[]string{"limiter", "policy"}, []string{"pgregory.net/rapid", "github.com/anishathalye/porcupine"}, "a test suite for Stores of strangers, too"},
		"limiter/redisstore":  {[]string{"limiter", "policy"}, []string{"github.com/redis/go-redis"}, "it stores; deciding is the limiter's"},
		"usage":               {nil, nil, "counters and batches; transport is feed's"},
		"usage/ledger":        {[]string{"usage"}, []string{"github.com/klauspost/compress", "google.golang.org/protobuf"}, "a format and its arithmetic"},
		"usage/spool":         {[]string{"usage", "usage/ledger"}, []string{"golang.org/x/sys"}, "files of one replica; shipping is the gateway's"},
		"receipt":             {[]string{"limiter", "policy"}, nil, "a format: gateways sign, the console checks"},
		"probe":               {[]string{"gateway", "limiter", "limiter/redisstore", "policy", "policy/feed", "receipt", "usage"}, []string{"github.com/redis/go-redis"}, "the gateway's own engine, asked without a charge; the console sees it through a port"},
		"notify":              {nil, []string{"github.com/wneessen/go-mail", "github.com/standard-webhooks/standard-webhooks", "code.dny.dev/ssrf"}, "mail and webhooks: it sends what it is given"},
		"knee":                {nil, nil, "it measures a server; the command stores what it found"},
		"gateway/dimension":   {[]string{"policy"}, []string{"github.com/go-jose/go-jose", "golang.org/x/text"}, "it reads requests; deciding is the gateway's"},
		"gateway/envoy":       {[]string{"gateway", "gateway/dimension", "limiter", "policy"}, []string{"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto", "github.com/envoyproxy/go-control-plane"}, "a door: it asks the gateway and translates"},
		"gateway":             {[]string{"decisionlog", "limiter", "policy", "policy/apikey", "policy/feed", "policy/graphql", "receipt", "usage", "usage/ledger", "usage/spool", "gateway/dimension"}, []string{"github.com/prometheus/client_golang"}, "the data plane links no database, page or console code"},
		"console":             {[]string{"internal/csvout", "receipt", "usage/ledger", "decisionlog", "policy", "policy/apikey", "policy/scenario", "usage", "limiter", "limiter/memstore"}, []string{"github.com/alexedwards/argon2id", "golang.org/x/sync", "golang.org/x/text", "golang.org/x/crypto"}, "the domain knows no HTTP, SQL or Redis"},
		"db":                  {[]string{"console", "usage/ledger", "decisionlog", "policy/scenario", "usage", "policy", "policy/apikey", "db/gen", "migrations"}, []string{"github.com/jackc/pgx", "github.com/pressly/goose"}, "rows and domain, nothing else"},
		"db/gen":              {nil, []string{"github.com/jackc/pgx"}, "generated"},
		"migrations":          {nil, nil, "files"},
		"static":              {nil, nil, "files"},
		"views/ui":            {[]string{"internal/form", "policy", "static"}, []string{"github.com/a-h/templ"}, "a view never sees a domain entity"},
		"views":               {[]string{"views/ui", "internal/form", "policy", "static"}, []string{"github.com/a-h/templ"}, "a view never sees a domain entity, so that a hash cannot reach a page"},
		"views/portal":        {[]string{"views/ui", "internal/form"}, []string{"github.com/a-h/templ"}, "a view never sees a domain entity; tenants see these"},
		"internal/problem":    {nil, nil, "a leaf"},
		"internal/form":       {nil, nil, "views use it, so it must not lead to the domain"},
		"web/gate":            {[]string{"internal/problem", "console", "policy"}, []string{"github.com/go-chi/chi"}, "gateways' door: a token, and neither sessions nor pages"},
		"web/leaks":           {[]string{"internal/problem", "console"}, nil, "partners' door: a signature, and neither sessions nor pages"},
		"web/session":         {[]string{"console"}, []string{"github.com/gorilla/sessions", "github.com/gorilla/securecookie"}, "sessions are the console's rows"},
		"web/used":            {[]string{"console", "views/ui"}, nil, "what pages draw of the ledger's reports"},
		"web/portal":          {[]string{"web/used", "console", "policy", "policy/graphql", "usage", "views/portal", "views/ui", "internal/form", "internal/csvout", "web/session"}, []string{"github.com/go-chi/chi", "github.com/a-h/templ"}, "tenants' pages: services that know whose they are, and no rows"},
		"web/api":             {[]string{"internal/csvout", "console", "decisionlog", "policy/scenario", "policy", "policy/apikey", "usage", "web/session"}, []string{"github.com/danielgtaylor/huma", "github.com/go-chi/chi", "go.yaml.in/yaml"}, "JSON in and out; rules are the console's"},
		"web":                 {[]string{"internal/csvout", "console", "decisionlog", "policy/scenario", "policy/importer", "policy", "policy/apikey", "usage", "usage/ledger", "views", "views/ui", "static", "internal/form", "web/api", "web/portal", "web/session", "web/used"}, []string{"github.com/go-chi/chi", "github.com/a-h/templ", "github.com/gorilla/sessions", "golang.org/x/sync", "go.yaml.in/yaml"}, "handlers know services, not stores"},
		"web/webtest":         {[]string{"console", "db", "limiter", "replay", "decisionlog", "policy/scenario", "policy", "policy/apikey", "usage", "usage/ledger", "web", "internal/testkit"}, nil, "the tests of web and web/api stand on it; nothing else imports it"},
		"internal/child":      {nil, nil, "a leaf"},
		"internal/pglocal":    {[]string{"internal/child"}, []string{"github.com/jackc/pgx"}, "a server, not its use"},
		"internal/redislocal": {[]string{"internal/child"}, nil, "a server, not its use"},
		"internal/testkit":    {[]string{"internal/child", "internal/pglocal", "internal/redislocal"}, []string{"github.com/jackc/pgx", "github.com/pressly/goose", "github.com/redis/go-redis", "github.com/chromedp/chromedp", "github.com/chromedp/cdproto"}, "every package's tests use it, so it imports none of them"},
		"internal/config":     {nil, []string{"github.com/alecthomas/kong"}, "a leaf"},
		"internal/csvout":     {nil, nil, "a leaf: pages, API and domain write and read cells by it"},
		"internal/service":    {nil, nil, "a leaf"},
		"internal/scale":      {nil, []string{"github.com/jackc/pgx"}, "rows for tests; it knows tables, not their meaning"},
		"internal/arch":       {nil, nil, "only a test"},
		"internal/e2e":        {nil, nil, "only tests"},
	}
}

// matches reports whether path is allowed by one of the entries.
func matches(path string, allowed []string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		if base, ok := strings.CutSuffix(a, "/..."); ok {
			return path == base || strings.HasPrefix(path, base+"/")
		}
		return path == a
	})
}

// startsWith reports whether path is one of the modules or lies in one.
func startsWith(path string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

// foreign reports whether path is neither ours nor of the standard library.
func foreign(path string) bool {
	host, _, _ := strings.Cut(path, "/")
	return strings.Contains(host, ".") && !ours(path)
}

func TestArrows_EachPackageImportsOnlyWhatItMay(t *testing.T) {
	t.Parallel()
	table := arrows()
	for name, p := range packages(t) {
		if strings.HasPrefix(name, "cmd/") {
			continue // wires everything
		}
		a, ok := table[name]
		if !ok {
			t.Errorf("package %s is not in the table of arrows: add it, with a reason", name)
			continue
		}
		for _, imp := range p.Imports {
			if ours(imp) && !matches(short(imp), a.ours) {
				t.Errorf("%s imports %s, but: %s", name, short(imp), a.reason)
			}
			if foreign(imp) && !startsWith(imp, a.others) {
				t.Errorf("%s imports %s, but: %s", name, imp, a.reason)
			}
		}
	}
}

// A package may be far away and still be linked in; this looks at all that is.
func TestArrows_NoForbiddenPackageIsReached(t *testing.T) {
	t.Parallel()
	never := map[string]map[string]string{
		"gateway": {
			"github.com/jackc/pgx": "a gateway never asks PostgreSQL", "github.com/go-chi/chi": "the data plane has no pages",
			"github.com/a-h/templ": "the data plane has no pages", module + "/console": "the planes meet in policy/feed only",
			module + "/db": "a gateway never asks PostgreSQL", module + "/web": "the data plane has no pages", "os/exec": "a gateway starts nothing",
		},
		"console": {
			"github.com/redis/go-redis": "the console talks to its Feed port", "github.com/jackc/pgx": "the console talks to its Store port",
			"net/http": "the domain knows no HTTP", "database/sql": "the console talks to its Store port",
			module + "/gateway": "the planes meet in policy/feed only",
		},
		"gateway/envoy": {
			"github.com/jackc/pgx": "a gateway never asks PostgreSQL",
			module + "/console":    "the planes meet in policy/feed only", "os/exec": "a gateway starts nothing",
		},
		"policy/graphql": {"net/http": "pure", module + "/gateway": "it prices queries and knows no door"},
		"policy":         {"net/http": "pure", "os": "pure", "github.com/redis/go-redis": "pure"},
		"limiter":        {"net/http": "the engine knows no HTTP", "github.com/redis/go-redis": "a Store brings its own client"},
		"usage":          {"net/http": "pure", "github.com/redis/go-redis": "transport is feed's"},
		"views":          {module + "/console": "a view never sees a domain entity", module + "/db": "nor rows"},
		"web":            {"github.com/jackc/pgx": "handlers ask services", "github.com/redis/go-redis": "handlers ask services", module + "/gateway": "the planes meet in policy/feed only"},
	}
	// What the standard library itself or a YAML parser drags in is not ours to forbid.
	indirect := map[string]bool{"os": true}
	pkgs := packages(t)
	for name, forbidden := range never {
		p, ok := pkgs[name]
		if !ok {
			t.Errorf("package %s is gone; this test guards nothing", name)
			continue
		}
		for bad, reason := range forbidden {
			deps := p.Deps
			if indirect[bad] {
				deps = p.Imports
			}
			for _, d := range deps {
				if d == bad || (strings.Contains(bad, ".") && strings.HasPrefix(d, bad+"/")) {
					t.Errorf("%s reaches %s, but: %s", name, d, reason)
				}
			}
		}
	}
}

func TestArrows_ProcessesAreStartedInFewPlaces(t *testing.T) {
	t.Parallel()
	for name, p := range packages(t) {
		if strings.HasPrefix(name, "internal/") {
			continue
		}
		if !slices.Contains(p.Imports, "os/exec") {
			continue
		}
		if name != "cmd/headgate" {
			t.Errorf("%s imports os/exec: only the demo and internal packages start processes", name)
			continue
		}
		for _, f := range filesImporting(t, p, `"os/exec"`) {
			if !strings.HasPrefix(f, "demo") && !strings.HasSuffix(f, "_test.go") {
				t.Errorf("cmd/headgate/%s imports os/exec: only the demo's files do", f)
			}
		}
	}
}

func TestArrows_TestkitIsForTestsOnly(t *testing.T) {
	t.Parallel()
	for name, p := range packages(t) {
		for _, only := range []string{"/internal/testkit", "/web/webtest"} {
			if !slices.Contains(p.Imports, module+only) || (name == "web/webtest" && only == "/internal/testkit") {
				continue
			}
			t.Errorf("%s imports %s outside its tests", name, only[1:])
		}
	}
}

func TestArrows_NobodyImportsACommandOrAnother(t *testing.T) {
	t.Parallel()
	pkgs := packages(t)
	// Two folders that import each other's packages are one thing in two places.
	top := func(path string) string { first, _, _ := strings.Cut(path, "/"); return first }
	pairs := map[[2]string]bool{}
	for name, p := range pkgs {
		for _, imp := range p.Imports {
			if !ours(imp) {
				continue
			}
			if strings.HasPrefix(short(imp), "cmd/") {
				t.Errorf("%s imports %s", name, imp)
			}
			if a, b := top(name), top(short(imp)); a != b {
				pairs[[2]string{a, b}] = true
			}
		}
	}
	for pair := range pairs {
		two := [2]string{pair[1], pair[0]}
		if pairs[two] && pair[0] < pair[1] && pair != [2]string{"limiter", "policy"} {
			t.Errorf("folders %s and %s import each other", pair[0], pair[1])
		}
	}
}

func TestPackages_EachSaysWhatItIs(t *testing.T) {
	t.Parallel()
	for name, p := range packages(t) {
		if name == "db/gen" {
			continue // generated
		}
		if p.Doc == "" {
			t.Errorf("package %s has no doc comment", name)
		}
	}
}

func TestSources_HaveNoInitAndSkipNoTest(t *testing.T) {
	t.Parallel()
	for name, p := range packages(t) {
		for _, f := range filesImporting(t, p, "\nfunc init()") {
			t.Errorf("%s/%s has an init function", name, f)
		}
		for _, call := range []string{"t.Skip(", "t.Skipf(", "t.SkipNow("} {
			for _, f := range filesImporting(t, p, call) {
				if name != "internal/arch" {
					t.Errorf("%s/%s skips a test", name, f)
				}
			}
		}
	}
}

func filesImporting(t *testing.T, p pkg, text string) []string {
	t.Helper()
	var found []string
	for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
		if strings.Contains(read(t, filepath.Join(p.Dir, f)), text) {
			found = append(found, f)
		}
	}
	return found
}
