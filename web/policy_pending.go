package web

import "net/http"

func (s *Server) policyLive(w http.ResponseWriter, r *http.Request) error      { return nil }
func (s *Server) policyExport(w http.ResponseWriter, r *http.Request) error    { return nil }
func (s *Server) draftList(w http.ResponseWriter, r *http.Request) error       { return nil }
func (s *Server) draftEdit(w http.ResponseWriter, r *http.Request) error       { return nil }
func (s *Server) draftSource(w http.ResponseWriter, r *http.Request) error     { return nil }
func (s *Server) draftReview(w http.ResponseWriter, r *http.Request) error     { return nil }
func (s *Server) versionList(w http.ResponseWriter, r *http.Request) error     { return nil }
func (s *Server) versionPage(w http.ResponseWriter, r *http.Request) error     { return nil }
func (s *Server) versionStatus(w http.ResponseWriter, r *http.Request) error   { return nil }
func (s *Server) versionDiff(w http.ResponseWriter, r *http.Request) error     { return nil }
func (s *Server) draftCreate(w http.ResponseWriter, r *http.Request) error     { return nil }
func (s *Server) draftPlanAct(w http.ResponseWriter, r *http.Request) error    { return nil }
func (s *Server) draftRouteAct(w http.ResponseWriter, r *http.Request) error   { return nil }
func (s *Server) draftLimitAct(w http.ResponseWriter, r *http.Request) error   { return nil }
func (s *Server) draftSaveSource(w http.ResponseWriter, r *http.Request) error { return nil }
func (s *Server) draftRebase(w http.ResponseWriter, r *http.Request) error     { return nil }
func (s *Server) draftDelete(w http.ResponseWriter, r *http.Request) error     { return nil }
func (s *Server) draftPublish(w http.ResponseWriter, r *http.Request) error    { return nil }
func (s *Server) versionRollback(w http.ResponseWriter, r *http.Request) error { return nil }
func (s *Server) auditList(w http.ResponseWriter, r *http.Request) error       { return nil }
