package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/csvout"
)

type (
	// UsageRange says of when and of what usage is asked for.
	UsageRange struct {
		Range   string `query:"range" enum:"1h,24h,7d,30d,90d,month,last-month,12m" doc:"24h when neither range nor from and to are given"`
		From    string `query:"from" maxLength:"40" doc:"RFC 3339 time, or a day of the zone" example:"2026-11-01"`
		To      string `query:"to" maxLength:"40" doc:"The first moment beyond the range; now when left out" example:"2026-12-01"`
		Step    string `query:"step" enum:"minute,hour,day,month" doc:"Chosen by the range's length when left out. Minutes are kept for 8 days"`
		Zone    string `query:"zone" maxLength:"64" doc:"IANA name: whose clock steps and days follow. The tenant's own when one is given, else UTC" example:"Europe/Berlin"`
		Group   string `query:"group" enum:"tenant,route,key,plan,outcome,gateway" doc:"What is told apart; nothing when left out"`
		By      string `query:"by" enum:"requests,cost,refused" default:"requests" doc:"By what groups are ordered"`
		Top     int    `query:"top" minimum:"1" maximum:"200" default:"10"`
		Tenant  string `query:"tenant" maxLength:"64"`
		Plan    string `query:"plan" maxLength:"63" doc:"Tenants that are on it now"`
		Route   string `query:"route" maxLength:"200"`
		KID     string `query:"kid" maxLength:"64"`
		Outcome string `query:"outcome" maxLength:"64"`
	}
	usageEventsIn struct {
		Cursor   string `query:"cursor" maxLength:"200" doc:"next_cursor of the answer before; empty for the beginning"`
		Limit    int    `query:"limit" minimum:"1" maximum:"10000" default:"1000"`
		Tenant   string `query:"tenant" maxLength:"64"`
		From     string `query:"from" maxLength:"40" doc:"Only events of this second and later"`
		To       string `query:"to" maxLength:"40" doc:"Only events before this second"`
		Billable string `query:"billable" enum:"true,false" doc:"Only what a bill is made of: admitted requests and settlements. true for CloudEvents when left out, else false"`
		Format   string `query:"format" enum:"json,cloudevents" default:"json" doc:"cloudevents: a JSON array of CloudEvents 1.0 (application/cloudevents-batch+json), with the cursor in Headgate-Next-Cursor"`
	}
	usageFileIn struct {
		Tenant   string `query:"tenant" maxLength:"64"`
		From     string `query:"from" maxLength:"40"`
		To       string `query:"to" maxLength:"40"`
		Billable string `query:"billable" enum:"true,false"`
		Format   string `query:"format" enum:"jsonl,cloudevents" default:"jsonl" doc:"For JSON lines only"`
	}
)

func (a *API) registerUsage() {
	register(a, op{id: "get-usage", method: "GET", path: "/usage", summary: "What was used: sums by step of time and by group", perm: console.PermView}, a.getUsage)
	register(a, op{id: "list-usage-events", method: "GET", path: "/usage/events", summary: "Rows of the ledger from a cursor on, for billing systems", perm: console.PermView}, a.usageEvents)
	register(a, op{id: "export-usage", method: "GET", path: "/usage.csv", summary: "A usage report as CSV, with totals", perm: console.PermExport}, a.usageReportFile(console.UsageCSV))
	register(a, op{id: "export-usage-lines", method: "GET", path: "/usage.jsonl", summary: "A usage report as JSON lines, with totals", perm: console.PermExport}, a.usageReportFile(console.UsageJSONLines))
	register(a, op{id: "export-usage-events", method: "GET", path: "/usage/events.csv", summary: "Rows of the ledger as CSV, all of them", perm: console.PermExport}, a.usageEventFile(console.UsageCSV))
	register(a, op{id: "export-usage-event-lines", method: "GET", path: "/usage/events.jsonl", summary: "Rows of the ledger as JSON lines, all of them", perm: console.PermExport}, a.usageEventFile(console.UsageJSONLines))
	for path, kind := range map[string]string{"/usage.csv": "text/csv", "/usage/events.csv": "text/csv", "/usage.jsonl": "application/x-ndjson", "/usage/events.jsonl": "application/x-ndjson"} {
		a.huma.OpenAPI().Paths[Prefix+path].Get.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{
			kind: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	}
	events := a.huma.OpenAPI().Components.Schemas
	a.huma.OpenAPI().Paths[Prefix+"/usage/events"].Get.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{
		"application/json":                   {Schema: huma.SchemaFromType(events, typeOf[UsageEvents]())},
		"application/cloudevents-batch+json": {Schema: huma.SchemaFromType(events, typeOf[[]CloudEvent]())}}}
	a.registerUsageCare()
}

// asked reads a question, and its range in steps.
func (a *API) asked(ctx context.Context, in *UsageRange) (console.UsageQuery, console.UsageSpan, error) {
	zone := in.Zone
	if in.Tenant != "" {
		t, err := a.Tenants.Get(ctx, in.Tenant)
		if console.IsNotFound(err) {
			return console.UsageQuery{}, console.UsageSpan{}, fieldProblem("tenant", "There is no tenant with this id.")
		}
		if err != nil {
			return console.UsageQuery{}, console.UsageSpan{}, err
		}
		if zone == "" {
			zone = t.TimeZone
		}
	}
	span, err := console.UsageAsk{Range: in.Range, From: in.From, To: in.To, Step: in.Step, Zone: zone}.Span(a.Now())
	if err != nil {
		return console.UsageQuery{}, span, err
	}
	return console.UsageQuery{From: span.From, To: span.To, Step: console.UsageStep(span.Step), Zone: span.Zone.String(), Group: console.UsageGroup(in.Group),
		By: console.UsageBy(in.By), Top: in.Top, TenantID: in.Tenant, Plan: in.Plan, Route: in.Route, KID: in.KID, Outcome: in.Outcome}, span, nil
}

func (a *API) getUsage(ctx context.Context, in *UsageRange) (*Body[UsageReport], error) {
	q, span, err := a.asked(ctx, in)
	if err != nil {
		return nil, err
	}
	r, err := a.Ledger.Report(ctx, actorOf(ctx), q)
	if err != nil {
		return nil, err
	}
	return &Body[UsageReport]{usageReportOf(q, span, r)}, nil
}

func usageReportOf(q console.UsageQuery, span console.UsageSpan, r console.UsageReport) UsageReport {
	out := UsageReport{From: span.From, To: span.To, Step: span.Step, Zone: span.Zone.String(), Total: usageSumsOf(r.Total), Group: string(q.Group),
		Steps: make([]UsageStep, 0, len(r.Starts)), Groups: make([]UsageGroup, 0, len(r.Groups))}
	if !r.Through.IsZero() {
		out.Through = new(r.Through.UTC())
	}
	for i, from := range r.Starts {
		if from = from.In(span.Zone); from.Before(span.From) {
			from = span.From
		}
		if i < len(r.Steps) {
			out.Steps = append(out.Steps, UsageStep{From: from, Complete: !r.Through.Before(span.Next(from)), UsageSums: usageSumsOf(r.Steps[i])})
		}
	}
	for _, l := range r.Groups {
		out.Groups = append(out.Groups, usageGroupOf(q, l))
	}
	if r.RestCount > 0 {
		rest := usageGroupOf(q, r.Rest)
		rest.Name = "all " + strconv.Itoa(r.RestCount) + " others together"
		out.Rest = &rest
	}
	return out
}

func usageGroupOf(q console.UsageQuery, l console.UsageLine) UsageGroup {
	g := UsageGroup{Key: l.Key, Name: l.Name, UsageSums: usageSumsOf(l.Total)}
	for _, s := range l.Steps {
		n := s.Admitted
		switch q.By {
		case console.ByCost:
			n = s.Cost
		case console.ByRefused:
			n = s.Refused
		case console.ByRequests:
		}
		g.Steps = append(g.Steps, n)
	}
	return g
}

func usageSumsOf(s console.UsageSums) UsageSums {
	return UsageSums{Admitted: s.Admitted, Cost: s.Cost, Refused: s.Refused, Other: s.Other, Interrupted: s.Interrupted, Settled: s.Settled, Fallback: s.Fallback}
}

// UsageEvents is a page of the ledger.
type UsageEvents struct {
	Items      []UsageEvent `json:"items" nullable:"false"`
	NextCursor string       `json:"next_cursor" doc:"Never empty: what comes later is after it"`
	Done       bool         `json:"done" doc:"There was nothing more when this was read"`
}

func (a *API) usageEvents(ctx context.Context, in *usageEventsIn) (*huma.StreamResponse, error) {
	cloud := in.Format == "cloudevents"
	q, err := a.eventQuery(ctx, in.Tenant, in.From, in.To, in.Billable, cloud)
	if err != nil {
		return nil, err
	}
	q.After, q.Limit = in.Cursor, in.Limit
	page, err := a.Ledger.Events(ctx, actorOf(ctx), q)
	if err != nil {
		return nil, err
	}
	var body any
	kind := "application/json"
	if cloud {
		names, err := a.Ledger.Subjects(ctx, page.Events)
		if err != nil {
			return nil, err
		}
		list := make([]CloudEvent, 0, len(page.Events))
		for i := range page.Events {
			list = append(list, cloudEventOf(page.Events[i].CloudEvent(names)))
		}
		body, kind = list, "application/cloudevents-batch+json"
	} else {
		out := UsageEvents{Items: make([]UsageEvent, 0, len(page.Events)), NextCursor: page.Next, Done: page.Done}
		for i := range page.Events {
			out.Items = append(out.Items, usageEventOf(&page.Events[i]))
		}
		body = out
	}
	answer, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", kind)
		c.SetHeader("Headgate-Next-Cursor", page.Next)
		c.SetHeader("Headgate-Done", strconv.FormatBool(page.Done))
		_, _ = c.BodyWriter().Write(answer) // the client went away: nothing to tell anyone
	}}, nil
}

// eventQuery reads what rows of the ledger are asked for.
func (a *API) eventQuery(ctx context.Context, tenant, from, to, billable string, cloud bool) (q console.UsageEventQuery, err error) {
	q.TenantID, q.Billable = tenant, billable == "true" || cloud && billable == ""
	if tenant != "" {
		if _, err := a.Tenants.Get(ctx, tenant); console.IsNotFound(err) {
			return q, fieldProblem("tenant", "There is no tenant with this id.")
		} else if err != nil {
			return q, err
		}
	}
	for _, f := range []struct {
		name, text string
		at         *time.Time
	}{{"from", from, &q.From}, {"to", to, &q.To}} {
		if f.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, f.text)
		if err != nil {
			at, err = time.Parse(time.DateOnly, f.text)
		}
		if err != nil {
			return q, fieldProblem(f.name, "must be a time such as 2026-11-30T00:00:00Z, or a day of UTC such as 2026-11-30")
		}
		*f.at = at
	}
	return q, nil
}

func usageEventOf(e *console.UsageEvent) UsageEvent {
	return UsageEvent{ID: e.EventID(), At: e.Second.UTC(), Tenant: e.TenantID, KID: e.KID, Route: e.Route, Outcome: e.Outcome, Requests: e.Requests, Cost: e.Cost, Billable: e.Billable()}
}

func cloudEventOf(e console.CloudEvent) CloudEvent {
	return CloudEvent{SpecVersion: e.SpecVersion, Type: e.Type, ID: e.ID, Source: e.Source, Subject: e.Subject, Time: e.Time, DataContentType: e.DataContentType,
		Data: CloudEventData(e.Data)}
}

func (a *API) usageReportFile(format console.UsageFormat) func(context.Context, *UsageRange) (*huma.StreamResponse, error) {
	return func(ctx context.Context, in *UsageRange) (*huma.StreamResponse, error) {
		q, span, err := a.asked(ctx, in)
		if err != nil {
			return nil, err
		}
		filter := words("tenant", in.Tenant, "from", span.From.Format(time.RFC3339), "to", span.To.Format(time.RFC3339), "group", in.Group)
		return a.usageFile(ctx, "usage", filter, format, func(ctx context.Context, w io.Writer) error {
			return a.Ledger.WriteReport(ctx, actorOf(ctx), w, q, span, format)
		})
	}
}

func (a *API) usageEventFile(format console.UsageFormat) func(context.Context, *usageFileIn) (*huma.StreamResponse, error) {
	return func(ctx context.Context, in *usageFileIn) (*huma.StreamResponse, error) {
		format := format
		if format != console.UsageCSV && in.Format == "cloudevents" {
			format = console.UsageCloudEvents
		}
		q, err := a.eventQuery(ctx, in.Tenant, in.From, in.To, in.Billable, format == console.UsageCloudEvents)
		if err != nil {
			return nil, err
		}
		filter := words("tenant", in.Tenant, "from", in.From, "to", in.To)
		return a.usageFile(ctx, "usage-events", filter, format, func(ctx context.Context, w io.Writer) error {
			return a.Ledger.WriteEvents(ctx, actorOf(ctx), w, q, format)
		})
	}
}

// usageFile streams a file. What fails before its first byte is still told; after it
// the connection is cut, so that half a file is not taken for one.
func (a *API) usageFile(ctx context.Context, what, filter string, format console.UsageFormat, write func(context.Context, io.Writer) error) (*huma.StreamResponse, error) {
	if err := a.Exports.Begin(ctx, actorOf(ctx), what, filter); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		_, w := humachi.Unwrap(c)
		ext := string(format)
		if format == console.UsageCloudEvents {
			ext = string(console.UsageJSONLines)
		}
		out := &fileWriter{patientWriter: patientWriter{c.BodyWriter(), http.NewResponseController(w), time.Now().Add(bulkLongest)}, head: func() {
			c.SetHeader("Content-Type", format.ContentType())
			c.SetHeader("Content-Disposition", strings.Replace(csvout.FileName(what, a.Now()), ".csv", "."+ext, 1))
			c.SetHeader("X-Content-Type-Options", "nosniff")
		}}
		err := write(ctx, out)
		if err == nil {
			return
		}
		a.Log.WarnContext(ctx, "an export broke off", "request_id", requestID(ctx), "list", what, "error", err)
		if out.begun {
			panic(http.ErrAbortHandler)
		}
		a.refuse(c, err)
	}}, nil
}

// fileWriter sets its headers with the first byte.
type fileWriter struct {
	patientWriter
	head  func()
	begun bool
}

// Write implements io.Writer.
func (w *fileWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		w.head()
	}
	return w.patientWriter.Write(p)
}
