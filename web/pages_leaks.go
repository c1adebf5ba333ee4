package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// leakText bounds the text that is looked through: a form's body is bounded at 64 KiB.
const leakText = 60_000

func leakTabs(now string) []ui.Tab {
	var tabs []ui.Tab
	for _, t := range [][2]string{{"", "All"}, {string(console.LeakOpen), "Open"}, {string(console.LeakContained), "Contained"}, {string(console.LeakDismissed), "Dismissed"}} {
		url := ui.LeaksURL()
		if t[0] != "" {
			url += "?state=" + t[0]
		}
		tabs = append(tabs, ui.Tab{Label: t[1], URL: url, Current: now == t[0]})
	}
	return tabs
}

func (s *Server) leakList(w http.ResponseWriter, r *http.Request) error {
	return s.leakListWith(w, r, http.StatusOK, "", "", nil)
}

// leakListWith lists the cases; id and problem tell of a dismissal that failed.
func (s *Server) leakListWith(w http.ResponseWriter, r *http.Request, status int, id, problem string, f *form.Form) error {
	page, state := pageOf(r), r.URL.Query().Get("state")
	list, next, err := s.Leaks.List(r.Context(), console.LeakQuery{State: console.LeakState(state), Page: page})
	if err != nil {
		return err
	}
	p := s.leakPage(r)
	p.Tabs, p.Cases, p.Pager = leakTabs(state), leakRows(r, list), pagerOf(r, page, len(list), next)
	for i := range p.Cases {
		if p.Cases[i].ID == id {
			p.Cases[i].Problem, p.Cases[i].Kept = problem, f.Raw("reason")
		}
	}
	return s.render(w, r, status, views.LeakPage(p))
}

func (s *Server) leakPage(r *http.Request) views.LeakPageProps {
	return views.LeakPageProps{Frame: s.titled(r, "Leaked keys"), Now: s.Now(), CanManage: can(r, console.PermManageKeys)}
}

func leakRows(r *http.Request, list []console.LeakCase) []views.LeakCaseRow {
	var rows []views.LeakCaseRow
	for _, c := range list {
		row := views.LeakCaseRow{ID: c.ID, KID: c.KID, Tenant: c.TenantName, TenantURL: ui.TenantURL(c.TenantID, "keys"), State: string(c.State),
			Source: c.Source, Kind: c.Kind, URL: c.URL, Note: c.Note, Done: c.Done, Found: c.FoundAt, Closed: at(c.ClosedAt), ClosedBy: c.ClosedBy,
			CanDismiss: c.State == console.LeakOpen && can(r, console.PermManageKeys)}
		if c.Reports > 1 {
			row.Reports = "reported " + ui.Int(c.Reports) + " times"
		}
		rows = append(rows, row)
	}
	return rows
}

// leakFind looks a text through for keys. The text is in the body of this request
// and nowhere else.
func (s *Server) leakFind(w http.ResponseWriter, r *http.Request) error {
	text := r.PostForm.Get("text")
	r.PostForm.Del("text")
	r.Form.Del("text")
	return s.leakFound(w, r, text)
}

// leakFound answers with the keys that stand in a text.
func (s *Server) leakFound(w http.ResponseWriter, r *http.Request, text string) error {
	p := s.leakPage(r)
	p.Asked = true
	if strings.TrimSpace(text) == "" || len(text) > leakText {
		p.Asked, p.Tabs, p.Problem = false, leakTabs(""), "Paste a text of at most 60 000 characters."
		return s.render(w, r, http.StatusUnprocessableEntity, views.LeakPage(p))
	}
	finds, err := s.Leaks.Find(r.Context(), actor(r), text)
	if err != nil {
		return err
	}
	p.None = "There is no key in this text: none of its words has the form and the check digits of one."
	if err := s.putFound(r, &p, finds); err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.LeakPage(p))
}

// putFound fills in what is known of the keys that were found.
func (s *Server) putFound(r *http.Request, p *views.LeakPageProps, finds []console.LeakFind) error {
	var kids []string
	for _, f := range finds {
		if f.Ours && f.Operator == "" {
			kids = append(kids, f.KID)
		}
	}
	uses, err := s.usesOf(r.Context(), kids...)
	if err != nil {
		return err
	}
	p.UseAge = useAgeText(p.Now, uses.age)
	for _, f := range finds {
		row := views.LeakFound{KID: f.KID, Masked: f.Masked, Ours: f.Ours, Operator: f.Operator, Revoked: f.Revoked, Form: form.New(map[string]string{"how": "replace"})}
		if f.Ours && f.Operator == "" {
			row.Key, row.Cases = keyRow(r, f.Version), leakRows(r, f.Cases)
			row.Key.Use = uses.cell(f.KID, f.Version.CreatedAt)
			row.Effect = "It is refused with 401 on every gateway within a second, for good. " + uses.effect(p.Now, f.KID)
			if row.Sources, err = s.sourcesOf(r.Context(), f.KID); err != nil {
				return err
			}
		}
		p.Found = append(p.Found, row)
	}
	return nil
}

// sourcesOf are the last sources of a key.
func (s *Server) sourcesOf(ctx context.Context, kid string) ([]views.SourceRow, error) {
	if s.KeyUse == nil {
		return nil, nil
	}
	list, _, err := s.KeyUse.Sources(ctx, kid, s.Now().Add(-sourcesKept), sourcesShown)
	return sourceRows(list), err
}

// leakContain revokes a key that got out, and shows the one that takes its place.
func (s *Server) leakContain(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "kid", "how", "url", "note")
	if how := f.Get("how"); how != "replace" && how != "revoke" {
		f.Fail("how", "Choose how.")
	}
	var done console.Contained
	var err error
	if f.OK() {
		done, err = s.Leaks.Contain(r.Context(), actor(r), console.Containment{KID: f.Get("kid"), Replace: f.Get("how") == "replace", Source: "console",
			URL: f.Get("url"), Note: f.Get("note")})
	}
	if err != nil || !f.OK() {
		status := http.StatusUnprocessableEntity
		if err != nil {
			if status = s.take(f, err); status == 0 {
				return err
			}
		}
		return s.leakAgain(w, r, status, f)
	}
	if !done.Replaced {
		return s.told(w, r, ui.KeyURL(f.Get("kid"), ""), "contain", done.Change)
	}
	v := done.KeyVersion
	return s.showSecret(w, r, done.Secret, done.Change, views.SecretProps{Title: "New key in place of the leaked one", KID: v.KID, TenantName: v.TenantName,
		Credential: v.CredentialName, Environment: v.Environment, Next: ui.KeyURL(f.Get("kid"), ""), NextLabel: "I have copied it",
		Overlap: "The leaked key, " + f.Get("kid") + ", is revoked: there is no overlap."})
}

// leakAgain shows a key whose containment failed, with what was typed.
func (s *Server) leakAgain(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	k, err := s.Keys.Get(r.Context(), f.Get("kid"))
	if err != nil {
		return err
	}
	p := s.leakPage(r)
	p.Asked = true
	if err := s.putFound(r, &p, []console.LeakFind{{KID: k.KID, Masked: masked(k.Environment, k.KID), Ours: true, Version: k}}); err != nil {
		return err
	}
	p.Found[0].Form = f
	return s.render(w, r, status, views.LeakPage(p))
}

// leakDismiss closes a case without touching the key.
func (s *Server) leakDismiss(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "case")
	f := form.Parse(r, "reason")
	if err := s.Leaks.Dismiss(r.Context(), actor(r), id, f.Get("reason")); err != nil {
		problem, status := s.problemOf(f, err)
		if status == 0 {
			return err
		}
		return s.leakListWith(w, r, status, id, problem, f)
	}
	return s.redirect(w, r, ui.LeaksURL(), "Dismissed; the key goes on working.")
}

// leakToken revokes an operator's API token that got out: one's own, or, for an
// owner, anybody's.
func (s *Server) leakToken(w http.ResponseWriter, r *http.Request) error {
	if err := s.Operators.RevokeToken(r.Context(), actor(r), form.Parse(r, "kid").Get("kid")); err != nil {
		return err
	}
	return s.redirect(w, r, ui.LeaksURL(), "The API token is revoked.")
}
