package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// usageCmd is `headgate usage`: the ledger from a shell.
type usageCmd struct {
	Report   usageReportCmd   `cmd:"" help:"Show what was used, by step of time and by group."`
	Events   usageEventsCmd   `cmd:"" help:"Show rows of the ledger from a cursor on."`
	Export   usageExportCmd   `cmd:"" help:"Write usage to standard output as a file: a report, or rows of the ledger."`
	Standing usageStandingCmd `cmd:"" help:"Show how complete the ledger is; status 1 when something is wrong."`
	Rebuild  usageRebuildCmd  `cmd:"" help:"Add the sums of some days up again from the events themselves."`
}

// usageAsk says of when and of what.
type usageAsk struct {
	Range   string `help:"1h, 24h, 7d, 30d, 90d, month, last-month or 12m." placeholder:"RANGE"`
	From    string `help:"First day, or a time; wins over --range." placeholder:"TIME"`
	To      string `help:"The first day, or moment, beyond the range." placeholder:"TIME"`
	Step    string `help:"minute, hour, day or month; chosen by the range when left out." enum:"minute,hour,day,month," default:""`
	Zone    string `help:"Whose clock the steps follow, an IANA name. The tenant's when one is given, else UTC." placeholder:"ZONE"`
	Group   string `help:"tenant, route, key, plan, outcome or gateway." enum:"tenant,route,key,plan,outcome,gateway," default:""`
	By      string `help:"By what groups are ordered." enum:"requests,cost,refused" default:"requests"`
	Top     int    `help:"How many groups are told apart." default:"10"`
	Tenant  string `help:"Only of this tenant." placeholder:"ID"`
	Plan    string `help:"Only of tenants on this plan." placeholder:"PLAN"`
	Route   string `help:"Only on this route." placeholder:"ROUTE"`
	KID     string `name:"kid" help:"Only by this key version." placeholder:"KID"`
	Outcome string `help:"Only of this outcome." placeholder:"OUTCOME"`
}

// on is a path with the question.
func (a usageAsk) on(path string) string {
	return query(path, "range", a.Range, "from", a.From, "to", a.To, "step", a.Step, "zone", a.Zone, "group", a.Group, "by", a.By, "top", strconv.Itoa(a.Top),
		"tenant", a.Tenant, "plan", a.Plan, "route", a.Route, "kid", a.KID, "outcome", a.Outcome)
}

type usageReportCmd struct {
	usageAsk
	shell
}

// Run shows a report.
func (c *usageReportCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	notSecret(&p, "--kid", c.KID)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	var r api.UsageReport
	return s.ask(ctx, apiCall{method: http.MethodGet, path: c.on(path("usage"))}, &r, func() { tellUsage(s, r) })
}

// tellUsage prints a report: its groups or, without any, its steps.
func tellUsage(s *session, r api.UsageReport) {
	through := "unknown"
	if r.Through != nil {
		through = r.Through.UTC().Format(time.RFC3339)
	}
	facts(s.out, "from", r.From.Format(time.RFC3339), "to", r.To.Format(time.RFC3339), "zone", r.Zone, "complete up to", through)
	say(s.out, "")
	if r.Group == "" {
		t := newTable(s.out, "from admitted cost refused other interrupted complete")
		for _, x := range r.Steps {
			t.row(x.From.Format(time.RFC3339), x.Admitted, x.Cost, x.Refused, x.Other, x.Interrupted, x.Complete)
		}
		t.row("total", r.Total.Admitted, r.Total.Cost, r.Total.Refused, r.Total.Other, r.Total.Interrupted, "")
		t.end()
		return
	}
	t := newTable(s.out, r.Group+" name admitted cost refused other interrupted")
	groups := r.Groups
	if r.Rest != nil {
		groups = append(groups, *r.Rest)
	}
	for _, g := range groups {
		t.row(g.Key, g.Name, g.Admitted, g.Cost, g.Refused, g.Other, g.Interrupted)
	}
	t.row("total", "", r.Total.Admitted, r.Total.Cost, r.Total.Refused, r.Total.Other, r.Total.Interrupted)
	t.end()
}

type usageEventsCmd struct {
	Cursor   string `help:"next_cursor of the page before; from the beginning when left out." placeholder:"CURSOR"`
	Tenant   string `help:"Only of this tenant." placeholder:"ID"`
	From     string `help:"Only events of this time and later." placeholder:"TIME"`
	To       string `help:"Only events before this time." placeholder:"TIME"`
	Billable bool   `help:"Only what a bill is made of."`
	Limit    int    `help:"Rows of the page, at most 10000." default:"100"`
	shell
}

// Run shows a page of events and where the next one begins.
func (c *usageEventsCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	at := query(path("usage", "events"), "cursor", c.Cursor, "tenant", c.Tenant, "from", c.From, "to", c.To, "billable", strconv.FormatBool(c.Billable), "limit", strconv.Itoa(c.Limit))
	var page api.UsageEvents
	return s.ask(ctx, apiCall{method: http.MethodGet, path: at}, &page, func() {
		t := newTable(s.out, "at tenant kid route outcome requests cost id")
		for _, e := range page.Items {
			t.row(e.At, e.Tenant, e.KID, e.Route, e.Outcome, e.Requests, e.Cost, e.ID)
		}
		t.end()
		say(s.err, "Next: --cursor %s", page.NextCursor)
	})
}

type usageExportCmd struct {
	usageAsk
	Events   bool   `help:"Rows of the ledger instead of a report."`
	Billable bool   `help:"With --events: only what a bill is made of."`
	Format   string `help:"csv, jsonl or, with --events, cloudevents." enum:"csv,jsonl,cloudevents" default:"csv"`
	shell
}

// Run streams a file.
func (c *usageExportCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	if c.Format == "cloudevents" && !c.Events {
		p.Add("--format", "cloudevents goes with --events")
	}
	notSecret(&p, "--kid", c.KID)
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	if !c.Events {
		return s.save(ctx, c.on(path("usage."+c.Format)))
	}
	file, format, billable := "events.jsonl", c.Format, ""
	if c.Format == "csv" {
		file, format = "events.csv", ""
	}
	if c.Billable {
		billable = "true"
	}
	return s.save(ctx, query(path("usage", file), "tenant", c.Tenant, "from", c.From, "to", c.To, "billable", billable, "format", format))
}

type usageStandingCmd struct{ shell }

// Run shows how complete the ledger is.
func (c *usageStandingCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	var st api.UsageStanding
	err = s.ask(ctx, apiCall{method: http.MethodGet, path: path("usage", "standing")}, &st, func() {
		facts(s.out, "complete up to", st.Through, "behind", time.Duration(st.LagSeconds*float64(time.Second)).Round(time.Second), "missing for good", st.Missing, "in quarantine", st.Held,
			"partitions up to", st.MonthsTo)
		say(s.out, "")
		t := newTable(s.out, "gateway boot events ahead through ended heard")
		for _, r := range st.Runs {
			t.row(r.Gateway, r.Boot, r.Seq, r.Ahead, r.Through, r.Ended, r.HeardAt)
		}
		t.end()
		for _, text := range st.Problems {
			say(s.err, "%s", shown(text))
		}
	})
	if err == nil && len(st.Problems) > 0 {
		return &exitError{1, errors.New("the ledger is not as it should be")}
	}
	return err
}

type usageRebuildCmd struct {
	From moment `required:"" help:"First day." placeholder:"DAY"`
	To   moment `required:"" help:"The day after the last one." placeholder:"DAY"`
	shell
}

// Run adds sums up again.
func (c *usageRebuildCmd) Run(ctx context.Context, k *kong.Kong) error {
	s, err := c.begin(k, &config.Problems{})
	if err != nil {
		return err
	}
	s.http.Timeout = 0 // it takes what it takes; ctx ends it
	body, err := json.Marshal(map[string]time.Time{"from": c.From.Time, "to": c.To.Time})
	if err != nil {
		return err
	}
	var r api.RebuiltUsage
	return s.ask(ctx, apiCall{method: http.MethodPost, path: path("usage", "rebuild"), body: json.RawMessage(body)}, &r, func() {
		say(s.out, "%d rows of sums from %s to %s; %d quarters of hours were wrong.", r.Rows, r.From.UTC().Format(time.DateOnly), r.To.UTC().Format(time.DateOnly), r.Changed)
	})
}
