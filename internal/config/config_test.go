package config_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantProblem(t *testing.T, p *config.Problems, parts ...string) {
	t.Helper()
	err := p.Err()
	if err == nil {
		t.Fatalf("no problem; want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("problem %q does not say %q", err, part)
		}
	}
}

func TestProblems_AreToldAllAtOnce(t *testing.T) {
	t.Parallel()
	var p config.Problems
	if p.Err() != nil {
		t.Error("no problems are an error")
	}
	p.Require("--redis-url", " ")
	p.Require("--listen", ":80")
	p.Add("--zone", "%q is too long", "zzz")
	wantProblem(t, &p, "2 problems", "--redis-url", "HEADGATE_REDIS_URL", `--zone: "zzz" is too long`)
	if strings.Contains(p.Err().Error(), "--listen") {
		t.Error("a setting that is given is a problem")
	}
}

func TestSecret_ComesFromTheValueOrTheFile(t *testing.T) {
	t.Parallel()
	var p config.Problems
	file := write(t, "s", "  from file\n\n")
	if got := config.Secret(&p, "--s", "hunter2", ""); got != "hunter2" {
		t.Errorf("value: %q", got)
	}
	if got := config.Secret(&p, "--s", "", file); got != "from file" {
		t.Errorf("file: %q", got)
	}
	if got := config.Secret(&p, "--s", "", ""); got != "" || p.Err() != nil {
		t.Errorf("neither: %q, %v", got, p.Err())
	}
}

func TestSecret_RefusesWhatIsUnclear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, file, want string }{
		{"both", "hunter2", write(t, "s", "x"), "together with --s-file"},
		{"empty", "", write(t, "s", "\n"), "is empty"},
		{"missing", "", "/nonexistent", "no such file"},
		{"huge", "", write(t, "s", strings.Repeat("x", 70000)), "larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var p config.Problems
			config.Secret(&p, "--s", c.value, c.file)
			wantProblem(t, &p, "--s", c.want)
			if strings.Contains(p.Err().Error(), "hunter2") {
				t.Error("the problem shows the secret")
			}
		})
	}
}

func pair(t *testing.T) (key ed25519.PrivateKey, private, public string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "k.pem"), filepath.Join(dir, "k.pub.pem")
	if err := config.WriteKeyPair(key, private, public); err != nil {
		t.Fatal(err)
	}
	return key, private, public
}

func TestKeyPair_ComesBackAsItWasWritten(t *testing.T) {
	t.Parallel()
	key, private, public := pair(t)
	var p config.Problems
	got := config.PrivateKey(&p, "--k", private)
	pubs := config.PublicKeys(&p, "--p", []string{public, public})
	if p.Err() != nil || !got.Equal(key) || len(pubs) != 2 || !pubs[0].Equal(key.Public()) {
		t.Errorf("read back: %v, %d public keys, %v", got.Equal(key), len(pubs), p.Err())
	}
	if st, err := os.Stat(private); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("private key's mode: %v, %v", st.Mode(), err)
	}
}

func TestWriteKeyPair_NeverOverwrites(t *testing.T) {
	t.Parallel()
	key, private, public := pair(t)
	before, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.WriteKeyPair(key, private, public); err == nil {
		t.Error("wrote over an existing key")
	}
	if after, err := os.ReadFile(private); err != nil || string(after) != string(before) {
		t.Error("the existing key changed")
	}
}

func TestKeys_ProblemsNameFlagAndFile(t *testing.T) {
	t.Parallel()
	_, private, public := pair(t)
	text := write(t, "x.pem", "not a key")
	torn := write(t, "torn.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	tornPub := write(t, "torn.pub.pem", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
	for name, f := range map[string]func(*config.Problems){
		"HEADGATE_K":             func(p *config.Problems) { config.PrivateKey(p, "--k", "") },
		"not a PEM file":         func(p *config.Problems) { config.PrivateKey(p, "--k", text) },
		`holds a "PUBLIC KEY"`:   func(p *config.Problems) { config.PrivateKey(p, "--k", public) },
		"not a PKCS #8":          func(p *config.Problems) { config.PrivateKey(p, "--k", torn) },
		"is required":            func(p *config.Problems) { config.PublicKeys(p, "--k", nil) },
		"at most 2":              func(p *config.Problems) { config.PublicKeys(p, "--k", []string{public, public, public}) },
		`holds a "PRIVATE KEY"`:  func(p *config.Problems) { config.PublicKeys(p, "--k", []string{private}) },
		"not a PKIX":             func(p *config.Problems) { config.PublicKeys(p, "--k", []string{tornPub}) },
		"no such file or direct": func(p *config.Problems) { config.PublicKeys(p, "--k", []string{"/nonexistent"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p config.Problems
			f(&p)
			wantProblem(t, &p, "--k", name)
		})
	}
}

// commands is a command line to try files on.
type commands struct {
	Run struct {
		Listen string   `default:":1"`
		Count  int      `default:"1"`
		Fast   bool     ``
		Keys   []string ``
	} `cmd:""`
}

func parse(t *testing.T, file string, args ...string) (commands, error) {
	t.Helper()
	var c commands
	resolver, err := config.File(strings.NewReader(file))
	if err != nil {
		return c, err
	}
	k, err := kong.New(&c, kong.Name("x"), kong.Exit(func(int) {}), kong.Resolvers(resolver))
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Parse(append([]string{"run"}, args...))
	return c, err
}

func TestFile_GivesSettingsAndFlagsWin(t *testing.T) {
	t.Parallel()
	c, err := parse(t, `{"listen": ":2", "count": 7, "fast": true, "keys": ["a", "b"]}`, "--listen=:3")
	if err != nil {
		t.Fatal(err)
	}
	if c.Run.Listen != ":3" || c.Run.Count != 7 || !c.Run.Fast || strings.Join(c.Run.Keys, " ") != "a b" {
		t.Errorf("got %+v", c.Run)
	}
}

func TestFile_ProblemsNameTheSetting(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		`{"lisen": ":2"}`:          "lisen",
		`{"count": {"a": 1}}`:      "count",
		`{"count": "many"}`:        "count",
		`{"keys": [1]}`:            "element 0",
		`{"listen": null}`:         "listen",
		`["listen"]`:               "not a JSON object",
		`{"listen": ":2"} {}`:      "more than one",
		`{"listen": ":2"`:          "not a JSON object",
		strings.Repeat(" ", 70000): "larger than",
	} {
		if _, err := parse(t, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", file, err, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a": "b"}`, `{"a": ["b", "c"]}`, `{"a": 1e999}`, `[`, `null`, `{"a": {"b": []}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := config.File(strings.NewReader(s))
		if (r == nil) == (err == nil) {
			t.Errorf("%q: resolver %v, error %v", s, r, err)
		}
	})
}
