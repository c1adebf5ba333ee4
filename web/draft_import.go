package web

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/importer"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) draftImport(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	return s.renderImport(w, r, http.StatusOK, e, views.ImportProps{Form: form.New(map[string]string{"mode": "closed"})})
}

func (s *Server) renderImport(w http.ResponseWriter, r *http.Request, status int, e *editor, p views.ImportProps) error {
	p.Head = s.draftHead(r, e, "edit")
	p.Head.Frame.Title = "Import · " + e.draft.Name
	return s.render(w, r, status, views.Import(p))
}

// draftImportRoutes reads routes out of an OpenAPI document. Without act=add it
// only shows what they would be.
func (s *Server) draftImportRoutes(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag", "source", "mode", "act")
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	p := views.ImportProps{Form: f}
	if e.doc == nil {
		f.Message = "The draft cannot be read. Mend the YAML first."
		return s.renderImport(w, r, http.StatusConflict, e, p)
	}
	routes, notes, err := importer.OpenAPI([]byte(f.Raw("source")))
	for _, n := range notes {
		p.Notes = append(p.Notes, views.ImportNote{Path: n.Path, Line: n.Line, Message: n.Message, Todo: n.Todo})
	}
	if err != nil {
		f.Fail("source", err.Error()+".")
		return s.renderImport(w, r, http.StatusUnprocessableEntity, e, p)
	}
	doc := cloneDocument(e.doc)
	fail := newRouteFailure(policy.FailMode(f.Get("mode")))
	if fail == nil {
		f.Fail("mode", "Say what the new routes do while Redis is away.")
		return s.renderImport(w, r, http.StatusUnprocessableEntity, e, p)
	}
	have := map[string]bool{}
	for i := range doc.Routes {
		have[doc.Routes[i].Name] = true
	}
	for _, route := range routes {
		if have[route.Name] {
			p.Clash++
			continue
		}
		route.OnStoreFailure = *fail
		doc.Routes = append(doc.Routes, route)
		if len(p.Routes) < shownChanges {
			p.Routes = append(p.Routes, routeRow(route, 0))
		}
	}
	if f.Get("act") != "add" {
		return s.renderImport(w, r, http.StatusOK, e, p)
	}
	if e.message = e.refusal(section{}); e.message != "" {
		return s.renderImport(w, r, http.StatusConflict, e, p)
	}
	added := len(doc.Routes) - len(e.doc.Routes)
	out, err := s.storePart(r, e, saved{doc: doc, gone: true}, f.Get("etag"))
	if err != nil {
		return err
	}
	if out.status != 0 {
		return s.renderImport(w, r, out.status, e, p)
	}
	return s.redirect(w, r, ui.DraftURL(e.draft.ID)+"?show="+showChanged, counted(added, "route")+" added to the draft.")
}
