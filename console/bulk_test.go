package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
)

// bulkEnv is a console whose bulk jobs are worked on step by step.
type bulkEnv struct {
	*env
	bulk *console.Bulk
	uses *fakeUses
	me   console.Actor
}

// fakeUses is what is known of the use of keys, as tests say.
type fakeUses struct {
	mu    sync.Mutex
	known map[string]console.KeyUse
	age   console.UseAge
}

func (f *fakeUses) Uses(_ context.Context, kids []string) (map[string]console.KeyUse, console.UseAge, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]console.KeyUse{}
	for _, kid := range kids {
		if u, ok := f.known[kid]; ok {
			out[kid] = u
		}
	}
	return out, f.age, nil
}

func (f *fakeUses) Sources(context.Context, string, time.Time, int) ([]console.KeySource, console.UseAge, error) {
	return nil, f.age, nil
}

func (f *fakeUses) set(fn func()) { f.mu.Lock(); defer f.mu.Unlock(); fn() }

func newBulkEnv(t testing.TB) *bulkEnv {
	t.Helper()
	e := &bulkEnv{env: newEnv(t), uses: &fakeUses{known: map[string]console.KeyUse{}}}
	e.uses.age = console.UseAge{Through: e.clock.now(), Since: e.clock.now().AddDate(-1, 0, 0)}
	e.deps.KeyUse = e.uses
	e.bulk = console.NewBulkJobs(e.deps)
	e.me = e.actor(t, console.RoleOwner, "ann")
	e.publish(t, "50", 0)
	return e
}

// actor is an operator who exists.
func (e *env) actor(t testing.TB, role console.Role, name string) console.Actor {
	t.Helper()
	o, err := e.operators.Create(e.ctx, console.SystemActor(), console.NewOperator{Email: name + "@example.com", Name: name, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	return console.Actor{ID: o.ID, Name: o.Name, Role: role, Via: console.ViaConsole, IP: "192.0.2.7", RequestID: "req-1"}
}

// work works until no job can get on.
func (e *bulkEnv) work(t testing.TB) {
	t.Helper()
	for busy := 0; ; {
		worked, err := e.bulk.Work(e.ctx)
		switch {
		case console.CodeOf(err) == console.CodeUnavailable && busy < 20: // a machine with too much to do
			busy++
			e.clock.add(6 * time.Second)
		case err != nil:
			t.Fatal(err)
		case !worked:
			return
		}
	}
}

func (e *bulkEnv) create(t *testing.T, kind console.BulkKind, csv string) console.BulkJob {
	t.Helper()
	j, err := e.bulk.Create(e.ctx, e.me, console.NewBulk{Kind: kind, Name: "file.csv", Reason: "moving in", Format: console.BulkCSV, Input: strings.NewReader(csv)})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (e *bulkEnv) selected(t *testing.T, kind console.BulkKind, s console.BulkSelection) console.BulkJob {
	t.Helper()
	j, err := e.bulk.Create(e.ctx, e.me, console.NewBulk{Kind: kind, Reason: "tidying up", Selection: s})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (e *bulkEnv) get(t testing.TB, id string) console.BulkJob {
	t.Helper()
	j, err := e.bulk.Get(e.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (e *bulkEnv) start(t testing.TB, id string) {
	t.Helper()
	if _, err := e.bulk.Start(e.ctx, e.me, id); err != nil {
		t.Fatal(err)
	}
}

// done checks and does a job.
func (e *bulkEnv) done(t *testing.T, id string) console.BulkJob {
	t.Helper()
	e.work(t)
	e.start(t, id)
	e.work(t)
	j := e.get(t, id)
	if j.State != console.BulkDone {
		t.Fatalf("the job is %s (%s), want done", j.State, j.Problem)
	}
	return j
}

func (e *bulkEnv) rows(t *testing.T, id, outcome string) []console.BulkRow {
	t.Helper()
	var out []console.BulkRow
	page := console.Page{Limit: 200}
	for {
		rows, next, err := e.bulk.Rows(e.ctx, id, outcome, page)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rows...)
		if next == "" {
			return out
		}
		page.After = next
	}
}

// messages are rows as "line outcome message".
func messages(rows []console.BulkRow) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%d %s %s: %s\n", r.Line, r.Outcome, r.Subject, r.Message)
	}
	return b.String()
}

// counts are the rows of each table that a job could change.
func (e *env) counts(t *testing.T) string {
	t.Helper()
	conn, err := pgx.Connect(e.ctx, e.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(e.ctx)) }()
	var out string
	err = conn.QueryRow(e.ctx, `SELECT concat_ws(' ', (SELECT count(*) FROM tenants), (SELECT count(*) FROM credentials), (SELECT count(*) FROM key_versions),
	  (SELECT count(*) FROM outbox), (SELECT sum(seq) FROM tenants), (SELECT sum(seq) FROM key_versions))`).Scan(&out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// foreignKey is a key that was made elsewhere, with its kid and digest.
func foreignKey(n int) (kid, digest string) {
	sum := sha256.Sum256(fmt.Append(nil, n))
	return fmt.Sprintf("K%011d", n), "sha256:" + hex.EncodeToString(sum[:])
}

func keysCSV(tenant string, from, n int) string {
	var b strings.Builder
	b.WriteString("tenant,name,environment,kid,digest\n")
	for i := from; i < from+n; i++ {
		kid, digest := foreignKey(i)
		fmt.Fprintf(&b, "%s,key %d,live,%s,%s\n", tenant, i, kid, digest)
	}
	return b.String()
}

func TestBulk_C07_DryRunTellsEverythingAndChangesNothing(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	there := e.issue(t, acme.ID)
	before, audited := e.counts(t), len(e.events(t))
	kid, digest := foreignKey(1)
	_, other := foreignKey(2)
	_, third := foreignKey(3)
	csv := "kid,digest,tenant,name,environment,scopes,expires_at\r\n" +
		kid + "," + digest + "," + acme.ID + ",good,live,read write,2027-01-31\r\n" +
		kid + "," + other + "," + acme.ID + ",same kid,live,,\r\n" +
		"K00000000003," + digest + "," + acme.ID + ",same digest,live,,\r\n" +
		there.KeyVersion.KID + "," + other + "," + acme.ID + ",taken kid,live,,\r\n" +
		"K00000000004," + there.KeyVersion.Digest + "," + acme.ID + ",taken digest,live,,\r\n" +
		there.KeyVersion.KID + "," + there.KeyVersion.Digest + "," + acme.ID + ",already there,live,,\r\n" +
		"K00000000005," + third + ",nobody,unknown tenant,live,,\r\n" +
		"short," + other + "," + acme.ID + ",,prod,No Good,yesterday\r\n" +
		"one,two\r\n"
	j := e.create(t, console.BulkImportKeys, csv)
	e.work(t)
	j = e.get(t, j.ID)
	if j.State != console.BulkReady || j.Total != 9 || j.Checked != 9 || j.WouldDo != 1 || j.WouldSkip != 1 || j.Bad != 7 {
		t.Errorf("got %+v", j)
	}
	want := `2 would-do ` + kid + `: live key good of ` + acme.ID + `
3 bad ` + kid + `: kid: Line 2 has the same kid.
4 bad K00000000003: digest: Line 2 has the same digest.
5 bad ` + there.KeyVersion.KID + `: digest: Line 3 has the same digest.
6 bad K00000000004: digest: The key ` + there.KeyVersion.KID + ` has this digest already.
7 would-skip ` + there.KeyVersion.KID + `: The tenant has this key already.
8 bad K00000000005: tenant: There is no tenant with this id or external id.
`
	got := messages(e.rows(t, j.ID, ""))
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, part := range []string{"9 bad", "name: This must not be empty.", "environment: This must be live or test.", "kid: This must be the 12",
		`scopes: "No" is not a scope`, "expires_at: This must be a time such as", "10 bad : It has 2 cells, and the header has 7."} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	if after := e.counts(t); after != before {
		t.Errorf("rows were %s, are %s", before, after)
	}
	if n := len(e.events(t)); n != audited+1 {
		t.Errorf("%d events, want the one of the creation", n-audited)
	}
}

func TestBulk_ImportedKeysAreKeysLikeOthers(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "Acme", Plan: "free", ExternalID: "crm-7"})
	if err != nil {
		t.Fatal(err)
	}
	secret, kid, err := apikey.Generate("live", strings.NewReader(strings.Repeat("0123456789abcdef", 8)))
	if err != nil {
		t.Fatal(err)
	}
	j := e.create(t, console.BulkImportKeys, "tenant,name,environment,kid,digest,scopes,expires_at\ncrm-7,old,live,"+kid+","+apikey.Digest(secret.Reveal())+",read write,2027-06-01T00:00:00Z\n")
	j = e.done(t, j.ID)
	if j.Done != 1 || j.Failed != 0 {
		t.Errorf("got %+v", j)
	}
	k := e.key(t, kid)
	if k.TenantID != acme.ID || k.State != policy.KeyActive || k.Seq != 1 || !apikey.Equal(k.Digest, secret.Reveal()) || len(k.Scopes) != 2 || k.NotAfter == nil {
		t.Errorf("got %+v", k)
	}
	r, err := e.rotations.Start(e.ctx, owner, k.CredentialID, console.NewRotation{Overlap: time.Hour, Reason: "ours from now on"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rotation.OldKID != kid {
		t.Errorf("the rotation is of %s", r.Rotation.OldKID)
	}
	if _, err := e.keys.Revoke(e.ctx, owner, kid, "leak"); err != nil {
		t.Error(err)
	}
	// The gateways are told.
	run(t, console.NewRelay(e.deps, e.store).Run)
	e.feed.until(t, "the record of the imported key", func() bool { return e.feed.records[kid].Seq >= 1 })
}

func TestBulk_A_SecondImportOfTheSameFileDoesNothing(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	csv := keysCSV(acme.ID, 1, 5)
	e.done(t, e.create(t, console.BulkImportKeys, csv).ID)
	j := e.create(t, console.BulkImportKeys, csv)
	e.work(t)
	if j = e.get(t, j.ID); j.WouldSkip != 5 || j.WouldDo != 0 {
		t.Errorf("got %+v", j)
	}
	_, err := e.bulk.Start(e.ctx, e.me, j.ID)
	wantCode(t, err, console.CodeConflict)
}

func TestBulk_EachStepIsOneEventThatNamesWhatItChanged(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	j := e.done(t, e.create(t, console.BulkImportKeys, keysCSV(acme.ID, 0, 2500)).ID)
	if j.Done != 2500 {
		t.Fatalf("got %+v", j)
	}
	var steps []string
	named := 0
	for _, ev := range e.events(t) {
		if ev.Action != "bulk.step" {
			continue
		}
		steps = append(steps, string(ev.After[:40]))
		named += strings.Count(string(ev.After), `"K0`)
		if ev.ObjectID != j.ID || ev.ActorID != e.me.ID || ev.Via != console.ViaSystem || ev.Reason != "moving in" {
			t.Errorf("the event says %+v", ev)
		}
	}
	if len(steps) < 3 || named != 2500 {
		t.Errorf("%d events name %d keys: %v", len(steps), named, steps)
	}
	if good, _, problem, err := e.audit.Verify(e.ctx); err != nil || problem != nil || good == 0 {
		t.Errorf("the trail: %d good, %v, %v", good, problem, err)
	}
	if rows := e.rows(t, j.ID, console.RowDone); len(rows) != 2500 || rows[2499].Line != 2501 {
		t.Errorf("%d rows are done", len(rows))
	}
}

func TestBulk_TenantsAreImported(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	if _, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "Taken", Plan: "free", ExternalID: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "Theirs", Plan: "free", ExternalID: "u"}); err != nil {
		t.Fatal(err)
	}
	in := `{"name": "Acme", "plan": "free", "external_id": "a", "time_zone": "Europe/Berlin"}
{"name": "Beta", "plan": "pro"}

{"name": "Taken", "plan": "free", "external_id": "t", "time_zone": null}
{"name": "Other", "plan": "free", "external_id": "t"}
{"name": "Acme two", "plan": "free", "external_id": "a"}
{"name": "No plan", "plan": "gold"}
{"name": "No zone", "plan": "free", "time_zone": "Mars/Base"}
{"name": "Twice", "name": "Twice", "plan": "free"}
{"name": "Unknown", "plan": "free", "colour": "red"}
{"name": 7, "plan": "free"}
["name"]
{"name": "Cut", "plan": "free"
{"name": "After", "plan": "free"} {}
{"name": "Not theirs", "plan": "free", "external_id": "u"}`
	j, err := e.bulk.Create(e.ctx, e.me, console.NewBulk{Kind: console.BulkImportTenants, Name: "in.ndjson", Reason: "moving in", Format: console.BulkJSONLines, Input: strings.NewReader(in)})
	if err != nil {
		t.Fatal(err)
	}
	j = e.done(t, j.ID)
	if j.Done != 2 || j.WouldSkip != 1 || j.Bad != 11 {
		t.Errorf("got %+v", j)
	}
	got := messages(e.rows(t, j.ID, ""))
	for _, part := range []string{
		"1 done a: on the plan free", "2 done Beta: on the plan pro", "4 would-skip t: There is such a tenant already.",
		"5 bad t: external_id: Line 4 has the same external id.", "6 bad a: external_id: Line 1 has the same external id.",
		"7 bad No plan: plan: The policy in force has no such plan; it has free, pro.", "8 bad : time_zone: This is not the name",
		`9 bad : The member "name" is there twice.`, `10 bad : There is no member "colour"; there are name, plan, external_id, time_zone.`,
		"11 bad : name: A text, please.", "12 bad : It is not a JSON object.", "13 bad : It is not JSON.", "14 bad : There is something after the object.", "15 bad u: external_id: The tenant ten_",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	found, _, err := e.tenants.List(e.ctx, console.TenantQuery{Q: "Acme"})
	if err != nil || len(found) != 1 || found[0].ExternalID != "a" || found[0].TimeZone != "Europe/Berlin" || found[0].State != policy.TenantActive {
		t.Errorf("got %+v, %v", found, err)
	}
}
