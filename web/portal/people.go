package portal

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	views "github.com/headgate/headgate/views/portal"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) memberList(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.memberPage(w, r, v, http.StatusOK, views.MembersProps{Form: form.New(nil)})
}

func (s *Server) memberPage(w http.ResponseWriter, r *http.Request, v *visit, status int, p views.MembersProps) error {
	people, err := s.Portal.People(r.Context(), v.actor)
	if err != nil {
		return err
	}
	p.Frame, p.CanManage = s.frame(v, "Members", "members"), v.can(console.PermOwnMembers)
	p.Room = fmt.Sprintf("%d of %d, open invitations included", len(people.Members)+len(people.Invitations), people.Rules.Members)
	for _, m := range people.Members {
		p.Rows = append(p.Rows, views.PersonRow{ID: m.ID, Name: m.Label(), Email: m.Email, Role: string(m.Role), Since: at(m.JoinedAt), Self: m.ID == v.actor.ID})
	}
	for _, i := range people.Invitations {
		p.Rows = append(p.Rows, views.PersonRow{ID: i.ID, Name: i.Email, Role: string(i.Role), Expires: i.ExpiresAt, Invited: true})
	}
	return s.render(w, r, status, views.Members(p))
}

// invite makes an invitation and shows its link in this answer alone.
func (s *Server) invite(w http.ResponseWriter, r *http.Request, v *visit) error {
	f := form.Parse(r, "email", "role")
	invited, err := s.Members.Invite(r.Context(), v.actor, v.actor.TenantID, console.NewInvitation{Email: f.Get("email"), Role: console.Role(f.Get("role"))})
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.memberPage(w, r, v, status, views.MembersProps{Form: f})
		}
		return err
	}
	link := s.PublicURL.JoinPath(Base, "invite", invited.Secret).String()
	return s.memberPage(w, r, v, http.StatusCreated, views.MembersProps{Form: form.New(nil), Link: link, LinkFor: invited.Invitation.Email})
}

// personAct does something to a member and goes back to the list.
func (s *Server) personAct(w http.ResponseWriter, r *http.Request, v *visit, did string, err error) error {
	if err != nil {
		f := form.New(nil)
		if status := s.take(f, err); status != 0 {
			return s.memberPage(w, r, v, status, views.MembersProps{Form: f})
		}
		return err
	}
	return s.redirect(w, r, v.url("members"), did)
}

func (s *Server) setRole(w http.ResponseWriter, r *http.Request, v *visit) error {
	f := form.Parse(r, "role")
	err := s.Members.SetRole(r.Context(), v.actor, v.actor.TenantID, chi.URLParam(r, "member"), console.Role(f.Get("role")))
	return s.personAct(w, r, v, "Changed. They have to sign in again.", err)
}

func (s *Server) removeMember(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.personAct(w, r, v, "Removed.", s.Members.Remove(r.Context(), v.actor, v.actor.TenantID, chi.URLParam(r, "member")))
}

func (s *Server) uninvite(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.personAct(w, r, v, "Taken back.", s.Members.RevokeInvitation(r.Context(), v.actor, v.actor.TenantID, chi.URLParam(r, "member")))
}

func (s *Server) askList(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.askPage(w, r, v, http.StatusOK, form.New(map[string]string{"factor": "1500", "for": "168h"}))
}

func (s *Server) askPage(w http.ResponseWriter, r *http.Request, v *visit, status int, f *form.Form) error {
	list, rules, err := s.Portal.Asks(r.Context(), v.actor)
	if err != nil {
		return err
	}
	limits, err := s.Overrides.Effective(r.Context(), v.tenant.ID)
	if err != nil {
		return err
	}
	p := views.AsksProps{Frame: s.frame(v, "Ask for more", "asks"), Form: f, Rule: ruleText(rules)}
	for _, l := range ownLimits(limits.Limits) {
		if l.Own && !l.Now().Value.Unlimited {
			p.Limits = append(p.Limits, ui.Option{Value: l.ID, Label: l.ID + ": " + l.Now().Text})
		}
	}
	p.CanAsk = v.can(console.PermOwnMembers) && len(p.Limits) > 0
	for _, a := range list {
		row := views.AskRow{Limit: a.Limit, Wanted: a.Wanted, Why: a.Why, State: string(a.State), Answer: a.Answer, Member: a.Member, Created: a.CreatedAt, Until: at(a.Until)}
		row.Kind = map[console.AskState]string{console.AskOpen: "warn", console.AskGranted: "ok", console.AskRefused: "bad"}[a.State]
		p.Rows = append(p.Rows, row)
	}
	return s.render(w, r, status, views.Asks(p))
}

func ruleText(r console.PortalRules) string {
	if r.AskFactor == 0 || r.AskDays == 0 || r.AskMonthly == 0 {
		return "Each wish waits for an answer of your contact."
	}
	return fmt.Sprintf("Up to %s times what you have, for up to %d days, is granted at once, %d times in 30 days. Anything else waits for an answer. Asking never lowers anything.",
		console.FactorText(r.AskFactor), r.AskDays, r.AskMonthly)
}

func (s *Server) ask(w http.ResponseWriter, r *http.Request, v *visit) error {
	f := form.Parse(r, "limit", "factor", "for", "why")
	factor, err := strconv.ParseInt(f.Get("factor"), 10, 64)
	if err != nil {
		f.Fail("factor", "Choose how much.")
	}
	length, err := time.ParseDuration(f.Get("for"))
	if err != nil {
		f.Fail("for", "Choose for how long.")
	}
	if !f.OK() {
		return s.askPage(w, r, v, http.StatusUnprocessableEntity, f)
	}
	a, err := s.Asks.Ask(r.Context(), v.actor, console.NewAsk{Limit: f.Get("limit"), FactorMilli: factor, For: length, Why: f.Get("why")})
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.askPage(w, r, v, status, f)
		}
		return err
	}
	if a.State == console.AskGranted {
		return s.redirect(w, r, v.url("asks"), "Granted: it holds now.")
	}
	return s.redirect(w, r, v.url("asks"), "Asked. The answer will stand here.")
}
