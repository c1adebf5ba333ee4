package console_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy/apikey"
)

// People paste whole keys into the wrong place: into a reason, a name, the search
// or a column of a file. None of them is kept, and none is logged.
func TestTexts_A16_AKeyInTheWrongPlaceIsNeitherKeptNorLogged(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	var log bytes.Buffer
	e.deps.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ten := e.tenant(t, "A")
	is := e.issue(t, ten.ID)
	key := is.Secret.Reveal()
	secret := key[len("hg_live_")+len(is.KeyVersion.KID)+1:]
	kid, digest := foreignKey(1)
	file := func(name, row string) func() error {
		return func() error {
			_, err := e.bulk.Create(e.ctx, e.me, console.NewBulk{Kind: console.BulkImportKeys, Name: name, Reason: "from " + key, Format: console.BulkCSV,
				Input: strings.NewReader("tenant,name,environment,kid,digest,scopes\n" + row + "\n")})
			e.work(t)
			return err
		}
	}
	admin := actorOf(e.joined(t, ten.ID, "a@a.example", console.RoleTenantAdmin))
	for _, c := range []struct {
		name string
		do   func() error
		want console.Code
	}{
		{"scopes of a row", file("f", ten.ID+",n,live,"+kid+","+digest+",read "+key), ""},
		{"name of a row", file("f", ten.ID+",my "+key+" key,live,"+kid+","+digest+","), ""},
		{"tenant of a row", file("f", key+",n,live,"+kid+","+digest+","), ""},
		{"name of a file", file(key+".csv", ten.ID+",n,live,"+kid+","+digest+","), ""},
		{"filter of an export", func() error { return console.NewExports(e.deps).Begin(e.ctx, owner, "keys", "q="+key+"&state=active") }, ""},
		{"reason", func() error { _, err := e.tenants.Suspend(e.ctx, owner, ten.ID, "they sent me "+key); return err }, ""},
		{"reason, again", func() error { _, err := e.tenants.Resume(e.ctx, owner, ten.ID, key+key); return err }, ""},
		{"name", func() error {
			_, err := e.keys.IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "old one: " + key, Environment: "live"})
			return err
		}, ""},
		{"scopes", func() error {
			_, err := e.keys.IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "n", Environment: "live", Scopes: []string{key}})
			return err
		}, console.CodeInvalid},
		{"member's reason", func() error {
			_, err := console.NewPortal(e.deps, e.store).StartRotation(e.ctx, admin, is.Credential.ID, console.NewRotation{Overlap: time.Hour, Reason: "lost " + key})
			return err
		}, ""},
	} {
		err := c.do()
		wantCodeNamed(t, c.name, err, c.want)
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats the secret: %v", c.name, err)
		}
		if strings.Contains(e.dump(t), secret) {
			t.Fatalf("%s: the secret is in the database", c.name)
		}
	}
	if strings.Contains(log.String(), secret) {
		t.Error("the secret was logged")
	}
	if masked := apikey.Mask(key); !strings.Contains(e.dump(t), "they sent me "+masked) {
		t.Errorf("the reason does not say %s", masked)
	}
}

// What ends in a year of five digits cannot be written as JSON: not into the
// audit trail, and not into the record that gateways read.
func TestEnds_AFarYearIsRefusedByNameWhereverItIsGiven(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	ten := e.tenant(t, "A")
	op, err := e.operators.Create(e.ctx, owner, console.NewOperator{Email: "ben@example.com", Name: "Ben", Role: console.RoleOwner})
	if err != nil {
		t.Fatal(err)
	}
	overrides := console.NewOverrides(e.deps)
	for _, at := range []time.Time{
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 0, 0, time.FixedZone("", -3600)), time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		for name, do := range map[string]func() error{
			"credential": func() error {
				_, err := e.keys.IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "n", Environment: "live", ExpiresAt: &at})
				return err
			},
			"token": func() error {
				_, _, err := e.operators.IssueToken(e.ctx, owner, op.ID, "ci", &at)
				return err
			},
			"set-expiry": func() error {
				_, err := e.bulk.Create(e.ctx, e.me, console.NewBulk{Kind: console.BulkSetExpiry, Reason: "r", Selection: console.BulkSelection{ExpiresAt: &at}})
				return err
			},
			"override": func() error {
				o := console.NewOverride{Limit: "requests", ExpiresAt: &at, Reason: "r"}
				_, err := overrides.Set(e.ctx, owner, ten.ID, o)
				return err
			},
		} {
			wantCodeNamed(t, name, do(), console.CodeInvalid)
		}
	}
	kid, digest := foreignKey(1)
	j := e.create(t, console.BulkImportKeys, "tenant,name,environment,kid,digest,expires_at\n"+ten.ID+",n,live,"+kid+","+digest+",9999-12-31T23:59:59-01:00\n")
	e.work(t)
	if got := messages(e.rows(t, j.ID, console.RowBad)); !strings.Contains(got, "expires_at") {
		t.Errorf("the row is not bad: %s", got)
	}
	last := time.Date(9998, 12, 31, 0, 0, 0, 0, time.UTC)
	if _, err := e.keys.IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "n", Environment: "live", ExpiresAt: &last}); err != nil {
		t.Errorf("the last year: %v", err)
	}
}
