package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// alertRoutes are alerts, what is looked for, who is told, and what was.
func (s *Server) alertRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/alerts", s.page(s.alertList))
	view.Get("/alerts/rules", s.page(s.alertRuleList))
	view.Get("/alerts/channels", s.page(s.alertChannelList))
	view.Get("/alerts/silences", s.page(s.silenceList))
	view.Get("/alerts/deliveries", s.page(s.deliveryList))

	silence := r.With(s.require(console.PermSilenceAlerts))
	silence.Post("/alerts/silences", s.page(s.silenceMake))
	silence.Post("/alerts/silences/{silence}/end", s.page(s.silenceEnd))

	manage := r.With(s.require(console.PermManageAlerts))
	manage.Post("/alerts/rules", s.page(s.alertRuleAdd))
	manage.Get("/alerts/rules/{rule}", s.page(s.alertRulePage))
	manage.Post("/alerts/rules/{rule}", s.page(s.alertRuleSave))
	manage.Post("/alerts/rules/{rule}/remove", s.page(s.alertRuleRemove))
	manage.Post("/alerts/channels", s.page(s.alertChannelAdd))
	manage.Get("/alerts/channels/{channel}", s.page(s.alertChannelPage))
	manage.Post("/alerts/channels/{channel}", s.page(s.alertChannelSave))
	manage.Post("/alerts/channels/{channel}/remove", s.page(s.alertChannelRemove))
	manage.Post("/alerts/channels/{channel}/rotate", s.page(s.alertChannelRotate))
	manage.Post("/alerts/channels/{channel}/test", s.page(s.alertChannelTest))
	manage.Post("/alerts/deliveries/{delivery}/again", s.page(s.deliveryAgain))
}

func alertTabs(now string) []ui.Tab {
	return []ui.Tab{
		{Label: "Open", URL: ui.AlertsURL(""), Current: now == "open"}, {Label: "All", URL: ui.AlertsURL("show=all"), Current: now == "all"},
		{Label: "Rules", URL: ui.AlertRulesURL(), Current: now == "rules"}, {Label: "Channels", URL: ui.AlertChannelsURL(), Current: now == "channels"},
		{Label: "Silences", URL: ui.SilencesURL(), Current: now == "silences"}, {Label: "Deliveries", URL: ui.DeliveriesURL(""), Current: now == "deliveries"},
	}
}

func (s *Server) alertList(w http.ResponseWriter, r *http.Request) error {
	page, all := pageOf(r), r.URL.Query().Get("show") == "all"
	list, next, err := s.Alerts.List(r.Context(), console.AlertQuery{OpenOnly: !all, Page: page})
	if err != nil {
		return err
	}
	rules, err := s.Alerts.Rules(r.Context())
	if err != nil {
		return err
	}
	silences, err := s.Alerts.Silences(r.Context(), true)
	if err != nil {
		return err
	}
	tab := "open"
	if all {
		tab = "all"
	}
	p := views.AlertsProps{Frame: s.titled(r, "Alerts"), Now: s.Now(), Tabs: alertTabs(tab), Open: !all, HasRules: len(rules) > 0, CanSend: s.Alerts.CanSend(), Pager: pagerOf(r, page, len(list), next)}
	for _, a := range list {
		p.Rows = append(p.Rows, s.alertRow(r, a, rules, silences))
	}
	return s.render(w, r, http.StatusOK, views.Alerts(p))
}

func (s *Server) alertRow(r *http.Request, a console.Alert, rules []console.AlertRule, silences []console.AlertSilence) views.AlertRow {
	info, _ := a.Kind.KindInfo()
	row := views.AlertRow{ID: a.ID, Kind: info.Label, Rule: a.RuleName, About: a.ObjectName, AboutURL: alertObjectURL(info.Object, a.Object), Words: a.Words,
		Opened: a.OpenedAt, Seen: a.SeenAt, Resolved: at(a.ResolvedAt), Resolution: a.Resolution, SilenceRule: a.RuleID, Object: a.Object, Told: "nobody was told"}
	if can(r, console.PermManageAlerts) && slices.ContainsFunc(rules, func(rule console.AlertRule) bool { return rule.ID == a.RuleID }) {
		row.RuleURL = ui.AlertRuleURL(a.RuleID)
	}
	silenced := a.Open() && slices.ContainsFunc(silences, func(v console.AlertSilence) bool { return v.Fits(a.RuleID, a.Object) })
	switch {
	case silenced:
		row.Told = "silenced"
	case a.ToldAt != nil:
		row.Told = "told " + ui.Ago(s.Now(), *a.ToldAt)
	}
	row.CanSilence = a.Open() && !silenced && can(r, console.PermSilenceAlerts)
	return row
}

// alertObjectURL is the page of what an alert is about; "" when there is none.
func alertObjectURL(kind, id string) string {
	switch kind {
	case "tenant":
		return ui.TenantURL(id, "")
	case "key":
		return ui.KeyURL(id, "")
	case "gateway":
		return ui.GatewaysURL()
	case "trail":
		return ui.AuditURL()
	case "server":
		return ui.HazardsURL()
	}
	return ""
}

func (s *Server) silenceList(w http.ResponseWriter, r *http.Request) error {
	return s.silencePage(w, r, http.StatusOK, form.New(map[string]string{"for": "8h"}))
}

func (s *Server) silencePage(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	list, err := s.Alerts.Silences(r.Context(), false)
	if err != nil {
		return err
	}
	rules, err := s.Alerts.Rules(r.Context())
	if err != nil {
		return err
	}
	now := s.Now()
	p := views.SilencesProps{Frame: s.titled(r, "Silences"), Now: now, Tabs: alertTabs("silences"), CanSilence: can(r, console.PermSilenceAlerts), Form: f,
		Rules: []ui.Option{{Value: "", Label: "Every rule"}}}
	names := map[string]string{"": "Every rule"}
	for _, rule := range rules {
		p.Rules, names[rule.ID] = append(p.Rules, ui.Option{Value: rule.ID, Label: rule.Name}), rule.Name
	}
	for _, v := range list {
		what := names[v.RuleID]
		if what == "" {
			what = "A rule that was removed"
		}
		if v.Object != "" {
			what += ", about " + v.Object
		}
		row := views.SilenceRow{ID: v.ID, What: what, Reason: v.Reason, Author: v.Author, Created: v.CreatedAt, Ends: v.EndsAt, Holds: v.Holds(now)}
		row.CanEnd, row.Ended = row.Holds && p.CanSilence, "ended "+ui.Ago(now, v.EndsAt)
		if v.EndedAt != nil {
			row.Ended = "ended by " + v.EndedBy
		}
		p.Rows = append(p.Rows, row)
	}
	return s.render(w, r, status, views.Silences(p))
}

func (s *Server) silenceMake(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "rule", "object", "for", "reason")
	length, err := time.ParseDuration(f.Get("for"))
	if err != nil {
		f.Fail("for", "Choose for how long.")
		return s.silencePage(w, r, http.StatusUnprocessableEntity, f)
	}
	_, err = s.Alerts.Silence(r.Context(), actor(r), console.NewSilence{RuleID: f.Get("rule"), Object: f.Get("object"), For: length, Reason: f.Get("reason")})
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.silencePage(w, r, status, f)
		}
		return err
	}
	return s.redirect(w, r, ui.SilencesURL(), "Silenced.")
}

func (s *Server) silenceEnd(w http.ResponseWriter, r *http.Request) error {
	if err := s.Alerts.EndSilence(r.Context(), actor(r), chi.URLParam(r, "silence")); err != nil {
		return err
	}
	return s.redirect(w, r, ui.SilencesURL(), "Ended. What is still so is told now.")
}

func (s *Server) deliveryList(w http.ResponseWriter, r *http.Request) error {
	page, q := pageOf(r), r.URL.Query()
	state, channel := q.Get("state"), q.Get("channel")
	list, next, err := s.Alerts.Deliveries(r.Context(), console.DeliveryQuery{State: console.DeliveryState(state), ChannelID: channel, Page: page})
	if err != nil {
		return err
	}
	p := views.DeliveriesProps{Frame: s.titled(r, "Deliveries"), Now: s.Now(), Tabs: alertTabs("deliveries"), Pager: pagerOf(r, page, len(list), next)}
	for _, t := range [][2]string{{"", "All"}, {"waiting", "Waiting"}, {"sent", "Sent"}, {"dead", "Given up"}} {
		var parts []string
		if t[0] != "" {
			parts = append(parts, "state="+t[0])
		}
		if channel != "" && !strings.ContainsAny(channel, "&#%+ ") {
			parts = append(parts, "channel="+channel)
		}
		p.States = append(p.States, ui.Tab{Label: t[1], URL: ui.DeliveriesURL(strings.Join(parts, "&")), Current: state == t[0]})
	}
	for _, v := range list {
		row := views.DeliveryRow{ID: v.ID, Event: v.Event, Channel: v.ChannelName, Kind: string(v.Kind), Target: v.Target, Subject: v.Subject, State: string(v.State),
			Problem: v.Problem, Attempts: v.Attempts, Created: v.CreatedAt, Done: at(v.DoneAt), Next: v.NextAt, CanRetry: v.State == console.DeliveryDead && can(r, console.PermManageAlerts)}
		if v.Status != 0 {
			row.Status = strconv.Itoa(v.Status)
		}
		p.Rows = append(p.Rows, row)
	}
	return s.render(w, r, http.StatusOK, views.Deliveries(p))
}

func (s *Server) deliveryAgain(w http.ResponseWriter, r *http.Request) error {
	if err := s.Alerts.Redeliver(r.Context(), actor(r), chi.URLParam(r, "delivery")); err != nil {
		return err
	}
	return s.redirect(w, r, ui.DeliveriesURL(""), "It is tried again, under the same id.")
}
