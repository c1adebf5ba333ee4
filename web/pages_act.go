package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// convergeWait is how long an act waits to say on how many gateways it holds.
const convergeWait = 2 * time.Second

// act is a service's method that changes one thing for a reason.
type act func(ctx context.Context, actor console.Actor, id, reason string) (console.Change, error)

// converged is the truth about a change in words, and whether it holds on every
// gateway: "refused on 3 of 3 gateways after 40 ms".
func (s *Server) converged(ctx context.Context, change console.Change, verb string) (string, bool) {
	if change.OutboxID == 0 {
		return "nothing had to be told to gateways", true
	}
	c := s.Fleet.WaitChange(ctx, change, convergeWait)
	switch {
	case !c.Known:
		return "unknown on how many gateways it is " + verb + ": Redis cannot be asked; gateways are told as soon as it is back", false
	case c.Of == 0:
		return "no gateway is running; those that start will have it", true
	case c.On < c.Of:
		return fmt.Sprintf("%s on %d of %d gateways so far; the others follow as they hear of it", verb, c.On, c.Of), false
	default:
		return fmt.Sprintf("%s on %d of %d gateways after %s", verb, c.On, c.Of, ui.Span(c.After)), true
	}
}

// told redirects to path with what an act did and on how many gateways it
// holds. Where it does not hold on all of them yet, the page goes on saying how far it is.
func (s *Server) told(w http.ResponseWriter, r *http.Request, path, name string, change console.Change) error {
	return s.toldAs(w, r, path, name, namedActs()[name].did, change)
}

// toldAs is told with other words for what was done.
func (s *Server) toldAs(w http.ResponseWriter, r *http.Request, path, name, did string, change console.Change) error {
	act := namedActs()[name]
	text, ok := s.converged(r.Context(), change, act.verb)
	if !ok {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		return s.redirect(w, r, path+sep+"change="+strconv.FormatInt(change.OutboxID, 10)+"&act="+url.QueryEscape(name), "")
	}
	return s.redirect(w, r, path, did+": "+text+".")
}

// namedAct is an act in words: what it did, what it is doing, what gateways do by
// it, and the state of the thing afterwards ("" when that is not told).
type namedAct struct{ did, doing, verb, state string }

func namedActs() map[string]namedAct {
	return map[string]namedAct{
		"revoke":  {"Revoked", "revoking", "refused", "revoked"},
		"unlock":  {"Unlocked", "", "known", ""},
		"prolong": {"Kept out for longer", "", "known", ""},
		"reset":   {"Reset", "", "known", ""},
		"release": {"Released", "", "known", ""},
		"suspend": {"Suspended", "suspending", "refused", "suspended"},
		"resume":  {"Resumed", "", "accepted", ""},
		"delete":  {"Deleted", "deleting", "refused", "deleted"},
		"issue":   {"The new key", "", "accepted", ""},
		"end":     {"The old key is ended", "", "refused", ""},
		"extend":  {"Extended", "", "known", ""},
		"cancel":  {"Cancelled, the new key is revoked", "", "refused", ""},
		"set":     {"Set", "", "in force", ""},
		"clear":   {"Ended", "", "known", ""},
		"boost":   {"Boosted", "", "in force", ""},
		"grant":   {"Granted", "", "in force", ""},
		"brown":   {"Brown-out begun", "", "known", ""},
		"stop":    {"Brown-out stopped", "", "known", ""},
		"contain": {"Contained", "revoking", "refused", "revoked"},
	}
}

// pendingOf is how far the change is that the address names, if it names one.
func (s *Server) pendingOf(r *http.Request) *ui.Pending {
	id, err := strconv.ParseInt(r.URL.Query().Get("change"), 10, 64)
	act, ok := namedActs()[r.URL.Query().Get("act")]
	if err != nil || id <= 0 || !ok {
		return nil
	}
	p := s.pending(r.Context(), id, r.URL.Query().Get("act"), act)
	return &p
}

func (s *Server) pending(ctx context.Context, id int64, name string, act namedAct) ui.Pending {
	c := s.Fleet.WaitChange(ctx, console.Change{OutboxID: id}, 0)
	p := ui.Pending{Doing: act.doing, Done: c.Done() || c.Known && c.Of == 0}
	switch {
	case !c.Known:
		p.Text = "unknown on how many gateways it is " + act.verb + ": Redis cannot be asked; gateways are told as soon as it is back"
	case c.Of == 0:
		p.Text = "no gateway is running; those that start will have it"
	case p.Done:
		p.Text = fmt.Sprintf("%s on %d of %d gateways", act.verb, c.On, c.Of)
	default:
		p.Text = fmt.Sprintf("%s on %d of %d gateways so far; the others follow as they hear of it", act.verb, c.On, c.Of)
	}
	p.Text = act.did + ": " + p.Text + "."
	if !p.Done {
		p.Poll = ui.ChangeLiveURL(id, name)
	}
	return p
}

// changeLive answers the poll of a change that is on its way.
func (s *Server) changeLive(w http.ResponseWriter, r *http.Request) error {
	id, err := strconv.ParseInt(chi.URLParam(r, "change"), 10, 64)
	name := chi.URLParam(r, "act")
	act, ok := namedActs()[name]
	if err != nil || id <= 0 || !ok {
		return &console.Error{Code: console.CodeNotFound, Public: "There is no such page."}
	}
	return s.render(w, r, http.StatusOK, ui.PendingFragment(s.pending(r.Context(), id, name, act), views.StateKind(act.state), act.state))
}

// problemOf turns an error of an act into the text beside its reason field;
// false when it is not the user's to mend here.
func (s *Server) problemOf(f *form.Form, err error) (string, int) {
	status := s.take(f, err)
	if status == 0 {
		return "", 0
	}
	if p := f.Error("reason"); p != "" {
		return p, status
	}
	return f.Message, status
}

// tenantAct suspends or resumes a tenant.
func (s *Server) tenantAct(w http.ResponseWriter, r *http.Request, do act, name string) error {
	t, in, head, err := s.tenantHead(r, "")
	if err != nil {
		return err
	}
	f := form.Parse(r, "reason")
	change, err := do(r.Context(), actor(r), t.ID, f.Get("reason"))
	if err != nil {
		problem, status := s.problemOf(f, err)
		if status == 0 {
			return err
		}
		head.Problem, head.Reason = problem, f.Raw("reason")
		return s.tenantSummaryOf(w, r, status, t, in, head, nil)
	}
	return s.told(w, r, ui.TenantURL(t.ID, ""), name, change)
}
