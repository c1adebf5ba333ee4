package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) draftList(w http.ResponseWriter, r *http.Request) error {
	return s.renderDrafts(w, r, http.StatusOK, form.New(nil))
}

func (s *Server) renderDrafts(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	drafts, err := s.Policies.ListDrafts(r.Context())
	if err != nil {
		return err
	}
	head, _, err := s.Policies.Head(r.Context())
	if err != nil {
		return err
	}
	p := views.DraftsProps{Frame: s.titled(r, "Drafts"), Now: s.Now(), Head: head.Number, CanEdit: can(r, console.PermEditDrafts), Form: f}
	for _, d := range drafts {
		p.Rows = append(p.Rows, views.DraftRow{ID: d.ID, Name: d.Name, Base: d.Base, Behind: d.Base != head.Number, Author: d.Author, UpdatedAt: d.UpdatedAt})
	}
	return s.render(w, r, status, views.Drafts(p))
}

func (s *Server) draftCreate(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "name", "source")
	var src []byte
	if f.Get("source") != "" {
		src = []byte(f.Raw("source"))
	} else if _, ok, err := s.Policies.Head(r.Context()); err != nil {
		return err
	} else if !ok {
		src = []byte(starterPolicy)
	}
	d, err := s.Policies.CreateDraft(r.Context(), actor(r), f.Get("name"), src)
	if status := s.take(f, err); status != 0 {
		return s.renderDrafts(w, r, status, f)
	}
	if err != nil {
		return err
	}
	return s.redirect(w, r, ui.DraftURL(d.ID), "")
}

// starterPolicy is what the first draft of a deployment begins with.
const starterPolicy = `apiVersion: headgate/v1
plans:
  free:
    limits:
      - {name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 60}
routes:
  - name: everything-else
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 60/minute, burst: 60}}
`

// editor is what the three pages of a draft share.
type editor struct {
	draft    console.Draft
	doc      *policy.Document // nil when the source cannot be read
	report   policy.Report
	unkept   []policy.Problem // those that writing doc out would lose, see lostBy
	head     console.Version
	override map[section]*form.Form // input of a form that failed
	message  string                 // above the page
	conflict []policy.Change        // what the stored draft has instead of the input
}

func (s *Server) loadEditor(ctx context.Context, id string) (*editor, error) {
	d, err := s.Policies.GetDraft(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.editorOf(ctx, d)
}

func (s *Server) editorOf(ctx context.Context, d console.Draft) (*editor, error) {
	head, _, err := s.Policies.Head(ctx)
	if err != nil {
		return nil, err
	}
	e := &editor{draft: d, head: head, override: map[section]*form.Form{}}
	release, err := s.alone(ctx, len(d.Source))
	if err != nil {
		return nil, err
	}
	defer release()
	e.doc, _ = policy.ParseLoose([]byte(d.Source))
	_, e.report = s.Policies.Validate(ctx, []byte(d.Source))
	e.unkept = lostBy(e.doc, e.report)
	return e, nil
}

// largeSource is the size from which documents are read one at a time, in bytes.
const largeSource = 256 << 10

// alone waits for its turn to read a large document.
func (s *Server) alone(ctx context.Context, size int) (release func(), err error) {
	if size < largeSource {
		return func() {}, nil
	}
	select {
	case s.large <- struct{}{}:
		return func() { <-s.large }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to read a large document: %w", ctx.Err())
	}
}

func (s *Server) draftHead(r *http.Request, e *editor, tab string) views.DraftHead {
	h := views.DraftHead{
		Frame: s.titled(r, "Draft "+e.draft.Name), ID: e.draft.ID, Name: e.draft.Name, Base: e.draft.Base, Head: e.head.Number,
		ETag: e.draft.ETag, Author: e.draft.Author, UpdatedAt: e.draft.UpdatedAt, Now: s.Now(), Tab: tab, Message: e.message,
		CanEdit: can(r, console.PermEditDrafts), CanPublish: can(r, console.PermPublish), Conflict: diffRows(e.conflict),
	}
	for _, p := range e.report.Problems {
		h.Problems = append(h.Problems, problemRow(e.draft.ID, p))
	}
	for _, p := range e.report.Warnings {
		h.Warnings = append(h.Warnings, problemRow(e.draft.ID, p))
	}
	return h
}

func problemRow(draft string, p policy.Problem) views.ProblemRow {
	sec, field := locate(p.Path)
	anchor := sec.ID()
	if field != "" {
		anchor = "f-" + sec.ID() + "-" + field
	}
	row := views.ProblemRow{Path: p.Path, Line: p.Line, Message: p.Message, URL: ui.DraftURL(draft) + "?open=" + sec.ID() + "#" + anchor}
	if p.Path == "" {
		row.Path, row.URL = "document", ui.DraftURL(draft)+"/source"
	}
	return row
}

func (s *Server) draftEdit(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	return s.renderForms(w, r, http.StatusOK, e)
}

// foldFrom is the number of routes from which their forms are folded.
const foldFrom = 5

func (s *Server) renderForms(w http.ResponseWriter, r *http.Request, status int, e *editor) error {
	p := views.DraftFormsProps{Head: s.draftHead(r, e, "forms"), Unreadable: e.doc == nil}
	if e.doc != nil {
		for _, l := range e.doc.Shared {
			p.Shared = append(p.Shared, l.Name)
		}
		open := r.URL.Query().Get("open")
		for _, sec := range sectionsOf(e.doc) {
			f, failed := e.override[sec]
			if !failed {
				f = valuesOf(e.doc, sec)
			} else { // what has no field is not typed
				stored := valuesOf(e.doc, sec)
				f.Value["cost-text"], f.Value["user-text"] = stored.Value["cost-text"], stored.Value["user-text"]
			}
			if !failed {
				sec.blank(f, e.unkept)
			}
			sec.mark(f, e.report.Problems)
			n, _ := strconv.Atoi(f.Get("limits"))
			folded := sec.Kind == "general" || sec.Kind == "route" && len(e.doc.Routes) >= foldFrom
			p.Sections = append(p.Sections, views.DraftSection{
				ID: sec.ID(), Kind: sec.Kind, Key: sec.Key, Title: sectionTitle(sec, f), Summary: summaryOf(e.doc, sec), Form: f,
				Limits: min(max(n, 0), maxSectionLimits), Open: !folded || !f.OK() || open == sec.ID(),
				Saved: open == sec.ID() && p.Head.Frame.Flash.Text != "",
			})
		}
	}
	return s.render(w, r, status, views.DraftForms(p))
}

func sectionTitle(sec section, f *form.Form) string {
	switch sec.Kind {
	case "general":
		return "Callers and credentials"
	case "global":
		return "Limits on everything together"
	case "shared":
		return "Limits that routes share"
	case "plan":
		return "Plan " + sec.Key
	}
	return "Route " + f.Get("name")
}

// summaryOf says in one line what a folded section holds.
func summaryOf(d *policy.Document, sec section) string {
	var parts []string
	if sec.Kind == "route" {
		r := d.Routes[sec.index()]
		parts = append(parts, strings.Join(r.Match, ", "), "if Redis is away: "+failText(r.OnStoreFailure))
		if r.Concurrency != nil {
			parts = append(parts, fmt.Sprintf("%d at once", r.Concurrency.Max))
		}
	}
	if sec.Kind == "general" {
		return fmt.Sprintf("%d trusted proxies, %d credential headers", len(d.ClientIP.TrustedProxies), len(d.Credentials.Headers))
	}
	for _, l := range *sec.limitsOf(d) {
		parts = append(parts, l.Name+" "+l.Rate.String()+" per "+l.Per.Text()+shadowText(l.Mode))
	}
	if q := d.Plans[sec.Key].Quota; sec.Kind == "plan" && q != nil {
		parts = append(parts, quotaText(q)+shadowText(q.Mode))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " · ")
}

// draftSection is every form of the draft's page: it reads one section, changes
// the document, and saves it whole under the etag that the page was made from.
func (s *Server) draftSection(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag", "kind", "key", "act")
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	sec := section{Kind: f.Get("kind"), Key: f.Get("key")}
	if e.doc == nil || !sec.exists(e.doc) {
		e.message = "That part of the draft is no longer there, or the draft cannot be read. Nothing was changed."
		return s.renderForms(w, r, http.StatusConflict, e)
	}
	if e.message = e.refusal(sec); e.message != "" {
		return s.renderForms(w, r, http.StatusConflict, e)
	}
	stored := cloneDocument(e.doc)
	in := parseSection(r, sec)
	target := sec
	if act := f.Get("act"); act == "remove" {
		sec.drop(e.doc)
		target = section{}
	} else {
		if i, ok := strings.CutPrefix(act, "remove-limit-"); ok { // before it is read: its mistakes go with it
			n, err := strconv.Atoi(i)
			if err == nil {
				dropTyped(in, n)
			}
		}
		sec.apply(e.doc, in)
		if !in.OK() {
			// What could be read is judged as well: all mistakes of a part at once.
			if err := s.markAll(r.Context(), e.doc.YAML(), sec, in); err != nil {
				return err
			}
			e.doc, e.override[sec] = stored, in
			e.message = "Not saved. Please correct the marked fields."
			return s.renderForms(w, r, http.StatusUnprocessableEntity, e)
		}
		if sec.Kind == "plan" {
			target.Key = in.Get("name")
		}
		if act == "add-limit" {
			target.addLimit(e.doc)
		}
	}
	return s.saveSection(w, r, e, f.Get("etag"), stored, sec, target, in)
}

// markAll puts every problem that a document has in one of its parts beside the
// fields of that part's form.
func (s *Server) markAll(ctx context.Context, source []byte, sec section, in *form.Form) error {
	release, err := s.alone(ctx, len(source))
	if err != nil {
		return err
	}
	defer release()
	_, report := s.Policies.Validate(ctx, source)
	sec.mark(in, report.Problems)
	return nil
}

func (s *Server) saveSection(w http.ResponseWriter, r *http.Request, e *editor, etag string, stored *policy.Document, sec, target section, in *form.Form) error {
	_, err := s.Policies.SaveDraft(r.Context(), actor(r), e.draft.ID, etag, e.doc.YAML())
	if console.CodeOf(err) == console.CodeConflict {
		e.conflict = policy.Diff(stored, e.doc)
		e.doc, e.override[sec] = stored, in
		e.message = "Someone saved this draft since you opened it. What you typed is still below, the rest is as it is now. " +
			"Saving again makes the changes that are listed."
		return s.renderForms(w, r, http.StatusConflict, e)
	}
	if ce, ok := errors.AsType[*console.Error](err); ok && ce.Code == console.CodeInvalid {
		e.doc, e.override[sec], e.message = stored, in, ce.Public
		return s.renderForms(w, r, http.StatusUnprocessableEntity, e)
	}
	if err != nil {
		return err
	}
	to := ui.DraftURL(e.draft.ID)
	if target != (section{}) {
		to += "?open=" + target.ID() + "#" + target.ID()
	}
	return s.redirect(w, r, to, "Saved.")
}

// cloneDocument copies a document so far that changing the copy's sections
// leaves the original alone.
func cloneDocument(d *policy.Document) *policy.Document {
	c := *d
	c.Plans = maps.Clone(d.Plans)
	c.Routes = slices.Clone(d.Routes)
	return &c
}

// draftAdd adds a plan or a route.
func (s *Server) draftAdd(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag", "kind", "name", "match", "mode")
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	if e.doc == nil {
		e.message = "The draft cannot be read. Mend the YAML first."
		return s.renderForms(w, r, http.StatusConflict, e)
	}
	if e.message = e.refusal(section{}); e.message != "" {
		return s.renderForms(w, r, http.StatusConflict, e)
	}
	stored := cloneDocument(e.doc)
	sec, problem := addTo(e.doc, f)
	if problem != "" {
		e.doc, e.message = stored, problem
		return s.renderForms(w, r, http.StatusUnprocessableEntity, e)
	}
	return s.saveSection(w, r, e, f.Get("etag"), stored, section{Kind: "new"}, sec, f)
}

func addTo(d *policy.Document, f *form.Form) (section, string) {
	name := f.Get("name")
	if name == "" {
		return section{}, "Give the new " + f.Get("kind") + " a name."
	}
	if f.Get("kind") == "plan" {
		if _, taken := d.Plans[name]; taken {
			return section{}, "There is a plan of that name already."
		}
		if d.Plans == nil {
			d.Plans = map[string]policy.Plan{}
		}
		d.Plans[name] = policy.Plan{}
		sec := section{"plan", name}
		sec.addLimit(d)
		d.Plans[name].Limits[0].Name = "requests"
		return sec, ""
	}
	if slices.ContainsFunc(d.Routes, func(r policy.Route) bool { return r.Name == name }) {
		return section{}, "There is a route of that name already."
	}
	route := policy.Route{Name: name, Match: lines(f.Raw("match")), Identity: policy.IdentityAPIKey, Motive: policy.MotiveFairness, Cost: 1,
		OnStoreFailure: policy.StoreFailure{Mode: policy.FailMode(f.Get("mode"))}}
	switch route.OnStoreFailure.Mode {
	case policy.FailOpen:
		route.OnStoreFailure.Fallback = &policy.Fallback{Rate: policy.Rate{Tokens: 60, Period: time.Minute}, Burst: 60}
	case policy.FailClosed:
	default:
		return section{}, "Say what the new route does while Redis is away."
	}
	d.Routes = append(d.Routes, route)
	return section{"route", strconv.Itoa(len(d.Routes) - 1)}, ""
}
