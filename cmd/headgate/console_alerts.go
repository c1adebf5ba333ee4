package main

import (
	"net/netip"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/notify"
)

// alertFlags say how alerts reach people.
type alertFlags struct {
	SMTPURL      string   `name:"smtp-url" help:"Mail server that alerts go through: smtp://[USER:PASSWORD@]HOST[:PORT] (STARTTLS) or smtps://; without one no mail is sent." placeholder:"URL"`
	SMTPURLFile  string   `name:"smtp-url-file" help:"File that holds the mail server's URL." placeholder:"FILE"`
	MailFrom     string   `help:"Sender of alerts' mails, such as Headgate <headgate@example.com>." placeholder:"ADDRESS"`
	WebhookAllow []string `help:"Network that operators' webhooks may go to although it is private, on any port and by plain HTTP, too; tenants' may not. May be given more than once." placeholder:"CIDR"`
}

// sender makes what sends alerts.
func (f alertFlags) sender(p *config.Problems) *notify.Sender {
	c := notify.Config{SMTP: config.Secret(p, "--smtp-url", f.SMTPURL, f.SMTPURLFile), From: f.MailFrom}
	if c.SMTP != "" && f.MailFrom == "" {
		p.Add("--mail-from", "is needed with --smtp-url: the sender of alerts' mails")
		return nil
	}
	if c.SMTP == "" && f.MailFrom != "" {
		p.Add("--smtp-url", "is needed with --mail-from: the mail server")
	}
	for _, text := range f.WebhookAllow {
		network, err := netip.ParsePrefix(text)
		if err != nil || network.Masked() != network {
			p.Add("--webhook-allow", "%q is not a network such as 10.1.0.0/16", text)
			continue
		}
		c.Allow = append(c.Allow, network)
	}
	s, err := notify.New(c)
	if err != nil {
		p.Add("--smtp-url, --mail-from", "%v", err)
		return nil
	}
	return s
}

// newAlerts makes the service, and has it work beside the relay.
func (c *consoleCmd) newAlerts(s services, publicURL string) *console.Alerts {
	config := console.AlertConfig{Fleet: s.fleet, Live: s.activity.Live(), Quotas: s.quotas, Ledger: s.ledger, PublicURL: publicURL}
	if c.notifier != nil {
		config.Notifier, config.TenantNotifier = c.notifier, c.notifier.Outward()
	}
	alerts := console.NewAlerts(s.deps, config)
	s.relay.While(alerts.Run)
	return alerts
}
