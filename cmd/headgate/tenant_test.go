package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/web/api"
)

// shells runs a command against the desk's console and returns its status and
// both outputs.
func (d *desk) shells(args ...string) (status int, out, errs string) {
	d.t.Helper()
	token := filepath.Join(d.t.TempDir(), "token")
	put(d.t, token, d.w.Tokens[d.role]+"\n")
	var stdout, stderr bytes.Buffer
	all := append(args, "--console-url", d.url, "--token-file", token, "--console-ca-file", d.ca, "--retry=0s")
	status = run(all, nil, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// good runs a command that must end with 0, and returns what it printed.
func (d *desk) good(args ...string) string {
	d.t.Helper()
	status, out, errs := d.shells(args...)
	if status != 0 {
		d.t.Fatalf("headgate %s ended with %d:\n%s%s", strings.Join(args, " "), status, out, errs)
	}
	return out
}

// bad runs a command that must end with a status and say something on standard error.
func (d *desk) bad(status int, says string, args ...string) {
	d.t.Helper()
	got, out, errs := d.shells(args...)
	if got != status || !strings.Contains(errs, says) {
		d.t.Errorf("headgate %s ended with %d, want %d and %q:\n%s%s", strings.Join(args, " "), got, status, says, out, errs)
	}
}

func TestTenant_FromItsCreationToItsEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	id := strings.TrimSpace(d.good("tenant", "create", "Acme", "--plan", "free", "--external-id", "crm-1"))
	if !strings.HasPrefix(id, "ten_") || strings.Contains(id, "\n") {
		t.Fatalf("create printed %q", id)
	}
	d.bad(2, "plan", "tenant", "create", "Beta", "--plan", "gold")
	if out := d.good("tenant", "list"); !strings.Contains(out, "ID ") || !strings.Contains(out, id) || !strings.Contains(out, "crm-1") {
		t.Errorf("list printed\n%s", out)
	}
	var list []api.Tenant
	if err := json.Unmarshal([]byte(d.good("tenant", "list", "crm-1", "-o", "json")), &list); err != nil || len(list) != 1 || list[0].ID != id {
		t.Errorf("got %v, %v", list, err)
	}
	if out := d.good("tenant", "list", "--csv"); !strings.HasPrefix(out, "id,name,") || !strings.Contains(out, id+",Acme,crm-1,free,") {
		t.Errorf("got %s", out)
	}
	if out := d.good("tenant", "show", id); !strings.Contains(out, "name:") || !strings.Contains(out, "LIMIT") {
		t.Errorf("show printed\n%s", out)
	}
	if out := d.good("tenant", "set", id, "--name", "Acme Inc"); !strings.Contains(out, "Acme Inc") {
		t.Errorf("set printed\n%s", out)
	}
	d.bad(1, "must say what to change", "tenant", "set", id)
	d.bad(1, "--reason", "tenant", "suspend", id)
	if _, _, errs := d.shells("tenant", "suspend", id, "--reason", "unpaid"); !strings.Contains(errs, "refused on 3 of 3 gateways after") {
		t.Errorf("suspend said %s", errs)
	}
	d.bad(1, "suspended", "tenant", "suspend", id, "--reason", "unpaid")
	d.good("tenant", "resume", id)
	d.bad(1, "--yes", "tenant", "delete", id, "--reason", "left")
	d.good("tenant", "delete", id, "--reason", "left", "--yes")
	d.bad(1, "There is no such tenant", "tenant", "show", "ten_aaaaaaaaaaaaaaaa")
	d.as(console.RoleViewer).bad(1, "Your role does not allow this", "tenant", "create", "X", "--plan", "free")
}

func TestTenant_OverridesAndBoosts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	id := strings.TrimSpace(d.good("tenant", "create", "Acme", "--plan", "free"))
	d.bad(1, "--rate", "tenant", "override", id, "plan.requests", "--reason", "x")
	d.bad(1, "--rate", "tenant", "override", id, "plan.requests", "--reason", "x", "--rate", "9/minute", "--clear")
	if _, _, errs := d.shells("tenant", "override", id, "plan.requests", "--rate", "6000/minute", "--burst", "500", "--reason", "sold", "--until", "30d"); !strings.Contains(errs, "plan.requests: 6000/minute") {
		t.Errorf("override said %s", errs)
	}
	d.bad(2, "", "tenant", "override", id, "plan.requests", "--rate", "1/minute", "--burst", "1", "--reason", "x")
	d.good("tenant", "override", id, "plan.requests", "--rate", "1/minute", "--burst", "1", "--reason", "x", "--lower")
	d.good("tenant", "boost", id, "plan.requests", "--factor", "2", "--for", "1d", "--reason", "launch")
	d.bad(1, "--factor", "tenant", "boost", id, "plan.requests", "--reason", "launch")
	if out := d.good("tenant", "show", id); !strings.Contains(out, "boost") {
		t.Errorf("show printed\n%s", out)
	}
	d.good("tenant", "boost", id, "plan.requests", "--end", "--reason", "over")
	d.good("tenant", "override", id, "plan.requests", "--clear", "--reason", "over")
}

func TestKey_I05_SecretsAreOnStandardOutputAloneAndNeverInArguments(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	id := strings.TrimSpace(d.good("tenant", "create", "Acme", "--plan", "free"))
	status, out, errs := d.shells("key", "create", id, "--name", "main", "--scope", "read", "--scope", "write", "--expires", "90d")
	key := strings.TrimSpace(out)
	parsed, err := apikey.Parse(key)
	if status != 0 || err != nil || strings.Contains(errs, key) || !strings.Contains(errs, "shown this once") {
		t.Fatalf("create ended with %d: %q, %q", status, out, errs)
	}
	for _, args := range [][]string{{"revoke", key, "--reason", "x"}, {"show", key}, {"rotate", key, "--reason", "x"}, {"list", key}, {"suspend", key, "--reason", "x"}} {
		status, out, errs := d.shells(append([]string{"key"}, args...)...)
		if status != 1 || !strings.Contains(errs, "is a whole key") || strings.Contains(out+errs, key) {
			t.Errorf("key %s ended with %d: %s", args[0], status, errs)
		}
	}
	if out := d.good("key", "list", "--tenant", id); !strings.Contains(out, parsed.KID) || !strings.Contains(out, "active") {
		t.Errorf("list printed\n%s", out)
	}
	if out := d.good("key", "show", parsed.KID); !strings.Contains(out, "NETWORK") || strings.Contains(out, "sha256") {
		t.Errorf("show printed\n%s", out)
	}
	_, out, errs = d.shells("key", "rotate", parsed.KID, "--overlap", "2d", "--reason", "routine")
	if _, err := apikey.Parse(strings.TrimSpace(out)); err != nil || !strings.Contains(errs, "rotation rot_") {
		t.Errorf("rotate printed %q, %q", out, errs)
	}
	var rotations []api.Rotation
	if err := json.Unmarshal([]byte(d.good("key", "rotation", "list", "-o", "json")), &rotations); err != nil || len(rotations) != 1 || rotations[0].OldKID != parsed.KID {
		t.Fatalf("got %v, %v", rotations, err)
	}
	rot := rotations[0].ID
	if out := d.good("key", "rotation", "show", rot); !strings.Contains(out, "old key:") {
		t.Errorf("show printed\n%s", out)
	}
	d.bad(3, "cannot be ended yet", "key", "rotation", "show", rot, "--exit-code")
	d.good("key", "rotation", "extend", rot, "--by", "1d", "--reason", "late")
	d.good("key", "rotation", "end", rot, "--reason", "switched")
	d.bad(1, "", "key", "rotation", "cancel", rot, "--reason", "too late")
	d.good("key", "suspend", rotations[0].NewKID, "--reason", "look")
	d.good("key", "resume", rotations[0].NewKID)
	if _, _, errs := d.shells("key", "revoke", rotations[0].NewKID, "--reason", "leak"); !strings.Contains(errs, "revoked: refused on 3 of 3 gateways after") {
		t.Errorf("revoke said %s", errs)
	}
	d.bad(1, parsed.KID, "key", "revoke", rotations[0].NewKID, parsed.KID, "--reason", "leak")
}

func TestBulk_FromAFileToTheLastRow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	dir := t.TempDir()
	file := filepath.Join(dir, "tenants.csv")
	put(t, file, "name,plan,external_id\nAcme,free,a\nBeta,free,b\nBad,gold,c\n")
	status, out, errs := d.shells("bulk", "import", "tenants", file, "--reason", "moving in")
	if status != 2 || !strings.Contains(errs, "1 row of 3 cannot be used") || !strings.Contains(out, "would do:") {
		t.Fatalf("import ended with %d: %s%s", status, out, errs)
	}
	id := out[strings.Index(out, "blk_"):][:20]
	if out := d.good("bulk", "rows", id, "--outcome", "bad"); !strings.Contains(out, "no such plan") {
		t.Errorf("rows printed\n%s", out)
	}
	if out := d.good("bulk", "start", id); !strings.Contains(out, "done") {
		t.Errorf("start printed\n%s", out)
	}
	d.bad(1, "already", "bulk", "cancel", id)
	lines := filepath.Join(dir, "keys.ndjson")
	var b strings.Builder
	for i := range 3 {
		fmt.Fprintf(&b, `{"tenant": "a", "name": "k%d", "environment": "live", "kid": "K0000000000%d", "digest": "sha256:%064x"}`+"\n", i, i, i+1)
	}
	put(t, lines, b.String())
	var job api.BulkJob
	out = d.good("key", "import", lines, "--reason", "moving in", "--start", "-o", "json")
	if err := json.Unmarshal([]byte(out), &job); err != nil || job.State != "done" || job.Done != 3 {
		t.Errorf("import printed %s, %v", out, err)
	}
	d.bad(2, "the column kid is missing", "key", "import", file, "--reason", "wrong file")
	d.bad(1, "no such file", "key", "import", filepath.Join(dir, "none"), "--reason", "x")
	out = d.good("bulk", "set-expiry", "--at", "90d", "--tenant", tenantCalled(t, d, "a"), "--reason", "policy", "--start")
	if !strings.Contains(out, "done:        3") {
		t.Errorf("set-expiry printed\n%s", out)
	}
	out = d.good("bulk", "change-plan", "--to", "free", "--reason", "x")
	if !strings.Contains(out, "would skip:  2") {
		t.Errorf("change-plan printed\n%s", out)
	}
	for _, verb := range []string{"suspend", "resume"} {
		if out := d.good("bulk", verb, "--plan", "free", "--reason", "x", "--start"); !strings.Contains(out, "done:        2") {
			t.Errorf("%s printed\n%s", verb, out)
		}
		d.bad(2, "all tenants at once is never meant", "bulk", verb, "--reason", "x")
	}
	if out := d.good("bulk", "show", out[strings.Index(out, "blk_"):][:20], "--wait"); !strings.Contains(out, "ready") {
		t.Errorf("show printed\n%s", out)
	}
	d.w.KeyUse.SetAge(console.UseAge{Since: time.Now().AddDate(-1, 0, 0), Through: time.Now()})
	if out := d.good("bulk", "revoke-unused", "--days", "30", "--reason", "x"); !strings.Contains(out, "rows:        0") {
		t.Errorf("revoke-unused printed\n%s", out)
	}
	if out := d.good("bulk", "list", "--state", "done"); strings.Count(out, "blk_") != 5 {
		t.Errorf("list printed\n%s", out)
	}
	d.as(console.RoleViewer).bad(1, "Your role does not allow this", "bulk", "change-plan", "--to", "free", "--reason", "x")
}

func tenantCalled(t *testing.T, d *desk, ref string) string {
	t.Helper()
	var list []api.Tenant
	if err := json.Unmarshal([]byte(d.good("tenant", "list", ref, "-o", "json")), &list); err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	return list[0].ID
}

func TestShell_WhatOthersNamedCannotMoveTheCursor(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"a\x1b[2Jb": "a\uFFFD[2Jb", "a\tb\nc": "a\uFFFDb\uFFFDc", "a\u202eb": "a\uFFFDb", "": "-", "Ä": "Ä"} {
		if got := shown(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	if got := shown((*time.Time)(nil)); got != "-" {
		t.Errorf("got %q", got)
	}
}

func TestShell_SpansAndMoments(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{"7d": 168 * time.Hour, "0s": 0, "90m": 90 * time.Minute, "0d": 0} {
		var d days
		if err := d.UnmarshalText([]byte(in)); err != nil || time.Duration(d) != want {
			t.Errorf("%s: got %v, %v", in, time.Duration(d), err)
		}
	}
	for _, in := range []string{"", "d", "-1d", "1w", "7 d", "99999999d"} {
		var d days
		if err := d.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q is taken for %v", in, time.Duration(d))
		}
		var m moment
		if err := m.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q is taken for %v", in, m.Time)
		}
	}
	var m moment
	if err := m.UnmarshalText([]byte("2027-01-31")); err != nil || m.Format(time.RFC3339) != "2027-01-31T00:00:00Z" {
		t.Errorf("got %v, %v", m, err)
	}
}

// shellHeading begins the part of docs/cli.md about tenants, keys and bulk jobs.
const shellHeading = "## Tenants, keys and bulk jobs\n"

func TestShellDocs_CommandsAndFlagsOfThePageExist(t *testing.T) {
	t.Parallel()
	parser, _ := policyNode(t)
	_, page, ok := strings.Cut(cliPage(t), shellHeading)
	if !ok {
		t.Fatal("the page has no such part")
	}
	flags := map[string]bool{}
	var walk func(n *kong.Node, named string)
	walk = func(n *kong.Node, named string) {
		for _, f := range n.Flags {
			flags[f.Name] = true
			if f.Tag.Negatable != "" {
				flags["no-"+f.Name] = true
			}
			if f.Help == "" {
				t.Errorf("%s --%s has no help", named, f.Name)
			}
		}
		if !regexp.MustCompile("[`·] ?(key |tenant |bulk |key rotation |lockout |usage |advisor )?([a-z-]+ · )*" + n.Name + "\\b").MatchString(page) {
			t.Errorf("the page does not name %s", named)
		}
		for _, c := range n.Children {
			walk(c, named+" "+c.Name)
		}
	}
	for _, n := range parser.Model.Children {
		if slices.Contains([]string{"tenant", "key", "bulk", "lockout", "explain", "usage", "knee", "advisor", "doctor"}, n.Name) {
			walk(n, n.Name)
		}
	}
	for _, m := range regexp.MustCompile("(?:^|[ `(])--([a-z][a-z-]+)").FindAllStringSubmatch(page, -1) {
		if !flags[m[1]] {
			t.Errorf("the page names --%s, which no command has", m[1])
		}
	}
}

func FuzzSpan(f *testing.F) {
	for _, s := range []string{"7d", "24h", "2027-01-31", "d", "-1d", "9999999999d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d days
		if err := d.UnmarshalText([]byte(s)); err == nil && strings.HasSuffix(s, "d") && d < 0 {
			t.Errorf("%q is %v", s, time.Duration(d))
		}
		var m moment
		_ = m.UnmarshalText([]byte(s))
	})
}
