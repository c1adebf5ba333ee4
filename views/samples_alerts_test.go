package views_test

import (
	"time"

	"github.com/a-h/templ"

	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// alertPages is alerts and what belongs to them.
func alertPages() map[string]templ.Component {
	good := goodFacts()
	tabs := []ui.Tab{{Label: "Open", URL: ui.AlertsURL(""), Current: true}, {Label: "All", URL: ui.AlertsURL("show=all")}}
	rows := []views.AlertRow{
		{ID: "alt_1", Kind: "Quota used", Rule: hostile, RuleURL: ui.AlertRuleURL("alr_1"), About: hostile, AboutURL: ui.TenantURL("ten_a", ""), Words: hostile, Opened: at("11:00:00"), Seen: at("11:59:58"), Told: "told 1 h ago", CanSilence: true, SilenceRule: "alr_1", Object: hostile},
		{ID: "alt_2", Kind: "Gateway is silent", Rule: "Silent", About: "gw_a", Words: "Nothing was heard.", Opened: at("08:00:00"), Seen: at("08:10:00"), Resolved: at("08:11:00"), Resolution: "It is no longer so.", Told: "silenced"},
	}
	checks := []views.Check{{Value: "chn_1", Label: hostile, On: true}, {Value: "chn_2", Label: "Mail"}}
	ruleForm := views.AlertRuleFormProps{Action: ui.AlertRulesURL(), Button: "Add rule", Kinds: options(), Hint: "Percent.", Channels: checks, Enabled: true, Form: failed()}
	channel := views.AlertChannelRow{ID: "chn_1", Name: hostile, Kind: "webhook", Target: hostile, Problem: hostile, Enabled: true, SecretAt: at("10:00:00"), OldUntil: noon.Add(time.Hour)}
	return map[string]templ.Component{
		"alerts":            views.Alerts(views.AlertsProps{Frame: frame("Alerts", "/alerts", good), Now: noon, Tabs: tabs, Rows: rows, Open: true, HasRules: true, CanSend: true, Pager: pager()}),
		"alerts-empty":      views.Alerts(views.AlertsProps{Frame: frame("Alerts", "/alerts", good), Now: noon, Tabs: tabs, Open: true}),
		"alert-rules":       views.AlertRules(views.AlertRulesProps{Frame: frame("Rules", "/alerts/rules", good), Tabs: tabs, CanManage: true, New: ruleForm, Rows: []views.AlertRuleRow{{ID: "alr_1", Name: hostile, Kind: "Quota used", Says: "80", Channels: hostile, Enabled: true, Unknown: hostile}, {ID: "alr_2", Name: "b"}}}),
		"alert-rule":        views.AlertRulePage(views.AlertRulePageProps{Frame: frame("Rule", "/alerts/rules/alr_1", good), ID: "alr_1", Name: hostile, Form: views.AlertRuleFormProps{Action: ui.AlertRuleURL("alr_1"), Button: "Save", KindText: "Looks at: Quota used.", NoLimit: true, Form: filled(nil)}}),
		"alert-channels":    views.AlertChannels(views.AlertChannelsProps{Frame: frame("Channels", "/alerts/channels", good), Now: noon, Tabs: tabs, CanManage: true, Rows: []views.AlertChannelRow{channel, {ID: "chn_2", Name: "Mail", Kind: "mail", Target: "ann@example.com"}}, New: views.AlertChannelFormProps{Action: ui.AlertChannelsURL(), Button: "Add", IsNew: true, NoMail: true, Form: failed()}}),
		"alert-channel":     views.AlertChannelPage(views.AlertChannelPageProps{Frame: frame("Channel", "/alerts/channels/chn_1", good), Now: noon, Row: channel, Problem: hostile, Form: views.AlertChannelFormProps{Action: ui.AlertChannelURL("chn_1", ""), Button: "Save", Kind: "mail", Form: failed()}}),
		"alert-secret":      views.WebhookSecret(views.WebhookSecretProps{Frame: frame("Secret", "/alerts/channels", good), Name: hostile, Secret: "whsec_AAAA", Until: noon, Next: ui.AlertChannelsURL()}),
		"alert-silences":    views.Silences(views.SilencesProps{Frame: frame("Silences", "/alerts/silences", good), Now: noon, Tabs: tabs, CanSilence: true, Rules: options(), Form: failed(), Rows: []views.SilenceRow{{ID: "sil_1", What: hostile, Reason: hostile, Author: hostile, Created: at("11:00:00"), Ends: noon.Add(time.Hour), Holds: true, CanEnd: true}, {ID: "sil_2", What: "Every rule", Ended: "ended by Ann"}}}),
		"alert-silences-no": views.Silences(views.SilencesProps{Frame: frame("Silences", "/alerts/silences", good), Now: noon, Tabs: tabs}),
		"alert-deliveries": views.Deliveries(views.DeliveriesProps{Frame: frame("Deliveries", "/alerts/deliveries", good), Now: noon, Tabs: tabs, States: tabs, Problem: hostile, Pager: pager(), Rows: []views.DeliveryRow{
			{ID: "dlv_1", Event: "alert.opened", Channel: hostile, Target: hostile, Subject: hostile, State: "dead", Problem: hostile, Attempts: 10, Created: at("11:00:00"), CanRetry: true},
			{ID: "dlv_2", Event: "alert.test", Channel: "a", Target: "b", Subject: "c", State: "waiting", Problem: "The receiver gave no answer.", Attempts: 2, Next: noon.Add(time.Minute), Created: at("11:00:00")}, {ID: "dlv_3", State: "sent", Subject: "x", Created: at("11:00:00")}}}),
		"alert-deliveries-none": views.Deliveries(views.DeliveriesProps{Frame: frame("Deliveries", "/alerts/deliveries", good), Now: noon, Tabs: tabs, States: tabs}),
	}
}
