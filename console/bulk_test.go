package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
	for {
		worked, err := e.bulk.Work(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !worked {
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
	if len(steps) != 3 || named != 2500 {
		t.Errorf("%d events name %d keys: %v", len(steps), named, steps)
	}
	if good, _, problem, err := e.audit.Verify(e.ctx); err != nil || problem != nil || good == 0 {
		t.Errorf("the trail: %d good, %v, %v", good, problem, err)
	}
	if rows := e.rows(t, j.ID, console.RowDone); len(rows) != 2500 || rows[2499].Line != 2501 {
		t.Errorf("%d rows are done", len(rows))
	}
}

// dying is a store whose transactions fail after some of them, as those of a
// console do that is killed.
type dying struct {
	console.Store
	mu   sync.Mutex
	left int
}

var errKilled = errors.New("killed")

func (d *dying) InTx(ctx context.Context, fn func(console.Tx) error) error {
	d.mu.Lock()
	d.left--
	dead := d.left < 0
	d.mu.Unlock()
	return d.Store.InTx(ctx, func(tx console.Tx) error {
		if err := fn(tx); err != nil || !dead {
			return err
		}
		return errKilled // all was done, and nothing is committed
	})
}

// Wherever a console dies, another one goes on, and each row is done once.
func TestBulk_C07_AfterAKillAnotherConsoleGoesOnAndEachRowIsDoneOnce(t *testing.T) {
	t.Parallel()
	for _, steps := range []int{0, 1, 2, 3} {
		e := newBulkEnv(t)
		acme := e.tenant(t, "Acme")
		csv := keysCSV(acme.ID, 0, 3500)
		j := e.create(t, console.BulkImportKeys, csv)
		e.work(t)
		e.start(t, j.ID)
		d := e.deps
		d.Store = &dying{Store: e.store, left: 1 + steps} // the claim, and some steps
		if _, err := console.NewBulkJobs(d).Work(e.ctx); err == nil {
			t.Fatal("it did not die")
		}
		if got := e.get(t, j.ID); got.Done != int64(steps)*1000 || got.State != console.BulkRunning {
			t.Fatalf("after %d steps: %+v", steps, got)
		}
		if worked, err := e.bulk.Work(e.ctx); worked || err != nil {
			t.Fatalf("another console took the job while its lease holds: %v %v", worked, err)
		}
		e.clock.add(16 * time.Second)
		e.work(t)
		got := e.get(t, j.ID)
		if got.State != console.BulkDone || got.Done != 3500 || got.Failed != 0 || got.WouldSkip != 0 {
			t.Errorf("after %d steps: %+v", steps, got)
		}
		if n, err := e.keys.Count(e.ctx); err != nil || n != 3500 {
			t.Errorf("%d keys, %v", n, err)
		}
	}
}

func TestBulk_OneWorkerAtATimeHasAJob(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	j := e.create(t, console.BulkImportKeys, keysCSV(acme.ID, 0, 5500))
	e.work(t)
	e.start(t, j.ID)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s := console.NewBulkJobs(e.deps)
			for {
				if _, err := s.Work(e.ctx); err != nil {
					t.Error(err)
					return
				}
				if got, err := e.bulk.Get(e.ctx, j.ID); err != nil || !got.Open() {
					return
				}
			}
		})
	}
	wg.Wait()
	if got := e.get(t, j.ID); got.Done != 5500 || got.Failed != 0 || got.WouldSkip != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestBulk_CancelStopsBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	j := e.create(t, console.BulkImportKeys, keysCSV(acme.ID, 0, 3000))
	e.work(t)
	e.start(t, j.ID)
	d := e.deps
	d.Store = &dying{Store: e.store, left: 2}
	_, _ = console.NewBulkJobs(d).Work(e.ctx)
	if _, err := e.bulk.Cancel(e.ctx, e.me, j.ID); err != nil {
		t.Fatal(err)
	}
	e.clock.add(time.Minute)
	e.work(t)
	got := e.get(t, j.ID)
	if got.State != console.BulkCancelled || got.Done != 1000 || got.EndedBy != e.me.Name {
		t.Errorf("got %+v", got)
	}
	if n, _ := e.keys.Count(e.ctx); n != 1000 {
		t.Errorf("%d keys", n)
	}
	if done, left := len(e.rows(t, j.ID, console.RowDone)), len(e.rows(t, j.ID, console.RowWouldDo)); done != 1000 || left != 2000 {
		t.Errorf("%d rows are done and %d are not", done, left)
	}
	_, err := e.bulk.Cancel(e.ctx, e.me, j.ID)
	wantCode(t, err, console.CodeConflict)
	_, err = e.bulk.Start(e.ctx, e.me, j.ID)
	wantCode(t, err, console.CodeConflict)
}

// What was good when it was checked may not be any more.
func TestBulk_RowsAreHeldAgainstWhatIsTrueWhenTheyAreDone(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme, gone := e.tenant(t, "Acme"), e.tenant(t, "Gone")
	kid, digest := foreignKey(1)
	kid2, digest2 := foreignKey(2)
	kid3, digest3 := foreignKey(3)
	j := e.create(t, console.BulkImportKeys, "tenant,name,environment,kid,digest,expires_at\n"+acme.ID+",a,live,"+kid+","+digest+",\n"+
		gone.ID+",b,live,"+kid2+","+digest2+",\n"+acme.ID+",c,live,"+kid3+","+digest3+",2026-12-01\n")
	e.work(t)
	if j = e.get(t, j.ID); j.WouldDo != 3 {
		t.Fatalf("got %+v: %s", j, messages(e.rows(t, j.ID, "")))
	}
	if _, err := e.tenants.Delete(e.ctx, owner, gone.ID, "left"); err != nil {
		t.Fatal(err)
	}
	e.clock.add(48 * time.Hour)
	j = e.done(t, j.ID)
	if j.Done != 1 || j.Failed != 2 {
		t.Errorf("got %+v", j)
	}
	want := "3 failed " + kid2 + ": tenant: There is no tenant with this id or external id.\n4 failed " + kid3 + ": expires_at: This must lie in the future.\n"
	if got := messages(e.rows(t, j.ID, console.RowFailed)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestBulk_CheckAnewSeesWhatHasChanged(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	j := e.create(t, console.BulkImportTenants, "name,plan,external_id\nAcme,free,a\nBeta,gold,b\n,free,c\n")
	e.work(t)
	if j = e.get(t, j.ID); j.WouldDo != 1 || j.Bad != 2 {
		t.Fatalf("got %+v", j)
	}
	doc := strings.Replace(string(document("50")), "  pro:", "  gold:", 1)
	if _, err := e.policies.Publish(e.ctx, owner, []byte(doc), nil, 1, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.bulk.Check(e.ctx, e.me, j.ID); err != nil {
		t.Fatal(err)
	}
	e.work(t)
	if j = e.get(t, j.ID); j.State != console.BulkReady || j.WouldDo != 2 || j.Bad != 1 {
		t.Errorf("got %+v: %s", j, messages(e.rows(t, j.ID, "")))
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

func TestBulk_OnlyUnusedKeysAreRevoked(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	never, long, lately, rotating := e.issue(t, acme.ID), e.issue(t, acme.ID), e.issue(t, acme.ID), e.issue(t, acme.ID)
	e.clock.add(100 * 24 * time.Hour)
	young := e.issue(t, acme.ID)
	if _, err := e.rotations.Start(e.ctx, owner, rotating.Credential.ID, console.NewRotation{Overlap: time.Hour, Reason: "routine"}); err != nil {
		t.Fatal(err)
	}
	now := e.clock.now()
	e.uses.set(func() {
		e.uses.age.Through = now
		e.uses.known[long.KeyVersion.KID] = console.KeyUse{LastUsedAt: new(now.AddDate(0, 0, -91))}
		e.uses.known[lately.KeyVersion.KID] = console.KeyUse{LastUsedAt: new(now.AddDate(0, 0, -89))}
	})
	j := e.selected(t, console.BulkRevokeUnused, console.BulkSelection{UnusedDays: 90})
	if j.Name != "Keys unused for 90 days" {
		t.Errorf("it is called %q", j.Name)
	}
	e.work(t)
	if j = e.get(t, j.ID); j.WouldDo != 2 || j.Bad != 1 || j.Total != 3 {
		t.Fatalf("got %+v: %s", j, messages(e.rows(t, j.ID, "")))
	}
	// One of them is used between check and run.
	e.uses.set(func() { e.uses.known[long.KeyVersion.KID] = console.KeyUse{LastUsedAt: new(now.Add(-time.Second))} })
	j = e.done(t, j.ID)
	if j.Done != 1 || j.Failed != 1 {
		t.Errorf("got %+v", j)
	}
	for _, want := range []struct {
		key   console.Issued
		state policy.KeyState
	}{{never, policy.KeyRevoked}, {long, policy.KeyActive}, {lately, policy.KeyActive}, {young, policy.KeyActive}, {rotating, policy.KeyRetiring}} {
		if got := e.key(t, want.key.KeyVersion.KID); got.State != want.state {
			t.Errorf("%s is %s, want %s", got.KID, got.State, want.state)
		}
	}
	revoked := e.key(t, never.KeyVersion.KID)
	if revoked.Seq != 2 || revoked.RevokeReason != console.RevokeOther || revoked.EndedAt == nil {
		t.Errorf("got %+v", revoked)
	}
	if got := messages(e.rows(t, j.ID, console.RowFailed)); !strings.Contains(got, "It stays: it was used again, last used") {
		t.Errorf("got %s", got)
	}
}

// Nobody may take "not heard of" for "not used".
func TestBulk_I18_NothingIsUnusedWhileNobodyKnows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, says string
		age        func(now time.Time) console.UseAge
	}{
		{"behind", "is behind", func(now time.Time) console.UseAge {
			return console.UseAge{Since: now.AddDate(-1, 0, 0), Through: now.Add(-2 * time.Minute), Behind: true}
		}},
		{"nothing yet", "is known since never", func(time.Time) console.UseAge { return console.UseAge{} }},
		{"too short", "is not long enough", func(now time.Time) console.UseAge {
			return console.UseAge{Since: now.AddDate(0, 0, -89), Through: now}
		}},
		{"lost", "was lost", func(now time.Time) console.UseAge {
			return console.UseAge{Since: now.AddDate(-1, 0, 0), Through: now, Missing: &console.UseGap{Replica: "gw_1", From: now.AddDate(0, 0, -3), To: now.AddDate(0, 0, -2)}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newBulkEnv(t)
			key := e.issue(t, e.tenant(t, "Acme").ID)
			e.clock.add(100 * 24 * time.Hour)
			e.uses.set(func() { e.uses.age = c.age(e.clock.now()) })
			j := e.selected(t, console.BulkRevokeUnused, console.BulkSelection{UnusedDays: 90})
			e.work(t)
			if j = e.get(t, j.ID); j.State != console.BulkChecking || !strings.Contains(j.Problem, c.says) || j.Total != 0 {
				t.Fatalf("got %+v", j)
			}
			e.uses.set(func() { e.uses.age = console.UseAge{Since: e.clock.now().AddDate(-1, 0, 0), Through: e.clock.now()} })
			e.clock.add(6 * time.Second)
			e.work(t)
			if j = e.get(t, j.ID); j.State != console.BulkReady || j.Problem != "" || j.WouldDo != 1 {
				t.Fatalf("got %+v", j)
			}
			e.start(t, j.ID)
			e.uses.set(func() { e.uses.age = c.age(e.clock.now()) })
			e.work(t)
			if j = e.get(t, j.ID); j.State != console.BulkRunning || j.Problem == "" || e.key(t, key.KeyVersion.KID).State != policy.KeyActive {
				t.Errorf("got %+v", j)
			}
		})
	}
}

func TestBulk_WithoutAnybodyWhoKnowsNoKeyIsRevoked(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	e.deps.KeyUse = nil
	e.bulk = console.NewBulkJobs(e.deps)
	j := e.selected(t, console.BulkRevokeUnused, console.BulkSelection{UnusedDays: 1})
	e.work(t)
	if j = e.get(t, j.ID); j.State != console.BulkChecking || !strings.Contains(j.Problem, "Nobody knows") {
		t.Errorf("got %+v", j)
	}
}

func TestBulk_SetExpiryOnlyShortensUnlessAsked(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme, beta := e.tenant(t, "Acme"), e.tenant(t, "Beta")
	soon, at := e.clock.now().Add(24*time.Hour), e.clock.now().Add(30*24*time.Hour)
	open, same := e.issue(t, acme.ID), e.issue(t, beta.ID)
	early, err := e.keys.IssueCredential(e.ctx, owner, acme.ID, console.NewCredential{Name: "early", Environment: "test", ExpiresAt: &soon})
	if err != nil {
		t.Fatal(err)
	}
	j := e.done(t, e.selected(t, console.BulkSetExpiry, console.BulkSelection{Tenants: []string{acme.ID}, ExpiresAt: &at}).ID)
	if j.Done != 1 || j.WouldSkip != 1 {
		t.Errorf("got %+v: %s", j, messages(e.rows(t, j.ID, "")))
	}
	if got := e.key(t, open.KeyVersion.KID); got.NotAfter == nil || !got.NotAfter.Equal(at) || got.Seq != 2 {
		t.Errorf("got %+v", got)
	}
	if got := e.key(t, early.KeyVersion.KID); !got.NotAfter.Equal(soon) {
		t.Errorf("got %+v", got)
	}
	if got := e.key(t, same.KeyVersion.KID); got.NotAfter != nil {
		t.Errorf("another tenant's key expires %v", got.NotAfter)
	}
	c, err := e.keys.GetCredential(e.ctx, open.Credential.ID)
	if err != nil || c.ExpiresAt == nil || !c.ExpiresAt.Equal(at) {
		t.Errorf("the credential: %+v, %v", c, err)
	}
	j = e.done(t, e.selected(t, console.BulkSetExpiry, console.BulkSelection{Environment: "test", ExpiresAt: &at, Extend: true}).ID)
	if got := e.key(t, early.KeyVersion.KID); j.Done != 1 || !got.NotAfter.Equal(at) {
		t.Errorf("got %+v, %+v", j, got)
	}
}

func TestBulk_AnExpiryThatHasPassedIsNotSet(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	e.issue(t, e.tenant(t, "Acme").ID)
	at := e.clock.now().Add(time.Hour)
	j := e.selected(t, console.BulkSetExpiry, console.BulkSelection{ExpiresAt: &at})
	e.work(t)
	e.start(t, j.ID)
	e.clock.add(2 * time.Hour)
	e.work(t)
	if j = e.get(t, j.ID); j.Done != 0 || j.State != console.BulkRunning || !strings.Contains(j.Problem, "has passed") {
		t.Errorf("got %+v", j)
	}
}

func TestBulk_PlanChangesSayWhatTheyDoToLimits(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	a, b := e.tenant(t, "Acme"), e.tenant(t, "Beta")
	pro, err := e.tenants.Create(e.ctx, owner, console.NewTenant{Name: "Pro", Plan: "pro"})
	if err != nil {
		t.Fatal(err)
	}
	j := e.selected(t, console.BulkChangePlan, console.BulkSelection{ToPlan: "pro"})
	e.work(t)
	moves, err := e.bulk.Moves(e.ctx, j.ID)
	if err != nil || len(moves) != 1 || moves[0].From != "free" || moves[0].To != "pro" || moves[0].Tenants != 2 {
		t.Fatalf("got %+v, %v", moves, err)
	}
	var texts []string
	for _, c := range moves[0].Changes {
		texts = append(texts, c.Text)
	}
	if got := strings.Join(texts, "; "); !strings.Contains(got, "60/minute → 600/minute") || !strings.Contains(got, "60 → 100") {
		t.Errorf("it says %q", got)
	}
	j = e.done(t, j.ID)
	if j.Done != 2 || j.WouldSkip != 1 {
		t.Errorf("got %+v", j)
	}
	for _, id := range []string{a.ID, b.ID, pro.ID} {
		if got, err := e.tenants.Get(e.ctx, id); err != nil || got.Plan != "pro" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if got := messages(e.rows(t, j.ID, console.RowDone)); !strings.Contains(got, "Acme: free → pro") {
		t.Errorf("got %s", got)
	}
}

func TestBulk_ChangeToAPlanThatIsGoneWaits(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	e.tenant(t, "Acme")
	j := e.selected(t, console.BulkChangePlan, console.BulkSelection{ToPlan: "gold"})
	e.work(t)
	if j = e.get(t, j.ID); j.State != console.BulkChecking || j.Problem != "The policy in force has no plan gold." {
		t.Errorf("got %+v", j)
	}
}

func TestBulk_I19_RolesDecideAndAreLookedAtAgainAtEachStep(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	for _, role := range []console.Role{console.RoleViewer, console.RoleSupport, console.RoleEditor, console.RolePublisher, console.RoleAuditor, console.RoleTenantAdmin} {
		reader := &counting{}
		_, err := e.bulk.Create(e.ctx, as(role), console.NewBulk{Kind: console.BulkImportKeys, Reason: "x", Format: console.BulkCSV, Input: reader})
		wantCode(t, err, console.CodeForbidden)
		if reader.n != 0 {
			t.Errorf("%s: the input was read", role)
		}
	}
	j := e.create(t, console.BulkImportKeys, keysCSV(acme.ID, 0, 1500))
	e.work(t)
	_, err := e.bulk.Start(e.ctx, as(console.RoleEditor), j.ID)
	wantCode(t, err, console.CodeForbidden)
	admin := e.actor(t, console.RoleKeyAdmin, "kim")
	if _, err := e.bulk.Start(e.ctx, admin, j.ID); err != nil {
		t.Fatal(err)
	}
	if err := e.operators.SetRole(e.ctx, e.me, admin.ID, console.RoleViewer); err != nil {
		t.Fatal(err)
	}
	e.work(t)
	if j = e.get(t, j.ID); j.State != console.BulkReady || j.Done != 0 || !strings.Contains(j.Problem, "kim may no longer do this") {
		t.Fatalf("got %+v", j)
	}
	e.start(t, j.ID)
	e.work(t)
	if j = e.get(t, j.ID); j.State != console.BulkDone || j.Done != 1500 || j.StartedBy != e.me.Name {
		t.Errorf("got %+v", j)
	}
}

type counting struct{ n int }

func (c *counting) Read([]byte) (int, error) { c.n++; return 0, io.EOF }

func TestBulk_OldRowsGoAndTheJobStays(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	j := e.done(t, e.create(t, console.BulkImportKeys, keysCSV(acme.ID, 0, 10)+"bad,row\n").ID)
	waiting := e.create(t, console.BulkImportKeys, keysCSV(acme.ID, 20, 1))
	e.work(t)
	e.clock.add(console.BulkRowsKept + time.Hour)
	for range 3 {
		if err := e.bulk.Sweep(e.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.get(t, j.ID); got.RowsKept || got.Done != 10 || len(e.rows(t, j.ID, "")) != 0 {
		t.Errorf("got %+v", got)
	}
	if got := e.get(t, waiting.ID); !got.RowsKept || len(e.rows(t, waiting.ID, "")) != 1 {
		t.Errorf("a job that waits lost its rows: %+v", got)
	}
}

func TestBulk_ListIsPagedAndFiltered(t *testing.T) {
	t.Parallel()
	e := newBulkEnv(t)
	acme := e.tenant(t, "Acme")
	var ids []string
	for i := range 5 {
		ids = append(ids, e.create(t, console.BulkImportKeys, keysCSV(acme.ID, i, 1)).ID)
		e.clock.add(time.Second)
	}
	plan := e.selected(t, console.BulkChangePlan, console.BulkSelection{ToPlan: "pro"})
	first, next, err := e.bulk.List(e.ctx, console.BulkQuery{Kind: console.BulkImportKeys, Page: console.Page{Limit: 3}})
	if err != nil || len(first) != 3 || first[0].ID != ids[4] || next == "" {
		t.Fatalf("got %+v, %q, %v", first, next, err)
	}
	rest, next, err := e.bulk.List(e.ctx, console.BulkQuery{Kind: console.BulkImportKeys, Page: console.Page{Limit: 3, After: next}})
	if err != nil || len(rest) != 2 || rest[1].ID != ids[0] || next != "" {
		t.Errorf("got %+v, %q, %v", rest, next, err)
	}
	if all, _, err := e.bulk.List(e.ctx, console.BulkQuery{State: console.BulkChecking}); err != nil || len(all) != 6 || all[0].ID != plan.ID {
		t.Errorf("got %+v, %v", all, err)
	}
	_, _, err = e.bulk.Rows(e.ctx, plan.ID, "nonsense", console.Page{})
	wantCode(t, err, console.CodeInvalid)
	_, _, err = e.bulk.Rows(e.ctx, plan.ID, "", console.Page{After: "nonsense"})
	wantCode(t, err, console.CodeInvalid)
	_, err = e.bulk.Get(e.ctx, "blk_"+strings.Repeat("a", 16))
	wantCode(t, err, console.CodeNotFound)
}
