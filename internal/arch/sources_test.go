package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Stops of the house: beyond them a file or function is two.
const (
	maxFileLines     = 500
	maxFunctionLines = 80
)

func TestSources_StayWithinTheStops(t *testing.T) {
	t.Parallel()
	for name, p := range packages(t) {
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			if strings.HasSuffix(f, "_templ.go") || name == "db/gen" {
				continue
			}
			checkSize(t, filepath.Join(p.Dir, f), name+"/"+f)
		}
	}
}

func checkSize(t *testing.T, file, label string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	lines := func(n ast.Node) int { return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1 }
	if n := set.File(parsed.Pos()).LineCount(); n > maxFileLines {
		t.Errorf("%s has %d lines", label, n)
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && lines(f) > maxFunctionLines {
			t.Errorf("%s: %s has %d lines", label, f.Name.Name, lines(f))
		}
	}
}
