package console

import (
	"context"
	"net/mail"
	"strings"
	"time"
)

const (
	maxChannels      = 50 // of operators
	maxOwnChannels   = 5  // of a tenant
	secretOverlap    = 24 * time.Hour
	maxWaitingOfTest = 20
)

// AlertChannelInput is what a channel is made of. Kind cannot be changed afterwards.
type AlertChannelInput struct {
	Name    string
	Kind    ChannelKind
	Target  string
	Enabled bool
}

// NewChannel is a channel with the secret that its messages are signed with, which
// is in no other answer; "" for mail.
type NewChannel struct {
	Channel AlertChannel
	Secret  string
}

// channelView is what the audit trail says of a channel. It never holds a secret.
type channelView struct {
	Name    string      `json:"name"`
	Kind    ChannelKind `json:"kind"`
	Target  string      `json:"target"`
	Enabled bool        `json:"enabled"`
}

func viewChannel(c AlertChannel) channelView {
	return channelView{c.Name, c.Kind, c.Target, c.Enabled}
}

// Channels lists the operators' channels, the oldest first.
func (s *Alerts) Channels(ctx context.Context) (out []AlertChannel, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.AlertChannels(ctx, "")
		return err
	})
	return out, err
}

// checked is the channel that an input makes of c. people are the addresses that a
// tenant may send mail to; operators may send it anywhere.
func (s *Alerts) checked(in AlertChannelInput, c AlertChannel, people []Member) (AlertChannel, error) {
	var p problems
	c.Name, c.Enabled = p.name("name", in.Name), in.Enabled
	target := strings.TrimSpace(in.Target)
	switch {
	case s.c.Notifier == nil:
		return c, &Error{Code: CodeUnavailable, Public: "This console sends nothing."}
	case in.Kind == ChannelWebhook:
		if problem := s.notifier(c.TenantID).CheckURL(target); problem != "" {
			p.add("target", "%s", problem)
		}
	case in.Kind == ChannelMail && !s.c.Notifier.CanMail():
		p.add("kind", "This console sends no mail: no mail server is configured.")
	case in.Kind == ChannelMail:
		a, err := mail.ParseAddress(target)
		if err != nil || len(target) > 254 || strings.ContainsFunc(target, hidden) || strings.ContainsAny(target, "\n\t") {
			p.add("target", "This is not an e-mail address, such as ann@example.com.")
			break
		}
		if target = a.Address; c.TenantID != "" && !isMember(people, target) {
			p.add("target", "Mail goes to members of your organisation alone.")
		}
	default:
		p.add("kind", "Mail or webhook.")
	}
	if maskKeys(target) != target {
		p.add("target", "This holds a key.")
	}
	if target != c.Target {
		c.Problem = ""
	}
	c.Target = target
	return c, p.err()
}

func isMember(people []Member, address string) bool {
	for _, m := range people {
		if m.DisabledAt == nil && strings.EqualFold(m.Email, address) {
			return true
		}
	}
	return false
}

// manages refuses an actor who may not manage channels of their side.
func (a Actor) manages() error {
	if a.TenantID != "" {
		return a.need(PermOwnMembers)
	}
	return a.need(PermManageAlerts)
}

// AddChannel makes a channel: of the operators', or, by a tenant's admin, of the tenant's.
func (s *Alerts) AddChannel(ctx context.Context, actor Actor, in AlertChannelInput) (NewChannel, error) {
	if err := actor.manages(); err != nil {
		return NewChannel{}, err
	}
	id, err := s.d.newID("chn")
	if err != nil {
		return NewChannel{}, err
	}
	out := NewChannel{}
	sealed, secret, err := s.newSecret(id)
	if err != nil {
		return NewChannel{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		people, err := s.roomForChannel(ctx, tx, actor.TenantID)
		if err != nil {
			return err
		}
		c := AlertChannel{ID: id, TenantID: actor.TenantID, Kind: in.Kind, CreatedAt: now, UpdatedAt: now}
		if c, err = s.checked(in, c, people); err != nil {
			return err
		}
		out = NewChannel{Channel: c}
		if c.Kind == ChannelWebhook {
			c.Secret, c.SecretAt = sealed, &now
			out = NewChannel{Channel: c, Secret: secret}
		}
		if err := tx.InsertAlertChannel(ctx, c); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{action: "alert.add-channel", object: "alert-channel", objectID: id, tenantID: actor.TenantID, after: viewChannel(c)})
	})
	if err != nil {
		return NewChannel{}, err
	}
	return out, nil
}

// roomForChannel refuses one channel too many, and tells whom a tenant may mail.
func (s *Alerts) roomForChannel(ctx context.Context, tx Tx, tenantID string) ([]Member, error) {
	most, public := maxChannels, "50 channels are the most. Remove one first."
	var people []Member
	if tenantID != "" {
		most, public = maxOwnChannels, "5 channels are the most. Remove one first."
		if _, err := lockLiveTenant(ctx, tx, tenantID); err != nil { // those that count at the same time follow one another
			return nil, err
		}
		var err error
		if people, err = tx.Members(ctx, tenantID); err != nil {
			return nil, err
		}
	}
	all, err := tx.AlertChannels(ctx, tenantID)
	if err == nil && len(all) >= most {
		err = conflict(public)
	}
	return people, err
}

// ChangeChannel replaces all of a channel but kind and secret.
func (s *Alerts) ChangeChannel(ctx context.Context, actor Actor, id string, in AlertChannelInput) (AlertChannel, error) {
	if err := actor.manages(); err != nil {
		return AlertChannel{}, err
	}
	var c AlertChannel
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		old, err := tx.LockAlertChannel(ctx, actor.TenantID, id)
		if err != nil {
			return err
		}
		var people []Member
		if actor.TenantID != "" {
			if people, err = tx.Members(ctx, actor.TenantID); err != nil {
				return err
			}
		}
		in.Kind = old.Kind
		if c, err = s.checked(in, old, people); err != nil {
			return err
		}
		if c.Enabled && !old.Enabled {
			c.Problem = ""
		}
		c.UpdatedAt = s.d.now()
		if err := tx.UpdateAlertChannel(ctx, c); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, c.UpdatedAt, event{
			action: "alert.change-channel", object: "alert-channel", objectID: id, tenantID: actor.TenantID, before: viewChannel(old), after: viewChannel(c),
		})
	})
	return c, err
}

// RemoveChannel removes a channel; rules forget it, and what waits for it is not sent.
func (s *Alerts) RemoveChannel(ctx context.Context, actor Actor, id string) error {
	if err := actor.manages(); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		old, err := tx.LockAlertChannel(ctx, actor.TenantID, id)
		if err != nil {
			return err
		}
		if err := tx.DeleteAlertChannel(ctx, id); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, s.d.now(), event{action: "alert.remove-channel", object: "alert-channel", objectID: id, tenantID: actor.TenantID, before: viewChannel(old)})
	})
}

// RotateSecret makes a new secret of a webhook. The old one signs, too, for a day.
// Within that day another one takes the place of the new one alone: an answer that was
// lost costs nobody the secret that receivers know.
func (s *Alerts) RotateSecret(ctx context.Context, actor Actor, id string) (NewChannel, error) {
	if err := actor.manages(); err != nil {
		return NewChannel{}, err
	}
	sealed, secret, err := s.newSecret(id)
	if err != nil {
		return NewChannel{}, err
	}
	var c AlertChannel
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		if c, err = tx.LockAlertChannel(ctx, actor.TenantID, id); err != nil {
			return err
		}
		if c.Kind != ChannelWebhook {
			return conflict("Only webhooks have a secret.")
		}
		now := s.d.now()
		until := now.Add(secretOverlap)
		if c.OldUntil == nil || !now.Before(*c.OldUntil) {
			c.OldSecret = c.Secret
		}
		c.OldUntil, c.Secret, c.SecretAt, c.UpdatedAt = &until, sealed, &now, now
		if err := tx.UpdateAlertChannel(ctx, c); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{action: "alert.rotate-secret", object: "alert-channel", objectID: id, tenantID: actor.TenantID})
	})
	if err != nil {
		return NewChannel{}, err
	}
	return NewChannel{Channel: c, Secret: secret}, nil
}

// Test has a message sent to a channel, by the way that all take: its fate is in the
// log of deliveries.
func (s *Alerts) Test(ctx context.Context, actor Actor, id string) (AlertDelivery, error) {
	if err := actor.manages(); err != nil {
		return AlertDelivery{}, err
	}
	var v AlertDelivery
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		c, err := tx.LockAlertChannel(ctx, actor.TenantID, id)
		if err != nil {
			return err
		}
		if !c.Enabled {
			return conflict("The channel is switched off.")
		}
		n, err := tx.CountWaitingDeliveries(ctx, id)
		if err != nil {
			return err
		}
		if n >= maxWaitingOfTest {
			return conflict("Messages to this channel wait already. See the deliveries.")
		}
		now := s.d.now()
		if v, err = s.write(c, Alert{RuleName: "Test", ObjectName: c.Name, Words: "This is a test by " + actor.Name + ". Nothing is wrong."}, EventTest, now); err != nil {
			return err
		}
		if _, err := tx.InsertAlertDelivery(ctx, v); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{action: "alert.test", object: "alert-channel", objectID: id, tenantID: actor.TenantID})
	})
	if err != nil {
		return AlertDelivery{}, err
	}
	s.nudge()
	return v, nil
}
