package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// reviewForms are the forms of a review page with what was typed in them.
type reviewForms struct{ publish, approve, comment *form.Form }

func (s *Server) draftReview(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	return s.renderReview(w, r, http.StatusOK, e, reviewForms{})
}

// publishDefaults are the choices of a form that nobody has filled in.
func publishDefaults() *form.Form {
	return form.New(map[string]string{"strategy": "all", "count": "1", "hold": "5m", "promote": "yes", "rise": "5"})
}

// renderReview shows the draft against the version in force, everything that
// stands in its way, and both sides when its base is no longer in force.
func (s *Server) renderReview(w http.ResponseWriter, r *http.Request, status int, e *editor, f reviewForms) error {
	ready, err := s.Policies.Ready(r.Context(), actor(r), e.draft.ID)
	if err != nil {
		return err
	}
	e.draft, e.head = ready.Draft, ready.Head
	h := s.Fleet.Health(r.Context())
	p := views.DraftReviewProps{Head: s.draftHead(r, e, "review"), Readable: e.doc != nil, Blocked: ready.Blocked(), Digest: ready.Digest,
		Checks: checksOf(e, ready), Risks: riskGroups(ready.Changes), Changes: len(ready.Changes), Counts: effectCounts(ready.Changes),
		Theirs: diffRows(ready.Theirs), Mine: diffRows(ready.Mine), Clashes: ready.Clashes, CanMerge: e.doc != nil && ready.Head.Number > 0,
		Voided: ready.Voided, Replicas: h.Of, Zones: zonesOf(h.Replicas),
		Form: firstForm(f.publish, publishDefaults()), ForApprove: firstForm(f.approve, form.New(nil)), ForComment: firstForm(f.comment, form.New(nil))}
	p.Head.Frame.Title = "Review · " + e.draft.Name
	s.putApprovals(r, &p, ready)
	for _, c := range ready.Comments {
		p.Comments = append(p.Comments, views.CommentRow{Who: c.Author, Text: c.Text, At: c.At})
	}
	for _, c := range ready.Confirmations {
		p.Confirmations = append(p.Confirmations, views.ConfirmationRow{Code: c.Code, Text: c.Text, Word: c.Word})
	}
	if sc := ready.Schedule; sc != nil {
		p.Schedule = &views.ScheduleRow{At: sc.At, By: sc.Author, Note: sc.Note, Suspended: sc.Suspended}
	}
	if ro := ready.Rollout; ro != nil {
		p.Rollout = &views.RolloutRow{URL: ui.VersionURL(ro.Version), Text: fmt.Sprintf("v%d is on %s first", ro.Version, counted(len(ro.Replicas), "gateway"))}
	}
	return s.render(w, r, status, views.DraftReview(p))
}

func firstForm(f, otherwise *form.Form) *form.Form {
	if f != nil {
		return f
	}
	return otherwise
}

func zonesOf(replicas []console.Replica) []string {
	var zones []string
	for _, rep := range replicas {
		if rep.Zone != "" && rep.Status != console.StatusGone && !slices.Contains(zones, rep.Zone) {
			zones = append(zones, rep.Zone)
		}
	}
	slices.Sort(zones)
	return zones
}

func (s *Server) putApprovals(r *http.Request, p *views.DraftReviewProps, ready console.Readiness) {
	me := actor(r)
	for _, a := range ready.Approvals {
		p.Approvals = append(p.Approvals, views.ApprovalRow{Who: a.Actor, Note: a.Note, At: a.At})
		p.Approved = p.Approved || a.ActorID == me.ID
	}
	for _, n := range ready.Needed {
		p.Needed = append(p.Needed, neededRow(n))
	}
	switch {
	case !me.Role.Can(console.PermApprove):
	case slices.Contains(ready.Writers, me.ID):
		if len(ready.Needed) == 0 {
			return // nothing is missing, so nothing has to be explained
		}
		p.WhyNot = "You wrote in this draft: somebody else has to approve it."
	case p.Readable && ready.Report.OK():
		p.CanApprove = true
	}
}

func neededRow(n console.Needed) views.NeededRow {
	left := max(n.Rule.Approvals-n.Have, 1)
	text := counted(left, "approval") + " by somebody else"
	if n.Have > 0 {
		text = counted(left, "more approval") + " by somebody else"
	}
	return views.NeededRow{Text: text, Why: n.Why}
}

// checksOf is the checklist of a draft: what is well and what is not, each with
// where to see to it.
func checksOf(e *editor, ready console.Readiness) []views.CheckRow {
	u := ui.DraftURL(e.draft.ID)
	rows := []views.CheckRow{{Tone: "ok", Word: "Document", Text: "no problems"}}
	if n := len(ready.Report.Problems); n > 0 {
		rows[0] = views.CheckRow{Tone: "bad", Word: "Document", Text: counted(n, "problem"), URL: u + "?show=problems", Link: "mend"}
	} else if n := len(ready.Report.Warnings); n > 0 {
		rows[0] = views.CheckRow{Tone: "warn", Word: "Document", Text: "valid, with " + counted(n, "warning"), URL: u, Link: "see"}
	}
	rows = append(rows, testCheck(u, ready), trialCheck(u, ready), approvalCheck(ready))
	if ready.Stale() {
		rows = append(rows, views.CheckRow{Tone: "bad", Word: "Base", Text: fmt.Sprintf("v%d was published since", ready.Head.Number)})
	}
	if ro := ready.Rollout; ro != nil {
		rows = append(rows, views.CheckRow{Tone: "bad", Word: "Canary", Text: fmt.Sprintf("v%d runs and must end first", ro.Version), URL: ui.VersionURL(ro.Version), Link: "see"})
	}
	return rows
}

func testCheck(u string, ready console.Readiness) views.CheckRow {
	row := views.CheckRow{Word: "Tests", URL: u + "/tests", Link: "see"}
	failed := 0
	for _, t := range ready.Tests {
		if !t.Passed {
			failed++
		}
	}
	switch {
	case !ready.TestProblems.OK():
		row.Tone, row.Text, row.Link = "bad", "cannot be read", "mend"
	case ready.TestsUnknown != "":
		row.Tone, row.Text = "warn", "did not run: "+ready.TestsUnknown
	case ready.TestsSlow:
		row.Tone, row.Text = "warn", "take long; they run when it is published"
	case len(ready.Tests) == 0:
		row.Tone, row.Text, row.Link = "warn", "there are none", "write one"
	case failed > 0 && ready.TestsExcused:
		row.Tone, row.Text = "warn", fmt.Sprintf("%d of %d fail, which a rule lets through", failed, len(ready.Tests))
	case failed > 0:
		row.Tone, row.Text = "bad", fmt.Sprintf("%d of %d fail", failed, len(ready.Tests))
	default:
		row.Tone, row.Text = "ok", fmt.Sprintf("%d of %d pass", len(ready.Tests), len(ready.Tests))
	}
	return row
}

func trialCheck(u string, ready console.Readiness) views.CheckRow {
	row := views.CheckRow{Word: "Simulation", URL: u + "/simulate", Link: "see"}
	t := ready.Trial
	switch {
	case t == nil:
		row.Tone, row.Text, row.Link = "warn", "this text was not tried", "try it"
	case t.State == "running":
		row.Tone, row.Text = "warn", fmt.Sprintf("running, %d %%", int(100*t.Progress))
	case t.State == "failed" || t.Result == nil:
		row.Tone, row.Text = "warn", "failed"
	case t.Result.Refused.Requests > 0:
		row.Tone, row.Text = "warn", fmt.Sprintf("%s requests of %s newly refused", ui.Int(t.Result.Refused.Requests), counted(int(t.Result.Refused.Tenants), "tenant"))
	default:
		row.Tone, row.Text = "ok", "nobody newly refused"
	}
	if t != nil && t.State == "done" {
		row.Text += " in " + ui.Span(t.To.Sub(t.From))
	}
	return row
}

func approvalCheck(ready console.Readiness) views.CheckRow {
	row := views.CheckRow{Tone: "ok", Word: "Approvals", Text: "none needed"}
	switch {
	case len(ready.Needed) > 0:
		row.Tone, row.Text = "bad", counted(len(ready.Needed), "rule")+" not met yet"
		row.URL, row.Link = "#approvals", "see"
	case len(ready.Approvals) > 0:
		row.Text = counted(len(ready.Approvals), "approval")
	}
	return row
}

func effectCounts(changes []console.RatedChange) string {
	n := map[string]int{}
	for _, c := range changes {
		n[c.Effect]++
	}
	var parts []string
	for _, x := range []struct{ effect, word string }{{policy.EffectTighter, "tighter"}, {policy.EffectLooser, "looser"},
		{policy.EffectNewBucket, "with a full bucket"}, {policy.EffectNeutral, "that limit nobody"}} {
		if n[x.effect] > 0 {
			word := x.word
			if x.effect == policy.EffectNeutral && n[x.effect] == 1 {
				word = "that limits nobody"
			}
			parts = append(parts, strconv.Itoa(n[x.effect])+" "+word)
		}
	}
	return strings.Join(parts, ", ")
}

// shownChanges bounds the changes of one risk that a page lists.
const shownChanges = 100

// riskGroups sorts changes by what they endanger.
func riskGroups(changes []console.RatedChange) []views.RiskGroup {
	groups := []views.RiskGroup{
		{Risk: "high", Title: "High risk", Remark: "opens, removes, refuses everybody, or cuts by half and more"},
		{Risk: "medium", Title: "Medium risk", Remark: "callers will notice"},
		{Risk: "low", Title: "Low risk", Remark: "nobody is refused or admitted by it"},
	}
	for _, c := range changes {
		i := slices.IndexFunc(groups, func(g views.RiskGroup) bool { return g.Risk == cmp.Or(c.Risk, "medium") })
		g := &groups[max(i, 0)]
		if len(g.Rows) == shownChanges {
			g.More++
			continue
		}
		row := views.ChangeImpact{DiffRow: diffRow(c.Change)}
		if c.Impact != nil {
			row.Impact, row.Source = impactText(*c.Impact), c.Impact.Source
		}
		g.Rows = append(g.Rows, row)
	}
	return slices.DeleteFunc(groups, func(g views.RiskGroup) bool { return len(g.Rows) == 0 })
}

func impactText(i console.Impact) string {
	if i.Tenants < 0 && i.RequestsPerDay < 0 {
		return ui.Unknown
	}
	tenants, requests := "unknown how many tenants", "unknown how many requests"
	if i.Tenants >= 0 {
		tenants = counted(int(i.Tenants), "tenant")
	}
	if i.RequestsPerDay >= 0 {
		requests = ui.Int(i.RequestsPerDay) + " requests a day"
	}
	return tenants + ", " + requests
}

// reviewFails shows the review page again with what came of one of its forms; a
// refusal that is not the reader's to mend there is returned.
func (s *Server) reviewFails(w http.ResponseWriter, r *http.Request, id string, f *form.Form, forms reviewForms, err error) error {
	status := s.takeReview(f, err)
	if status == 0 {
		return err
	}
	e, lerr := s.loadEditor(r.Context(), id)
	if lerr != nil {
		return lerr
	}
	return s.renderReview(w, r, status, e, forms)
}

// takeReview is take for what approvals add: that some are missing, and that the
// author may not approve.
func (s *Server) takeReview(f *form.Form, err error) int {
	switch console.CodeOf(err) {
	case console.CodeApproval, console.CodeForbidden, console.CodeUnavailable:
		f.Message = publicText(err)
		return statusOf(err)
	default:
		return s.take(f, err)
	}
}

func (s *Server) draftApprove(w http.ResponseWriter, r *http.Request) error {
	f, id := form.Parse(r, "digest", "note"), chi.URLParam(r, "draft")
	if _, err := s.Policies.Approve(r.Context(), actor(r), id, f.Get("digest"), f.Get("note")); err != nil {
		return s.reviewFails(w, r, id, f, reviewForms{approve: f}, err)
	}
	return s.redirect(w, r, ui.DraftURL(id)+"/review", "Approved. It holds for exactly this text.")
}

func (s *Server) draftWithdraw(w http.ResponseWriter, r *http.Request) error {
	f, id := form.New(nil), chi.URLParam(r, "draft")
	if err := s.Policies.Withdraw(r.Context(), actor(r), id); err != nil {
		return s.reviewFails(w, r, id, f, reviewForms{approve: f}, err)
	}
	return s.redirect(w, r, ui.DraftURL(id)+"/review", "Your approval is taken back.")
}

func (s *Server) draftComment(w http.ResponseWriter, r *http.Request) error {
	f, id := form.Parse(r, "text"), chi.URLParam(r, "draft")
	if _, err := s.Policies.Comment(r.Context(), actor(r), id, f.Get("text")); err != nil {
		return s.reviewFails(w, r, id, f, reviewForms{comment: f}, err)
	}
	return s.redirect(w, r, ui.DraftURL(id)+"/review#comments", "")
}

// draftMerge takes a draft onto the version in force: what others published
// since stays, and the draft's own changes go on top.
func (s *Server) draftMerge(w http.ResponseWriter, r *http.Request) error {
	f, id := form.Parse(r, "etag"), chi.URLParam(r, "draft")
	d, clashes, err := s.Policies.MergeDraft(r.Context(), actor(r), id, f.Get("etag"))
	if err != nil {
		return s.reviewFails(w, r, id, f, reviewForms{publish: withMessage(publishDefaults(), f)}, err)
	}
	text := fmt.Sprintf("The draft is now based on v%d.", d.Base)
	if len(clashes) > 0 {
		text += " Both had changed " + strings.Join(clashes, ", ") + "; the draft has yours."
	}
	return s.redirect(w, r, ui.DraftURL(d.ID)+"/review", text)
}

// draftRebase bases a draft on the version in force and leaves its text as it is.
func (s *Server) draftRebase(w http.ResponseWriter, r *http.Request) error {
	f, id := form.Parse(r, "etag"), chi.URLParam(r, "draft")
	d, err := s.Policies.RebaseDraft(r.Context(), actor(r), id, f.Get("etag"))
	if err != nil {
		return err
	}
	return s.redirect(w, r, ui.DraftURL(d.ID)+"/review", fmt.Sprintf("The draft is now based on v%d, with its text as it was.", d.Base))
}

// withMessage shows one form's message at another that has none of its own place.
func withMessage(to, from *form.Form) *form.Form {
	to.Message = from.Message
	return to
}
