package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// explainFields are the parts of a question that may stand in an address.
func explainFields() []string {
	return []string{"tenant", "key", "ip", "account", "user", "receipt", "route", "path", "at"}
}

// explainPage answers a question that stands in the address. A whole key never does.
func (s *Server) explainPage(w http.ResponseWriter, r *http.Request) error {
	f := form.Query(r, explainFields()...)
	shown := map[string]string{"route": f.Get("route"), "path": f.Get("path"), "at": f.Get("at"), "ip": f.Get("ip")}
	for _, name := range []string{"receipt", "key", "tenant", "account", "user", "ip"} {
		if f.Get(name) != "" {
			if shown["q"] = f.Get(name); name == "account" || name == "user" {
				shown["as"] = name
			}
			if name == "ip" {
				shown["ip"] = ""
			}
			break
		}
	}
	if shown["q"] == "" {
		return s.explainRender(w, r, http.StatusOK, form.New(shown), nil)
	}
	q := console.ExplainQuestion{Tenant: f.Get("tenant"), Key: f.Get("key"), IP: f.Get("ip"), Account: f.Get("account"), User: f.Get("user"),
		Receipt: f.Get("receipt"), Route: f.Get("route")}
	if q.Key != "" && !apikey.ValidKID(q.Key) {
		return &console.Error{Code: console.CodeInvalid, Public: "A key does not belong into an address: paste it into the field of this page. If it was a whole key, it is in the history of the browser now; replace it."}
	}
	return s.explainAsk(w, r, form.New(shown), q)
}

// explainPost reads what was typed. A whole key is answered here, all else by its address.
func (s *Server) explainPost(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "q", "as", "route", "path", "ip", "at")
	typed := f.Get("q")
	place := url.Values{}
	for _, name := range []string{"route", "path", "ip", "at"} {
		if v := f.Get(name); v != "" {
			place.Set(name, withoutKeys(v))
		}
	}
	if strings.HasPrefix(typed, "hg_") || keyPart.MatchString(typed) {
		r.PostForm.Del("q")
		r.Form.Del("q")
		if m := maskedKey.FindStringSubmatch(typed); m != nil && !wholeKey.MatchString(typed) {
			place.Set("key", m[1])
			return s.explainGo(w, r, place)
		}
		kept := form.New(map[string]string{"route": place.Get("route"), "path": place.Get("path"), "ip": place.Get("ip"), "at": place.Get("at")})
		return s.explainAsk(w, r, kept, console.ExplainQuestion{Key: typed, Route: place.Get("route"), IP: place.Get("ip")})
	}
	if typed == "" {
		f.Fail("q", "Give a tenant, a key, an address, an account or a receipt.")
		return s.explainRender(w, r, http.StatusUnprocessableEntity, f, nil)
	}
	place.Set(s.explainKind(r, typed, f.Get("as")), typed)
	return s.explainGo(w, r, place)
}

func (s *Server) explainGo(w http.ResponseWriter, r *http.Request, place url.Values) error {
	http.Redirect(w, r, ui.ExplainURL(place.Encode()), http.StatusSeeOther)
	return nil
}

// explainKind tells what was typed by its form.
func (s *Server) explainKind(r *http.Request, typed, as string) string {
	switch {
	case as == "tenant" || as == "account" || as == "user":
		return as
	case strings.HasPrefix(typed, receiptPrefix):
		return "receipt"
	case kidID.MatchString(typed) && s.keyExists(r, typed):
		return "key"
	}
	if _, err := netip.ParseAddr(typed); err == nil {
		return "ip"
	}
	if strings.Contains(typed, "@") {
		return "account"
	}
	return "tenant"
}

// receiptPrefix begins every receipt.
const receiptPrefix = "hgr1_"

func (s *Server) keyExists(r *http.Request, kid string) bool {
	_, err := s.Keys.Get(r.Context(), kid)
	return err == nil
}

// explainAsk reads the rest of the question, asks, and shows the answer.
func (s *Server) explainAsk(w http.ResponseWriter, r *http.Request, f *form.Form, q console.ExplainQuestion) error {
	if path := f.Raw("path"); path != "" {
		method, rest, found := strings.Cut(strings.TrimSpace(path), " ")
		if !found {
			method, rest = "GET", method
		}
		q.Method, q.Path = method, strings.TrimSpace(rest)
	}
	if at := strings.TrimSpace(f.Raw("at")); at != "" {
		moment, err := clockTime(s.Now(), at)
		if err != nil {
			f.Fail("at", err.Error())
			return s.explainRender(w, r, http.StatusUnprocessableEntity, f, nil)
		}
		q.At = &moment
	}
	e, err := s.Explain.Ask(r.Context(), actor(r), q)
	if err != nil {
		var known *console.Error
		if errors.As(err, &known) && known.Code == console.CodeNotFound {
			f.Fail("q", "There is no such tenant: neither an id, nor an external id, nor a name.")
			return s.explainRender(w, r, http.StatusNotFound, f, nil)
		}
		if errors.As(err, &known) && known.Code == console.CodeInvalid {
			for field, message := range known.EachField {
				if field != "ip" && field != "path" && field != "at" || f.Raw(field) == "" {
					field = "q"
				}
				f.Fail(field, message)
			}
			return s.explainRender(w, r, http.StatusUnprocessableEntity, f, nil)
		}
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return s.explainRender(w, r, http.StatusOK, f, s.explainAnswer(r, e))
}

// clockTime reads a time of day of the last 24 hours, or a whole time, in UTC.
func clockTime(now time.Time, text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			now = now.UTC()
			out := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
			if out.After(now) {
				out = out.Add(-24 * time.Hour)
			}
			return out, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: write 10:41, or 2026-01-31T10:41:00Z", text)
}

func (s *Server) explainRender(w http.ResponseWriter, r *http.Request, status int, f *form.Form, a *views.ExplainAnswer) error {
	p := views.ExplainProps{Frame: s.titled(r, "Explain"), Now: s.Now(), Form: f, Answer: a, Routes: []ui.Option{{Value: "", Label: "all that may refuse"}}}
	names, err := s.Explain.Routes(r.Context())
	if err != nil {
		return err
	}
	for _, name := range names {
		p.Routes = append(p.Routes, ui.Option{Value: name, Label: name})
	}
	return s.render(w, r, status, views.Explain(p))
}
