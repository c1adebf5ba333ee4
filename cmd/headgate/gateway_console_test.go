package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/config"
)

// problemsOf is what configuration problems say, "" when there are none.
func problemsOf(p *config.Problems) string {
	if err := p.Err(); err != nil {
		return err.Error()
	}
	return ""
}

func TestConsoleFlags_EachProblemIsNamed(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("t", 40)
	for want, flags := range map[string]consoleFlags{
		"--console-url: is needed":        {GatewayToken: token},
		"--gateway-token-file: is needed": {ConsoleURL: "https://c.example"},
		"must be http(s)://host[:port]":   {ConsoleURL: "ftp://c.example", GatewayToken: token},
		"16 or more characters":           {ConsoleURL: "https://c.example", GatewayToken: "short"},
		"--console-ca-file":               {ConsoleURL: "https://c.example", GatewayToken: token, ConsoleCAFile: "/does/not/exist"},
		"only one of them may be":         {ConsoleURL: "https://c.example", GatewayToken: token, GatewayTokenFile: "/x"},
	} {
		var p config.Problems
		way := flags.console(&p)
		if way != nil {
			way.Close()
		}
		if got := problemsOf(&p); !strings.Contains(got, want) {
			t.Errorf("%+v: %q does not say %q", flags, got, want)
		}
	}
	var p config.Problems
	if (consoleFlags{}).console(&p) != nil || problemsOf(&p) != "" {
		t.Errorf("without any flag: %s", problemsOf(&p))
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	way := consoleFlags{ConsoleURL: "https://c.example:8443", GatewayTokenFile: file}.console(&p)
	if way == nil || problemsOf(&p) != "" {
		t.Fatalf("good flags: %s", problemsOf(&p))
	}
	way.Close()
}

func TestGatewayTokens_TakeTwoWhileOneIsBeingChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b := file("a", strings.Repeat("a", 32)), file("b", strings.Repeat("b", 32)+"\n")
	var p config.Problems
	if got := gatewayTokens(&p, "", []string{a, b}); len(got) != 2 || got[1] != strings.Repeat("b", 32) || problemsOf(&p) != "" {
		t.Fatalf("%v, %s", got, problemsOf(&p))
	}
	if got := gatewayTokens(&p, "", nil); len(got) != 0 || problemsOf(&p) != "" {
		t.Fatalf("none: %v, %s", got, problemsOf(&p))
	}
	for want, files := range map[string][]string{
		"two are the most": {a, b, a}, "32 or more characters": {file("c", "short")},
	} {
		var p config.Problems
		gatewayTokens(&p, "", files)
		if got := problemsOf(&p); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}
