package console

import (
	"context"
	"time"
)

// maxSilence bounds a silence: what nobody wants to hear of for longer is a rule to change.
const maxSilence = 30 * 24 * time.Hour

// NewSilence is what to keep back, for how long, and why.
type NewSilence struct {
	RuleID string // "" fits every rule
	Object string // "" fits every object
	For    time.Duration
	Reason string
}

// silenceView is what the audit trail says of a silence.
type silenceView struct {
	Rule   string    `json:"rule,omitempty"`
	Object string    `json:"object,omitempty"`
	Until  time.Time `json:"until"`
}

// Silences lists those that hold, or the last hundred.
func (s *Alerts) Silences(ctx context.Context, live bool) (out []AlertSilence, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.AlertSilences(ctx, live, s.d.now())
		return err
	})
	return out, err
}

// Silence keeps messages back for a while.
func (s *Alerts) Silence(ctx context.Context, actor Actor, in NewSilence) (AlertSilence, error) {
	if err := actor.need(PermSilenceAlerts); err != nil {
		return AlertSilence{}, err
	}
	var p problems
	reason := p.reason(in.Reason)
	if in.For < time.Minute || in.For > maxSilence {
		p.add("for", "Between a minute and 30 days.")
	}
	object := p.text("object", in.Object, maxName, false)
	if err := p.err(); err != nil {
		return AlertSilence{}, err
	}
	id, err := s.d.newID("sil")
	if err != nil {
		return AlertSilence{}, err
	}
	now := s.d.now()
	v := AlertSilence{ID: id, RuleID: in.RuleID, Object: object, Reason: reason, AuthorID: actor.ID, Author: actor.Name, CreatedAt: now, EndsAt: now.Add(in.For)}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		if v.RuleID != "" {
			if _, err := tx.LockAlertRule(ctx, v.RuleID); err != nil {
				return err
			}
		}
		if err := tx.InsertAlertSilence(ctx, v); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "alert.silence", object: "alert-silence", objectID: id, reason: reason, after: silenceView{v.RuleID, v.Object, v.EndsAt},
		})
	})
	if err != nil {
		return AlertSilence{}, err
	}
	return v, nil
}

// EndSilence ends a silence before its time. What is still so is told then.
func (s *Alerts) EndSilence(ctx context.Context, actor Actor, id string) error {
	if err := actor.need(PermSilenceAlerts); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		ok, err := tx.EndAlertSilence(ctx, id, actor.Name, now)
		if err != nil {
			return err
		}
		if !ok {
			return notFound("silence that holds")
		}
		return s.d.record(ctx, tx, actor, now, event{action: "alert.unsilence", object: "alert-silence", objectID: id})
	})
}

// Deliveries lists the operators' messages, the newest first, and the cursor to the
// next page.
func (s *Alerts) Deliveries(ctx context.Context, q DeliveryQuery) (items []AlertDelivery, next string, err error) {
	q.TenantID = ""
	return paged(ctx, s.d.Store, q.Page, func(tx Tx, after Cursor, limit int) ([]AlertDelivery, error) {
		return tx.AlertDeliveries(ctx, q, after, limit)
	}, func(v AlertDelivery) Cursor { return Cursor{At: v.CreatedAt, ID: v.ID} })
}

// Redeliver has a message that was given up tried anew, under the same id.
func (s *Alerts) Redeliver(ctx context.Context, actor Actor, id string) error {
	if err := actor.manages(); err != nil {
		return err
	}
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		ok, err := tx.ReviveAlertDelivery(ctx, actor.TenantID, id, now)
		if err != nil {
			return err
		}
		if !ok {
			return notFound("message that was given up")
		}
		return s.d.record(ctx, tx, actor, now, event{action: "alert.redeliver", object: "alert-delivery", objectID: id, tenantID: actor.TenantID})
	})
	if err == nil {
		s.nudge()
	}
	return err
}
