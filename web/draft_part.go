package web

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
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

// pathValue is a parameter of the path as it was meant, slashes and all.
func pathValue(r *http.Request, name string) string {
	v := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return v
	}
	if plain, err := url.PathUnescape(v); err == nil {
		return plain
	}
	return v
}

// partAt is the part that a request's path names; false when the draft has none
// there, as after someone removed it.
func partAt(r *http.Request, e *editor) (section, bool) {
	if e.doc == nil {
		return section{}, false
	}
	return sectionAt(e.doc, pathValue(r, "kind"), pathValue(r, "key"))
}

func (s *Server) draftPart(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	sec, ok := partAt(r, e)
	if !ok {
		e.message = missingPart
		return s.renderIndex(w, r, http.StatusNotFound, e, form.New(nil))
	}
	f := valuesOf(e.doc, sec)
	sec.blank(f, e.unkept)
	return s.renderPart(w, r, http.StatusOK, e, sec, f)
}

const missingPart = "That part of the draft is no longer there, or the draft cannot be read. Nothing was changed."

// renderPart shows the form of one part with what is typed in it.
func (s *Server) renderPart(w http.ResponseWriter, r *http.Request, status int, e *editor, sec section, f *form.Form) error {
	stored := valuesOf(e.doc, sec) // what has no field is not typed
	f.Value["cost-text"], f.Value["user-text"] = stored.Value["cost-text"], stored.Value["user-text"]
	sec.mark(f, e.report.Problems)
	base, err := s.versionDocument(r.Context(), e.draft.Base)
	if err != nil && !console.IsNotFound(err) {
		return err
	}
	n, _ := strconv.Atoi(f.Get("limits"))
	title := sectionTitle(sec, stored)
	p := views.DraftPartProps{Head: s.draftHead(r, e, "edit"), Beside: besideAtFirst(e.draft.ID), Kind: sec.Kind, Title: title, Form: f, Limits: min(max(n, 0), maxSectionLimits),
		Action: partURL(e, sec), Changes: diffRows(partDiff(base, e.doc, sec)), Mark: e.marks.changed[sec], Elsewhere: elsewhere(e, sec)}
	p.Head.Frame.Title = title + " · " + e.draft.Name
	for _, l := range e.doc.Shared {
		p.Shared = append(p.Shared, l.Name)
	}
	all := sectionsOf(e.doc)
	if i := slices.Index(all, sec); i >= 0 {
		if i > 0 {
			p.Previous = views.Link{Text: titleOf(e.doc, all[i-1]), URL: partURL(e, all[i-1])}
		}
		if i+1 < len(all) {
			p.Next = views.Link{Text: titleOf(e.doc, all[i+1]), URL: partURL(e, all[i+1])}
		}
	}
	return s.render(w, r, status, views.DraftPart(p))
}

func partURL(e *editor, sec section) string {
	kind, key := sec.address(e.doc)
	return ui.DraftPartURL(e.draft.ID, kind, key)
}

// elsewhere counts the problems in other parts of the draft.
func elsewhere(e *editor, of section) int {
	n := 0
	for _, p := range e.report.Problems {
		if sec, _ := locate(p.Path); sec != of {
			n++
		}
	}
	return n
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

func titleOf(d *policy.Document, sec section) string {
	if sec.Kind == "route" {
		return "Route " + d.Routes[sec.index()].Name
	}
	return sectionTitle(sec, nil)
}

// partSave is the form of one part: it changes that part of the document, and
// saves the draft whole under the etag that the page was made from. With
// autosaved it is the same form, sent by the page's script.
func (s *Server) partSave(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	f := form.Parse(r, "etag", "act")
	auto := autosaved(r)
	sec, ok := partAt(r, e)
	if !ok {
		if auto {
			return answerAutosave(w, http.StatusConflict, views.Autosave{Message: missingPart})
		}
		e.message = missingPart
		return s.renderIndex(w, r, http.StatusConflict, e, form.New(nil))
	}
	in := parseSection(r, sec)
	out, err := s.savePart(r, e, sec, in, f.Get("etag"), f.Get("act"))
	if err != nil {
		return err
	}
	switch {
	case auto:
		return s.autosaveAnswer(w, e, in, out)
	case out.status != 0:
		return s.renderPart(w, r, out.status, e, sec, in)
	case out.gone:
		return s.redirect(w, r, ui.DraftURL(e.draft.ID), "Removed. It is gone from the draft; the policy in force is not touched.")
	}
	return s.redirect(w, r, partURL(&editor{draft: out.draft, reading: reading{doc: out.doc}}, out.target)+out.fragment, "Saved.")
}

// saved is what came of saving a part. A status other than 0 means that nothing
// was stored; the editor then says why.
type saved struct {
	status   int
	draft    console.Draft
	doc      *policy.Document // as it is stored now
	target   section          // the part in doc
	gone     bool             // the part was removed
	plain    bool             // doc is exactly what reading it would give
	report   policy.Report    // of doc
	fragment string
}

func (s *Server) savePart(r *http.Request, e *editor, sec section, in *form.Form, etag, act string) (saved, error) {
	if e.message = e.refusal(sec); e.message != "" {
		return saved{status: http.StatusConflict}, nil
	}
	out := saved{doc: cloneDocument(e.doc), target: sec}
	if act == "remove" {
		if sec.drop(out.doc); len(out.doc.Routes) == len(e.doc.Routes) && len(out.doc.Plans) == len(e.doc.Plans) {
			e.message = "This part can be emptied, but not removed."
			return saved{status: http.StatusUnprocessableEntity}, nil
		}
		out.gone = true
		return s.storePart(r, e, out, etag)
	}
	if i, ok := strings.CutPrefix(act, "remove-limit-"); ok { // before it is read: its mistakes go with it
		if n, err := strconv.Atoi(i); err == nil {
			dropTyped(in, n)
		}
	}
	sec.apply(out.doc, in)
	if !in.OK() {
		// What could be read is judged as well: all mistakes of a part at once.
		sec.mark(in, policy.Validate(out.doc).Problems)
		e.message = "Not saved. Please correct the marked fields."
		return saved{status: http.StatusUnprocessableEntity}, nil
	}
	if sec.Kind == "plan" {
		out.target.Key = in.Get("name")
	}
	if act == "add-limit" {
		n := len(*out.target.limitsOf(out.doc))
		out.target.addLimit(out.doc)
		out.fragment = "#l" + strconv.Itoa(n)
	}
	out.plain = act == "save"
	return s.storePart(r, e, out, etag)
}

// storePart saves the document; a lost race leaves in the editor what is stored
// and what saving again would change in it.
func (s *Server) storePart(r *http.Request, e *editor, out saved, etag string) (saved, error) {
	d, err := s.saveDocument(r.Context(), actor(r), e.draft.ID, etag, out.doc)
	ce, _ := errors.AsType[*console.Error](err)
	switch {
	case err == nil:
		out.draft = d
		if out.report = s.Policies.Check(r.Context(), out.doc); out.plain {
			// The next form need not read again what was just written.
			return out, s.keepRead(r.Context(), d, &reading{doc: out.doc, report: out.report, lineless: true})
		}
		return out, nil
	case ce != nil && ce.Code == console.CodeConflict:
		if !out.gone {
			e.conflict = partDiff(e.doc, out.doc, out.target)
		}
		e.message = "Someone saved this draft since you opened it. What you typed is still below, the rest is as it is now. " +
			"Saving again makes the changes that are listed."
		return saved{status: http.StatusConflict}, nil
	case ce != nil && ce.Code == console.CodeInvalid:
		e.message = ce.Public
		return saved{status: http.StatusUnprocessableEntity}, nil
	}
	return saved{}, err
}

// saveDocument writes a document out and saves it as the draft's source, a large
// one when no other large one is being worked on.
func (s *Server) saveDocument(ctx context.Context, who console.Actor, id, etag string, d *policy.Document) (console.Draft, error) {
	release, err := s.alone(ctx, largeSource*min(1, len(d.Routes)/largeRoutes))
	if err != nil {
		return console.Draft{}, err
	}
	defer release()
	return s.Policies.SaveDraft(ctx, who, id, etag, d.YAML())
}

// largeRoutes is the number of routes from which a document counts as large.
const largeRoutes = 1000

// cloneDocument copies a document so far that changing the copy's sections
// leaves the original alone.
func cloneDocument(d *policy.Document) *policy.Document {
	c := *d
	c.Plans = maps.Clone(d.Plans)
	c.Routes = slices.Clone(d.Routes)
	return &c
}

// autosaved reports whether a form was sent by the page's script while its
// reader goes on typing.
func autosaved(r *http.Request) bool { return r.Header.Get("X-Autosave") == "1" }

// autosaveAnswer tells the script what came of it. The problems of a part that
// was saved are told as well: a draft may have them.
func (s *Server) autosaveAnswer(w http.ResponseWriter, e *editor, in *form.Form, out saved) error {
	a := views.Autosave{Message: e.message, ETag: e.draft.ETag, Problems: map[string]string{}}
	if out.status == 0 {
		a.ETag, a.Saved = out.draft.ETag, out.draft.UpdatedAt.UTC().Format("15:04:05")
		in = form.New(nil)
		out.target.mark(in, out.report.Problems)
		a.Message = in.Message
		a.URL = partURL(&editor{draft: out.draft, reading: reading{doc: out.doc}}, out.target)
	}
	for name, problem := range in.Errors {
		a.Problems[name] = problem
	}
	for _, c := range diffRows(e.conflict) {
		a.Conflict = append(a.Conflict, views.AutosaveConflict{Path: c.Path, Stored: c.Before, Yours: c.After})
	}
	status := http.StatusOK
	if out.status != 0 {
		status = out.status
	}
	return answerAutosave(w, status, a)
}
