package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// bulkWords are the kinds of jobs for people: title, what it does, how it is undone.
type bulkWords struct{ title, text, undo, columns string }

func bulkKindWords(k console.BulkKind) bulkWords {
	switch k {
	case console.BulkImportTenants:
		return bulkWords{"Import tenants", "Makes a tenant of each row.", "Each row that is done made a tenant; delete those that should not be.",
			"Columns: name, plan, and if wanted external_id, time_zone."}
	case console.BulkImportKeys:
		return bulkWords{"Import keys", "Makes keys that exist elsewhere known by their SHA-256, so that they go on working. No secret is read.",
			"Revoke the keys that it made, listed below.", "Columns: tenant (id or external id), name, environment, kid, digest (sha256:…), and if wanted scopes, expires_at."}
	case console.BulkRevokeUnused:
		return bulkWords{"Revoke unused keys", "Revokes keys that nobody has used for some time.", "It cannot be undone: a revoked key is refused for good. Issue another where one was still needed.", ""}
	case console.BulkSetExpiry:
		return bulkWords{"Set an end for keys", "Lets keys end by themselves on a day.", "Run it again with a later day, for keys that end earlier, too.", ""}
	case console.BulkChangePlan:
		return bulkWords{"Change plans", "Moves tenants to another plan. No counter is reset.", "Run it again the other way, for the rows below.", ""}
	case console.BulkSuspend:
		return bulkWords{"Suspend tenants", "Stops all calls of tenants until they are resumed. Keys, counters and limits stay as they are.", "Resume them, by another job or one by one.", ""}
	case console.BulkResume:
		return bulkWords{"Resume tenants", "Lets suspended tenants call again.", "Suspend them again, for the rows below.", ""}
	}
	return bulkWords{title: string(k)}
}

func bulkKinds(any string) []ui.Option {
	options := []ui.Option{{Value: "", Label: any}}
	for _, k := range console.BulkKinds() {
		options = append(options, ui.Option{Value: string(k), Label: bulkKindWords(k).title})
	}
	return options
}

func (s *Server) bulkList(w http.ResponseWriter, r *http.Request) error {
	f, page := form.Query(r, "state", "kind"), pageOf(r)
	list, next, err := s.Bulk.List(r.Context(), console.BulkQuery{State: console.BulkState(f.Get("state")), Kind: console.BulkKind(f.Get("kind")), Page: page})
	if err != nil {
		return err
	}
	p := views.BulkListProps{Frame: s.titled(r, "Bulk jobs"), Now: s.Now(), State: f.Get("state"), Kind: f.Get("kind"), Kinds: bulkKinds("any"),
		CanManage: can(r, console.PermManageKeys)}
	p.Filtered = p.State != "" || p.Kind != ""
	for _, j := range list {
		p.Rows = append(p.Rows, views.BulkRow{ID: j.ID, Title: bulkKindWords(j.Kind).title, Name: j.Name, State: string(j.State), Progress: bulkSentence(j),
			Author: j.Author, Created: j.CreatedAt, Ended: at(j.EndedAt)})
	}
	p.Pager = pagerOf(r, page, len(list), next)
	return s.render(w, r, http.StatusOK, views.BulkList(p))
}

// bulkSentence is what a job would do, does or did, in numbers.
func bulkSentence(j console.BulkJob) string {
	rest := ""
	if j.WouldSkip > 0 {
		rest += "; " + ui.Int(j.WouldSkip) + many(j.WouldSkip, " is", " are") + " so already"
	}
	if j.Bad > 0 {
		rest += "; " + ui.Int(j.Bad) + many(j.Bad, " has a problem and is", " have a problem and are") + " left out"
	}
	switch j.State {
	case console.BulkChecking:
		if !j.Loaded {
			return ui.Int(j.Total) + " rows read so far"
		}
		return ui.Int(j.Checked) + " of " + ui.Int(j.Total) + " rows checked"
	case console.BulkReady:
		return ui.Int(j.WouldDo) + " of " + ui.Int(j.Total) + " rows would change something" + rest + ". Nothing is done yet"
	case console.BulkFailed:
		return "The input as a whole cannot be used"
	case console.BulkRunning, console.BulkDone, console.BulkCancelled:
	}
	text := ui.Int(j.Done) + " of " + ui.Int(j.WouldDo) + " rows done"
	if j.Failed > 0 {
		text += "; " + ui.Int(j.Failed) + " could not be done"
	}
	return text + rest
}

func (s *Server) bulkPage(w http.ResponseWriter, r *http.Request) error {
	return s.bulkPageWith(w, r, http.StatusOK, "")
}

// bulkPageWith shows a job, with the problem of an act that failed.
func (s *Server) bulkPageWith(w http.ResponseWriter, r *http.Request, status int, message string) error {
	j, err := s.Bulk.Get(r.Context(), chi.URLParam(r, "job"))
	if err != nil {
		return err
	}
	page, outcome := pageOf(r), r.URL.Query().Get("outcome")
	words := bulkKindWords(j.Kind)
	p := views.BulkJobProps{Frame: s.titled(r, words.title), Live: s.bulkLiveProps(r, j), Reason: j.Reason, Undo: words.undo, Message: message,
		Tabs: bulkTabs(j, outcome), NoRows: "No row is so."}
	if !j.RowsKept {
		p.NoRows = "The rows of this job are no longer kept: they are forgotten 30 days after its end."
	}
	list, next, err := s.Bulk.Rows(r.Context(), j.ID, outcome, page)
	if err != nil {
		return err
	}
	for _, row := range list {
		p.Rows = append(p.Rows, bulkOutcome(j.Kind, row))
	}
	p.Pager = pagerOf(r, page, len(list), next)
	if j.Kind == console.BulkChangePlan && j.State == console.BulkReady {
		moves, err := s.Bulk.Moves(r.Context(), j.ID)
		if err != nil {
			return err
		}
		for _, m := range moves {
			p.Moves = append(p.Moves, views.BulkMove{Title: fmt.Sprintf("%s from %s to %s", counted(int(m.Tenants), "tenant"), m.From, m.To), Rows: diffRows(m.Changes)})
		}
	}
	return s.render(w, r, status, views.BulkJob(p))
}

// bulkTabs are the rows of a job by their outcome, with how many there are.
func bulkTabs(j console.BulkJob, now string) []ui.Tab {
	var tabs []ui.Tab
	for _, t := range []struct {
		outcome, label string
		n              int64
	}{{"", "All", j.Total}, {console.RowWouldDo, "To do", j.WouldDo - j.Done - j.Failed}, {console.RowWouldSkip, "So already", j.WouldSkip},
		{console.RowBad, "With a problem", j.Bad}, {console.RowDone, "Done", j.Done}, {console.RowFailed, "Failed", j.Failed}} {
		url := ui.BulkJobURL(j.ID)
		if t.outcome != "" {
			url += "?outcome=" + t.outcome
		}
		tabs = append(tabs, ui.Tab{Label: t.label + " " + ui.Int(t.n), URL: url, Current: t.outcome == now})
	}
	return tabs
}

func bulkOutcome(kind console.BulkKind, row console.BulkRow) views.BulkOutcome {
	words := map[string][2]string{console.RowPending: {"warn", "not checked yet"}, console.RowWouldDo: {"warn", "to do"}, console.RowWouldSkip: {"ok", "so already"},
		console.RowBad: {"bad", "left out"}, console.RowDone: {"ok", "done"}, console.RowFailed: {"bad", "failed"}}
	out := views.BulkOutcome{Line: strconv.FormatInt(row.Line, 10), Subject: row.Subject, Tone: words[row.Outcome][0], Outcome: words[row.Outcome][1], Message: row.Message}
	switch {
	case strings.HasPrefix(row.Subject, "ten_"):
		out.URL = ui.TenantURL(row.Subject, "")
	case kidID.MatchString(row.Subject) && (kind != console.BulkImportKeys && kind != console.BulkImportTenants || row.Outcome == console.RowDone):
		out.URL = ui.KeyURL(row.Subject, "")
	}
	return out
}

func (s *Server) bulkLive(w http.ResponseWriter, r *http.Request) error {
	j, err := s.Bulk.Get(r.Context(), chi.URLParam(r, "job"))
	if err != nil {
		return err
	}
	p := s.bulkLiveProps(r, j)
	if p.Poll == "" { // it came to rest: its rows and their numbers are others now
		w.Header().Set("HX-Refresh", "true")
	}
	return s.render(w, r, http.StatusOK, views.BulkLive(p))
}

func (s *Server) bulkLiveProps(r *http.Request, j console.BulkJob) views.BulkLiveProps {
	may := can(r, j.Kind.Needs())
	p := views.BulkLiveProps{Now: s.Now(), ID: j.ID, Title: bulkKindWords(j.Kind).title, Name: j.Name, State: string(j.State), Problem: j.Problem,
		Sentence: bulkSentence(j) + ".", Share: -1, Author: j.Author, StartedBy: j.StartedBy, EndedBy: j.EndedBy,
		Created: j.CreatedAt, Started: at(j.StartedAt), Ended: at(j.EndedAt),
		CanStart: may && j.State == console.BulkReady && j.WouldDo > 0, CanCancel: may && j.Open(),
		Counts: []views.BulkCount{{Label: "Rows", Value: ui.Int(j.Total)}, {Label: "Would change", Value: ui.Int(j.WouldDo)}, {Label: "So already", Value: ui.Int(j.WouldSkip)},
			bulkCount("With a problem", j.Bad), {Label: "Done", Value: ui.Int(j.Done)}, bulkCount("Failed", j.Failed)}}
	p.StartEffect = ui.Int(j.WouldDo) + " rows are changed, in steps; gateways follow within seconds. It can be cancelled between steps. " + bulkKindWords(j.Kind).undo
	switch j.State {
	case console.BulkChecking:
		p.Poll = "/live" + ui.BulkJobURL(j.ID)
		p.Share, p.ShareText = share(j.Checked, j.Total), ui.Int(j.Checked)+" of "+ui.Int(j.Total)+" rows checked"
	case console.BulkRunning:
		p.Poll = "/live" + ui.BulkJobURL(j.ID)
		p.Share, p.ShareText = share(j.Done+j.Failed, j.WouldDo), ui.Int(j.Done+j.Failed)+" of "+ui.Int(j.WouldDo)+" rows"
	default: // nothing moves
	}
	return p
}

func bulkCount(label string, n int64) views.BulkCount {
	c := views.BulkCount{Label: label, Value: ui.Int(n)}
	if n > 0 {
		c.Tone = "bad"
	}
	return c
}

// share is n of all in whole percent.
func share(n, all int64) int {
	if all <= 0 {
		return 0
	}
	return int(min(100*n/all, 100))
}

func (s *Server) bulkStart(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "job")
	_, err := s.Bulk.Start(r.Context(), actor(r), id)
	return s.bulkTold(w, r, id, err, "Started.")
}

func (s *Server) bulkCancel(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "job")
	_, err := s.Bulk.Cancel(r.Context(), actor(r), id)
	return s.bulkTold(w, r, id, err, "Cancelled. What was done stays done.")
}

func (s *Server) bulkTold(w http.ResponseWriter, r *http.Request, id string, err error, done string) error {
	if err != nil {
		f := form.New(nil)
		status := s.take(f, err)
		if status == 0 {
			return err
		}
		return s.bulkPageWith(w, r, status, f.Message)
	}
	return s.redirect(w, r, ui.BulkJobURL(id), done)
}
