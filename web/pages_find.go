package web

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/views/ui"
)

var (
	wholeKey = regexp.MustCompile(`hg_(?:live|test|ops)_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}`)
	// keyPart is so much of a key that it must stand in no address, whole or not.
	keyPart   = regexp.MustCompile(`hg_(?:live|test|ops)_[0-9A-Za-z]{12}_[0-9A-Za-z]{16,}`)
	maskedKey = regexp.MustCompile(`^hg_(?:live|test)_([0-9A-Za-z]{12})(?:_.*)?$`)
	versionID = regexp.MustCompile(`^v([0-9]{1,9})$`)
	kidID     = regexp.MustCompile(`^[0-9A-Za-z]{12}$`)
)

// find takes what was typed into the strip's search. It comes by POST, so that a
// key that was pasted stands in no address; such a key is looked up in memory.
func (s *Server) find(w http.ResponseWriter, r *http.Request) error {
	q := strings.TrimSpace(r.PostForm.Get("q"))
	if wholeKey.MatchString(q) || keyPart.MatchString(q) && !maskedKey.MatchString(q) {
		r.PostForm.Del("q")
		r.Form.Del("q")
		return s.leakFound(w, r, q)
	}
	http.Redirect(w, r, s.placeOf(r, q), http.StatusSeeOther) //nolint:gosec // G710: each is a path of ours
	return nil
}

// withoutKeys is a text with what can be shown of the keys in it.
func withoutKeys(s string) string { return keyPart.ReplaceAllStringFunc(s, apikey.Mask) }

// placeOf is the page of what was typed: by its form, or the tenants whose name it is.
func (s *Server) placeOf(r *http.Request, q string) string {
	if m := maskedKey.FindStringSubmatch(q); m != nil {
		return ui.KeyURL(m[1], "")
	}
	if m := versionID.FindStringSubmatch(q); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64) // nine digits fit
		return ui.VersionURL(n)
	}
	if strings.HasPrefix(q, receiptPrefix) {
		return ui.ExplainURL(url.Values{"receipt": {q}}.Encode())
	}
	if _, err := netip.ParseAddr(q); err == nil {
		return ui.ExplainURL(url.Values{"ip": {q}}.Encode())
	}
	if kidID.MatchString(q) {
		if k, err := s.Keys.Get(r.Context(), q); err == nil {
			return ui.KeyURL(k.KID, "")
		}
	}
	for prefix, place := range map[string]func(string) string{
		"ten_": func(id string) string { return ui.TenantURL(id, "") }, "rot_": func(id string) string { return ui.RotationURL(id, "") },
		"ovr_": func(id string) string { return ui.OverrideURL(id, "") }, "drf_": ui.DraftURL, "blk_": ui.BulkJobURL,
	} {
		if strings.HasPrefix(q, prefix) {
			return place(q)
		}
	}
	if q == "" {
		return ui.TenantsURL()
	}
	if place := s.commanded(r, q); place != "" {
		return place
	}
	if strings.Contains(q, "@") && !s.someTenant(r, q) {
		return ui.ExplainURL(url.Values{"account": {q}}.Encode())
	}
	return ui.TenantsURL() + "?q=" + url.QueryEscape(q)
}

// someTenant reports whether a search for tenants finds any.
func (s *Server) someTenant(r *http.Request, q string) bool {
	found, _, err := s.Tenants.List(r.Context(), console.TenantQuery{Q: q, Page: console.Page{Limit: 1}})
	return err != nil || len(found) > 0
}
