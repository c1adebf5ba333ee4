package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/migrations"
	"github.com/headgate/headgate/policy"
)

const drfA = "drf_aaaaaaaaaaaaaaaa"

// draftA is a draft that rows can hang on.
func draftA() console.Draft {
	return console.Draft{ID: drfA, Name: "d", Source: "a: 1\n", ETag: "e1", AuthorID: "opr_x", Author: "Ann", CreatedAt: at, UpdatedAt: at}
}

// versionN is a published version that rows can hang on.
func versionN(n int64) console.Version {
	return console.Version{
		Number: n, Digest: policy.DigestOf([]byte("{}")), Body: []byte("{}"), Author: "Ann", AuthorID: "opr_x", Kind: console.KindPublish, CreatedAt: at,
		Changes: []console.RatedChange{{Change: policy.Change{Path: "p", Kind: "changed", Effect: "tighter", Risk: "high", Text: "t"},
			Impact: &console.Impact{Tenants: 3, RequestsPerDay: -1, Source: "s"}}, {Change: policy.Change{Path: "q"}}},
	}
}

func TestRows_WhatADraftGoesThroughComesBackAsItWas(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ann := console.Actor{ID: "opr_x", Name: "Ann", Role: console.RoleEditor, Via: console.ViaAPI, IP: "192.0.2.1", RequestID: "r"}
	bob := console.Actor{ID: "opr_y", Name: "Bob", Role: console.RoleOwner, Via: console.ViaConsole}
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		err := errors.Join(tx.InsertDraft(ctx, draftA()), tx.PutWriter(ctx, drfA, ann, at), tx.PutWriter(ctx, drfA, bob, at),
			tx.AddSave(ctx, drfA, ann, []byte(`{"n":1}`)), tx.AddSave(ctx, drfA, ann, []byte(`{"n":2}`)))
		if err != nil {
			return err
		}
		writers, err := tx.Writers(ctx, drfA)
		same(t, writers, []console.Writer{{Actor: ann, LoggedAt: at, Untold: 2, Before: []byte(`{"n":1}`)}, {Actor: bob, LoggedAt: at}})
		untold, err2 := tx.UntoldDrafts(ctx, at.Add(time.Second), 10)
		same(t, untold, []string{drfA})
		untold, err3 := tx.UntoldDrafts(ctx, at, 10)
		same(t, len(untold), 0)
		err4 := tx.TellSaves(ctx, drfA, ann.ID, at.Add(time.Minute))
		writers, err5 := tx.Writers(ctx, drfA)
		same(t, writers[0], console.Writer{Actor: ann, LoggedAt: at.Add(time.Minute)})
		return errors.Join(err, err2, err3, err4, err5)
	})
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		c := console.Comment{ID: "cmt_aaaaaaaaaaaaaaaa", Draft: drfA, Author: "Bob", Text: "why?", At: at}
		a := console.Approval{ActorID: "opr_y", Actor: "Bob", Digest: digest("a"), Base: 3, Note: "n", At: at}
		err := errors.Join(tx.InsertComment(ctx, c, "opr_y"), tx.PutApproval(ctx, drfA, a))
		a.Digest = digest("b")
		err = errors.Join(err, tx.PutApproval(ctx, drfA, a)) // a person's last word
		comments, err2 := tx.Comments(ctx, drfA, 10)
		same(t, comments, []console.Comment{c})
		all, err3 := tx.Approvals(ctx, drfA)
		same(t, all, []console.Approval{a})
		all, err4 := tx.ApprovalsOf(ctx, digest("b"), 3)
		same(t, all, []console.Approval{a})
		all, err5 := tx.ApprovalsOf(ctx, digest("b"), 4)
		same(t, len(all), 0)
		ok, err6 := tx.DeleteApproval(ctx, drfA, "opr_y")
		again, err7 := tx.DeleteApproval(ctx, drfA, "opr_y")
		same(t, []bool{ok, again}, []bool{true, false})
		return errors.Join(err, err2, err3, err4, err5, err6, err7)
	})
}

func TestRows_SchedulesAreDueByTimeByEditAndByBase(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		sc := console.Schedule{
			Draft: drfA, ETag: "e1", At: at.Add(time.Hour), Note: "n", Author: "Ann", AuthorID: "opr_x", CreatedAt: at,
			Confirmed: map[string]string{"cut-half": "yes"}, Canary: &console.CanaryPlan{Count: 2, Hold: time.Minute, Promote: true, MaxRefusedRise: 0.1},
		}
		err := errors.Join(tx.InsertDraft(ctx, draftA()), tx.PutSchedule(ctx, sc))
		if err != nil {
			return err
		}
		got, err := tx.Schedule(ctx, drfA)
		same(t, got, sc)
		due := func(now time.Time) int {
			out, dueErr := tx.DueSchedules(ctx, now, 10)
			err = errors.Join(err, dueErr)
			return len(out)
		}
		same(t, []int{due(at), due(at.Add(time.Hour))}, []int{0, 1})
		d := draftA()
		d.ETag = "e2"
		_, err2 := tx.UpdateDraft(ctx, d, "e1")
		same(t, due(at), 1)
		sc.ETag = "e2"
		err3 := tx.PutSchedule(ctx, sc)
		same(t, due(at), 0)
		err4 := errors.Join(tx.InsertVersion(ctx, versionN(1)), tx.SetHead(ctx, 1, at))
		same(t, due(at), 1)
		other := sc
		other.CreatedAt = at.Add(time.Second)
		no, err5 := tx.SuspendSchedule(ctx, other, "why") // another one by now
		yes, err6 := tx.SuspendSchedule(ctx, sc, "why")
		twice, err7 := tx.SuspendSchedule(ctx, sc, "why")
		same(t, []bool{no, yes, twice}, []bool{false, true, false})
		same(t, due(at.Add(2*time.Hour)), 0)
		all, err8 := tx.Schedules(ctx, 10)
		sc.Suspended = "why"
		same(t, all, []console.Schedule{sc})
		return errors.Join(err, err2, err3, err4, err5, err6, err7, err8)
	})
}

func TestRows_ReviewsTrialsAndSettingsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		r := console.Review{Version: 2, Author: "Ann", AuthorID: "opr_x", Reason: "night", At: at,
			Missing: []console.Needed{{Rule: console.ApprovalRule{When: "any", Approvals: 2}, Why: "w", Have: 1}}}
		other := r
		other.Version = 1
		err := errors.Join(tx.InsertVersion(ctx, versionN(1)), tx.InsertVersion(ctx, versionN(2)), tx.InsertReview(ctx, other), tx.InsertReview(ctx, r))
		if err != nil {
			return err
		}
		got, err := tx.Version(ctx, 2)
		same(t, got, versionN(2))
		now := at.Add(time.Hour)
		closed := r
		closed.ClosedBy, closed.ClosedAt, closed.Note = "Bob", &now, "fine"
		err2 := tx.CloseReview(ctx, closed, "opr_y")
		all, err3 := tx.Reviews(ctx, false, 10)
		same(t, all, []console.Review{other, closed})
		open, err4 := tx.Reviews(ctx, true, 10)
		same(t, open, []console.Review{other})
		n, err5 := tx.CountOpenReviews(ctx)
		same(t, n, int64(1))
		one, err6 := tx.LockReview(ctx, 2)
		same(t, one, closed)
		err7 := errors.Join(tx.PutSetting(ctx, "rules", []byte(`{"a": 1}`), at), tx.PutSetting(ctx, "rules", []byte(`{"a": 2}`), at))
		value, err8 := tx.Setting(ctx, "rules")
		same(t, string(value), `{"a": 2}`)
		if _, err := tx.Setting(ctx, "none"); !console.IsNotFound(err) {
			t.Errorf("an unknown setting: %v", err)
		}
		return errors.Join(err, err2, err3, err4, err5, err6, err7, err8)
	})
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		tr := console.Trial{
			ID: "sim_aaaaaaaaaaaaaaaa", Draft: drfA, Digest: digest("a"), Against: 2, From: at.Add(-time.Hour), To: at, State: console.TrialRunning,
			Author: "Ann", At: at, SeenAt: at,
		}
		err := errors.Join(tx.InsertTrial(ctx, tr, "opr_x"), tx.SeeTrial(ctx, tr.ID, 0.5, at.Add(time.Second)))
		got, err2 := tx.Trial(ctx, tr.ID)
		tr.Progress, tr.SeenAt = 0.5, at.Add(time.Second)
		same(t, got, tr)
		tr.State, tr.Progress, tr.SeenAt = console.TrialDone, 1, at.Add(time.Minute)
		list := tr
		tr.Result = &decisionlog.Comparison{From: tr.From.UnixMicro(), To: tr.To.UnixMicro(), Entries: 7, Notes: []string{"n"}, Rows: []decisionlog.Row{{Tenant: "t", Requests: 3}}}
		late := tr
		late.State, late.Result, late.Problem = console.TrialFailed, nil, "too late"
		err3 := errors.Join(tx.FinishTrial(ctx, tr, tr.SeenAt), tx.FinishTrial(ctx, late, at), tx.SeeTrial(ctx, tr.ID, 0.1, at))
		got, err4 := tx.NewestTrial(ctx, drfA, digest("a"))
		same(t, got, tr) // what has ended stays as it is
		all, err5 := tx.Trials(ctx, drfA, 10)
		same(t, all, []console.Trial{list})
		err6 := tx.DeleteOldTrials(ctx, at.Add(time.Second))
		if _, err := tx.Trial(ctx, tr.ID); !console.IsNotFound(err) {
			t.Errorf("an old trial: %v", err)
		}
		return errors.Join(err, err2, err3, err4, err5, err6)
	})
}

func TestRows_TenantsAreFoundByEitherIDAndCountedByPlan(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		a, b, gone := tenant(tenA), tenant("ten_bbbbbbbbbbbbbbbb"), tenant("ten_cccccccccccccccc")
		a.ExternalID, b.ExternalID, gone.ExternalID = "acme", tenA, "gone"
		b.Plan, gone.State = "pro", policy.TenantDeleted
		if err := errors.Join(tx.InsertTenant(ctx, a), tx.InsertTenant(ctx, b), tx.InsertTenant(ctx, gone)); err != nil {
			return err
		}
		for ref, want := range map[string]string{"acme": tenA, tenA: tenA, b.ID: b.ID} {
			got, err := tx.FindTenant(ctx, ref)
			if err != nil || got.ID != want {
				t.Errorf("%s is %s (%v)", ref, got.ID, err)
			}
		}
		if _, err := tx.FindTenant(ctx, "gone"); !console.IsNotFound(err) {
			t.Errorf("a deleted one: %v", err)
		}
		plans, err := tx.CountByPlan(ctx)
		same(t, plans, map[string]int64{a.Plan: 1, "pro": 1})
		of, err2 := tx.PlansOf(ctx, []string{b.ID, "ten_x"})
		same(t, of, map[string]string{b.ID: "pro"})
		return errors.Join(err, err2)
	})
}

func TestSchema_BadStatesOfChangesAreRefusedByPostgreSQL(t *testing.T) {
	t.Parallel()
	conn := fixtureConn(t)
	if _, err := conn.Exec(t.Context(), `
INSERT INTO drafts (id,name,base,source,etag,author_id,author,created_at,updated_at) VALUES ('drf_aaaaaaaaaaaaaaaa','d',0,'','e','opr_x','Ann',now(),now());
INSERT INTO policy_reviews (version,author_id,author,reason,missing,created_at) VALUES (5,'opr_x','Ann','night','[]',now());`); err != nil {
		t.Fatal(err)
	}
	trial := `INSERT INTO trials (id,digest,against,from_at,to_at,state,problem,result,author_id,author,created_at,seen_at) VALUES ('sim_aaaaaaaaaaaaaaaa','sha256:` + hex64a + `',1,`
	for name, c := range map[string]struct{ sql, want string }{
		"tests over 1 MiB":              {`UPDATE drafts SET tests=repeat('x',1048577)`, "23514"},
		"writer of no draft":            {`INSERT INTO draft_writers (draft_id,actor_id,actor,role,via,logged_at) VALUES ('drf_x','','','','',now())`, "23503"},
		"untold saves from nothing":     {`INSERT INTO draft_writers (draft_id,actor_id,actor,role,via,logged_at,untold) VALUES ('drf_aaaaaaaaaaaaaaaa','','','','',now(),1)`, "23514"},
		"comment without words":         {`INSERT INTO draft_comments (id,draft_id,author_id,author,body,created_at) VALUES ('cmt_aaaaaaaaaaaaaaaa','d','a','a','',now())`, "23514"},
		"approval by nobody":            {`INSERT INTO draft_approvals (draft_id,actor_id,actor,digest,base,note,created_at) VALUES ('drf_aaaaaaaaaaaaaaaa','','a','sha256:` + hex64a + `',0,'',now())`, "23514"},
		"approval of anything":          {`INSERT INTO draft_approvals (draft_id,actor_id,actor,digest,base,note,created_at) VALUES ('drf_aaaaaaaaaaaaaaaa','o','a','',0,'',now())`, "23514"},
		"schedule of nobody":            {`INSERT INTO draft_schedules (draft_id,etag,at,note,options,author_id,author,created_at) VALUES ('drf_aaaaaaaaaaaaaaaa','e',now(),'','{}','','',now())`, "23514"},
		"schedule of no draft":          {`INSERT INTO draft_schedules (draft_id,etag,at,note,options,author_id,author,created_at) VALUES ('drf_x','e',now(),'','{}','o','',now())`, "23503"},
		"review of no version":          {`INSERT INTO policy_reviews (version,author_id,author,reason,missing,created_at) VALUES (6,'o','a','r','[]',now())`, "23503"},
		"second review of a version":    {`INSERT INTO policy_reviews (version,author_id,author,reason,missing,created_at) VALUES (5,'o','a','r','[]',now())`, "23505"},
		"review closed by its author":   {`UPDATE policy_reviews SET closed_id='opr_x', closed_at=now() WHERE version=5`, "23514"},
		"review closed by nobody":       {`UPDATE policy_reviews SET closed_at=now() WHERE version=5`, "23514"},
		"review removed":                {`DELETE FROM policy_reviews WHERE version=5`, "42501"},
		"done without a result":         {trial + `now()-interval '1 h',now(),'done','',NULL,'o','a',now(),now())`, "23514"},
		"failed without a reason":       {trial + `now()-interval '1 h',now(),'failed','',NULL,'o','a',now(),now())`, "23514"},
		"simulation of no time":         {trial + `now(),now(),'running','',NULL,'o','a',now(),now())`, "23514"},
		"setting under a strange name":  {`INSERT INTO settings (name,value,updated_at) VALUES ('A b','{}',now())`, "23514"},
		"version with tests over 1 MiB": {`INSERT INTO policy_versions (number,digest,parent,body,changes,note,author_id,author,kind,created_at,tests) VALUES (6,'sha256:'||encode(sha256('{}'),'hex'),'','{}','[]','','','t','publish',now(),repeat('x',1048577))`, "23514"},
	} {
		if got := refused(t, conn, c.sql); got != c.want {
			t.Errorf("%s: SQLSTATE %q, want %s", name, got, c.want)
		}
	}
	if _, err := conn.Exec(t.Context(), `UPDATE policy_reviews SET closed_id='opr_y', closed_by='Bob', closed_at=now() WHERE version=5`); err != nil {
		t.Fatal(err)
	}
	if got := refused(t, conn, `UPDATE policy_reviews SET closed_id=NULL, closed_at=NULL WHERE version=5`); got != "23514" {
		t.Errorf("a closed review opened again: SQLSTATE %q", got)
	}
}

// A database that a build before this one filled keeps its rows, also when the
// schema goes back and comes again.
func TestMigrate_ChangesKeepWhatWasThereUpAndDown(t *testing.T) {
	t.Parallel()
	dsn := testkit.PostgresEmpty(t)
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	sdb := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { _ = sdb.Close() })
	p, err := goose.NewProvider(goose.DialectPostgres, sdb, migrations.FS)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	old := `INSERT INTO drafts (id,name,base,source,etag,author_id,author,created_at,updated_at) VALUES ('drf_aaaaaaaaaaaaaaaa','d',0,'a','e','opr_x','Ann',now(),now());
INSERT INTO policy_versions (number,digest,parent,body,changes,note,author_id,author,kind,created_at) VALUES
 (5,'sha256:'||encode(sha256('{}'),'hex'),'','{}','[{"path":"p","kind":"changed","effect":"tighter","text":"t"}]','','','t','publish',now());
UPDATE policy_head SET number=5 WHERE one;
INSERT INTO audit_events (seq,at,actor_id,actor,role,via,action,object,object_id,prev_hash,hash) VALUES
 (1,now(),'opr_x','Ann','editor','console','draft.create','draft','drf_aaaaaaaaaaaaaaaa',decode(repeat('00',32),'hex'),decode(repeat('01',32),'hex')),
 (2,now(),'opr_y','Bob','editor','api','draft.save','draft','drf_aaaaaaaaaaaaaaaa',decode(repeat('01',32),'hex'),decode(repeat('02',32),'hex')),
 (3,now(),'opr_y','Bob','editor','api','draft.save','draft','drf_bbbbbbbbbbbbbbbb',decode(repeat('02',32),'hex'),decode(repeat('03',32),'hex'));`
	if _, err := sdb.ExecContext(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		s, err := db.Open(t.Context(), dsn, 2)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		in(t, s, func(ctx context.Context, tx console.Tx) error {
			v, err := tx.Head(ctx)
			if err == nil && (v.Tests != "" || v.Proof.Digest != "" || len(v.Changes) != 1 || v.Changes[0].Impact != nil || v.Changes[0].Text != "t") {
				t.Errorf("version %+v", v)
			}
			d, err2 := tx.Draft(ctx, drfA)
			if err2 == nil && (d.Tests != "" || d.Source != "a" || d.AuthorID != "opr_x") {
				t.Errorf("draft %+v", d)
			}
			writers, err3 := tx.Writers(ctx, drfA)
			if err3 == nil && (len(writers) != 2 || writers[1].Actor.Name != "Bob" || writers[1].Untold != 0) {
				t.Errorf("writers %+v", writers)
			}
			return errors.Join(err, err2, err3, tx.PutWriter(ctx, drfA, console.Actor{ID: "o"}, at))
		})
		if _, err := p.DownTo(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := sdb.QueryRowContext(t.Context(), `SELECT count(*) FROM policy_versions JOIN drafts ON source = 'a'`).Scan(&n); err != nil || n != 1 {
			t.Fatalf("%d rows are left (%v)", n, err)
		}
	}
	var tables int
	err = sdb.QueryRowContext(t.Context(), `SELECT count(*) FROM information_schema.tables WHERE table_schema='public' AND table_name ~ '^(draft_|policy_reviews|trials|settings)'`).Scan(&tables)
	if err != nil || tables != 0 {
		t.Fatalf("%d tables are left (%v)", tables, err)
	}
}
