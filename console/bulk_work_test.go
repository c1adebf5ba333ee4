package console_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

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
				_, err := s.Work(e.ctx)
				if console.CodeOf(err) == console.CodeUnavailable { // a machine with too much to do
					e.clock.add(6 * time.Second)
				} else if err != nil {
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
