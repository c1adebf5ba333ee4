package web

import (
	"net/http"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/csvout"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
)

// exportURL is a list as a file, with the filters of the page; "" for those who
// may not take lists away.
func (s *Server) exportURL(r *http.Request, path string) string {
	if !can(r, console.PermExport) {
		return ""
	}
	q := r.URL.Query()
	q.Del("after")
	q.Del("limit")
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

func (s *Server) tenantExport(w http.ResponseWriter, r *http.Request) error {
	q := tenantQuery(form.Query(r, "q", "plan", "state", "only", "sort"), console.Page{})
	return s.export(w, r, "tenants", func() error { return s.Exports.Tenants(r.Context(), w, q) })
}

func (s *Server) keyExport(w http.ResponseWriter, r *http.Request) error {
	f := form.Query(r, "q", "state", "environment", "show")
	if f.Get("show") != "" {
		return &console.Error{Code: console.CodeInvalid, Public: "The list of keys is exported by name, state and environment; clear the filter “show” first."}
	}
	q := console.KeyQuery{Q: f.Get("q"), Environment: f.Get("environment"), State: policy.KeyState(f.Get("state"))}
	return s.export(w, r, "keys", func() error { return s.Exports.Keys(r.Context(), w, q) })
}

// export writes a list as a file. Once rows are on their way nobody can be told
// of an error but by the connection's end: the list is then short, and known to be.
func (s *Server) export(w http.ResponseWriter, r *http.Request, what string, write func() error) error {
	if err := s.Exports.Begin(r.Context(), actor(r), what, r.URL.Query().Encode()); err != nil {
		return err
	}
	w.Header().Set("Content-Type", csvout.ContentType)
	w.Header().Set("Content-Disposition", csvout.FileName(what, s.Now()))
	if err := write(); err != nil {
		s.Log.ErrorContext(r.Context(), "export ended early", "request_id", requestID(r.Context()), "what", what, "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}
