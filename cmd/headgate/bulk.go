package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// bulkCmd is `headgate bulk`: jobs over many rows.
type bulkCmd struct {
	Import       bulkImportCmd `cmd:"" help:"Import tenants or keys from CSV or JSON lines."`
	RevokeUnused bulkUnusedCmd `cmd:"" help:"Revoke keys that nobody used for a number of days."`
	SetExpiry    bulkExpiryCmd `cmd:"" help:"Let keys expire at a time."`
	ChangePlan   bulkPlanCmd   `cmd:"" help:"Move tenants to another plan."`
	Suspend      bulkMoveCmd   `cmd:"" help:"Stop all calls of tenants until they are resumed."`
	Resume       bulkMoveCmd   `cmd:"" help:"Let suspended tenants call again."`
	List         bulkListCmd   `cmd:"" help:"List jobs, the newest first."`
	Show         bulkShowCmd   `cmd:"" help:"Show a job and how far it is; --wait follows it."`
	Rows         bulkRowsCmd   `cmd:"" help:"List rows of a job with what became of each."`
	Check        bulkCheckCmd  `cmd:"" help:"Check a job anew that waits for its start."`
	Start        bulkStartCmd  `cmd:"" help:"Start a job that was checked."`
	Cancel       bulkCancelCmd `cmd:"" help:"Cancel a job; what was done stays done."`
}

// bulkFlags say how far a new job is to go.
type bulkFlags struct {
	Reason  string `required:"" help:"Why; kept in the audit trail." placeholder:"TEXT"`
	Start   bool   `help:"Start it once it is checked, and follow it to its end; without it, it is checked alone."`
	SkipBad bool   `help:"Start it also when rows have problems; they are left out."`
	NoWait  bool   `help:"Print the job's id and do not wait for the check."`
}

func (f bulkFlags) check(p *config.Problems) {
	if f.NoWait && f.Start {
		p.Add("--start", "cannot be given together with --no-wait: a job is started once it is checked")
	}
}

type bulkImportCmd struct {
	What   string `arg:"" enum:"tenants,keys" help:"tenants or keys."`
	File   string `arg:"" help:"CSV with a header, or JSON lines (.ndjson, .jsonl); - is standard input."`
	Format string `help:"csv or ndjson; by the file's name when left out." enum:"csv,ndjson," default:""`
	bulkFlags
	shell
}

// Run imports a file.
func (c *bulkImportCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.importFile(ctx, k, c.bulkFlags, c.What, c.File, c.Format)
}

// keyImportCmd is `headgate key import`.
type keyImportCmd struct {
	File   string `arg:"" help:"CSV with the columns tenant, name, environment, kid, digest, and if need be scopes and expires_at; or JSON lines; - is standard input."`
	Format string `help:"csv or ndjson; by the file's name when left out." enum:"csv,ndjson," default:""`
	bulkFlags
	shell
}

// Run imports keys.
func (c *keyImportCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.importFile(ctx, k, c.bulkFlags, "keys", c.File, c.Format)
}

func (c *shell) importFile(ctx context.Context, k *kong.Kong, f bulkFlags, what, file, format string) error {
	var p config.Problems
	f.check(&p)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	kind := "text/csv"
	if ext := filepath.Ext(file); format == "ndjson" || format == "" && (ext == ".ndjson" || ext == ".jsonl") {
		kind = "application/x-ndjson"
	}
	name := filepath.Base(file)
	if file == standardInput {
		name = "standard input"
	}
	var j api.BulkJob
	if err := s.upload(ctx, query(path("bulk"), "kind", "import-"+what, "name", name, "reason", f.Reason), kind, file, &j); err != nil {
		return refusedCommand(err)
	}
	return s.follow(ctx, j, f)
}

// bulkOf is what keys or tenants a selection is about.
type bulkOf struct {
	Tenant []string `help:"Only this tenant's; may be repeated." placeholder:"ID"`
	Plan   string   `help:"Only of tenants on this plan." placeholder:"PLAN"`
}

type bulkKeys struct {
	bulkOf
	Environment string   `env:"-" help:"live or test; both when left out." enum:"live,test," default:""`
	KID         []string `name:"kid" help:"Only this key; may be repeated." placeholder:"KID"`
}

func (b bulkKeys) selection(p *config.Problems) api.BulkSelection {
	notSecret(p, "--kid", b.KID...)
	return api.BulkSelection{Tenants: b.Tenant, Plan: b.Plan, Environment: b.Environment, KIDs: b.KID}
}

type bulkUnusedCmd struct {
	Days int `required:"" help:"For how many days nobody must have used them." placeholder:"N"`
	bulkKeys
	bulkFlags
	shell
}

// Run revokes unused keys.
func (c *bulkUnusedCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	sel := c.selection(&p)
	sel.UnusedDays = c.Days
	return c.selectRows(ctx, k, &p, c.bulkFlags, "revoke-unused", sel)
}

type bulkExpiryCmd struct {
	At     moment `required:"" help:"When they expire: a time, a day, or a span such as 90d." placeholder:"WHEN"`
	Extend bool   `help:"Also keys that expire earlier now."`
	bulkKeys
	bulkFlags
	shell
}

// Run sets an expiry.
func (c *bulkExpiryCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	sel := c.selection(&p)
	sel.ExpiresAt, sel.Extend = c.At.at(), c.Extend
	return c.selectRows(ctx, k, &p, c.bulkFlags, "set-expiry", sel)
}

type bulkPlanCmd struct {
	To string `required:"" help:"The plan to move to." placeholder:"PLAN"`
	bulkOf
	bulkFlags
	shell
}

// Run changes plans.
func (c *bulkPlanCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.selectRows(ctx, k, &config.Problems{}, c.bulkFlags, "change-plan", api.BulkSelection{Tenants: c.Tenant, Plan: c.Plan, ToPlan: c.To})
}

// bulkMoveCmd is suspend and resume: it goes by the name that it was called by.
type bulkMoveCmd struct {
	bulkOf
	bulkFlags
	shell
}

// Run suspends or resumes tenants.
func (c *bulkMoveCmd) Run(ctx context.Context, k *kong.Kong, at *kong.Context) error {
	kind := at.Selected().Name + "-tenants"
	return c.selectRows(ctx, k, &config.Problems{}, c.bulkFlags, kind, api.BulkSelection{Tenants: c.Tenant, Plan: c.Plan})
}

func (c *shell) selectRows(ctx context.Context, k *kong.Kong, p *config.Problems, f bulkFlags, kind string, sel api.BulkSelection) error {
	f.check(p)
	s, err := c.begin(k, p)
	if err != nil {
		return err
	}
	in := apiCall{method: http.MethodPost, path: path("bulk"), body: map[string]any{"kind": kind, "reason": f.Reason, "selection": sel}}
	if in.key, err = newKey(); err != nil {
		return err
	}
	var j api.BulkJob
	if _, err := s.send(ctx, in, &j); err != nil {
		return refusedCommand(err)
	}
	return s.follow(ctx, j, f)
}

type bulkListCmd struct {
	State string `help:"Only in this state." enum:"checking,ready,running,done,cancelled,failed," default:""`
	listing
	shell
}

// Run lists jobs.
func (c *bulkListCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	return list(ctx, s, c.Limit, query(path("bulk"), "state", c.State), "id kind state rows done failed bad created name", func(j api.BulkJob) []any {
		return []any{j.ID, j.Kind, j.State, j.Total, j.Done, j.Failed, j.Bad, j.CreatedAt, j.Name}
	})
}

type bulkShowCmd struct {
	Job  string `arg:"" help:"Job's id."`
	Wait bool   `help:"Follow it until nothing more happens by itself."`
	shell
}

// Run shows a job.
func (c *bulkShowCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	j, err := s.job(ctx, c.Job)
	if err == nil && c.Wait {
		j, err = s.until(ctx, j)
	}
	if err != nil {
		return err
	}
	if err := s.tellJob(j); err != nil || s.json || j.Kind != "change-plan" {
		return err
	}
	var moves api.List[api.PlanMove]
	return s.ask(ctx, apiCall{method: http.MethodGet, path: path("bulk", c.Job, "plans")}, &moves, func() {
		for _, m := range moves.Items {
			say(s.out, "\n%d from %s to %s:", m.Tenants, m.From, m.To)
			printChanges(s.out, m.Changes)
		}
	})
}

type bulkRowsCmd struct {
	Job     string `arg:"" help:"Job's id."`
	Outcome string `help:"Only with this outcome." enum:"would-do,would-skip,bad,done,failed," default:""`
	listing
	shell
}

// Run lists rows.
func (c *bulkRowsCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	return list(ctx, s, c.Limit, query(path("bulk", c.Job, "rows"), "outcome", c.Outcome), "line subject outcome message", func(r api.BulkRow) []any {
		return []any{r.Line, r.Subject, r.Outcome, r.Message}
	})
}

type bulkCheckCmd struct {
	Job string `arg:"" help:"Job's id."`
	shell
}

// Run checks a job anew, and waits for that.
func (c *bulkCheckCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.jobAct(ctx, k, c.Job, "check", true)
}

type bulkStartCmd struct {
	Job    string `arg:"" help:"Job's id."`
	NoWait bool   `help:"Do not follow it to its end."`
	shell
}

// Run starts a job.
func (c *bulkStartCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.jobAct(ctx, k, c.Job, "start", !c.NoWait)
}

type bulkCancelCmd struct {
	Job string `arg:"" help:"Job's id."`
	shell
}

// Run cancels a job.
func (c *bulkCancelCmd) Run(ctx context.Context, k *kong.Kong) error {
	return c.jobAct(ctx, k, c.Job, "cancel", false)
}

func (c *shell) jobAct(ctx context.Context, k *kong.Kong, id, verb string, wait bool) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	var j api.BulkJob
	if _, err := s.send(ctx, apiCall{method: http.MethodPost, path: path("bulk", id, verb)}, &j); err != nil {
		return refusedCommand(err)
	}
	if wait {
		if j, err = s.until(ctx, j); err != nil {
			return err
		}
	}
	if err := s.tellJob(j); err != nil {
		return err
	}
	return jobError(j)
}

// jobEvery is how often a job is looked at that is followed.
const jobEvery = 500 * time.Millisecond

func (s *session) job(ctx context.Context, id string) (j api.BulkJob, err error) {
	_, err = s.send(ctx, apiCall{method: http.MethodGet, path: path("bulk", id)}, &j)
	return j, refusedCommand(err)
}

// until follows a job for as long as something happens by itself, and tells how far it is.
func (s *session) until(ctx context.Context, j api.BulkJob) (api.BulkJob, error) {
	last := ""
	for j.State == "checking" || j.State == "running" {
		if now := progress(j); now != last && !s.json {
			say(s.err, "%s", now)
			last = now
		}
		select {
		case <-ctx.Done():
			return j, fmt.Errorf("the job %s goes on by itself: %w", j.ID, ctx.Err())
		case <-time.After(jobEvery):
		}
		var err error
		if j, err = s.job(ctx, j.ID); err != nil {
			return j, err
		}
	}
	return j, nil
}

// progress says how far a job is.
func progress(j api.BulkJob) string {
	text := fmt.Sprintf("%s: %d of %d rows checked", j.ID, j.Checked, j.Total)
	if j.State == "running" {
		text = fmt.Sprintf("%s: %d of %d rows done", j.ID, j.Done+j.Failed, j.WouldDo)
	}
	if j.Problem != "" {
		text += ". " + j.Problem
	}
	return text
}

// follow waits until a new job is checked, and starts it when that was asked for.
func (s *session) follow(ctx context.Context, j api.BulkJob, f bulkFlags) error {
	if f.NoWait {
		return s.tellJob(j)
	}
	j, err := s.until(ctx, j)
	if err != nil {
		return err
	}
	if f.Start && j.State == "ready" && (j.Bad == 0 || f.SkipBad) && j.WouldDo > 0 {
		if _, err := s.send(ctx, apiCall{method: http.MethodPost, path: path("bulk", j.ID, "start")}, &j); err != nil {
			return refusedCommand(err)
		}
		if j, err = s.until(ctx, j); err != nil {
			return err
		}
	}
	if err := s.tellJob(j); err != nil {
		return err
	}
	if !s.json && j.State == "ready" && j.Bad == 0 && j.WouldDo > 0 {
		say(s.err, "Nothing has been done yet: headgate bulk start %s", j.ID)
	}
	return jobError(j)
}

// jobError is the error of a job with rows that are not right.
func jobError(j api.BulkJob) error {
	switch {
	case j.State == "failed":
		return problemsError("%s", j.Problem)
	case j.State == "ready" && j.Bad > 0:
		return problemsError("%s of %d cannot be used; headgate bulk rows %s --outcome bad lists them, and --skip-bad leaves them out", counted(int(j.Bad), "row"), j.Total, j.ID)
	case j.State == "done" && j.Failed > 0:
		return problemsError("%s could not be done; headgate bulk rows %s --outcome failed lists them", counted(int(j.Failed), "row"), j.ID)
	}
	return nil
}

func (s *session) tellJob(j api.BulkJob) error {
	if s.json {
		return output{JSON: true}.show(s.out, j, nil)
	}
	facts(s.out, "id", j.ID, "what", j.Name, "state", j.State, "rows", j.Total, "would do", j.WouldDo, "would skip", j.WouldSkip, "bad", j.Bad,
		"done", j.Done, "failed", j.Failed, "problem", j.Problem)
	return nil
}
