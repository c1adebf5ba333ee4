package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func invoke(args, env []string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, env, &out, &errs)
	return code, out.String(), errs.String()
}

func TestRun_HelpListsWhatUsersNeedAndHidesTheRest(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}} {
		code, out, errs := invoke(args, nil)
		if code != 0 || errs != "" {
			t.Errorf("%v: status %d, %s", args, code, errs)
		}
		for _, want := range []string{"console", "gateway", "migrate", "user", "keys", "demo"} {
			if !strings.Contains(out, "\n  "+want+" ") {
				t.Errorf("%v: help does not list %s", args, want)
			}
		}
		for _, hidden := range []string{"upstream", "traffic", "run-as"} {
			if strings.Contains(out, "\n  "+hidden+" ") {
				t.Errorf("%v: help lists %s", args, hidden)
			}
		}
	}
}

func TestRun_VersionIsPrinted(t *testing.T) {
	t.Parallel()
	code, out, _ := invoke([]string{"--version"}, nil)
	if code != 0 || !strings.HasPrefix(out, "headgate ") {
		t.Errorf("status %d, %q", code, out)
	}
}

func TestRun_ACommandLineThatCannotBeUnderstoodIsStatus2(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"frobnicate"}, "frobnicate"},
		{[]string{"keys", "--colour=red", "x"}, "--colour"},
		{[]string{"demo", "--gateways=many"}, "--gateways"},
		{[]string{"--config=/nonexistent", "demo"}, "/nonexistent"},
	} {
		code, _, errs := invoke(c.args, nil)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: status %d: %s", c.args, code, errs)
		}
	}
}

func TestRun_AFailureIsStatus1(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := invoke([]string{"keys", filepath.Join(file, "dir")}, nil)
	if code != 1 || !strings.Contains(errs, "make folder for keys") {
		t.Errorf("status %d: %s", code, errs)
	}
}

func TestRun_WarnsOfVariablesThatNothingReads(t *testing.T) {
	t.Parallel()
	env := []string{"HEADGATE_REDSI_URL=x", "HEADGATE_REDIS_URL=y", "HEADGATE_PG_BIN=/p", "HEADGATE_SERVICE_HOST=10.0.0.1",
		"HEADGATE_PORT_80_TCP=tcp://10.0.0.1:80", "OTHER=1"}
	_, _, errs := invoke([]string{"keys", t.TempDir()}, env)
	if !strings.Contains(errs, "HEADGATE_REDSI_URL") || strings.Count(errs, "warning") != 1 {
		t.Errorf("warned: %s", errs)
	}
	if strings.Contains(errs, "=x") {
		t.Error("the warning shows a value")
	}
}

func TestFlags_EachHasItsVariableAndHelp(t *testing.T) {
	t.Parallel()
	var c cli
	parser, err := kong.New(&c, kong.DefaultEnvars("HEADGATE"), kong.Writers(io.Discard, io.Discard), kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		for _, f := range command.Flags {
			if f.Help == "" {
				t.Errorf("%s --%s has no help", command.Name, f.Name)
			}
			if len(f.Envs) == 0 && !command.Hidden {
				t.Errorf("%s --%s cannot be set by the environment", command.Name, f.Name)
			}
		}
	}
}

func TestKeys_WritesAPairThatIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	private, public, err := writeSigningKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]os.FileMode{private: 0o600, public: 0o644} {
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, st, err)
		}
	}
	if _, _, err := writeSigningKeys(dir); err == nil {
		t.Error("a second pair was written over the first")
	}
}
