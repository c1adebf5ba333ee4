package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// publishWait is how long a publishing POST waits for gateways before it shows
// the publication page, which goes on by itself.
const publishWait = 1500 * time.Millisecond

// snapshotWait is how long it then waits for the snapshot that pages show.
const snapshotWait = 1200 * time.Millisecond

// versionForms are the forms of a publication page, with what was typed in them,
// and what rolling back asks for besides.
type versionForms struct {
	rollback, canary *form.Form
	to               int64 // what rolling back was refused for; 0: the usual
	confirm          []console.Confirmation
	approval         bool
}

func (s *Server) versionPage(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionOf(r)
	if err != nil {
		return err
	}
	return s.renderVersion(w, r, http.StatusOK, v, versionForms{})
}

func (s *Server) renderVersion(w http.ResponseWriter, r *http.Request, status int, v console.Version, f versionForms) error {
	head, _, err := s.Policies.Head(r.Context())
	if err != nil {
		return err
	}
	ro, err := s.rolloutOf(r.Context(), v.Number)
	if err != nil {
		return err
	}
	st, err := s.publication(r, v.Number)
	if err != nil {
		return err
	}
	st.Running = ro != nil && ro.State == console.RolloutRunning
	p := views.VersionProps{Frame: s.titled(r, fmt.Sprintf("v%d", v.Number)), Now: s.Now(), Version: versionRow(v, head.Number), Head: head.Number,
		Status: st, Risks: riskGroups(v.Changes), Counts: effectCounts(v.Changes), Proof: proofRows(v), Form: firstForm(f.rollback, form.New(nil)),
		NeedsApproval: f.approval, CanPublish: can(r, console.PermPublish)}
	if ro != nil {
		p.Canary = canaryProps(*ro, s.Now(), firstForm(f.canary, form.New(nil)))
		if ro.State != console.RolloutPromoted {
			p.Version.Canary = string(ro.State)
		}
	}
	for _, c := range f.confirm {
		p.Confirmations = append(p.Confirmations, views.ConfirmationRow{Code: c.Code, Text: c.Text, Word: c.Word})
	}
	s.putRollback(r.Context(), &p, v.Number, head.Number, f.to)
	return s.render(w, r, status, views.Version(p))
}

// putRollback says what the page's button goes back to: the version itself, or,
// of the one in force, what was in force before. A canary has its own button.
func (s *Server) putRollback(ctx context.Context, p *views.VersionProps, n, head, want int64) {
	switch {
	case p.Version.Canary != "": // on trial, or stopped there: it was never in force everywhere
		return
	case want > 0:
		p.RollbackTo = want
	case n == head:
		p.RollbackTo = s.previous(ctx, head)
	default:
		p.RollbackTo = n
	}
	if p.RollbackTo == 0 {
		return
	}
	if changes, err := s.Policies.Diff(ctx, head, p.RollbackTo); err == nil {
		p.RollbackChanges = diffRows(changes)
	}
}

// previous is the newest version below n that was in force; 0 when there is none.
func (s *Server) previous(ctx context.Context, n int64) int64 {
	items, _, err := s.Policies.Versions(ctx, console.Page{Limit: 50})
	if err != nil {
		return 0
	}
	canaries, err := s.canaries(ctx)
	if err != nil {
		return 0
	}
	for _, v := range items {
		if v.Number < n && canaries[v.Number] == "" {
			return v.Number
		}
	}
	return 0
}

func (s *Server) rolloutOf(ctx context.Context, n int64) (*console.Rollout, error) {
	ro, err := s.Rollouts.Get(ctx, n)
	if console.IsNotFound(err) {
		return nil, nil //nolint:nilnil // most versions are no canaries
	}
	return &ro, err
}

// proofRows tell what a publication rested on.
func proofRows(v console.Version) []views.CheckRow {
	var rows []views.CheckRow
	p := v.Proof
	if p.BreakGlass != "" {
		rows = append(rows, views.CheckRow{Tone: "bad", Word: "Break glass", Text: p.BreakGlass, URL: ui.ReviewsURL(), Link: "reviews"})
	}
	for _, n := range p.Missing {
		rows = append(rows, views.CheckRow{Tone: "bad", Word: "Went without", Text: neededRow(n).Text + ": " + n.Why})
	}
	passed := 0
	for _, t := range p.Tests {
		if t.Passed {
			passed++
		}
	}
	if n := len(p.Tests); n > 0 {
		tone := "ok"
		if passed < n {
			tone = "warn"
		}
		rows = append(rows, views.CheckRow{Tone: tone, Word: "Tests", Text: fmt.Sprintf("%d of %d passed", passed, n)})
	}
	for _, a := range p.Approvals {
		text := "by " + a.Actor
		if a.Note != "" {
			text += ": “" + a.Note + "”"
		}
		rows = append(rows, views.CheckRow{Tone: "ok", Word: "Approved", Text: text})
	}
	for _, c := range p.Confirmed {
		rows = append(rows, views.CheckRow{Tone: "warn", Word: "Confirmed", Text: c.Text})
	}
	for _, c := range p.Unconfirmed {
		rows = append(rows, views.CheckRow{Tone: "warn", Word: "Not confirmed", Text: c.Text})
	}
	if p.Scheduled != nil {
		rows = append(rows, views.CheckRow{Word: "Scheduled", Text: "for " + ui.Absolute(*p.Scheduled)})
	}
	return rows
}

func canaryProps(ro console.Rollout, now time.Time, f *form.Form) *views.CanaryProps {
	plan := ro.Plan
	who := counted(len(ro.Replicas), "gateway")
	if plan.Zone != "" {
		who += " of zone " + plan.Zone
	}
	then := "then until a person decides"
	if plan.Promote {
		then = "then promoted by itself"
	}
	c := &views.CanaryProps{Version: ro.Version, Base: ro.Base, Successor: ro.Successor, State: string(ro.State), Replicas: ro.Replicas, Form: f,
		Plan: fmt.Sprintf("%s for at least %s, %s. Begun %s by %s.", who, ui.Span(plan.Hold), then, ui.Ago(now, ro.StartedAt), ro.Author),
		Guards: fmt.Sprintf("Stops by itself when one of them refuses the version, goes silent or degrades, or when their share of refusals is %s above that of the others.",
			points(plan.MaxRefusedRise))}
	until := ro.StartedAt.Add(plan.Hold)
	if left := until.Sub(now); left > 0 && ro.State == console.RolloutRunning {
		c.Left = fmt.Sprintf("from %s UTC on, in %s", until.UTC().Format("15:04:05"), ui.Span(left))
	}
	if ro.EndedAt != nil {
		c.Ended = fmt.Sprintf("%s by %s after %s", strings.ToUpper(string(ro.State[:1]))+string(ro.State[1:]), ro.By, ui.Span(ro.EndedAt.Sub(ro.StartedAt)))
		if ro.EndReason != "" {
			c.Ended += ": " + strings.TrimRight(ro.EndReason, ".")
		}
		c.Ended += "."
	}
	return c
}

// points words a difference of two shares, each of 1, in percentage points.
func points(rise float64) string {
	n := strconv.FormatFloat(100*rise, 'g', 4, 64)
	if n == "1" {
		return "1 point"
	}
	return n + " points"
}

func (s *Server) versionStatus(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionOf(r)
	if err != nil {
		return err
	}
	p, err := s.publication(r, v.Number)
	if err != nil {
		return err
	}
	h := s.Fleet.Health(r.Context())
	p.Running = h.Rollout != nil && h.Rollout.Version == v.Number
	return s.render(w, r, http.StatusOK, views.VersionStatus(p))
}

// settle waits for the gateways to take up a version that was just published,
// and then for the snapshot that pages show to know it, so that the page after
// the publication tells the truth at once. Both waits are short; the page goes
// on by itself.
func (s *Server) settle(ctx context.Context, n int64) {
	wait, cancel := context.WithTimeout(ctx, publishWait)
	defer cancel()
	known := s.until(wait, 50*time.Millisecond, func() bool {
		pub, err := s.Fleet.Publication(wait, n)
		return err != nil || !pub.Known || pub.Done()
	})
	if !known {
		return
	}
	wait, cancel = context.WithTimeout(ctx, snapshotWait)
	defer cancel()
	s.until(wait, 20*time.Millisecond, func() bool {
		h := s.Fleet.Health(wait)
		return h.Version >= n || h.Rollout != nil && h.Rollout.Version == n
	})
}

// until asks again and again whether something has come about; false when ctx
// ends before it has.
func (s *Server) until(ctx context.Context, every time.Duration, done func() bool) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if done() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// publication says which gateways enforce a version, as they say it now.
func (s *Server) publication(r *http.Request, n int64) (views.PublicationProps, error) {
	pub, err := s.Fleet.Publication(r.Context(), n)
	if err != nil {
		return views.PublicationProps{}, err
	}
	p := views.PublicationProps{Version: n, Head: pub.Head, Now: s.Now(), Known: pub.Known, Canary: pub.Canary, On: pub.On, Of: pub.Of,
		Silent: pub.Silent, Nacks: len(pub.Nacks), Overtook: pub.Overtook, OnTrial: pub.OnTrial, After: pub.After}
	if h := s.Fleet.Health(r.Context()); !pub.Known {
		p.Since = h.RedisSince
		if p.Of == 0 { // what was heard before contact was lost is better than nothing
			pub.Rows = lastHeard(h, n)
			p.Of = len(pub.Rows)
			for _, row := range pub.Rows {
				if row.On {
					p.On++
				}
			}
		}
	}
	for _, row := range pub.Rows {
		if row.Status != console.StatusGone || row.Target {
			p.Rows = append(p.Rows, publicationRow(row, n))
		}
	}
	slices.SortFunc(p.Rows, func(a, b views.PublicationRow) int {
		if a.Target != b.Target && pub.Canary {
			if a.Target {
				return -1
			}
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	return p, nil
}

// lastHeard are the gateways as they were heard last. Those that had not got as
// far as a version then are not said to enforce it.
func lastHeard(h console.Health, n int64) []console.PublicationRow {
	var rows []console.PublicationRow
	for _, rep := range h.Replicas {
		if rep.Status != console.StatusGone {
			rows = append(rows, console.PublicationRow{Replica: rep, Target: true, On: rep.Version == n, After: -1})
		}
	}
	return rows
}

func publicationRow(rep console.PublicationRow, n int64) views.PublicationRow {
	row := views.PublicationRow{ID: rep.ID, Host: rep.Host, Zone: rep.Zone, Version: rep.Version, Status: statusWord(rep.Status), Age: rep.Age,
		Target: rep.Target, On: rep.On}
	if rep.ViaConsole {
		row.Via = "via the console"
	}
	if rep.On && rep.Version == n && rep.After >= 0 {
		row.After = ui.Span(rep.After)
	}
	if rep.NACK != nil && rep.NACK.Version == n {
		row.NACK = rep.NACK.Code + ": " + rep.NACK.Detail
	}
	return row
}

func (s *Server) versionRollback(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionOf(r)
	if err != nil {
		return err
	}
	f, o := publishInput(r)
	o.Canary, o.BreakGlass = nil, nil
	if f.Get("reason") != "" || r.PostForm.Get("password") != "" {
		o.BreakGlass = &console.BreakGlass{Reason: f.Get("reason"), Password: r.PostForm.Get("password")}
	}
	if !f.OK() {
		return s.renderVersion(w, r, http.StatusUnprocessableEntity, v, versionForms{rollback: f, to: v.Number})
	}
	to, err := s.Policies.Rollback(r.Context(), actor(r), v.Number, o)
	if err != nil {
		status := s.takeReview(f, err)
		if status == 0 {
			return err
		}
		nameFields(f)
		forms := versionForms{rollback: f, to: v.Number, approval: console.CodeOf(err) == console.CodeApproval || o.BreakGlass != nil}
		forms.confirm = confirmationsOf(err)
		f.Message = strings.Join(append([]string{"Not rolled back. " + f.Message}, problemsOf(err)...), " ")
		return s.renderVersion(w, r, status, v, forms)
	}
	s.settle(r.Context(), to.Number)
	return s.redirect(w, r, ui.VersionURL(to.Number), fmt.Sprintf("Rolled back: v%d has the content of v%d.", to.Number, v.Number))
}

// versionPromote gives a canary's version to all gateways.
func (s *Server) versionPromote(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "note")
	return s.endCanary(w, r, f, func(ctx context.Context, n int64) (console.Version, error) {
		return s.Rollouts.Promote(ctx, actor(r), n, f.Get("note"))
	}, "v%d goes to all gateways.")
}

// versionStop takes a canary back.
func (s *Server) versionStop(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "reason")
	return s.endCanary(w, r, f, func(ctx context.Context, n int64) (console.Version, error) {
		return s.Rollouts.Stop(ctx, actor(r), n, f.Get("reason"))
	}, "The canary is stopped; v%d has the content from before.")
}

func (s *Server) endCanary(w http.ResponseWriter, r *http.Request, f *form.Form, do func(context.Context, int64) (console.Version, error), done string) error {
	v, err := s.versionOf(r)
	if err != nil {
		return err
	}
	to, err := do(r.Context(), v.Number)
	if err != nil {
		status := s.takeReview(f, err)
		if status == 0 {
			return err
		}
		return s.renderVersion(w, r, status, v, versionForms{canary: f})
	}
	s.settle(r.Context(), to.Number)
	return s.redirect(w, r, ui.VersionURL(to.Number), fmt.Sprintf(done, to.Number))
}
