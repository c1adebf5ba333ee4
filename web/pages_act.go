package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
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

// told redirects to path with what an act did and on how many gateways it holds.
func (s *Server) told(w http.ResponseWriter, r *http.Request, path, did, verb string, change console.Change) error {
	text, ok := s.converged(r.Context(), change, verb)
	flash := ui.Flash{Kind: "ok", Text: did + ": " + text + "."}
	if !ok {
		flash.Kind = "warn"
	}
	if err := s.setFlash(w, r, flash); err != nil {
		return err
	}
	return s.redirect(w, r, path, "")
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
func (s *Server) tenantAct(w http.ResponseWriter, r *http.Request, do act, did, verb string) error {
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
	return s.told(w, r, ui.TenantURL(t.ID, ""), did, verb, change)
}
