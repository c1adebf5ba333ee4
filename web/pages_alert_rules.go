package web

import (
	"fmt"
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

func (s *Server) alertRuleList(w http.ResponseWriter, r *http.Request) error {
	return s.alertRules(w, r, http.StatusOK, form.New(map[string]string{"threshold": "", "for": "0"}), nil, true)
}

// alertRules lists the rules, with the form of a new one as it was sent.
func (s *Server) alertRules(w http.ResponseWriter, r *http.Request, status int, f *form.Form, picked []string, enabled bool) error {
	rules, err := s.Alerts.Rules(r.Context())
	if err != nil {
		return err
	}
	channels, err := s.Alerts.Channels(r.Context())
	if err != nil {
		return err
	}
	p := views.AlertRulesProps{Frame: s.titled(r, "Alert rules"), Tabs: alertTabs("rules"), CanManage: can(r, console.PermManageAlerts),
		New: views.AlertRuleFormProps{Action: ui.AlertRulesURL(), Button: "Add rule", Channels: channelChecks(channels, picked), Enabled: enabled, Form: f, Hint: "A number in the unit of what is looked at; left out, the usual one. What has no number ignores it."}}
	for _, k := range console.AlertKinds() {
		label := k.Label
		if k.Unit != "" {
			label += fmt.Sprintf(" (%s; usually %d)", strings.ToLower(k.Threshold), k.Usual)
		}
		p.New.Kinds = append(p.New.Kinds, ui.Option{Value: string(k.Kind), Label: label})
	}
	for _, rule := range rules {
		info, _ := rule.Kind.KindInfo()
		p.Rows = append(p.Rows, views.AlertRuleRow{ID: rule.ID, Name: rule.Name, Kind: info.Label, Says: ruleSays(rule, info), Channels: channelNames(channels, rule.Channels), Enabled: rule.Enabled,
			Unknown: s.Alerts.Unknown(rule.Kind)})
	}
	return s.render(w, r, status, views.AlertRules(p))
}

// ruleSays is a rule's threshold in words.
func ruleSays(rule console.AlertRule, info console.AlertKindInfo) string {
	says := "at once"
	if info.Unit != "" {
		says = fmt.Sprintf("%s: %d", strings.ToLower(info.Threshold), rule.Threshold)
	}
	if rule.For > 0 {
		says += ", for " + rule.For.String()
	}
	return says
}

func channelNames(channels []console.AlertChannel, ids []string) string {
	var names []string
	for _, c := range channels {
		if slices.Contains(ids, c.ID) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, ", ")
}

func channelChecks(channels []console.AlertChannel, picked []string) []views.Check {
	var out []views.Check
	for _, c := range channels {
		out = append(out, views.Check{Value: c.ID, Label: c.Name + " (" + string(c.Kind) + ")", On: slices.Contains(picked, c.ID)})
	}
	return out
}

// ruleInput reads the form of a rule of a kind.
func ruleInput(r *http.Request, f *form.Form, kind console.AlertKind) console.AlertRuleInput {
	in := console.AlertRuleInput{Name: f.Get("name"), Kind: kind, Channels: r.PostForm["channels"], Enabled: r.PostForm.Get("enabled") == "yes"}
	info, _ := kind.KindInfo()
	in.Threshold = info.Usual
	var err error
	if text := f.Get("threshold"); text != "" && info.Unit != "" {
		if in.Threshold, err = strconv.ParseInt(text, 10, 64); err != nil {
			f.Fail("threshold", "A whole number.")
		}
	}
	seconds := int64(0)
	if text := f.Get("for"); text != "" {
		if seconds, err = strconv.ParseInt(text, 10, 32); err != nil {
			f.Fail("for", "Whole seconds.")
		}
	}
	in.For = time.Duration(seconds) * time.Second
	return in
}

func (s *Server) alertRuleAdd(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "name", "kind", "threshold", "for")
	in := ruleInput(r, f, console.AlertKind(f.Get("kind")))
	again := func(status int) error { return s.alertRules(w, r, status, f, in.Channels, in.Enabled) }
	if !f.OK() {
		return again(http.StatusUnprocessableEntity)
	}
	if _, err := s.Alerts.AddRule(r.Context(), actor(r), in); err != nil {
		if status := s.take(f, err); status != 0 {
			return again(status)
		}
		return err
	}
	return s.redirect(w, r, ui.AlertRulesURL(), "Added. It is looked at within seconds.")
}

func (s *Server) alertRulePage(w http.ResponseWriter, r *http.Request) error {
	rule, err := s.Alerts.Rule(r.Context(), chi.URLParam(r, "rule"))
	if err != nil {
		return err
	}
	f := form.New(map[string]string{"name": rule.Name, "threshold": strconv.FormatInt(rule.Threshold, 10), "for": strconv.FormatInt(int64(rule.For/time.Second), 10)})
	return s.alertRuleForm(w, r, http.StatusOK, rule, f, rule.Channels, rule.Enabled)
}

func (s *Server) alertRuleForm(w http.ResponseWriter, r *http.Request, status int, rule console.AlertRule, f *form.Form, picked []string, enabled bool) error {
	channels, err := s.Alerts.Channels(r.Context())
	if err != nil {
		return err
	}
	info, _ := rule.Kind.KindInfo()
	return s.render(w, r, status, views.AlertRulePage(views.AlertRulePageProps{Frame: s.titled(r, rule.Name), ID: rule.ID, Name: rule.Name, Form: views.AlertRuleFormProps{
		Action: ui.AlertRuleURL(rule.ID), Button: "Save", KindText: "Looks at: " + info.Label + ".", Hint: info.Threshold + ".", NoLimit: info.Unit == "",
		Channels: channelChecks(channels, picked), Enabled: enabled, Form: f,
	}}))
}

func (s *Server) alertRuleSave(w http.ResponseWriter, r *http.Request) error {
	rule, err := s.Alerts.Rule(r.Context(), chi.URLParam(r, "rule"))
	if err != nil {
		return err
	}
	f := form.Parse(r, "name", "threshold", "for")
	in := ruleInput(r, f, rule.Kind)
	again := func(status int) error { return s.alertRuleForm(w, r, status, rule, f, in.Channels, in.Enabled) }
	if !f.OK() {
		return again(http.StatusUnprocessableEntity)
	}
	if _, err := s.Alerts.ChangeRule(r.Context(), actor(r), rule.ID, in); err != nil {
		if status := s.take(f, err); status != 0 {
			return again(status)
		}
		return err
	}
	return s.redirect(w, r, ui.AlertRulesURL(), "Saved.")
}

func (s *Server) alertRuleRemove(w http.ResponseWriter, r *http.Request) error {
	if err := s.Alerts.RemoveRule(r.Context(), actor(r), chi.URLParam(r, "rule")); err != nil {
		return err
	}
	return s.redirect(w, r, ui.AlertRulesURL(), "Removed.")
}
