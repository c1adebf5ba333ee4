package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
)

type (
	alertListIn struct {
		Paging
		Open   bool   `query:"open" doc:"Those alone that are open"`
		Kind   string `query:"kind" maxLength:"40"`
		Object string `query:"object" maxLength:"120"`
	}
	alertRuleBody struct {
		Name       string   `json:"name" minLength:"1" maxLength:"120"`
		Kind       string   `json:"kind,omitempty" maxLength:"40" doc:"What to look at; of a new rule"`
		Threshold  int64    `json:"threshold,omitempty" doc:"In the unit of the kind"`
		ForSeconds int64    `json:"for_seconds,omitempty" minimum:"0" maximum:"86400" doc:"How long it has to be so"`
		Channels   []string `json:"channels" nullable:"false" maxItems:"50"`
		Enabled    bool     `json:"enabled"`
	}
	alertRuleIn struct{ Body alertRuleBody }
	// AlertRulePath names a rule. Exported, as the framework reads only exported parts.
	AlertRulePath struct {
		Rule string `path:"rule" maxLength:"64"`
	}
	alertRuleChangeIn struct {
		AlertRulePath
		Body alertRuleBody
	}
	alertChannelBody struct {
		Name    string `json:"name" minLength:"1" maxLength:"120"`
		Kind    string `json:"kind,omitempty" enum:"mail,webhook" doc:"Of a new channel"`
		Target  string `json:"target" minLength:"1" maxLength:"500" doc:"An e-mail address or an https address"`
		Enabled bool   `json:"enabled"`
	}
	alertChannelIn struct {
		Repeatable
		Body alertChannelBody
	}
	// AlertChannelPath names a channel. Exported, as the framework reads only exported parts.
	AlertChannelPath struct {
		Channel string `path:"channel" maxLength:"64"`
	}
	alertChannelChangeIn struct {
		AlertChannelPath
		Body alertChannelBody
	}
	newAlertChannel struct {
		Channel AlertChannel `json:"channel"`
		Secret  string       `json:"secret,omitempty" doc:"What messages are signed with, as Standard Webhooks says. It is in this answer and nowhere else"`
	}
	silenceListIn struct {
		Live bool `query:"live" doc:"Those alone that hold"`
	}
	silenceIn struct {
		Body struct {
			RuleID     string `json:"rule_id,omitempty" maxLength:"64" doc:"Left out: every rule"`
			Object     string `json:"object,omitempty" maxLength:"120" doc:"Left out: every object"`
			ForSeconds int64  `json:"for_seconds" minimum:"60" maximum:"2592000"`
			Reason     string `json:"reason" minLength:"1" maxLength:"500"`
		}
	}
	// SilencePath names a silence. Exported, as the framework reads only exported parts.
	SilencePath struct {
		Silence string `path:"silence" maxLength:"64"`
	}
	deliveryListIn struct {
		Paging
		State   string `query:"state" enum:"waiting,sent,dead"`
		Channel string `query:"channel" maxLength:"64"`
	}
	// DeliveryPath names a message. Exported, as the framework reads only exported parts.
	DeliveryPath struct {
		Delivery string `path:"delivery" maxLength:"64"`
	}
)

func (a *API) registerAlerts() {
	manage := console.PermManageAlerts
	register(a, op{id: "list-alerts", method: "GET", path: "/alerts", summary: "List alerts, the newest first", perm: console.PermView}, a.listAlerts)
	register(a, op{id: "list-alert-rules", method: "GET", path: "/alert-rules", summary: "List what is looked for", perm: console.PermView}, a.listAlertRules)
	register(a, op{id: "create-alert-rule", method: "POST", path: "/alert-rules", summary: "Have something looked for", perm: manage, status: 201, errors: []int{409}}, a.addAlertRule)
	register(a, op{id: "change-alert-rule", method: "PUT", path: "/alert-rules/{rule}", summary: "Change a rule", perm: manage, errors: []int{404}}, a.changeAlertRule)
	register(a, op{id: "delete-alert-rule", method: "DELETE", path: "/alert-rules/{rule}", summary: "Remove a rule; its alerts are over", perm: manage, status: 204, errors: []int{404}}, a.removeAlertRule)
	register(a, op{id: "list-alert-channels", method: "GET", path: "/alert-channels", summary: "List where alerts go", perm: console.PermView}, a.listAlertChannels)
	register(a, op{id: "create-alert-channel", method: "POST", path: "/alert-channels", summary: "Add a mail address or a webhook", perm: manage, status: 201, errors: []int{409}}, a.addAlertChannel)
	register(a, op{id: "change-alert-channel", method: "PUT", path: "/alert-channels/{channel}", summary: "Change a channel", perm: manage, errors: []int{404}}, a.changeAlertChannel)
	register(a, op{id: "delete-alert-channel", method: "DELETE", path: "/alert-channels/{channel}", summary: "Remove a channel", perm: manage, status: 204, errors: []int{404}}, a.removeAlertChannel)
	register(a, op{id: "rotate-alert-channel", method: "POST", path: "/alert-channels/{channel}/rotate", summary: "Make a new secret of a webhook; both sign for 24 hours", perm: manage, errors: []int{404, 409}}, a.rotateAlertChannel)
	register(a, op{id: "test-alert-channel", method: "POST", path: "/alert-channels/{channel}/test", summary: "Send a test message", perm: manage, errors: []int{404, 409}}, a.testAlertChannel)
	register(a, op{id: "list-alert-silences", method: "GET", path: "/alert-silences", summary: "List what keeps messages back", perm: console.PermView}, a.listSilences)
	register(a, op{id: "create-alert-silence", method: "POST", path: "/alert-silences", summary: "Keep messages back for a while", perm: console.PermSilenceAlerts, status: 201, errors: []int{404}}, a.addSilence)
	register(a, op{id: "end-alert-silence", method: "POST", path: "/alert-silences/{silence}/end", summary: "End a silence", perm: console.PermSilenceAlerts, status: 204, errors: []int{404}}, a.endSilence)
	register(a, op{id: "list-alert-deliveries", method: "GET", path: "/alert-deliveries", summary: "List messages and what became of them", perm: console.PermView}, a.listDeliveries)
	register(a, op{id: "retry-alert-delivery", method: "POST", path: "/alert-deliveries/{delivery}/retry", summary: "Try a message anew that was given up, under the same id", perm: manage, status: 204, errors: []int{404}}, a.retryDelivery)
}

func (a *API) listAlerts(ctx context.Context, in *alertListIn) (*Body[List[Alert]], error) {
	items, next, err := a.Alerts.List(ctx, console.AlertQuery{OpenOnly: in.Open, Kind: console.AlertKind(in.Kind), Object: in.Object, Page: in.page()})
	if err != nil {
		return nil, err
	}
	return &Body[List[Alert]]{listOf(items, next, alertOf)}, nil
}

func (a *API) listAlertRules(ctx context.Context, _ *struct{}) (*Body[List[AlertRule]], error) {
	items, err := a.Alerts.Rules(ctx)
	if err != nil {
		return nil, err
	}
	return &Body[List[AlertRule]]{listOf(items, "", alertRuleOf)}, nil
}

func (b alertRuleBody) input() console.AlertRuleInput {
	return console.AlertRuleInput{Name: b.Name, Kind: console.AlertKind(b.Kind), Threshold: b.Threshold, For: time.Duration(b.ForSeconds) * time.Second, Channels: b.Channels, Enabled: b.Enabled}
}

func (a *API) addAlertRule(ctx context.Context, in *alertRuleIn) (*Body[AlertRule], error) {
	r, err := a.Alerts.AddRule(ctx, actorOf(ctx), in.Body.input())
	if err != nil {
		return nil, err
	}
	return &Body[AlertRule]{alertRuleOf(r)}, nil
}

func (a *API) changeAlertRule(ctx context.Context, in *alertRuleChangeIn) (*Body[AlertRule], error) {
	r, err := a.Alerts.ChangeRule(ctx, actorOf(ctx), in.Rule, in.Body.input())
	if err != nil {
		return nil, err
	}
	return &Body[AlertRule]{alertRuleOf(r)}, nil
}

func (a *API) removeAlertRule(ctx context.Context, in *AlertRulePath) (*struct{}, error) {
	return nil, a.Alerts.RemoveRule(ctx, actorOf(ctx), in.Rule)
}

func (a *API) listAlertChannels(ctx context.Context, _ *struct{}) (*Body[List[AlertChannel]], error) {
	items, err := a.Alerts.Channels(ctx)
	if err != nil {
		return nil, err
	}
	return &Body[List[AlertChannel]]{listOf(items, "", alertChannelOf)}, nil
}

func (b alertChannelBody) input() console.AlertChannelInput {
	return console.AlertChannelInput{Name: b.Name, Kind: console.ChannelKind(b.Kind), Target: b.Target, Enabled: b.Enabled}
}

// publicChannel is what a repeat of a creation is answered with: no secret.
func publicChannel(b *Body[newAlertChannel]) any {
	return map[string]string{"channel": b.Body.Channel.ID}
}

func (a *API) addAlertChannel(ctx context.Context, in *alertChannelIn) (*Body[newAlertChannel], error) {
	return once(ctx, a, "alert-channels.create", in.Repeatable, in.Body, true, publicChannel, func() (*Body[newAlertChannel], error) {
		made, err := a.Alerts.AddChannel(ctx, actorOf(ctx), in.Body.input())
		if err != nil {
			return nil, err
		}
		return &Body[newAlertChannel]{newAlertChannel{alertChannelOf(made.Channel), made.Secret}}, nil
	})
}

func (a *API) changeAlertChannel(ctx context.Context, in *alertChannelChangeIn) (*Body[AlertChannel], error) {
	c, err := a.Alerts.ChangeChannel(ctx, actorOf(ctx), in.Channel, in.Body.input())
	if err != nil {
		return nil, err
	}
	return &Body[AlertChannel]{alertChannelOf(c)}, nil
}

func (a *API) removeAlertChannel(ctx context.Context, in *AlertChannelPath) (*struct{}, error) {
	return nil, a.Alerts.RemoveChannel(ctx, actorOf(ctx), in.Channel)
}

func (a *API) rotateAlertChannel(ctx context.Context, in *AlertChannelPath) (*Body[newAlertChannel], error) {
	made, err := a.Alerts.RotateSecret(ctx, actorOf(ctx), in.Channel)
	if err != nil {
		return nil, err
	}
	return &Body[newAlertChannel]{newAlertChannel{alertChannelOf(made.Channel), made.Secret}}, nil
}

func (a *API) testAlertChannel(ctx context.Context, in *AlertChannelPath) (*Body[AlertDelivery], error) {
	v, err := a.Alerts.Test(ctx, actorOf(ctx), in.Channel)
	if err != nil {
		return nil, err
	}
	return &Body[AlertDelivery]{alertDeliveryOf(v)}, nil
}

func (a *API) listSilences(ctx context.Context, in *silenceListIn) (*Body[List[AlertSilence]], error) {
	items, err := a.Alerts.Silences(ctx, in.Live)
	if err != nil {
		return nil, err
	}
	return &Body[List[AlertSilence]]{listOf(items, "", alertSilenceOf)}, nil
}

func (a *API) addSilence(ctx context.Context, in *silenceIn) (*Body[AlertSilence], error) {
	v, err := a.Alerts.Silence(ctx, actorOf(ctx), console.NewSilence{RuleID: in.Body.RuleID, Object: in.Body.Object, For: time.Duration(in.Body.ForSeconds) * time.Second, Reason: in.Body.Reason})
	if err != nil {
		return nil, err
	}
	return &Body[AlertSilence]{alertSilenceOf(v)}, nil
}

func (a *API) endSilence(ctx context.Context, in *SilencePath) (*struct{}, error) {
	return nil, a.Alerts.EndSilence(ctx, actorOf(ctx), in.Silence)
}

func (a *API) listDeliveries(ctx context.Context, in *deliveryListIn) (*Body[List[AlertDelivery]], error) {
	items, next, err := a.Alerts.Deliveries(ctx, console.DeliveryQuery{State: console.DeliveryState(in.State), ChannelID: in.Channel, Page: in.page()})
	if err != nil {
		return nil, err
	}
	return &Body[List[AlertDelivery]]{listOf(items, next, alertDeliveryOf)}, nil
}

func (a *API) retryDelivery(ctx context.Context, in *DeliveryPath) (*struct{}, error) {
	return nil, a.Alerts.Redeliver(ctx, actorOf(ctx), in.Delivery)
}
