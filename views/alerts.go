package views

import (
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// AlertRow is one alert.
type AlertRow struct {
	ID          string
	Kind, Rule  string
	RuleURL     string // "" when the rule is gone
	About       string
	AboutURL    string // "" when there is no page of it
	Words       string
	Opened      time.Time
	Seen        time.Time
	Resolved    time.Time // zero while it is open
	Resolution  string
	Told        string // whether anybody was told
	CanSilence  bool
	SilenceRule string // id of the rule that a silence of it names
	Object      string
}

// AlertsProps are the alerts, the open ones or all.
type AlertsProps struct {
	Frame    ui.FrameProps
	Now      time.Time
	Tabs     []ui.Tab
	Rows     []AlertRow
	Open     bool // only open ones are listed
	HasRules bool
	CanSend  bool
	Pager    ui.PagerProps
}

// AlertRuleRow is one rule.
type AlertRuleRow struct {
	ID, Name, Kind string
	Says           string // threshold and duration in words
	Channels       string
	Enabled        bool
	Unknown        string // why nobody can answer it; "" otherwise
}

// Check is one box of a group.
type Check struct {
	Value, Label string
	On           bool
}

// AlertRuleFormProps is the form of a rule.
type AlertRuleFormProps struct {
	Action   string
	Button   string
	Kinds    []ui.Option // empty: the kind cannot be changed
	KindText string
	Hint     string // what the threshold says; of each kind in the form of a new rule
	NoLimit  bool   // the kind has no threshold
	Channels []Check
	Enabled  bool
	Form     *form.Form
}

// AlertRulesProps are the rules, and the form of a new one.
type AlertRulesProps struct {
	Frame     ui.FrameProps
	Tabs      []ui.Tab
	Rows      []AlertRuleRow
	CanManage bool
	New       AlertRuleFormProps
}

// AlertRulePageProps is one rule.
type AlertRulePageProps struct {
	Frame ui.FrameProps
	ID    string
	Name  string
	Form  AlertRuleFormProps
}

// AlertChannelRow is one channel.
type AlertChannelRow struct {
	ID, Name, Kind, Target string
	Enabled                bool
	Problem                string
	SecretAt               time.Time // zero for mail
	OldUntil               time.Time // zero: the old secret no longer signs
}

// AlertChannelFormProps is the form of a channel.
type AlertChannelFormProps struct {
	Action  string
	Button  string
	IsNew   bool
	Kind    string
	NoMail  bool // no mail server is configured
	Enabled bool
	Form    *form.Form
}

// AlertChannelsProps are the channels, and the form of a new one.
type AlertChannelsProps struct {
	Frame     ui.FrameProps
	Now       time.Time
	Tabs      []ui.Tab
	Rows      []AlertChannelRow
	CanManage bool
	New       AlertChannelFormProps
}

// AlertChannelPageProps is one channel.
type AlertChannelPageProps struct {
	Frame   ui.FrameProps
	Now     time.Time
	Row     AlertChannelRow
	Form    AlertChannelFormProps
	Problem string // of an act that failed
}

// WebhookSecretProps shows a secret, once.
type WebhookSecretProps struct {
	Frame  ui.FrameProps
	Name   string
	Secret string
	Until  time.Time // until when the old one signs, too; zero: there is none
	Next   string
}

// SilenceRow is one silence.
type SilenceRow struct {
	ID, What, Reason, Author string
	Created, Ends            time.Time
	Holds                    bool
	Ended                    string
	CanEnd                   bool
}

// SilencesProps are the silences, and the form of a new one.
type SilencesProps struct {
	Frame      ui.FrameProps
	Now        time.Time
	Tabs       []ui.Tab
	Rows       []SilenceRow
	CanSilence bool
	Rules      []ui.Option
	Form       *form.Form
}

// DeliveryRow is one message.
type DeliveryRow struct {
	ID, Event, Channel, Kind, Target string
	Subject, State, Problem          string
	Attempts                         int
	Status                           string
	Created, Done, Next              time.Time
	CanRetry                         bool
}

// DeliveriesProps is the log of messages.
type DeliveriesProps struct {
	Frame   ui.FrameProps
	Now     time.Time
	Tabs    []ui.Tab
	States  []ui.Tab
	Rows    []DeliveryRow
	Pager   ui.PagerProps
	Problem string
}

// silenceFor are the choices of how long.
func silenceFor() []ui.Option {
	return []ui.Option{{Value: "1h", Label: "1 hour"}, {Value: "8h", Label: "8 hours"}, {Value: "24h", Label: "1 day"}, {Value: "168h", Label: "7 days"}, {Value: "720h", Label: "30 days"}}
}

func onOff(on bool) (kind, word string) {
	if on {
		return "ok", "on"
	}
	return "warn", "off"
}

func deliveryKind(state string) string {
	switch state {
	case "sent":
		return "ok"
	case "dead":
		return "bad"
	}
	return "warn"
}

func deliveryWord(state string) string {
	if state == "dead" {
		return "given up"
	}
	return state
}
