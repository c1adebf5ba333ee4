package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// policySimulateCmd replays logged traffic.
type policySimulateCmd struct {
	File       string        `arg:"" optional:"" default:"policy.yaml" help:"Policy file, YAML or JSON; - is standard input."`
	Draft      string        `help:"Draft to try instead of a file." placeholder:"ID"`
	Last       time.Duration `help:"How much of the traffic until now." default:"1h"`
	From       string        `help:"Beginning of the traffic, RFC 3339; with --to instead of --last." placeholder:"TIME"`
	To         string        `help:"End of the traffic, RFC 3339." placeholder:"TIME"`
	MaxRefused int64         `help:"Fail (status 2) when more requests than so many would be newly refused." default:"-1" placeholder:"N"`
	Timeout    time.Duration `help:"Longest wait for the result." default:"30m"`
	consoleAccess
	output
}

// Run simulates and tells what comes out otherwise.
func (c *policySimulateCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	client, body := c.client(&p), c.bounds(&p)
	if err := p.Err(); err != nil {
		return err
	}
	path := "/api/v1/policy/simulate"
	if c.Draft != "" {
		if !draftPattern.MatchString(c.Draft) {
			return problemsError("--draft must be a draft's id, as in drf_abcdefghij234567")
		}
		path = "/api/v1/policy/drafts/" + c.Draft + "/simulate"
	} else {
		f, err := readPolicy(c.File, testFlags{NoTests: true})
		if err != nil {
			return err
		}
		if !f.ok() {
			if err := c.show(k.Stdout, f.checked(), f.print); err != nil {
				return err
			}
			return f.err()
		}
		body["document"] = string(f.src)
	}
	t, err := c.result(ctx, client, path, body)
	if err != nil {
		return c.refusedByConsole(k.Stdout, c.File, c.File, err)
	}
	if err := c.show(k.Stdout, t, func(w io.Writer) { tellTrial(w, t) }); err != nil {
		return err
	}
	return c.verdict(t)
}

// bounds is the time to replay, as the API takes it.
func (c *policySimulateCmd) bounds(p *config.Problems) map[string]any {
	if c.From == "" && c.To == "" {
		if c.Last <= 0 {
			p.Add("--last", "must be a duration above 0, as in 24h")
		}
		return map[string]any{"last": c.Last.String()}
	}
	body := map[string]any{}
	for flag, value := range map[string]string{"from": c.From, "to": c.To} {
		if _, err := time.Parse(time.RFC3339, value); value != "" && err != nil {
			p.Add("--"+flag, "must be a time as in 2026-01-31T15:04:05Z")
		}
		if value != "" {
			body[flag] = value
		}
	}
	if c.From == "" {
		p.Add("--from", "is needed with --to")
	}
	return body
}

// result begins a simulation and waits for its end.
func (c *policySimulateCmd) result(ctx context.Context, client *apiClient, path string, body map[string]any) (t api.Trial, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := client.do(ctx, http.MethodPost, path, body, &t); err != nil {
		return t, err
	}
	for t.State == "running" {
		if err := client.do(ctx, http.MethodGet, "/api/v1/policy/trials/"+t.ID+"?wait=done&timeout=20s", nil, &t); err != nil {
			if ctx.Err() != nil {
				return t, fmt.Errorf("the simulation %s is not done after %v: %.0f %%", t.ID, c.Timeout, 100*t.Progress)
			}
			return t, err
		}
	}
	return t, nil
}

func (c *policySimulateCmd) verdict(t api.Trial) error {
	switch {
	case t.State != "done" || t.Result == nil:
		return errors.New(t.Problem)
	case c.MaxRefused >= 0 && t.Result.Entries == 0:
		return errors.New("the log has no decisions of this time: nothing was tried")
	case c.MaxRefused >= 0 && t.Result.NewlyRefused.Requests > c.MaxRefused:
		return problemsError("%d requests would be newly refused, and at most %d are asked for", t.Result.NewlyRefused.Requests, c.MaxRefused)
	}
	return nil
}

// tellTrial prints a simulation for people.
func tellTrial(w io.Writer, t api.Trial) {
	r := t.Result
	if r == nil {
		return
	}
	say(w, "Replayed %d decisions from %s to %s against v%d.", r.Entries, t.From.Format(time.RFC3339), t.To.Format(time.RFC3339), t.Against)
	say(w, "Newly refused: %s. Newly admitted: %s. The same: %d admitted, %d refused.",
		changedText(r.NewlyRefused), changedText(r.NewlyAdmitted), r.SameAdmitted, r.SameRefused)
	if len(r.Rows) > 0 {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		say(table, "TENANT\tROUTE\tLIMIT\tOUTCOME\tREQUESTS\tFIRST\tPEAK A MINUTE")
		for _, row := range r.Rows {
			tenant := row.Tenant
			if tenant == "" {
				tenant = "-"
			}
			say(table, "%s\t%s\t%s\t%s\t%d\t%s\t%d", tenant, row.Route, row.Limit, row.Outcome, row.Requests, row.First.Format(time.RFC3339), row.Peak)
		}
		_ = table.Flush()
	}
	if r.MoreRows > 0 {
		say(w, "… and %d more rows", r.MoreRows)
	}
	if r.Share < 1 {
		say(w, "The log holds a sample of the callers, %.2g %% at least: what others would have met is not known.", 100*r.Share)
	}
	if r.Skipped+r.Dropped > 0 {
		say(w, "Not replayed: %d decisions of callers that are not whole in the log, and %d that gateways could not log.", r.Skipped, r.Dropped)
	}
	if r.Differs > 0 {
		say(w, "In %d decisions the version in force itself comes out otherwise than logged: the log has gaps, so take the numbers as about right.", r.Differs)
	}
	for _, note := range r.Notes {
		say(w, "Note: %s", note)
	}
}

func changedText(c api.Changed) string {
	return counted(int(c.Requests), "request") + " of " + counted(int(c.Tenants), "tenant")
}
