package console

import (
	"context"
	"time"
)

// Notifier sends messages. The errors' texts are for users; notify.Sender is one.
type Notifier interface {
	// Mail returns the mail server's code, 0 when there was none.
	Mail(ctx context.Context, to, subject, text, id string) (status int, err error)
	// Webhook signs with each secret and returns the receiver's status, 0 when there
	// was no answer, and how long it asks to be left alone.
	Webhook(ctx context.Context, url string, secrets []string, id string, at time.Time, body []byte) (status int, wait time.Duration, err error)
	// CheckURL says what is wrong with an address; "" when it may be tried.
	CheckURL(url string) string
	CanMail() bool
}

// AlertQuotas tells how quotas stand; *Quotas does. An error says that nobody knows
// now: alerts stay as they are then.
type AlertQuotas interface {
	MostUsed(ctx context.Context, limit int) ([]QuotaStanding, error)
	Standings(ctx context.Context, tenantIDs []string) (map[string]QuotaStanding, error)
	Forecast(ctx context.Context, actor Actor, tenantID string) (QuotaForecast, error)
}

// AlertLedger tells how complete the ledger is; *Ledger does.
type AlertLedger interface {
	Standing(ctx context.Context) (LedgerStanding, error)
}

// AlertRows keeps alerts and what belongs to them.
type AlertRows interface {
	AlertRuleRows
	AlertChannelRows
	AlertStateRows
	AlertSilenceRows
	AlertDeliveryRows
}

// AlertRuleRows keeps operators' rules.
type AlertRuleRows interface {
	InsertAlertRule(ctx context.Context, r AlertRule) error
	UpdateAlertRule(ctx context.Context, r AlertRule) error
	DeleteAlertRule(ctx context.Context, id string) error
	LockAlertRule(ctx context.Context, id string) (AlertRule, error)
	AlertRules(ctx context.Context) ([]AlertRule, error)
	// AllThresholds lists the marks of all tenants that are active.
	AllThresholds(ctx context.Context) ([]TenantThreshold, error)
}

// TenantThreshold is a tenant's own mark with the tenant's name.
type TenantThreshold struct {
	Threshold
	Tenant string
}

// AlertChannelRows keeps channels. TenantID "" is the operators'.
type AlertChannelRows interface {
	InsertAlertChannel(ctx context.Context, c AlertChannel) error
	UpdateAlertChannel(ctx context.Context, c AlertChannel) error
	DeleteAlertChannel(ctx context.Context, id string) error
	AlertChannel(ctx context.Context, id string) (AlertChannel, error)
	LockAlertChannel(ctx context.Context, tenantID, id string) (AlertChannel, error)
	AlertChannels(ctx context.Context, tenantID string) ([]AlertChannel, error)
}

// AlertStateRows keeps alerts.
type AlertStateRows interface {
	// OpenAlert reports false when the rule has an open one of this object.
	OpenAlert(ctx context.Context, a Alert) (bool, error)
	SeeAlert(ctx context.Context, a Alert, now time.Time) error
	// TellAlert reports false when it was told before, or is over.
	TellAlert(ctx context.Context, id string, now time.Time) (bool, error)
	// ResolveAlert reports false when it is over already.
	ResolveAlert(ctx context.Context, id, resolution string, now time.Time) (bool, error)
	AlertLists
}

// AlertLists reads alerts.
type AlertLists interface {
	Alert(ctx context.Context, id string) (Alert, error)
	// OpenAlerts lists all that are open, operators' and tenants'.
	OpenAlerts(ctx context.Context, limit int) ([]Alert, error)
	// Alerts lists the newest first.
	Alerts(ctx context.Context, q AlertQuery, after Cursor, limit int) ([]Alert, error)
	CountOpenAlerts(ctx context.Context) (int64, error)
	// DeleteOldAlerts removes at most limit that were resolved before, and tells how many.
	DeleteOldAlerts(ctx context.Context, before time.Time, limit int) (int64, error)
}

// AlertSilenceRows keeps silences.
type AlertSilenceRows interface {
	InsertAlertSilence(ctx context.Context, s AlertSilence) error
	// EndAlertSilence reports false when it is over already.
	EndAlertSilence(ctx context.Context, id, by string, now time.Time) (bool, error)
	// AlertSilences lists those that hold, or the last hundred.
	AlertSilences(ctx context.Context, live bool, now time.Time) ([]AlertSilence, error)
}

// AlertDeliveryRows keeps messages on their way.
type AlertDeliveryRows interface {
	// InsertAlertDelivery reports false when the channel was told of this event before.
	InsertAlertDelivery(ctx context.Context, v AlertDelivery) (bool, error)
	// ClaimAlertDeliveries takes what is due until a moment, and counts an attempt.
	ClaimAlertDeliveries(ctx context.Context, now, until time.Time, limit int) ([]AlertDelivery, error)
	// FinishAlertDelivery ends one; false when another attempt has followed.
	FinishAlertDelivery(ctx context.Context, v AlertDelivery, now time.Time) (bool, error)
	// PostponeAlertDelivery has one tried again at its NextAt.
	PostponeAlertDelivery(ctx context.Context, v AlertDelivery) error
	AlertDeliveryLists
}

// AlertDeliveryLists reads messages.
type AlertDeliveryLists interface {
	// ReviveAlertDelivery has a dead one tried anew; false when it is not dead.
	ReviveAlertDelivery(ctx context.Context, tenantID, id string, now time.Time) (bool, error)
	AlertDeliveries(ctx context.Context, q DeliveryQuery, after Cursor, limit int) ([]AlertDelivery, error)
	// CountWaitingDeliveries counts what waits for a channel.
	CountWaitingDeliveries(ctx context.Context, channelID string) (int64, error)
	// DeleteOldAlertDeliveries removes at most limit that ended before, and tells how many.
	DeleteOldAlertDeliveries(ctx context.Context, before time.Time, limit int) (int64, error)
}

// PortalAlerts is what a tenant's own pages read of its alerts. Secrets are not
// granted to them at all.
type PortalAlerts interface {
	AlertChannels(ctx context.Context) ([]AlertChannel, error)
	// Alerts lists the last fifty, the newest first.
	Alerts(ctx context.Context) ([]Alert, error)
	// AlertDeliveries lists the last fifty, the newest first, without their bodies.
	AlertDeliveries(ctx context.Context) ([]AlertDelivery, error)
}

// AlertQuery filters alerts; "" matches everything.
type AlertQuery struct {
	TenantID string // whose; "" is the operators'
	OpenOnly bool
	Kind     AlertKind
	Object   string
	Page     Page
}

// DeliveryQuery filters messages; "" matches everything.
type DeliveryQuery struct {
	TenantID  string // whose; "" is the operators'
	State     DeliveryState
	ChannelID string
	Page      Page
}
