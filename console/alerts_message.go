package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// maxSubject bounds a mail's subject, in characters.
const maxSubject = 150

// post writes the messages of an event to the channels of a rule, or of a tenant. An
// event goes to a channel once, however often this is called. A channel that has too many
// that wait gets it as given up, to be tried anew by hand. False: all of them have.
func (s *Alerts) post(ctx context.Context, tx Tx, w alertWatch, a Alert, event string, now time.Time) (bool, error) {
	channels, err := tx.AlertChannels(ctx, w.tenantID)
	if err != nil {
		return false, err
	}
	channels = slices.DeleteFunc(channels, func(c AlertChannel) bool {
		return !c.Enabled || w.tenantID == "" && !slices.Contains(w.channels, c.ID)
	})
	full, err := fullChannels(ctx, tx, channels, event)
	if err != nil || len(full) > 0 && len(full) == len(channels) {
		return false, err
	}
	for _, c := range channels {
		v, err := s.write(c, a, event, now)
		if err != nil {
			return false, err
		}
		fresh, err := tx.InsertAlertDelivery(ctx, v)
		if err != nil {
			return false, err
		}
		if !fresh || !full[c.ID] {
			continue
		}
		v.State, v.Problem = DeliveryDead, "Too many messages to this channel wait already."
		if _, err := tx.FinishAlertDelivery(ctx, v, now); err != nil {
			return false, err
		}
	}
	return true, nil
}

// fullChannels are those that have too many that wait to be told of one more alert. They
// must not keep the others from being told.
func fullChannels(ctx context.Context, tx Tx, channels []AlertChannel, event string) (map[string]bool, error) {
	full := map[string]bool{}
	if event != EventOpened {
		return full, nil
	}
	for _, c := range channels {
		n, err := tx.CountWaitingDeliveries(ctx, c.ID)
		if err != nil {
			return nil, err
		}
		if n >= maxToldWaiting {
			full[c.ID] = true
		}
	}
	return full, nil
}

// write makes the message that tells a channel of an alert.
func (s *Alerts) write(c AlertChannel, a Alert, event string, now time.Time) (AlertDelivery, error) {
	id, err := s.d.newID("dlv")
	if err != nil {
		return AlertDelivery{}, err
	}
	v := AlertDelivery{
		ID: id, TenantID: c.TenantID, ChannelID: c.ID, ChannelName: c.Name, Kind: c.Kind, Target: c.Target, AlertID: a.ID, Event: event,
		Subject: s.subject(a, event), State: DeliveryWaiting, NextAt: now, CreatedAt: now,
	}
	if c.Kind == ChannelMail {
		v.Body = s.letter(c, a, event)
		return v, nil
	}
	v.Body, err = s.message(c, a, event, now).encode()
	return v, err
}

// link leads to the alerts' page of the side that a channel is on.
func (s *Alerts) link(c AlertChannel) string {
	switch {
	case s.c.PublicURL == "":
		return ""
	case c.TenantID != "":
		return s.c.PublicURL + "/t/alerts"
	}
	return s.c.PublicURL + "/alerts"
}

func (s *Alerts) message(c AlertChannel, a Alert, event string, now time.Time) AlertMessage {
	info, _ := a.Kind.KindInfo()
	m := AlertMessage{Type: event, Timestamp: now, Data: AlertBody{
		Alert: a.ID, Rule: a.RuleID, RuleName: a.RuleName, Kind: a.Kind, Object: a.Object, ObjectName: a.ObjectName, Value: a.Value, Threshold: a.Threshold,
		Unit: info.Unit, Text: a.Words, ResolvedAt: a.ResolvedAt, Resolution: a.Resolution, Deployment: s.d.Deployment, URL: s.link(c),
	}}
	if !a.OpenedAt.IsZero() {
		m.Data.OpenedAt = &a.OpenedAt
	}
	return m
}

// subject is one line, whatever names hold.
func (s *Alerts) subject(a Alert, event string) string {
	lead := ""
	switch event {
	case EventResolved:
		lead = "Over: "
	case EventTest:
		lead = "Test: "
	}
	text := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.C, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, "[Headgate "+s.d.Deployment+"] "+lead+a.Words)
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxSubject {
		text = string(r[:maxSubject-1]) + "…"
	}
	return text
}

// letter is the text of a mail.
func (s *Alerts) letter(c AlertChannel, a Alert, event string) string {
	var b strings.Builder
	b.WriteString(a.Words + "\n")
	if event != EventTest {
		info, _ := a.Kind.KindInfo()
		fmt.Fprintf(&b, "\nRule:   %s (%s)\nAbout:  %s (%s)\nSince:  %s\n", a.RuleName, info.Label, a.ObjectName, a.Object, a.OpenedAt.UTC().Format(time.RFC1123))
	}
	if a.ResolvedAt != nil {
		fmt.Fprintf(&b, "Over:   %s\n        %s\n", a.ResolvedAt.UTC().Format(time.RFC1123), a.Resolution)
	}
	if link := s.link(c); link != "" {
		b.WriteString("\n" + link + "\n")
	}
	b.WriteString("\nYou get this because the channel \"" + c.Name + "\" leads here.\n")
	return b.String()
}
