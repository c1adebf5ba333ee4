package web

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// shownPaths bounds the paths without a route that the page of routes lists at first.
const shownPaths = 20

// seen are the paths that were asked for and have no route of their own.
func (s *Server) seen(r *http.Request) views.SeenProps {
	live := s.Activity.Live()
	p := views.SeenProps{Now: s.Now(), Known: live.DetailKnown(), Age: s.liveAge(s.Now()), CanEdit: can(r, console.PermEditDrafts)}
	paths, rest := live.Unmatched()
	q := r.URL.Query()
	if p.Rest = rest; q.Get("paths") != "all" && len(paths) > shownPaths {
		p.Others = len(paths) - shownPaths
		paths = paths[:shownPaths]
	}
	q.Set("paths", "all")
	p.AllURL = ui.RoutesURL(q.Encode())
	for _, u := range paths {
		p.Rows = append(p.Rows, views.SeenRow{Method: cmp.Or(u.Method, "any"), Path: u.Path, Route: u.Route, Requests: ui.Int(u.Requests), Last: u.Last,
			NewURL: views.RouteNewURL(u.Method, u.Path)})
	}
	return p
}

// deciding says how long deciding takes on a route; p50 is "" when it is not known,
// or when there was nothing to decide.
func deciding(times map[string]usage.RouteTime, known, met bool, route string) (p50, p99 string) {
	t, told := times[route]
	switch {
	case known && told:
		return withinText(t.P50), withinText(t.P99)
	case known && !met:
		return "", "–"
	}
	return "", ui.Unknown
}

// withinText is the bound of a bucket in words.
func withinText(bound time.Duration) string {
	if bound == math.MaxInt64 {
		all := usage.TimeBounds()
		return "> " + ui.Millis(all[len(all)-1])
	}
	return "≤ " + ui.Millis(bound)
}

// patternOf is a template as a route's pattern: wildcards get names of their own,
// and a slash at the end means itself.
func patternOf(method, template string) string {
	segments, n := strings.Split(template, "/"), 0
	for i, segment := range segments {
		if segment == "{id}" {
			if n++; n > 1 {
				segments[i] = fmt.Sprintf("{id%d}", n)
			}
		}
	}
	path := strings.Join(segments, "/")
	if strings.HasSuffix(path, "/") {
		path += "{$}"
	}
	return strings.TrimSpace(method + " " + path)
}

// nameFor suggests a name for the route of a path.
func nameFor(d *policy.Document, method, template string) string {
	var words []string
	for _, word := range strings.FieldsFunc(strings.ToLower(method+"/"+template), func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		if word != "id" && word != "rest" {
			words = append(words, word)
		}
	}
	base := strings.Trim(strings.Join(words, "-"), "-")
	base = cmp.Or(strings.TrimRight(base[:min(len(base), 56)], "-"), "route")
	name := base
	for n := 2; d != nil && n < 1000 && slices.ContainsFunc(d.Routes, func(r policy.Route) bool { return r.Name == name }); n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}

// routeNew is the form that makes a route of a path that was seen.
func (s *Server) routeNew(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	method, path := usage.PathMethod(q.Get("method")), q.Get("path")
	f := form.New(map[string]string{"draft": views.NewDraft})
	if path != "" {
		template := usage.PathTemplate(path)
		doc, err := s.newest(r.Context())
		if err != nil {
			return err
		}
		f.Value["match"], f.Value["name"] = patternOf(method, template), nameFor(doc, method, template)
		f.Value["title"] = "route " + f.Value["name"]
	}
	return s.renderRouteNew(w, r, http.StatusOK, f)
}

// newest is the document in force; nil when there is none.
func (s *Server) newest(ctx context.Context) (*policy.Document, error) {
	head, ok, err := s.Policies.Head(ctx)
	if err != nil || !ok {
		return nil, err
	}
	return s.versionDocument(ctx, head.Number)
}

func (s *Server) renderRouteNew(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	drafts, err := s.Policies.ListDrafts(r.Context())
	if err != nil {
		return err
	}
	p := views.RouteNewProps{Frame: s.titled(r, "Make a route"), Form: f, Drafts: []ui.Option{{Value: views.NewDraft, Label: "a new draft"}}}
	for _, d := range drafts {
		p.Drafts = append(p.Drafts, ui.Option{Value: d.ID, Label: fmt.Sprintf("%s (on v%d, last saved by %s)", d.Name, d.Base, d.Author)})
	}
	return s.render(w, r, status, views.RouteNew(p))
}

// routeMake adds the route to a draft, an open or a new one, and opens its form.
func (s *Server) routeMake(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "name", "match", "mode", "draft", "title")
	if f.Get("draft") == views.NewDraft {
		return s.routeInNew(w, r, f)
	}
	e, err := s.loadEditor(r.Context(), f.Get("draft"))
	if console.IsNotFound(err) {
		f.Fail("draft", "That draft is no longer there. Choose another.")
		return s.renderRouteNew(w, r, http.StatusUnprocessableEntity, f)
	}
	if err != nil {
		return err
	}
	if e.doc == nil || e.refusal(section{}) != "" {
		f.Fail("draft", "This draft cannot be read as it is. Mend its YAML first, or choose another.")
		return s.renderRouteNew(w, r, http.StatusUnprocessableEntity, f)
	}
	doc := cloneDocument(e.doc)
	sec, ok := s.addRoute(r.Context(), doc, f)
	if !ok {
		return s.renderRouteNew(w, r, http.StatusUnprocessableEntity, f)
	}
	out, err := s.storePart(r, e, saved{doc: doc, target: sec, gone: true}, e.draft.ETag)
	if err != nil {
		return err
	}
	if out.status != 0 {
		f.Fail("draft", cmp.Or(e.message, "Someone saved this draft just now. Nothing was added."))
		return s.renderRouteNew(w, r, out.status, f)
	}
	return s.redirect(w, r, partURL(&editor{draft: out.draft, reading: reading{doc: doc}}, sec), "Added to the draft "+e.draft.Name+".")
}

// routeInNew makes a draft of the policy in force and the route.
func (s *Server) routeInNew(w http.ResponseWriter, r *http.Request, f *form.Form) error {
	doc, err := s.newest(r.Context())
	if err != nil {
		return err
	}
	if doc == nil {
		f.Message = "Nothing is published yet. Start with a draft from the page of drafts."
		return s.renderRouteNew(w, r, http.StatusConflict, f)
	}
	doc = cloneDocument(doc)
	sec, ok := s.addRoute(r.Context(), doc, f)
	if !ok {
		return s.renderRouteNew(w, r, http.StatusUnprocessableEntity, f)
	}
	d, err := s.Policies.CreateDraft(r.Context(), actor(r), cmp.Or(f.Get("title"), "route "+f.Get("name")), doc.YAML())
	if status := s.take(f, err); status != 0 {
		return s.renderRouteNew(w, r, status, f)
	}
	if err != nil {
		return err
	}
	return s.redirect(w, r, partURL(&editor{draft: d, reading: reading{doc: doc}}, sec), "A draft was made, and the route added to it.")
}

// addRoute adds the route to a document. What is wrong with its name or pattern
// stands in the form then, beside its field.
func (s *Server) addRoute(ctx context.Context, doc *policy.Document, f *form.Form) (section, bool) {
	for field, problem := range map[string]string{"name": "Give the new route a name.", "match": "Say which requests it matches, such as GET /v1/reports/{id}.",
		"mode": "Say what the new route does while Redis is away."} {
		if f.Get(field) == "" {
			f.Fail(field, problem)
		}
	}
	if !f.OK() {
		return section{}, false
	}
	sec, problem := addTo(doc, f)
	if problem != "" {
		field := "name"
		if newRouteFailure(policy.FailMode(f.Get("mode"))) == nil {
			field = "mode"
		}
		f.Fail(field, problem)
		return section{}, false
	}
	for _, p := range s.Policies.Check(ctx, doc).Problems {
		if at, field := locate(p.Path); at == sec && (field == "name" || field == "match") {
			f.Fail(field, p.Message)
		}
	}
	return sec, f.OK()
}
