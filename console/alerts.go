package console

import (
	"encoding/json"
	"time"
)

// AlertRule says what operators want to be told of.
type AlertRule struct {
	ID        string // alr_…
	Name      string
	Kind      AlertKind
	Threshold int64         // in the kind's unit; 0 where it has none
	For       time.Duration // how long it has to be so before it is told
	Channels  []string      // ids; nobody is told without one
	Enabled   bool
	CreatedAt time.Time
	UpdatedAt time.Time
}

// ChannelKind is a way to tell somebody.
type ChannelKind string

// Kinds of channels.
const (
	ChannelMail    ChannelKind = "mail"
	ChannelWebhook ChannelKind = "webhook"
)

// AlertChannel is where messages go. Its secrets are sealed: the database cannot
// read them.
type AlertChannel struct {
	ID        string // chn_…
	TenantID  string // whose it is; "" for the operators'
	Name      string
	Kind      ChannelKind
	Target    string // an e-mail address or a URL
	Secret    []byte // sealed; nil for mail
	SecretAt  *time.Time
	OldSecret []byte     // sealed; signs, too, until OldUntil
	OldUntil  *time.Time // nil without one
	Enabled   bool
	Problem   string // why it was switched off by itself; "" otherwise
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Alert is what is, or was, so. At most one of a rule and an object is open.
type Alert struct {
	ID         string // alt_…
	TenantID   string // whose alert it is, not whom it is about; "" for the operators'
	RuleID     string // alr_…, or thr_… for a tenant's own mark
	RuleName   string
	Kind       AlertKind
	Object     string // id of what it is about
	ObjectName string
	Value      int64 // as last seen, in the kind's unit
	Threshold  int64
	Words      string // what is so
	OpenedAt   time.Time
	SeenAt     time.Time // when it was last found to be so
	ToldAt     *time.Time
	ResolvedAt *time.Time
	Resolution string // why it is over; "" while it is open
}

// Open reports whether it is so still, as far as anybody knows.
func (a Alert) Open() bool { return a.ResolvedAt == nil }

// AlertSilence keeps messages back for a while: alerts are raised and shown, and
// nobody is told. What is still so at its end is told then.
type AlertSilence struct {
	ID        string // sil_…
	RuleID    string // "" fits every rule
	Object    string // "" fits every object
	Reason    string
	AuthorID  string
	Author    string
	CreatedAt time.Time
	EndsAt    time.Time
	EndedAt   *time.Time // before its end, by EndedBy
	EndedBy   string
}

// Fits reports whether it keeps an alert back.
func (s AlertSilence) Fits(ruleID, object string) bool {
	return (s.RuleID == "" || s.RuleID == ruleID) && (s.Object == "" || s.Object == object)
}

// Holds reports whether it is in force.
func (s AlertSilence) Holds(now time.Time) bool { return s.EndedAt == nil && now.Before(s.EndsAt) }

// DeliveryState is how far a message is.
type DeliveryState string

// States of a delivery. Sent and dead are final, but a dead one can be tried anew.
const (
	DeliveryWaiting DeliveryState = "waiting"
	DeliverySent    DeliveryState = "sent"
	DeliveryDead    DeliveryState = "dead" // tried as often as anything is, or refused for good
)

// Events that messages tell of.
const (
	EventOpened   = "alert.opened"
	EventResolved = "alert.resolved"
	EventTest     = "alert.test"
)

// AlertDelivery is one message to one channel. Its id stays the same at each repeat.
type AlertDelivery struct {
	ID          string // dlv_…; Webhook-Id and the left part of Message-ID
	TenantID    string // of the channel
	ChannelID   string
	ChannelName string
	Kind        ChannelKind
	Target      string // when it was written
	AlertID     string // "" for a test
	Event       string
	Subject     string
	Body        string
	State       DeliveryState
	Attempts    int
	NextAt      time.Time
	Status      int    // of the last answer: HTTP or SMTP; 0 when there was none
	Problem     string // of the last attempt, in words for users
	CreatedAt   time.Time
	DoneAt      *time.Time
}

// AlertMessage is the body of a webhook. Fields are added, never changed.
type AlertMessage struct {
	Type      string    `json:"type"` // alert.opened, alert.resolved, alert.test
	Timestamp time.Time `json:"timestamp"`
	Data      AlertBody `json:"data"`
}

// AlertBody is what a message says of an alert.
type AlertBody struct {
	Alert      string     `json:"alert,omitempty"`
	Rule       string     `json:"rule"`
	RuleName   string     `json:"rule_name"`
	Kind       AlertKind  `json:"kind"`
	Object     string     `json:"object"`
	ObjectName string     `json:"object_name"`
	Value      int64      `json:"value"`
	Threshold  int64      `json:"threshold"`
	Unit       string     `json:"unit,omitempty"`
	Text       string     `json:"text"`
	OpenedAt   *time.Time `json:"opened_at,omitempty"`
	ResolvedAt *time.Time `json:"resolved_at,omitempty"`
	Resolution string     `json:"resolution,omitempty"`
	Deployment string     `json:"deployment"`
	URL        string     `json:"url,omitempty"`
}

// encode is the message as JSON.
func (m AlertMessage) encode() (string, error) {
	b, err := json.Marshal(m)
	return string(b), err
}
