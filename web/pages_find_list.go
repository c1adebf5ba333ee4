package web

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// findShown bounds the suggestions of the search.
const findShown = 8

// findList suggests while something is typed into the search. It comes by POST, as what
// is typed may be a key; such a key is not looked up before it is sent off.
func (s *Server) findList(w http.ResponseWriter, r *http.Request) error {
	q := strings.TrimSpace(r.PostForm.Get("q"))
	r.PostForm.Del("q")
	r.Form.Del("q")
	w.Header().Set("Cache-Control", "no-store")
	return s.render(w, r, http.StatusOK, views.FoundList(s.suggestions(r, q)))
}

func (s *Server) suggestions(r *http.Request, q string) (rows []views.FoundRow) {
	if q == "" || strings.HasPrefix(q, "hg_") || keyPart.MatchString(q) || len(q) > 300 {
		return nil
	}
	ask := func(name string) string { return ui.ExplainURL(url.Values{name: {q}}.Encode()) }
	if strings.HasPrefix(q, receiptPrefix) {
		return []views.FoundRow{{Label: "Explain this receipt", What: "checked and recomputed", URL: ask("receipt")}}
	}
	if _, err := netip.ParseAddr(q); err == nil {
		return []views.FoundRow{{Label: "Explain " + q, What: "address", URL: ask("ip")}}
	}
	if m := versionID.FindStringSubmatch(q); m != nil {
		return []views.FoundRow{{Label: q, What: "version", URL: s.placeOf(r, q)}}
	}
	if kidID.MatchString(q) && s.keyExists(r, q) {
		rows = append(rows, views.FoundRow{Label: q, What: "key", URL: ui.KeyURL(q, ""), ExplainURL: ask("key")})
	}
	words := explainWord(strings.ToLower(q))
	for _, word := range s.frame(r).Words() {
		if strings.HasPrefix(strings.ToLower(word), words) && len(rows) < findShown/2 {
			if place := s.commanded(r, word); place != "" {
				rows = append(rows, views.FoundRow{Label: word, What: "page", URL: place})
			}
		}
	}
	name := words
	for _, verb := range []string{"explain ", "boost ", "rotate ", "override ", "usage of ", "keys of "} {
		if rest, ok := strings.CutPrefix(words, verb); ok {
			name = rest
		}
	}
	found, _, err := s.Tenants.List(r.Context(), console.TenantQuery{Q: name, Page: console.Page{Limit: findShown}})
	if err == nil {
		for _, t := range found {
			rows = append(rows, views.FoundRow{Label: t.Name, What: "tenant, plan " + t.Plan, URL: ui.TenantURL(t.ID, ""), ExplainURL: ui.ExplainTenantURL(t.ID)})
		}
	}
	if names, err := s.Explain.Routes(r.Context()); err == nil {
		for _, route := range names {
			if strings.HasPrefix(route, words) && len(rows) < 2*findShown {
				rows = append(rows, views.FoundRow{Label: route, What: "route", URL: ui.RoutesURL("")})
			}
		}
	}
	if strings.Contains(q, "@") {
		rows = append(rows, views.FoundRow{Label: "Explain " + q, What: "account", URL: ask("account")})
	}
	return rows
}
