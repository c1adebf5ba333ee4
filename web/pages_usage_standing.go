package web

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

const (
	// standingFor is how long pages go by what they know of the ledger's standing, and
	// standingOld how long while it is being read anew.
	standingFor = 2 * time.Second
	standingOld = 30 * time.Second
	// standingWait bounds one reading.
	standingWait = 5 * time.Second
)

// standingCache keeps the ledger's standing for a moment: reading it takes several
// statements, and every page of usage tells of it. The zero value is empty. It is safe
// for concurrent use.
type standingCache struct {
	mu      sync.Mutex
	at      time.Time
	last    console.LedgerStanding
	err     error
	reading chan struct{} // closed when the reading that runs has ended; nil: none runs
}

// standing is how complete the ledger is. It is read beside the pages, which wait for
// it only when nothing of late is known.
func (s *Server) standing(ctx context.Context) (console.LedgerStanding, error) {
	c := &s.ledgerState
	c.mu.Lock()
	defer c.mu.Unlock()
	age := s.Now().Sub(c.at)
	known := !c.at.IsZero() && age >= 0 && c.err == nil
	if known && age < standingFor {
		return c.last, nil
	}
	if c.reading == nil {
		c.reading = make(chan struct{})
		go s.readStanding(c.reading) //nolint:contextcheck // it is for whoever asks, not for this request
	}
	if known && age < standingOld {
		return c.last, nil
	}
	done := c.reading
	c.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	c.mu.Lock()
	if err := ctx.Err(); err != nil {
		return console.LedgerStanding{}, err
	}
	return c.last, c.err
}

func (s *Server) readStanding(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), standingWait)
	defer cancel()
	st, err := s.Ledger.Standing(ctx)
	c := &s.ledgerState
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.last, c.err, c.reading = s.Now(), st, err, nil
	close(done)
}

// lagShown is from when on pages say that the ledger is behind.
const lagShown = time.Minute

// usageNotices say what the numbers of a page lack, the worst first.
func (s *Server) usageNotices(ctx context.Context) []views.UsageNotice {
	st, err := s.standing(ctx)
	see := func(n views.UsageNotice) views.UsageNotice {
		n.URL, n.Action = ui.UsageStandingURL(), "See which"
		return n
	}
	if err != nil {
		return []views.UsageNotice{see(views.UsageNotice{Kind: "warn", Lead: "How complete the ledger is cannot be told now."})}
	}
	var out []views.UsageNotice
	if st.Missing > 0 {
		out = append(out, see(views.UsageNotice{Kind: "bad", Lead: counted(int(st.Missing), "event") + " " + isAre(st.Missing) + " missing for good.",
			Text: "What is shown is less than what was used, by what these would have said."}))
	}
	if n := len(st.Behind); n > 0 {
		out = append(out, see(views.UsageNotice{Kind: "warn", Lead: counted(n, "gateway run") + " " + isAre(int64(n)) + " not heard from.",
			Text: "What they have on their disks is not counted yet, and is when they come back."}))
	}
	if st.Held+st.HeldBatch > 0 {
		out = append(out, see(views.UsageNotice{Kind: "warn", Lead: counted(int(st.Held+st.HeldBatch), "row") + " " + isAre(st.Held+st.HeldBatch) + " in quarantine.",
			Text: "They are not counted until somebody releases them."}))
	}
	if !st.Through.IsZero() && st.Lag > lagShown {
		out = append(out, see(views.UsageNotice{Kind: "warn", Lead: "The ledger is " + ui.Span(st.Lag) + " behind.", Text: "What came since is on its way."}))
	}
	return out
}

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func (s *Server) usageStanding(w http.ResponseWriter, r *http.Request) error {
	return s.usageStandingOf(w, r, http.StatusOK, "")
}

// usageStandingOf shows the ledger's standing; problem is of an act that failed.
func (s *Server) usageStandingOf(w http.ResponseWriter, r *http.Request, status int, problem string) error {
	ctx, now, page := r.Context(), s.Now(), pageOf(r)
	st, err := s.standing(ctx)
	if err != nil {
		return err
	}
	state := r.URL.Query().Get("state")
	if state != "released" && state != "discarded" {
		state = "held"
	}
	held, next, err := s.Ledger.Held(ctx, actor(r), state, page)
	if err != nil {
		return err
	}
	p := views.UsageStandingProps{Frame: s.titled(r, "Completeness of usage"), Now: now, Tabs: usageTabs("standing"), Source: "PostgreSQL, the record · " + ui.Ago(now, st.At),
		Problems: st.Problems, Totals: standingTotals(now, st), State: state, CanRepair: can(r, console.PermManageTenants), Problem: problem,
		Pager: pagerOf(r, page, len(held), next)}
	for _, run := range st.Runs {
		p.Replicas = append(p.Replicas, runRow(run, st.Behind))
	}
	for _, g := range st.Gaps {
		p.Gaps = append(p.Gaps, gapRow(g))
	}
	for _, h := range held {
		p.Held = append(p.Held, quarantineRow(h))
	}
	return s.render(w, r, status, views.UsageStanding(p))
}

func standingTotals(now time.Time, st console.LedgerStanding) []views.UsageTotal {
	through := views.UsageTotal{Label: "Complete up to", Value: ui.Unknown, Note: "no gateway is alive that tells"}
	if !st.Through.IsZero() {
		through.Value, through.Note = ui.Ago(now, st.Through), ui.Absolute(st.Through)
	}
	out := []views.UsageTotal{through,
		{Label: "Missing for good", Value: ui.Int(st.Missing), Note: "events, of all time"},
		{Label: "In quarantine", Value: ui.Int(st.Held), Note: "events"},
		{Label: "Not added up yet", Value: ui.Int(st.RollupLag), Note: "transactions; counted all the same"},
		{Label: "Months ahead", Value: ui.Unknown, Note: "partitions of events"}}
	if st.Missing > 0 {
		out[1].Tone = "bad"
	}
	if st.HeldBatch > 0 {
		out[2].Note = "events, and " + many(st.HeldBatch, "a batch", ui.Int(st.HeldBatch)+" batches") + " that could not be read"
	}
	if !st.MonthsTo.IsZero() {
		out[4].Value, out[4].Note = "to "+st.MonthsTo.UTC().Format("Jan 2006"), "partitions from "+st.MonthsFrom.UTC().Format("Jan 2006")
	}
	if st.Default > 0 {
		out[4].Tone, out[4].Note = "bad", counted(int(st.Default), "event")+" without a month's partition"
	}
	return out
}

func runRow(run console.UsageRun, behind []console.UsageRun) views.StandingReplica {
	row := views.StandingReplica{Replica: run.Replica, Boot: run.Boot, Through: run.Through, Seq: ui.Int(run.Seq), State: "ok", Word: "tells", Heard: run.UpdatedAt}
	if run.Ahead > 0 {
		row.Ahead, row.State, row.Word = ui.Int(run.Ahead), "warn", "has a gap"
	}
	if run.Final {
		row.Word = "ended, all told"
	}
	for _, b := range behind {
		if b.Replica == run.Replica && b.Boot == run.Boot {
			row.State, row.Word = "warn", "not heard from"
		}
	}
	return row
}

func gapRow(g console.UsageGap) views.GapRow {
	row := views.GapRow{Replica: g.Replica, Boot: g.Boot, First: ui.Int(g.First), Last: ui.Int(g.Last), Missing: ui.Int(g.Missing), Noted: g.NotedAt, State: "bad", Word: "lost"}
	if g.Missing == 0 {
		row.State, row.Word = "ok", "came later"
	}
	return row
}

func quarantineRow(h console.HeldUsage) views.QuarantineRow {
	row := views.QuarantineRow{ID: strconv.FormatInt(h.ID, 10), Replica: h.Replica, Boot: h.Boot, Seq: ui.Int(h.Seq), Reason: h.Reason, Detail: h.Detail, Came: h.ReceivedAt,
		Decided: h.DecidedAt, By: h.DecidedBy, Why: h.DecidedWhy, Requests: ui.Unknown, Cost: ui.Unknown}
	if e := h.Event; e != nil {
		row.Tenant, row.Second, row.Requests, row.Cost = e.TenantID, e.Second, ui.Int(e.Requests), ui.Int(e.Cost)
	}
	return row
}

// usageHeldAct releases or discards what is in quarantine.
func (s *Server) usageHeldAct(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "reason")
	id, err := strconv.ParseInt(chi.URLParam(r, "held"), 10, 64)
	if err != nil {
		return &console.Error{Code: console.CodeNotFound, Public: "There is nothing in quarantine with this number."}
	}
	act, said := s.Ledger.Release, "released: it is in the ledger now."
	switch chi.URLParam(r, "act") {
	case "release":
	case "discard":
		act, said = s.Ledger.Discard, "discarded: it is never counted."
	default:
		return &console.Error{Code: console.CodeNotFound, Public: "There is no such act."}
	}
	n, err := act(r.Context(), actor(r), []int64{id}, f.Get("reason"))
	if status := s.take(f, err); status != 0 {
		text := f.Message
		if e := f.Error("reason"); e != "" {
			text = e
		}
		return s.usageStandingOf(w, r, status, text)
	}
	if err != nil {
		return err
	}
	if n == 0 {
		said = "left as it is: somebody has decided on it before."
	}
	return s.redirect(w, r, ui.UsageStandingURL(), "No. "+strconv.FormatInt(id, 10)+" was "+said)
}
