package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/internal/csvout"
	"github.com/headgate/headgate/usage/ledger"
)

// UsageFormat is how usage is written to a file.
type UsageFormat string

// Formats.
const (
	UsageCSV         UsageFormat = "csv"
	UsageJSONLines   UsageFormat = "jsonl"
	UsageCloudEvents UsageFormat = "cloudevents" // JSON lines of CloudEvents 1.0; events only
)

// ContentType is that of a file.
func (f UsageFormat) ContentType() string {
	if f == UsageCSV {
		return csvout.ContentType
	}
	return "application/x-ndjson; charset=utf-8"
}

// usageFilePage is how many events of a file are read at once.
const usageFilePage = 2000

// usageRow is a line of a report as a file: one step of one group, or a total.
type usageRow struct {
	Row         string    `json:"row"` // step or total
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	Zone        string    `json:"zone"`
	Group       string    `json:"group,omitempty"`
	Key         string    `json:"key"`
	Name        string    `json:"name,omitempty"`
	Admitted    int64     `json:"admitted"`
	Cost        int64     `json:"cost"`
	Refused     int64     `json:"refused"`
	Other       int64     `json:"other"`
	Interrupted int64     `json:"interrupted"`
	Complete    bool      `json:"complete"` // the ledger has all of it
}

// WriteReport writes a report: a row for each step of each group that has anything,
// then each group's total, then the total of all, whose key is empty. Times carry the
// offset of the query's zone. span must be the one that the query was made of.
func (s *Ledger) WriteReport(ctx context.Context, actor Actor, w io.Writer, q UsageQuery, span UsageSpan, format UsageFormat) error {
	r, err := s.Report(ctx, actor, q)
	if err != nil {
		return err
	}
	out, err := newUsageWriter(w, format)
	if err != nil {
		return err
	}
	groups := r.Groups
	if r.RestCount > 0 {
		rest := r.Rest
		rest.Key, rest.Name = "…", fmt.Sprintf("all %d others together", r.RestCount)
		groups = append(groups[:len(groups):len(groups)], rest)
	}
	if q.Group == GroupNone {
		groups = []UsageLine{{Steps: r.Steps}}
	}
	for i, from := range r.Starts {
		if from = from.In(span.Zone); from.Before(span.From) {
			from = span.From // the first step may begin before what was asked for
		}
		to := span.Next(from)
		for _, g := range groups {
			if i < len(g.Steps) && (g.Steps[i] != UsageSums{} || q.Group == GroupNone) {
				if err := out.report(usageRowOf("step", q, span, from, to, g, g.Steps[i], !r.Through.Before(to))); err != nil {
					return err
				}
			}
		}
	}
	complete := !r.Through.Before(span.To)
	if q.Group != GroupNone {
		for _, g := range groups {
			if err := out.report(usageRowOf("total", q, span, span.From, span.To, g, g.Total, complete)); err != nil {
				return err
			}
		}
	}
	if err := out.report(usageRowOf("total", UsageQuery{}, span, span.From, span.To, UsageLine{}, r.Total, complete)); err != nil {
		return err
	}
	return out.flush()
}

func usageRowOf(kind string, q UsageQuery, span UsageSpan, from, to time.Time, g UsageLine, s UsageSums, complete bool) usageRow {
	return usageRow{Row: kind, From: from.In(span.Zone), To: to.In(span.Zone), Zone: span.Zone.String(), Group: string(q.Group), Key: g.Key, Name: g.Name,
		Admitted: s.Admitted, Cost: s.Cost, Refused: s.Refused, Other: s.Other, Interrupted: s.Interrupted, Complete: complete}
}

// WriteEvents writes rows of the ledger in the order in which they were taken in,
// however many there are, until there is nothing more.
func (s *Ledger) WriteEvents(ctx context.Context, actor Actor, w io.Writer, q UsageEventQuery, format UsageFormat) error {
	out, err := newUsageWriter(w, format)
	if err != nil {
		return err
	}
	q.Limit = usageFilePage
	var external map[string]string
	for {
		page, err := s.Events(ctx, actor, q)
		if err != nil {
			return err
		}
		if format == UsageCloudEvents {
			if external, err = s.Subjects(ctx, page.Events); err != nil {
				return err
			}
		}
		for i := range page.Events {
			if err := out.event(&page.Events[i], external); err != nil {
				return err
			}
		}
		if q.After = page.Next; page.Done {
			return out.flush()
		}
	}
}

// Subjects are the external ids of the tenants of some events, where they have one.
func (s *Ledger) Subjects(ctx context.Context, events []UsageEvent) (map[string]string, error) {
	var ids []string
	seen := map[string]bool{"": true}
	for i := range events {
		if id := events[i].TenantID; !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var out map[string]string
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		out, err = tx.TenantExternalIDs(ctx, ids)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up external ids: %w", err)
	}
	return out, nil
}

// EventID names a row of the ledger for ever.
func (e *UsageEvent) EventID() string { return fmt.Sprintf("%s/%s/%d", e.Replica, e.Boot, e.Seq) }

// Billable reports whether a row is part of a bill: what was admitted, and
// corrections of it.
func (e *UsageEvent) Billable() bool {
	o := ledger.Outcome(e.Outcome)
	return o.Admitted() || o == ledger.OutcomeSettled
}

// CloudEvent is a row of the ledger as a CloudEvent 1.0 (JSON format). Source and ID
// together are for ever the same, which is what meters tell repeats by.
type CloudEvent struct {
	SpecVersion     string         `json:"specversion"`
	Type            string         `json:"type"`
	ID              string         `json:"id"`
	Source          string         `json:"source"`
	Subject         string         `json:"subject"`
	Time            time.Time      `json:"time"`
	DataContentType string         `json:"datacontenttype"`
	Data            CloudEventData `json:"data"`
}

// CloudEventData is what a meter adds up and groups by.
type CloudEventData struct {
	Requests int64  `json:"requests"`
	Cost     int64  `json:"cost"`
	Tenant   string `json:"tenant"`
	KID      string `json:"kid"`
	Route    string `json:"route"`
	Outcome  string `json:"outcome"`
}

// CloudEvent is the event for a meter. external has the external ids of tenants; one
// without is its own id. A request without a tenant has the subject "-".
func (e *UsageEvent) CloudEvent(external map[string]string) CloudEvent {
	subject := e.TenantID
	if x := external[subject]; x != "" {
		subject = x
	}
	if subject == "" {
		subject = "-"
	}
	return CloudEvent{SpecVersion: "1.0", Type: "headgate.usage", ID: fmt.Sprint(e.Seq), Source: "/headgate/" + e.Replica + "/" + e.Boot, Subject: subject,
		Time: e.Second.UTC(), DataContentType: "application/json",
		Data: CloudEventData{Requests: e.Requests, Cost: e.Cost, Tenant: e.TenantID, KID: e.KID, Route: e.Route, Outcome: e.Outcome}}
}

// usageLine is an event as a line of JSON.
type usageLine struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at"`
	Tenant   string    `json:"tenant"`
	KID      string    `json:"kid"`
	Route    string    `json:"route"`
	Outcome  string    `json:"outcome"`
	Requests int64     `json:"requests"`
	Cost     int64     `json:"cost"`
	Billable bool      `json:"billable"`
}

// usageWriter writes rows in one format.
type usageWriter struct {
	format UsageFormat
	csv    *csvout.Writer
	out    *bufio.Writer
	begun  bool
}

func newUsageWriter(w io.Writer, format UsageFormat) (*usageWriter, error) {
	switch format {
	case UsageCSV, UsageJSONLines, UsageCloudEvents:
		return &usageWriter{format: format, csv: csvout.NewWriter(w), out: bufio.NewWriter(w)}, nil
	}
	return nil, invalid(FieldError{Field: "format", Message: "This is no format. It is one of csv, jsonl, cloudevents."})
}

func (w *usageWriter) flush() error {
	if w.format == UsageCSV {
		return w.csv.Flush()
	}
	return w.out.Flush()
}

// head writes the names of columns before the first row.
func (w *usageWriter) head(names ...any) error {
	if w.begun {
		return nil
	}
	w.begun = true
	return w.csv.Row(names...)
}

func (w *usageWriter) report(r usageRow) error {
	if w.format != UsageCSV {
		return w.line(r)
	}
	err := w.head("row", "from", "to", "zone", "group", "key", "name", "admitted", "cost", "refused", "other", "interrupted", "complete")
	if err != nil {
		return err
	}
	return w.csv.Row(r.Row, r.From, r.To, r.Zone, r.Group, r.Key, r.Name, r.Admitted, r.Cost, r.Refused, r.Other, r.Interrupted, r.Complete)
}

func (w *usageWriter) event(e *UsageEvent, external map[string]string) error {
	switch w.format {
	case UsageCloudEvents:
		return w.line(e.CloudEvent(external))
	case UsageJSONLines:
		return w.line(usageLine{e.EventID(), e.Second.UTC(), e.TenantID, e.KID, e.Route, e.Outcome, e.Requests, e.Cost, e.Billable()})
	}
	if err := w.head("id", "at", "tenant", "kid", "route", "outcome", "requests", "cost", "billable"); err != nil {
		return err
	}
	return w.csv.Row(e.EventID(), e.Second.UTC(), e.TenantID, e.KID, e.Route, e.Outcome, e.Requests, e.Cost, e.Billable())
}

func (w *usageWriter) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	_, _ = w.out.Write(b) // a bufio.Writer keeps its first error until it is asked
	return w.out.WriteByte('\n')
}
