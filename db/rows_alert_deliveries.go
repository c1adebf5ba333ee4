package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// InsertAlertSilence implements console.AlertSilenceRows.
func (t tx) InsertAlertSilence(ctx context.Context, s console.AlertSilence) error {
	return t.q.InsertAlertSilence(ctx, gen.InsertAlertSilenceParams{
		ID: s.ID, RuleID: s.RuleID, Object: s.Object, Reason: s.Reason, AuthorID: s.AuthorID, Author: s.Author, CreatedAt: s.CreatedAt, EndsAt: s.EndsAt,
	})
}

// EndAlertSilence implements console.AlertSilenceRows.
func (t tx) EndAlertSilence(ctx context.Context, id, by string, now time.Time) (bool, error) {
	n, err := t.q.EndAlertSilence(ctx, gen.EndAlertSilenceParams{ID: id, EndedBy: by, Now: &now})
	return n > 0, err
}

// AlertSilences implements console.AlertSilenceRows.
func (t tx) AlertSilences(ctx context.Context, live bool, now time.Time) ([]console.AlertSilence, error) {
	rows, err := t.q.ListAlertSilences(ctx, gen.ListAlertSilencesParams{Live: live, Now: now})
	return each(rows, func(r gen.AlertSilence) console.AlertSilence {
		return console.AlertSilence{
			ID: r.ID, RuleID: r.RuleID, Object: r.Object, Reason: r.Reason, AuthorID: r.AuthorID, Author: r.Author, CreatedAt: r.CreatedAt, EndsAt: r.EndsAt,
			EndedAt: r.EndedAt, EndedBy: r.EndedBy,
		}
	}), err
}

func alertDeliveryOf(r gen.AlertDelivery) console.AlertDelivery {
	return console.AlertDelivery{
		ID: r.ID, TenantID: orZero(r.TenantID), ChannelID: r.ChannelID, ChannelName: r.ChannelName, Kind: console.ChannelKind(r.Kind), Target: r.Target,
		AlertID: r.AlertID, Event: r.Event, Subject: r.Subject, Body: r.Body, State: console.DeliveryState(r.State), Attempts: int(r.Attempts), NextAt: r.NextAt,
		Status: int(r.Status), Problem: r.Problem, CreatedAt: r.CreatedAt, DoneAt: r.DoneAt,
	}
}

// InsertAlertDelivery implements console.AlertDeliveryRows.
func (t tx) InsertAlertDelivery(ctx context.Context, v console.AlertDelivery) (bool, error) {
	n, err := t.q.InsertAlertDelivery(ctx, gen.InsertAlertDeliveryParams{
		ID: v.ID, TenantID: v.TenantID, ChannelID: v.ChannelID, ChannelName: v.ChannelName, Kind: string(v.Kind), Target: v.Target, AlertID: v.AlertID,
		Event: v.Event, Subject: v.Subject, Body: v.Body, Now: v.CreatedAt,
	})
	return n > 0, err
}

// ClaimAlertDeliveries implements console.AlertDeliveryRows.
func (t tx) ClaimAlertDeliveries(ctx context.Context, now, until time.Time, limit int) ([]console.AlertDelivery, error) {
	rows, err := t.q.ClaimAlertDeliveries(ctx, gen.ClaimAlertDeliveriesParams{Now: now, Until: &until, MaxRows: int32(limit)})
	return each(rows, alertDeliveryOf), err
}

// FinishAlertDelivery implements console.AlertDeliveryRows.
func (t tx) FinishAlertDelivery(ctx context.Context, v console.AlertDelivery, now time.Time) (bool, error) {
	n, err := t.q.FinishAlertDelivery(ctx, gen.FinishAlertDeliveryParams{
		ID: v.ID, State: string(v.State), Status: int32(v.Status), Problem: v.Problem, Attempts: int32(v.Attempts), Now: &now,
	})
	return n > 0, err
}

// PostponeAlertDelivery implements console.AlertDeliveryRows.
func (t tx) PostponeAlertDelivery(ctx context.Context, v console.AlertDelivery) error {
	_, err := t.q.PostponeAlertDelivery(ctx, gen.PostponeAlertDeliveryParams{
		ID: v.ID, Status: int32(v.Status), Problem: v.Problem, NextAt: v.NextAt, Attempts: int32(v.Attempts),
	})
	return err
}

// ReviveAlertDelivery implements console.AlertDeliveryLists.
func (t tx) ReviveAlertDelivery(ctx context.Context, tenantID, id string, now time.Time) (bool, error) {
	n, err := t.q.ReviveAlertDelivery(ctx, gen.ReviveAlertDeliveryParams{TenantID: tenantID, ID: id, Now: now})
	return n > 0, err
}

// AlertDeliveries implements console.AlertDeliveryLists.
func (t tx) AlertDeliveries(ctx context.Context, q console.DeliveryQuery, after console.Cursor, limit int) ([]console.AlertDelivery, error) {
	rows, err := t.q.ListAlertDeliveries(ctx, gen.ListAlertDeliveriesParams{
		TenantID: q.TenantID, State: string(q.State), ChannelID: q.ChannelID, AfterID: after.ID, AfterAt: after.At, MaxRows: int32(limit),
	})
	return each(rows, alertDeliveryOf), err
}

// CountWaitingDeliveries implements console.AlertDeliveryLists.
func (t tx) CountWaitingDeliveries(ctx context.Context, channelID string) (int64, error) {
	return t.q.CountAlertDeliveries(ctx, channelID)
}

// DeleteOldAlertDeliveries implements console.AlertDeliveryLists.
func (t tx) DeleteOldAlertDeliveries(ctx context.Context, before time.Time, limit int) (int64, error) {
	return t.q.DeleteOldAlertDeliveries(ctx, gen.DeleteOldAlertDeliveriesParams{Before: before, MaxRows: int32(limit)})
}

// AlertChannels implements console.PortalAlerts.
func (t portalTx) AlertChannels(ctx context.Context) ([]console.AlertChannel, error) {
	rows, err := t.q.PortalAlertChannels(ctx, t.tenant)
	return each(rows, func(r gen.PortalAlertChannelsRow) console.AlertChannel {
		return console.AlertChannel{
			ID: r.ID, TenantID: orZero(r.TenantID), Name: r.Name, Kind: console.ChannelKind(r.Kind), Target: r.Target, SecretAt: r.SecretAt, OldUntil: r.OldUntil,
			Enabled: r.Enabled, Problem: r.Problem, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		}
	}), err
}

// Alerts implements console.PortalAlerts.
func (t portalTx) Alerts(ctx context.Context) ([]console.Alert, error) {
	rows, err := t.q.PortalAlerts(ctx, t.tenant)
	return each(rows, alertOf), err
}

// AlertDeliveries implements console.PortalAlerts.
func (t portalTx) AlertDeliveries(ctx context.Context) ([]console.AlertDelivery, error) {
	rows, err := t.q.PortalAlertDeliveries(ctx, t.tenant)
	return each(rows, func(r gen.PortalAlertDeliveriesRow) console.AlertDelivery {
		return console.AlertDelivery{
			ID: r.ID, TenantID: orZero(r.TenantID), ChannelID: r.ChannelID, ChannelName: r.ChannelName, Kind: console.ChannelKind(r.Kind), Target: r.Target,
			AlertID: r.AlertID, Event: r.Event, Subject: r.Subject, State: console.DeliveryState(r.State), Attempts: int(r.Attempts), NextAt: r.NextAt,
			Status: int(r.Status), Problem: r.Problem, CreatedAt: r.CreatedAt, DoneAt: r.DoneAt,
		}
	}), err
}
