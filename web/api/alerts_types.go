package api

import (
	"time"

	"github.com/headgate/headgate/console"
)

// Alert is what is, or was, so.
type Alert struct {
	ID         string     `json:"id" example:"alt_abcdefghij234567"`
	RuleID     string     `json:"rule_id"`
	RuleName   string     `json:"rule_name"`
	Kind       string     `json:"kind"`
	Object     string     `json:"object" doc:"Id of what it is about"`
	ObjectName string     `json:"object_name"`
	Value      int64      `json:"value" doc:"As last seen, in the unit of its kind"`
	Threshold  int64      `json:"threshold"`
	Text       string     `json:"text"`
	OpenedAt   time.Time  `json:"opened_at"`
	SeenAt     time.Time  `json:"seen_at" doc:"When it was last found to be so"`
	ToldAt     *time.Time `json:"told_at,omitempty" doc:"Absent: nobody was told"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty" doc:"Absent: it is open"`
	Resolution string     `json:"resolution,omitempty"`
}

func alertOf(a console.Alert) Alert {
	return Alert{ID: a.ID, RuleID: a.RuleID, RuleName: a.RuleName, Kind: string(a.Kind), Object: a.Object, ObjectName: a.ObjectName, Value: a.Value, Threshold: a.Threshold,
		Text: a.Words, OpenedAt: a.OpenedAt, SeenAt: a.SeenAt, ToldAt: a.ToldAt, ResolvedAt: a.ResolvedAt, Resolution: a.Resolution}
}

// AlertRule says what is looked for.
type AlertRule struct {
	ID         string    `json:"id" example:"alr_abcdefghij234567"`
	Name       string    `json:"name"`
	Kind       string    `json:"kind"`
	Threshold  int64     `json:"threshold"`
	ForSeconds int64     `json:"for_seconds"`
	Channels   []string  `json:"channels" nullable:"false"`
	Enabled    bool      `json:"enabled"`
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

func alertRuleOf(r console.AlertRule) AlertRule {
	return AlertRule{ID: r.ID, Name: r.Name, Kind: string(r.Kind), Threshold: r.Threshold, ForSeconds: int64(r.For / time.Second), Channels: orEmpty(r.Channels), Enabled: r.Enabled,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt}
}

// AlertChannel is where alerts go. It never holds a secret.
type AlertChannel struct {
	ID        string     `json:"id" example:"chn_abcdefghij234567"`
	Name      string     `json:"name"`
	Kind      string     `json:"kind" enum:"mail,webhook"`
	Target    string     `json:"target"`
	Enabled   bool       `json:"enabled"`
	Problem   string     `json:"problem,omitempty" doc:"Why it was switched off by itself"`
	SecretAt  *time.Time `json:"secret_at,omitempty" doc:"When its secret was made"`
	OldUntil  *time.Time `json:"old_until,omitempty" doc:"Until when the secret before it signs, too"`
	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
}

func alertChannelOf(c console.AlertChannel) AlertChannel {
	return AlertChannel{ID: c.ID, Name: c.Name, Kind: string(c.Kind), Target: c.Target, Enabled: c.Enabled, Problem: c.Problem, SecretAt: c.SecretAt, OldUntil: c.OldUntil,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt}
}

// AlertSilence keeps messages back.
type AlertSilence struct {
	ID        string     `json:"id" example:"sil_abcdefghij234567"`
	RuleID    string     `json:"rule_id,omitempty" doc:"Absent: every rule"`
	Object    string     `json:"object,omitempty" doc:"Absent: every object"`
	Reason    string     `json:"reason"`
	Author    string     `json:"author"`
	CreatedAt time.Time  `json:"created_at"`
	EndsAt    time.Time  `json:"ends_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	EndedBy   string     `json:"ended_by,omitempty"`
}

func alertSilenceOf(s console.AlertSilence) AlertSilence {
	return AlertSilence{ID: s.ID, RuleID: s.RuleID, Object: s.Object, Reason: s.Reason, Author: s.Author, CreatedAt: s.CreatedAt, EndsAt: s.EndsAt, EndedAt: s.EndedAt, EndedBy: s.EndedBy}
}

// AlertDelivery is one message to one channel.
type AlertDelivery struct {
	ID        string     `json:"id" example:"dlv_abcdefghij234567" doc:"Webhook-Id, and the left part of a mail's Message-ID; the same at each repeat"`
	ChannelID string     `json:"channel_id"`
	Channel   string     `json:"channel"`
	Kind      string     `json:"kind" enum:"mail,webhook"`
	Target    string     `json:"target"`
	AlertID   string     `json:"alert_id,omitempty" doc:"Absent for a test"`
	Event     string     `json:"event" enum:"alert.opened,alert.resolved,alert.test"`
	Subject   string     `json:"subject"`
	State     string     `json:"state" enum:"waiting,sent,dead"`
	Attempts  int        `json:"attempts"`
	NextAt    *time.Time `json:"next_at,omitempty" doc:"Of one that waits"`
	Status    int        `json:"status,omitempty" doc:"Of the last answer; absent when there was none"`
	Problem   string     `json:"problem,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	DoneAt    *time.Time `json:"done_at,omitempty"`
}

func alertDeliveryOf(v console.AlertDelivery) AlertDelivery {
	out := AlertDelivery{ID: v.ID, ChannelID: v.ChannelID, Channel: v.ChannelName, Kind: string(v.Kind), Target: v.Target, AlertID: v.AlertID, Event: v.Event, Subject: v.Subject,
		State: string(v.State), Attempts: v.Attempts, Status: v.Status, Problem: v.Problem, CreatedAt: v.CreatedAt, DoneAt: v.DoneAt}
	if v.State == console.DeliveryWaiting {
		out.NextAt = &v.NextAt
	}
	return out
}
