package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// secretName is what things are called that must not be compared byte by byte until
// the first difference: secrets, and what is stored of them.
var secretName = regexp.MustCompile(`(?i)^(secret|password|digest|mac|.*(secret|password|token|tokenhash|secrethash|keydigest|signature))$`)

// publicName says what is no secret in spite of its name: the digest of a policy's
// document names that, and stands on pages; a token is a parser's word, too.
func publicName(path, name string) bool {
	switch {
	case strings.HasPrefix(path, "policy/apikey"), strings.HasPrefix(path, "gateway"):
		return false
	default:
		return strings.EqualFold(name, "digest") || strings.EqualFold(name, "token")
	}
}

// nameOf is the last word of an expression: Digest of r.Digest, and of f.Digest(x).
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return nameOf(e.Fun)
	case *ast.IndexExpr:
		return nameOf(e.X)
	case *ast.ParenExpr:
		return nameOf(e.X)
	}
	return ""
}

// plainComparisons finds where a file compares something of a secret's name by ==
// or !=, with anything but a constant: whether one was given at all is no secret.
func plainComparisons(path string, f *ast.File) (lines []token.Pos) {
	constant := func(e ast.Expr) bool {
		if id, is := e.(*ast.Ident); is {
			return id.Name == "nil" || id.Name == "true" || id.Name == "false"
		}
		_, literal := e.(*ast.BasicLit)
		return literal
	}
	secret := func(e ast.Expr) bool {
		name := nameOf(e)
		return secretName.MatchString(name) && !publicName(path, name)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if b, is := n.(*ast.BinaryExpr); is && (b.Op == token.EQL || b.Op == token.NEQ) &&
			(secret(b.X) || secret(b.Y)) && !constant(b.X) && !constant(b.Y) {
			lines = append(lines, b.Pos())
		}
		return true
	})
	return lines
}

// TestSources_R066_SecretsAreComparedInConstantTime: nowhere is something compared by
// == that is called a secret, or kept of one.
func TestSources_R066_SecretsAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	pkgs, err := list()
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for path, p := range pkgs {
		if strings.HasSuffix(path, "/gen") || strings.HasPrefix(path, "internal/") || strings.HasPrefix(path, "views") {
			continue
		}
		for _, name := range p.GoFiles {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			looked++
			for _, at := range plainComparisons(path, f) {
				t.Errorf("%s compares a secret by its name: use subtle.ConstantTimeCompare", set.Position(at))
			}
		}
	}
	if looked < 100 {
		t.Errorf("only %d files were looked at", looked)
	}
	if !slices.Contains(pkgs["policy/apikey"].Imports, "crypto/subtle") {
		t.Error("policy/apikey does not compare in constant time")
	}
}

// TestSources_R066_APlainComparisonIsFound: what looks for them sees each kind.
func TestSources_R066_APlainComparisonIsFound(t *testing.T) {
	t.Parallel()
	for code, found := range map[string]int{
		"r.Digest == apikey.Digest(key)": 1, "secret != given": 1, "(want) == sentToken": 1, "keys[i].SecretHash == x": 1,
		`secret == ""`: 0, "r.Digest == nil": 0, "version == 3": 0, "subtle.ConstantTimeCompare(secret, given) == 1": 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nvar _ = "+code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(plainComparisons("gateway", f)); got != found {
			t.Errorf("%s: %d comparisons are found, want %d", code, got, found)
		}
	}
}
