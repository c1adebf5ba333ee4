package portal

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// AlertRow is a mark, and whether it is reached now.
type AlertRow struct {
	ID, Text, Now string
	Open          bool
}

// ChannelRow is where the tenant is told.
type ChannelRow struct {
	ID, Name, Kind, Target string
	Enabled, Webhook       bool
	Problem                string
	OldUntil               time.Time // zero: one secret signs
}

// ToldRow is what was so.
type ToldRow struct {
	Words  string
	At     time.Time
	OverAt time.Time // zero: it is so still
	Over   string
}

// MessageRow is a message and what became of it.
type MessageRow struct {
	ID, Subject, Channel, State, Problem string
	Attempts                             int
	At                                   time.Time
}

// AlertsProps are the tenant's own marks, where it is told, and what it was told.
type AlertsProps struct {
	Frame     Frame
	Now       time.Time
	Form      *form.Form // of a new mark
	Channel   *form.Form // of a new channel
	Rows      []AlertRow
	Channels  []ChannelRow
	Told      []ToldRow
	Messages  []MessageRow
	Mails     []string // addresses that mail can go to
	CanManage bool
	CanMail   bool
	CanSend   bool
}

// ChannelSecretProps shows a webhook's secret, once.
type ChannelSecretProps struct {
	Frame  Frame
	Name   string
	Secret string
	Until  time.Time // until when the one before it signs, too; zero: there is none
}

func messageKind(state string) string {
	switch state {
	case "sent":
		return "ok"
	case "dead":
		return "bad"
	}
	return "warn"
}

func messageWord(state string) string {
	if state == "dead" {
		return "given up"
	}
	return state
}

func channelKinds(canMail bool) []ui.Option {
	out := []ui.Option{{Value: "webhook", Label: "Webhook, signed"}}
	if canMail {
		out = append(out, ui.Option{Value: "mail", Label: "Mail to a member"})
	}
	return out
}
