package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) draftEdit(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	return s.renderIndex(w, r, http.StatusOK, e, form.New(nil))
}

// Which parts the index shows.
const (
	showProblems = "problems"
	showChanged  = "changed"
)

// renderIndex lists the parts of a draft: those that the query string asks for,
// a page of them. f is the form for a new part.
func (s *Server) renderIndex(w http.ResponseWriter, r *http.Request, status int, e *editor, f *form.Form) error {
	q := r.URL.Query()
	p := views.DraftIndexProps{Head: s.draftHead(r, e, "edit"), Beside: besideAtFirst(e.draft.ID), Unreadable: e.doc == nil, Query: q.Get("q"), Show: q.Get("show"), New: f}
	if e.doc == nil {
		return s.render(w, r, status, views.DraftIndex(p))
	}
	problems, warnings := countBySection(e.report.Problems), countBySection(e.report.Warnings)
	all := sectionsOf(e.doc)
	p.Parts, p.Changed, p.Removed = len(all), len(e.marks.changed), e.marks.removed
	page, start := pageOf(r), 0
	if n, err := strconv.Atoi(page.After); err == nil && n > 0 {
		start = n
	}
	next := ""
	for i, sec := range all {
		if problems[sec] > 0 {
			p.WithProblems++
		}
		if !listed(e, sec, p.Show, p.Query, problems) {
			continue
		}
		p.Matching++
		switch {
		case i < start:
		case len(p.Rows) == page.Limit && next == "":
			next = strconv.Itoa(i)
		case len(p.Rows) < page.Limit:
			p.Rows = append(p.Rows, views.PartRow{URL: partURL(e, sec), Kind: sec.Kind, Title: titleOf(e.doc, sec), Summary: summaryOf(e.doc, sec),
				Problems: problems[sec], Warnings: warnings[sec], Mark: e.marks.changed[sec]})
		}
	}
	p.Pager = withTotal(pagerOf(r, page, len(p.Rows), next), ui.Int(int64(p.Matching)))
	return s.render(w, r, status, views.DraftIndex(p))
}

// listed reports whether the index shows a part: all words of the query stand in
// its title or in what it says.
func listed(e *editor, sec section, show, query string, problems map[section]int) bool {
	if show == showProblems && problems[sec] == 0 || show == showChanged && e.marks.changed[sec] == "" {
		return false
	}
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(titleOf(e.doc, sec) + " " + summaryOf(e.doc, sec))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

func countBySection(problems []policy.Problem) map[section]int {
	n := map[section]int{}
	for _, p := range problems {
		sec, _ := locate(p.Path)
		n[sec]++
	}
	return n
}

// summaryOf says in one line what a section holds.
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

// draftAdd adds a plan or a route and opens its form.
func (s *Server) draftAdd(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag", "kind", "name", "match", "mode")
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	if e.doc == nil {
		e.message = "The draft cannot be read. Mend the YAML first."
		return s.renderIndex(w, r, http.StatusConflict, e, f)
	}
	if e.message = e.refusal(section{}); e.message != "" {
		return s.renderIndex(w, r, http.StatusConflict, e, f)
	}
	doc := cloneDocument(e.doc)
	sec, problem := addTo(doc, f)
	if problem != "" {
		f.Message = problem
		return s.renderIndex(w, r, http.StatusUnprocessableEntity, e, f)
	}
	out, err := s.storePart(r, e, saved{doc: doc, target: sec, gone: true}, f.Get("etag"))
	if err != nil {
		return err
	}
	if out.status != 0 {
		if out.status == http.StatusConflict {
			e.message = "Someone saved this draft since you opened it. Nothing was added; what is below is as it is now. Add it again."
		}
		return s.renderIndex(w, r, out.status, e, f)
	}
	return s.redirect(w, r, partURL(&editor{draft: out.draft, reading: reading{doc: doc}}, sec), "Added to the draft.")
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
	fail := newRouteFailure(policy.FailMode(f.Get("mode")))
	if fail == nil {
		return section{}, "Say what the new route does while Redis is away."
	}
	route := policy.Route{Name: name, Match: lines(f.Raw("match")), Identity: policy.IdentityAPIKey, Motive: policy.MotiveFairness, Cost: 1, OnStoreFailure: *fail}
	d.Routes = append(d.Routes, route)
	return routeSection(len(d.Routes) - 1), ""
}

// newRouteFailure is what a new route does while Redis is away; nil when that was
// not said.
func newRouteFailure(mode policy.FailMode) *policy.StoreFailure {
	switch mode {
	case policy.FailOpen:
		return &policy.StoreFailure{Mode: mode, Fallback: &policy.Fallback{Rate: policy.Rate{Tokens: 60, Period: time.Minute}, Burst: 60}}
	case policy.FailClosed:
		return &policy.StoreFailure{Mode: mode}
	}
	return nil
}
