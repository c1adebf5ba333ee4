package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views/ui"
)

// commanded is the page of an act or of a page that was named in the search;
// empty when the words are neither. What may be done there is asked there.
func (s *Server) commanded(r *http.Request, q string) string {
	words := explainWord(strings.ToLower(strings.Join(strings.Fields(q), " ")))
	switch words {
	case "new tenant":
		return ui.TenantsURL() + "/new"
	case "new draft", "publish":
		return ui.DraftsURL()
	case "new job":
		return ui.BulkNewURL("")
	}
	if page := s.frame(r).PageCalled(words); page != "" {
		return page
	}
	if name, ok := strings.CutPrefix(words, "explain "); ok {
		return ui.ExplainURL(url.Values{"tenant": {name}}.Encode())
	}
	if name, ok := strings.CutPrefix(words, "rotate "); ok {
		return s.tenantCalled(r, name, "keys")
	}
	for verb, part := range map[string]string{"boost ": "boost", "override ": "overrides", "issue key ": "keys/new", "keys of ": "keys", "usage of ": "usage", "members of ": "members"} {
		if name, ok := strings.CutPrefix(words, verb); ok {
			return s.tenantCalled(r, name, part)
		}
	}
	return ""
}

// explainWord takes "why …" for "explain …": it is how support asks.
func explainWord(words string) string {
	for _, ask := range []string{"why is ", "why "} {
		if name, ok := strings.CutPrefix(words, ask); ok {
			return "explain " + name
		}
	}
	return words
}

// tenantCalled is part of the page of the one tenant that name means, or the
// tenants that it may mean.
func (s *Server) tenantCalled(r *http.Request, name, part string) string {
	if strings.HasPrefix(name, "ten_") {
		return ui.TenantURL(name, part)
	}
	found, _, err := s.Tenants.List(r.Context(), console.TenantQuery{Q: name, Page: console.Page{Limit: 2}})
	if err == nil && len(found) == 1 {
		return ui.TenantURL(found[0].ID, part)
	}
	return ui.TenantsURL() + "?q=" + url.QueryEscape(name)
}
