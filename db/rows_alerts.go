package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

func alertRuleOf(r gen.AlertRule) console.AlertRule {
	return console.AlertRule{
		ID: r.ID, Name: r.Name, Kind: console.AlertKind(r.Kind), Threshold: r.Threshold, For: time.Duration(r.ForSeconds) * time.Second,
		Channels: r.Channels, Enabled: r.Enabled, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// named is a list that PostgreSQL takes for one: an empty one, too.
func named(in []string) []string {
	if in == nil {
		return []string{}
	}
	return in
}

// InsertAlertRule implements console.AlertRuleRows.
func (t tx) InsertAlertRule(ctx context.Context, r console.AlertRule) error {
	return t.q.InsertAlertRule(ctx, gen.InsertAlertRuleParams{
		ID: r.ID, Name: r.Name, Kind: string(r.Kind), Threshold: r.Threshold, ForSeconds: int32(r.For / time.Second), Channels: named(r.Channels),
		Enabled: r.Enabled, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	})
}

// UpdateAlertRule implements console.AlertRuleRows.
func (t tx) UpdateAlertRule(ctx context.Context, r console.AlertRule) error {
	return t.q.UpdateAlertRule(ctx, gen.UpdateAlertRuleParams{
		ID: r.ID, Name: r.Name, Threshold: r.Threshold, ForSeconds: int32(r.For / time.Second), Channels: named(r.Channels), Enabled: r.Enabled, UpdatedAt: r.UpdatedAt,
	})
}

// DeleteAlertRule implements console.AlertRuleRows.
func (t tx) DeleteAlertRule(ctx context.Context, id string) error {
	return t.q.DeleteAlertRule(ctx, id)
}

// LockAlertRule implements console.AlertRuleRows.
func (t tx) LockAlertRule(ctx context.Context, id string) (console.AlertRule, error) {
	r, err := t.q.LockAlertRule(ctx, id)
	return alertRuleOf(r), absent(err, "rule")
}

// AlertRules implements console.AlertRuleRows.
func (t tx) AlertRules(ctx context.Context) ([]console.AlertRule, error) {
	rows, err := t.q.ListAlertRules(ctx)
	return each(rows, alertRuleOf), err
}

// AllThresholds implements console.AlertRuleRows.
func (t tx) AllThresholds(ctx context.Context) ([]console.TenantThreshold, error) {
	rows, err := t.q.ListAllThresholds(ctx)
	return each(rows, func(r gen.ListAllThresholdsRow) console.TenantThreshold {
		return console.TenantThreshold{Tenant: r.TenantName, Threshold: console.Threshold{
			ID: r.ID, TenantID: r.TenantID, Kind: console.ThresholdKind(r.Kind), Value: r.Value, MemberID: r.MemberID, CreatedAt: r.CreatedAt,
		}}
	}), err
}

func alertChannelOf(r gen.AlertChannel) console.AlertChannel {
	return console.AlertChannel{
		ID: r.ID, TenantID: orZero(r.TenantID), Name: r.Name, Kind: console.ChannelKind(r.Kind), Target: r.Target, Secret: r.Secret, SecretAt: r.SecretAt,
		OldSecret: r.OldSecret, OldUntil: r.OldUntil, Enabled: r.Enabled, Problem: r.Problem, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// InsertAlertChannel implements console.AlertChannelRows.
func (t tx) InsertAlertChannel(ctx context.Context, c console.AlertChannel) error {
	return t.q.InsertAlertChannel(ctx, gen.InsertAlertChannelParams{
		ID: c.ID, TenantID: c.TenantID, Name: c.Name, Kind: string(c.Kind), Target: c.Target, Secret: c.Secret, SecretAt: c.SecretAt,
		Enabled: c.Enabled, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
	})
}

// UpdateAlertChannel implements console.AlertChannelRows.
func (t tx) UpdateAlertChannel(ctx context.Context, c console.AlertChannel) error {
	return t.q.UpdateAlertChannel(ctx, gen.UpdateAlertChannelParams{
		ID: c.ID, Name: c.Name, Target: c.Target, Secret: c.Secret, SecretAt: c.SecretAt, OldSecret: c.OldSecret, OldUntil: c.OldUntil,
		Enabled: c.Enabled, Problem: c.Problem, UpdatedAt: c.UpdatedAt,
	})
}

// DeleteAlertChannel implements console.AlertChannelRows.
func (t tx) DeleteAlertChannel(ctx context.Context, id string) error {
	return t.q.DeleteAlertChannel(ctx, id)
}

// AlertChannel implements console.AlertChannelRows.
func (t tx) AlertChannel(ctx context.Context, id string) (console.AlertChannel, error) {
	r, err := t.q.GetAlertChannel(ctx, id)
	return alertChannelOf(r), absent(err, "channel")
}

// LockAlertChannel implements console.AlertChannelRows.
func (t tx) LockAlertChannel(ctx context.Context, tenantID, id string) (console.AlertChannel, error) {
	r, err := t.q.LockAlertChannel(ctx, gen.LockAlertChannelParams{TenantID: tenantID, ID: id})
	return alertChannelOf(r), absent(err, "channel")
}

// AlertChannels implements console.AlertChannelRows.
func (t tx) AlertChannels(ctx context.Context, tenantID string) ([]console.AlertChannel, error) {
	rows, err := t.q.ListAlertChannels(ctx, tenantID)
	return each(rows, alertChannelOf), err
}

func alertOf(r gen.Alert) console.Alert {
	return console.Alert{
		ID: r.ID, TenantID: orZero(r.TenantID), RuleID: r.RuleID, RuleName: r.RuleName, Kind: console.AlertKind(r.Kind), Object: r.Object, ObjectName: r.ObjectName,
		Value: r.Value, Threshold: r.Threshold, Words: r.Words, OpenedAt: r.OpenedAt, SeenAt: r.SeenAt, ToldAt: r.ToldAt, ResolvedAt: r.ResolvedAt, Resolution: r.Resolution,
	}
}

// OpenAlert implements console.AlertStateRows.
func (t tx) OpenAlert(ctx context.Context, a console.Alert) (bool, error) {
	n, err := t.q.OpenAlert(ctx, gen.OpenAlertParams{
		ID: a.ID, TenantID: a.TenantID, RuleID: a.RuleID, RuleName: a.RuleName, Kind: string(a.Kind), Object: a.Object, ObjectName: a.ObjectName,
		Value: a.Value, Threshold: a.Threshold, Words: a.Words, Now: a.OpenedAt,
	})
	return n > 0, err
}

// SeeAlert implements console.AlertStateRows.
func (t tx) SeeAlert(ctx context.Context, a console.Alert, now time.Time) error {
	return t.q.SeeAlert(ctx, gen.SeeAlertParams{ID: a.ID, Value: a.Value, Threshold: a.Threshold, Words: a.Words, Now: now})
}

// TellAlert implements console.AlertStateRows.
func (t tx) TellAlert(ctx context.Context, id string, now time.Time) (bool, error) {
	n, err := t.q.TellAlert(ctx, gen.TellAlertParams{ID: id, Now: &now})
	return n > 0, err
}

// ResolveAlert implements console.AlertStateRows.
func (t tx) ResolveAlert(ctx context.Context, id, resolution string, now time.Time) (bool, error) {
	n, err := t.q.ResolveAlert(ctx, gen.ResolveAlertParams{ID: id, Resolution: resolution, Now: &now})
	return n > 0, err
}

// Alert implements console.AlertLists.
func (t tx) Alert(ctx context.Context, id string) (console.Alert, error) {
	r, err := t.q.GetAlert(ctx, id)
	return alertOf(r), absent(err, "alert")
}

// OpenAlerts implements console.AlertLists.
func (t tx) OpenAlerts(ctx context.Context, limit int) ([]console.Alert, error) {
	rows, err := t.q.ListOpenAlerts(ctx, int32(limit))
	return each(rows, alertOf), err
}

// Alerts implements console.AlertLists.
func (t tx) Alerts(ctx context.Context, q console.AlertQuery, after console.Cursor, limit int) ([]console.Alert, error) {
	rows, err := t.q.ListAlerts(ctx, gen.ListAlertsParams{
		TenantID: q.TenantID, OpenOnly: q.OpenOnly, Kind: string(q.Kind), Object: q.Object, AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
	})
	return each(rows, alertOf), err
}

// CountOpenAlerts implements console.AlertLists.
func (t tx) CountOpenAlerts(ctx context.Context) (int64, error) { return t.q.CountOpenAlerts(ctx) }

// DeleteOldAlerts implements console.AlertLists.
func (t tx) DeleteOldAlerts(ctx context.Context, before time.Time, limit int) (int64, error) {
	return t.q.DeleteOldAlerts(ctx, gen.DeleteOldAlertsParams{Before: before, MaxRows: int32(limit)})
}
