package api

import (
	"context"
	"net/http"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
)

// Trial is a simulation: logged decisions under another document.
type Trial struct {
	ID       string      `json:"id" example:"sim_abcdefghij234567"`
	Draft    string      `json:"draft,omitempty" doc:"Absent for a document that is no draft"`
	Digest   string      `json:"digest" doc:"Of the document that was tried"`
	Against  int64       `json:"against" doc:"The version that was in force"`
	From     time.Time   `json:"from"`
	To       time.Time   `json:"to"`
	State    string      `json:"state" enum:"running,done,failed"`
	Progress float64     `json:"progress" doc:"0 to 1"`
	Problem  string      `json:"problem,omitempty" doc:"Why it failed"`
	Author   string      `json:"author"`
	At       time.Time   `json:"at"`
	Result   *Comparison `json:"result,omitempty" doc:"When it is done; absent in lists"`
}

// Comparison is what a document would have decided otherwise than the one in force.
type Comparison struct {
	Entries       int64    `json:"entries" doc:"Decisions that were replayed"`
	Skipped       int64    `json:"skipped" doc:"Decisions of subjects that were not whole in the log"`
	Dropped       int64    `json:"dropped" doc:"Decisions that gateways could not log"`
	Share         float64  `json:"share" doc:"The smallest share of subjects that was logged whole; 1 when nothing was left out"`
	NewlyRefused  Changed  `json:"newly_refused"`
	NewlyAdmitted Changed  `json:"newly_admitted"`
	SameAdmitted  int64    `json:"same_admitted"`
	SameRefused   int64    `json:"same_refused"`
	Differs       int64    `json:"differs" doc:"Where a replay of the version in force does not decide as it did: 0 for a log without gaps"`
	Notes         []string `json:"notes" doc:"What could not be judged"`
	Rows          []Row    `json:"rows" doc:"The largest first"`
	MoreRows      int      `json:"more_rows"`
}

// Changed counts decisions that come out otherwise.
type Changed struct {
	Requests int64 `json:"requests"`
	Tenants  int64 `json:"tenants"`
}

// Row is what changes for one tenant on one route by one limit.
type Row struct {
	Tenant   string    `json:"tenant" doc:"Empty where there is none"`
	Route    string    `json:"route"`
	Limit    string    `json:"limit" doc:"That newly refuses, or no longer does"`
	Outcome  string    `json:"outcome" enum:"newly-refused,newly-admitted"`
	Requests int64     `json:"requests"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Peak     int64     `json:"peak" doc:"Most in one minute"`
	PeakAt   time.Time `json:"peak_at" doc:"Beginning of that minute"`
}

func trialOf(t console.Trial) Trial {
	out := Trial{
		ID: t.ID, Draft: t.Draft, Digest: t.Digest, Against: t.Against, From: t.From, To: t.To, State: t.State, Progress: t.Progress,
		Problem: t.Problem, Author: t.Author, At: t.At,
	}
	if t.Result != nil {
		out.Result = new(comparisonOf(*t.Result))
	}
	return out
}

func comparisonOf(c decisionlog.Comparison) Comparison {
	return Comparison{
		Entries: c.Entries, Skipped: c.Skipped, Dropped: c.Dropped, Share: float64(c.Sample) / float64(decisionlog.Whole),
		NewlyRefused: Changed(c.Refused), NewlyAdmitted: Changed(c.Admitted), SameAdmitted: c.Both.Admitted, SameRefused: c.Both.Refused,
		Differs: c.Differs, Notes: orEmpty(c.Notes), Rows: listOf(c.Rows, "", rowOf).Items, MoreRows: c.MoreRows,
	}
}

func rowOf(r decisionlog.Row) Row {
	out := Row{
		Tenant: r.Tenant, Route: r.Route, Limit: r.Limit, Outcome: "newly-admitted", Requests: r.Requests,
		First: atMicros(r.First), Last: atMicros(r.Last), Peak: r.Peak, PeakAt: atMicros(r.PeakAt),
	}
	if r.Refused {
		out.Outcome = "newly-refused"
	}
	return out
}

func atMicros(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

type (
	// TrialPath names a simulation. Exported, as the framework reads only exported parts.
	TrialPath struct {
		Trial string `path:"trial" maxLength:"64"`
	}
	// WaitingDone asks to wait for a simulation. Exported, as the framework reads only exported parts.
	WaitingDone struct {
		Wait    string `query:"wait" enum:"done" doc:"Answer when it is done, or after the timeout"`
		Timeout string `query:"timeout" default:"10s" doc:"Longest wait, a Go duration up to 60s"`
	}
	// TimeRange is what to replay. Exported, as the framework reads only exported parts.
	TimeRange struct {
		From *time.Time `json:"from,omitempty"`
		To   *time.Time `json:"to,omitempty" doc:"Now when left out"`
		Last string     `json:"last,omitempty" example:"24h" doc:"A Go duration until now, instead of from and to"`
	}
	simulateIn struct {
		WaitingDone
		Body struct {
			Document Document `json:"document"`
			TimeRange
		}
	}
	simulateDraftIn struct {
		DraftPath
		WaitingDone
		Body TimeRange
	}
	trialIn struct {
		TrialPath
		WaitingDone
	}
	trialOut struct {
		Status int `json:"-"`
		Body   Trial
	}
)

func (a *API) registerTrials() {
	register(a, op{id: "simulate-policy", method: "POST", path: "/policy/simulate", summary: "Replay logged decisions under a document", perm: console.PermEditDrafts, status: 202, body: documentBody, errors: []int{409, 413}}, a.simulate)
	register(a, op{id: "simulate-draft", method: "POST", path: "/policy/drafts/{draft}/simulate", summary: "Replay logged decisions under a draft", perm: console.PermEditDrafts, status: 202, errors: []int{404, 409}}, a.simulateDraft)
	register(a, op{id: "list-draft-trials", method: "GET", path: "/policy/drafts/{draft}/trials", summary: "List a draft's simulations, newest first", perm: console.PermView, errors: []int{404}}, a.listTrials)
	register(a, op{id: "get-trial", method: "GET", path: "/policy/trials/{trial}", summary: "Get a simulation", perm: console.PermView, errors: []int{404}}, a.getTrial)
}

// bounds is the time that is asked for.
func (r TimeRange) bounds(now time.Time) (from, to time.Time, err error) {
	to = now
	if r.To != nil {
		to = *r.To
	}
	switch {
	case r.Last != "" && (r.From != nil || r.To != nil):
		return from, to, fieldProblem("last", "must be left out when from or to is given")
	case r.Last != "":
		d, err := time.ParseDuration(r.Last)
		if err != nil || d <= 0 {
			return from, to, fieldProblem("last", "must be a duration such as 24h")
		}
		return now.Add(-d), to, nil
	case r.From == nil:
		return from, to, fieldProblem("from", "is required, or last")
	}
	return *r.From, to, nil
}

func (a *API) simulate(ctx context.Context, in *simulateIn) (*trialOut, error) {
	from, to, err := in.Body.bounds(a.Now())
	if err != nil {
		return nil, err
	}
	return a.tried(ctx, in.WaitingDone, func() (console.Trial, error) {
		release, err := a.alone(ctx, in.Body.Document.source)
		if err != nil {
			return console.Trial{}, err
		}
		defer release()
		return a.Policies.StartTrialOf(ctx, actorOf(ctx), in.Body.Document.source, from, to)
	})
}

func (a *API) simulateDraft(ctx context.Context, in *simulateDraftIn) (*trialOut, error) {
	from, to, err := in.Body.bounds(a.Now())
	if err != nil {
		return nil, err
	}
	return a.tried(ctx, in.WaitingDone, func() (console.Trial, error) {
		return a.Policies.StartTrial(ctx, actorOf(ctx), in.Draft, from, to)
	})
}

func (a *API) getTrial(ctx context.Context, in *trialIn) (*trialOut, error) {
	return a.tried(ctx, in.WaitingDone, func() (console.Trial, error) { return a.Policies.Trial(ctx, in.Trial) })
}

// trialEvery is how often a simulation that is waited for is looked at.
const trialEvery = 250 * time.Millisecond

// tried answers with a simulation, after it is done where that was asked for:
// 200 when it has ended, 202 while it runs.
func (a *API) tried(ctx context.Context, w WaitingDone, begin func() (console.Trial, error)) (*trialOut, error) {
	d, err := Waiting(w).duration()
	if err != nil {
		return nil, err
	}
	t, err := begin()
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	tick := time.NewTicker(trialEvery)
	defer tick.Stop()
	for over := d == 0; t.State == console.TrialRunning && !over; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			over = true
		case <-tick.C:
		}
		if t, err = a.Policies.Trial(ctx, t.ID); err != nil {
			return nil, err
		}
	}
	out := &trialOut{Status: http.StatusOK, Body: trialOf(t)}
	if t.State == console.TrialRunning {
		out.Status = http.StatusAccepted
	}
	return out, nil
}

func (a *API) listTrials(ctx context.Context, in *DraftPath) (*Body[List[Trial]], error) {
	items, err := a.Policies.Trials(ctx, in.Draft)
	if err == nil && len(items) == 0 {
		err = a.hasDraft(ctx, in.Draft)
	}
	if err != nil {
		return nil, err
	}
	return &Body[List[Trial]]{listOf(items, "", trialOf)}, nil
}
