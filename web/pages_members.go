package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/portal"
)

// memberRoutes are tenants' members, what tenants ask for, and what they may do
// by themselves.
func (s *Server) memberRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/tenants/{tenant}/members", s.page(s.tenantMembers))
	view.Get("/asks", s.page(s.askList))
	view.Get("/settings/portal", s.page(s.portalRules))

	manage := r.With(s.require(console.PermManageTenants))
	manage.Post("/tenants/{tenant}/members", s.page(s.memberInvite))
	manage.Post("/tenants/{tenant}/members/{member}/remove", s.page(s.memberRemove))
	manage.Post("/tenants/{tenant}/members/{member}/uninvite", s.page(s.memberUninvite))
	manage.Post("/asks/{ask}/grant", s.page(s.askGrant))
	manage.Post("/asks/{ask}/refuse", s.page(s.askRefuse))
	manage.Post("/settings/portal", s.page(s.portalRulesSave))
}

func (s *Server) tenantMembers(w http.ResponseWriter, r *http.Request) error {
	return s.membersPage(w, r, http.StatusOK, views.TenantMembersProps{Form: form.New(map[string]string{"role": string(console.RoleTenantAdmin)})})
}

func (s *Server) membersPage(w http.ResponseWriter, r *http.Request, status int, p views.TenantMembersProps) error {
	t, _, head, err := s.tenantHead(r, "members")
	if err != nil {
		return err
	}
	members, open, err := s.Members.List(r.Context(), actor(r), t.ID)
	if err != nil {
		return err
	}
	rules, err := s.Members.RulesFor(r.Context(), t.ID)
	if err != nil {
		return err
	}
	p.Head, p.Rules, p.Portal = head, portalRulesText(rules), s.public.JoinPath(portal.Base).String()
	for _, m := range members {
		p.Rows = append(p.Rows, views.MemberRow{ID: m.ID, Name: m.Label(), Email: m.Email, Role: memberRoleWord(m.Role), Since: at(m.JoinedAt)})
	}
	for _, i := range open {
		p.Rows = append(p.Rows, views.MemberRow{ID: i.ID, Name: i.Email, Role: memberRoleWord(i.Role), Expires: i.ExpiresAt, Invited: true})
	}
	return s.render(w, r, status, views.TenantMembers(p))
}

// memberRoleWord is a member's role as the form of invitations names it.
func memberRoleWord(r console.Role) string { return strings.TrimPrefix(string(r), "tenant-") }

// memberInvite makes an invitation and shows its link in this answer alone.
func (s *Server) memberInvite(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "email", "role")
	invited, err := s.Members.Invite(r.Context(), actor(r), chi.URLParam(r, "tenant"), console.NewInvitation{Email: f.Get("email"), Role: console.Role(f.Get("role"))})
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.membersPage(w, r, status, views.TenantMembersProps{Form: f})
		}
		return err
	}
	link := s.public.JoinPath(portal.Base, "invite", invited.Secret).String()
	return s.membersPage(w, r, http.StatusCreated, views.TenantMembersProps{Form: form.New(nil), Link: link, LinkFor: invited.Invitation.Email})
}

func (s *Server) memberAct(w http.ResponseWriter, r *http.Request, did string, err error) error {
	if err != nil {
		f := form.New(nil)
		if status := s.take(f, err); status != 0 {
			return s.membersPage(w, r, status, views.TenantMembersProps{Form: f})
		}
		return err
	}
	return s.redirect(w, r, ui.TenantURL(chi.URLParam(r, "tenant"), "members"), did)
}

func (s *Server) memberRemove(w http.ResponseWriter, r *http.Request) error {
	return s.memberAct(w, r, "Removed.", s.Members.Remove(r.Context(), actor(r), chi.URLParam(r, "tenant"), chi.URLParam(r, "member")))
}

func (s *Server) memberUninvite(w http.ResponseWriter, r *http.Request) error {
	return s.memberAct(w, r, "Taken back.", s.Members.RevokeInvitation(r.Context(), actor(r), chi.URLParam(r, "tenant"), chi.URLParam(r, "member")))
}

func (s *Server) askList(w http.ResponseWriter, r *http.Request) error {
	return s.askPage(w, r, http.StatusOK, "", "")
}

func (s *Server) askPage(w http.ResponseWriter, r *http.Request, status int, failed, problem string) error {
	all := r.URL.Query().Get("all") != ""
	list, err := s.Asks.List(r.Context(), actor(r), "", !all)
	if err != nil {
		return err
	}
	p := views.AsksProps{Frame: s.titled(r, "Asks"), Now: s.Now(), All: all, CanDecide: can(r, console.PermManageTenants), Failed: failed, Problem: problem}
	for _, a := range list {
		row := views.AskRow{ID: a.ID, Tenant: a.Tenant, TenantURL: ui.TenantURL(a.TenantID, "overrides"), Limit: a.Limit, Wanted: a.Wanted, Why: a.Why,
			State: string(a.State), Member: a.Member, DecidedBy: a.DecidedBy, Answer: a.Answer, Created: a.CreatedAt, Until: at(a.Until), Decided: at(a.DecidedAt),
			Open: a.State == console.AskOpen}
		row.Kind = map[console.AskState]string{console.AskOpen: "warn", console.AskGranted: "ok", console.AskRefused: "bad"}[a.State]
		row.Grant = "The limit is boosted ×" + console.FactorText(a.Factor) + " until then and falls back by itself."
		if a.Until == nil {
			row.Grant = "The limit is boosted ×" + console.FactorText(a.Factor) + " for 30 days. What is to hold for good is an override, on the tenant's page."
		}
		p.Rows = append(p.Rows, row)
	}
	return s.render(w, r, status, views.Asks(p))
}

func (s *Server) askGrant(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "answer")
	_, err := s.Asks.Grant(r.Context(), actor(r), chi.URLParam(r, "ask"), f.Get("answer"), true)
	return s.askDecided(w, r, f, "Granted.", err)
}

func (s *Server) askRefuse(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "answer")
	_, err := s.Asks.Refuse(r.Context(), actor(r), chi.URLParam(r, "ask"), f.Get("answer"))
	return s.askDecided(w, r, f, "Refused; the tenant sees your answer.", err)
}

func (s *Server) askDecided(w http.ResponseWriter, r *http.Request, f *form.Form, did string, err error) error {
	if err != nil {
		status := s.take(f, err)
		if status == 0 {
			return err
		}
		problem := f.Message
		for _, text := range f.Errors {
			problem = text
		}
		return s.askPage(w, r, status, chi.URLParam(r, "ask"), problem)
	}
	return s.redirect(w, r, ui.AsksURL(), did)
}

// portalRulesText is what tenants may do by themselves, in words.
func portalRulesText(r console.PortalRules) string {
	var may []string
	for _, m := range []struct {
		yes  bool
		word string
	}{{r.MayCreate, "create"}, {r.MayRotate, "rotate"}, {r.MayRevoke, "revoke"}} {
		if m.yes {
			may = append(may, m.word)
		}
	}
	keys := "may only look at keys"
	if len(may) > 0 {
		keys = "may " + strings.Join(may, ", ") + " keys"
	}
	asks := "asks wait for an operator"
	if r.AskFactor > 0 && r.AskDays > 0 && r.AskMonthly > 0 {
		asks = fmt.Sprintf("asks up to ×%s for %s are granted at once, %d times in 30 days", console.FactorText(r.AskFactor), counted(r.AskDays, "day"), r.AskMonthly)
	}
	return fmt.Sprintf("They %s, %d at most, with an overlap of %s at most; have %s at most; %s.", keys, r.Credentials, ui.Span(r.MaxOverlap), counted(r.Members, "member"), asks)
}

func (s *Server) portalRules(w http.ResponseWriter, r *http.Request) error {
	d := console.DefaultPortalRules()
	return s.portalRulesPage(w, r, http.StatusOK, form.New(map[string]string{
		"credentials": strconv.Itoa(d.Credentials), "members": strconv.Itoa(d.Members), "overlap_days": strconv.Itoa(int(d.MaxOverlap.Hours() / 24)),
		"may": "create rotate revoke", "ask_factor": strconv.FormatInt(d.AskFactor, 10), "ask_days": strconv.Itoa(d.AskDays), "ask_monthly": strconv.Itoa(d.AskMonthly),
	}))
}

func (s *Server) portalRulesPage(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	list, err := s.Members.Rules(r.Context())
	if err != nil {
		return err
	}
	in, err := s.inForce(r.Context())
	if err != nil {
		return err
	}
	p := views.PortalRulesProps{Frame: s.titled(r, "Self-service"), Form: f, Default: portalRulesText(console.DefaultPortalRules()), Scopes: []ui.Option{{Value: "", Label: "all tenants"}}}
	if in.Compiled != nil {
		for _, name := range planNames(in.Compiled.Document) {
			p.Scopes = append(p.Scopes, ui.Option{Value: "plan:" + name, Label: "tenants on plan " + name})
		}
	}
	for _, rule := range list {
		name := "all tenants"
		if plan, ok := strings.CutPrefix(rule.Scope, "plan:"); ok {
			name = "plan " + plan
		} else if rule.Scope != "" {
			name = rule.Scope
		}
		p.Rows = append(p.Rows, views.PortalRuleRow{Scope: rule.Scope, Name: name, Text: portalRulesText(rule.Rules)})
	}
	return s.render(w, r, status, views.PortalRules(p))
}

func (s *Server) portalRulesSave(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "scope", "tenant", "remove", "credentials", "members", "overlap_days", "may", "ask_factor", "ask_days", "ask_monthly")
	scope := f.Get("scope")
	if t := f.Get("tenant"); t != "" {
		scope = t
	}
	var rules *console.PortalRules
	if f.Get("remove") == "" {
		rules = portalRulesOf(f)
		if !f.OK() {
			return s.portalRulesPage(w, r, http.StatusUnprocessableEntity, f)
		}
	}
	if err := s.Members.SetRules(r.Context(), actor(r), scope, rules); err != nil {
		if console.IsNotFound(err) {
			f.Fail("tenant", "There is no such tenant.")
			return s.portalRulesPage(w, r, http.StatusUnprocessableEntity, f)
		}
		if status := s.take(f, err); status != 0 {
			return s.portalRulesPage(w, r, status, f)
		}
		return err
	}
	return s.redirect(w, r, ui.PortalRulesURL(), "Saved.")
}

func portalRulesOf(f *form.Form) *console.PortalRules {
	number := func(name, field string) int {
		n, err := strconv.Atoi(f.Get(name))
		if err != nil {
			f.Fail(field, "A whole number.")
		}
		return n
	}
	may := strings.Fields(f.Get("may"))
	has := func(word string) bool {
		for _, m := range may {
			if m == word {
				return true
			}
		}
		return false
	}
	return &console.PortalRules{
		Credentials: number("credentials", "credentials"), Members: number("members", "members"),
		MaxOverlap: time.Duration(min(number("overlap_days", "max_overlap"), 10000)) * 24 * time.Hour,
		MayCreate:  has("create"), MayRotate: has("rotate"), MayRevoke: has("revoke"),
		AskFactor: int64(number("ask_factor", "ask_factor")), AskDays: number("ask_days", "ask_days"), AskMonthly: number("ask_monthly", "ask_monthly"),
	}
}
