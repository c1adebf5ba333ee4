package web

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// self is a tenant's own page, read-only for the operator who looks. Each
// opening of it is recorded, however it came about; the polls that follow are
// part of the same look.
func (s *Server) self(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Tenants.RecordView(r.Context(), actor(r), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	p, err := s.selfProps(r, t)
	if err != nil {
		return err
	}
	list, err := s.Keys.ListCredentials(r.Context(), t.ID)
	if err != nil {
		return err
	}
	for _, c := range list {
		for _, v := range c.Versions {
			row := keyRow(r, v)
			row.Credential = c.Name
			p.Keys = append(p.Keys, row)
		}
	}
	return s.render(w, r, http.StatusOK, views.Self(p))
}

func (s *Server) selfLive(w http.ResponseWriter, r *http.Request) error {
	t, err := s.Tenants.Get(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	p, err := s.selfProps(r, t)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.SelfLive(p))
}

func (s *Server) selfProps(r *http.Request, t console.Tenant) (views.SelfProps, error) {
	in, err := s.inForce(r.Context())
	if err != nil {
		return views.SelfProps{}, err
	}
	now := s.Now()
	name, value := s.credentialHeader(r, "YOUR_KEY")
	p := views.SelfProps{Environment: s.Environment, Now: now, TenantName: t.Name, Operator: actor(r).Name, Back: ui.TenantURL(t.ID, ""),
		Version: in.label(), Header: name + ": " + value, Limits: effectiveRows(in.Compiled, t.Plan), Sentence: s.selfNow(now, t)}
	p.Limits = ownLimits(p.Limits)
	p.Usage = s.tenantUsage(r, t.ID, in, true)
	p.Usage.Poll = ui.ViewAsLiveURL(t.ID)
	p.Usage.Chart.Markers = nil // when the operator publishes is not the tenant's matter
	return p, nil
}

// ownLimits leaves out limits that are not the tenant's own: what all tenants
// together may do is nobody's business but the operator's, and neither is a limit
// that the operator only tries out.
func ownLimits(rows []views.EffectiveRow) []views.EffectiveRow {
	var own []views.EffectiveRow
	for _, l := range rows {
		if l.Per != string(policy.PerGlobal) && !l.Shadow {
			own = append(own, l)
		}
	}
	return own
}

// selfNow is how a tenant stands now, in one sentence.
func (s *Server) selfNow(now time.Time, t console.Tenant) views.SelfNow {
	if t.State == policy.TenantSuspended {
		return views.SelfNow{Kind: "bad", Text: "Your access is suspended: every request is answered 403.", More: "Ask your contact."}
	}
	if !s.liveKnown(now) {
		return views.SelfNow{Kind: "warn", Text: "How your requests fare right now is unknown.", More: "Counts have not come in for some seconds. That does not mean that requests fail."}
	}
	m := lastMinute(now, s.ofTenant(t.ID))
	switch {
	case decided(m.Point) == 0:
		return views.SelfNow{Kind: "ok", Text: "You sent no requests in the last minute."}
	case m.Refused == 0:
		return views.SelfNow{Kind: "ok", Text: "All is well: " + ui.Int(m.Admitted) + " requests in the last minute, none refused."}
	}
	n := views.SelfNow{Kind: "warn", Text: ui.Int(m.Refused) + " of " + ui.Int(decided(m.Point)) + " requests in the last minute were refused (" + ui.Percent(percentOf(m.Refused, decided(m.Point))) + ")."}
	if top := s.Activity.Live().TenantLimits(t.ID, now.Add(-time.Minute), 1); len(top) > 0 && top[0].Limit != "" {
		n.More = "Most of them by the limit " + top[0].Limit + ". Each refusal says in Retry-After how long to wait; waiting that long is enough."
	}
	return n
}
