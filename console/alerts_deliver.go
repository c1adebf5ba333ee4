package console

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	deliverEvery = time.Second
	// deliverLease is longer than any attempt takes: a console that dies in one leaves
	// its message to the others after that.
	deliverLease = time.Minute
	deliverBatch = 16
	deliverSide  = 8 // at the same time
	maxAttempts  = 10
	firstRetry   = 10 * time.Second
	lastRetry    = time.Hour
	// retryPace is the budget of repeats: a channel gets one in so long at most.
	retryPace = 3 * time.Second
	// statusGone is HTTP's word for never again.
	statusGone = 410
)

// RunDeliveries sends messages until ctx ends. Every console does.
func (s *Alerts) RunDeliveries(ctx context.Context) error {
	down := false
	for {
		n, err := s.Deliver(ctx)
		if err != nil && ctx.Err() == nil && !down {
			s.d.Log.WarnContext(ctx, "messages of alerts are not sent", "error", err)
		}
		down = err != nil
		if n > 0 && err == nil {
			continue
		}
		t := time.NewTimer(deliverEvery)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		case <-s.wakeup:
			t.Stop()
		}
	}
}

// Deliver sends what is due, and tells how many messages it tried.
func (s *Alerts) Deliver(ctx context.Context) (int, error) {
	if s.c.Notifier == nil {
		return 0, nil
	}
	var due []AlertDelivery
	err := s.d.Store.InTx(ctx, func(tx Tx) (err error) {
		now := s.d.now()
		due, err = tx.ClaimAlertDeliveries(ctx, now, now.Add(deliverLease), deliverBatch)
		return err
	})
	if err != nil {
		return 0, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deliverSide)
	for _, v := range due {
		group.Go(func() error { return s.attempt(ctx, v) })
	}
	return len(due), group.Wait()
}

// attempt sends a message and notes what became of it.
func (s *Alerts) attempt(ctx context.Context, v AlertDelivery) error {
	var c AlertChannel
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		c, err = tx.AlertChannel(ctx, v.ChannelID)
		return err
	})
	switch {
	case IsNotFound(err):
		return s.end(ctx, v, DeliveryDead, "The channel was removed.")
	case err != nil:
		return err
	case !c.Enabled:
		return s.end(ctx, v, DeliveryDead, "The channel is switched off.")
	}
	if stays, err := s.stillMember(ctx, c); err != nil {
		return err
	} else if !stays {
		return s.end(ctx, v, DeliveryDead, "The address is no member's any more.")
	}
	var wait time.Duration
	v.Status, wait, err = s.send(ctx, c, v)
	if ctx.Err() != nil {
		return ctx.Err() // stopped meanwhile: the outcome is unknown, and it is tried again
	}
	if err == nil {
		return s.end(ctx, v, DeliverySent, "")
	}
	cause := err
	if inner := errors.Unwrap(err); inner != nil {
		cause = inner
	}
	s.d.Log.WarnContext(ctx, "message of an alert was not taken", "delivery", v.ID, "channel", v.ChannelID, "attempt", v.Attempts, "status", v.Status, "error", cause)
	if c.Kind == ChannelWebhook && v.Status == statusGone {
		if err := s.switchOff(ctx, c, "The receiver answered 410: it wants no more."); err != nil {
			return err
		}
		return s.end(ctx, v, DeliveryDead, err.Error())
	}
	if v.Attempts >= maxAttempts || c.Kind == ChannelMail && v.Status >= 500 {
		return s.end(ctx, v, DeliveryDead, err.Error())
	}
	v.Problem = err.Error()
	v.NextAt = s.paced(c.ID, s.d.now().Add(max(s.backoff(v.Attempts), wait)))
	return s.d.Store.InTx(ctx, func(tx Tx) error { return tx.PostponeAlertDelivery(ctx, v) })
}

// stillMember reports whether a tenant's mail goes to one of its members now: whoever has
// left must not be told any more.
func (s *Alerts) stillMember(ctx context.Context, c AlertChannel) (stays bool, err error) {
	if c.TenantID == "" || c.Kind != ChannelMail {
		return true, nil
	}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		people, err := tx.Members(ctx, c.TenantID)
		stays = isMember(people, c.Target)
		return err
	})
	return stays, err
}

// send hands a message over.
func (s *Alerts) send(ctx context.Context, c AlertChannel, v AlertDelivery) (status int, wait time.Duration, err error) {
	if c.Kind == ChannelMail {
		status, err = s.notifier(c.TenantID).Mail(ctx, c.Target, v.Subject, v.Body, v.ID)
		return status, 0, err
	}
	secrets, err := s.secretsOf(c)
	if err != nil {
		return 0, 0, err
	}
	return s.notifier(c.TenantID).Webhook(ctx, c.Target, secrets, v.ID, s.d.now(), []byte(v.Body))
}

// secretsOf are the secrets that a channel's messages are signed with, the newest first.
func (s *Alerts) secretsOf(c AlertChannel) ([]string, error) {
	secret, err := s.openSecret(c.ID, c.Secret)
	if err != nil {
		return nil, &Error{Code: CodeInternal, Public: "The secret cannot be read: make a new one.", Cause: err}
	}
	out := []string{secret}
	if c.OldUntil != nil && s.d.now().Before(*c.OldUntil) {
		if old, err := s.openSecret(c.ID, c.OldSecret); err == nil {
			out = append(out, old)
		}
	}
	return out, nil
}

func (s *Alerts) end(ctx context.Context, v AlertDelivery, state DeliveryState, problem string) error {
	v.State, v.Problem = state, problem
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		_, err := tx.FinishAlertDelivery(ctx, v, s.d.now())
		return err
	})
}

// switchOff keeps a channel from being used until somebody switches it on again.
func (s *Alerts) switchOff(ctx context.Context, c AlertChannel, why string) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		c, err := tx.LockAlertChannel(ctx, c.TenantID, c.ID)
		if err != nil || !c.Enabled {
			return ignoreNotFound(err)
		}
		before := viewChannel(c)
		c.Enabled, c.Problem, c.UpdatedAt = false, why, now
		if err := tx.UpdateAlertChannel(ctx, c); err != nil {
			return err
		}
		return s.d.record(ctx, tx, SystemActor(), now, event{
			action: "alert.change-channel", object: "alert-channel", objectID: c.ID, tenantID: c.TenantID, before: before, after: viewChannel(c), reason: why,
		})
	})
}

// backoff is how long to wait after an attempt: it triples up to an hour, a fifth
// more or less.
func (s *Alerts) backoff(attempt int) time.Duration {
	wait := firstRetry
	for range attempt - 1 {
		if wait = min(3*wait, lastRetry); wait == lastRetry {
			break
		}
	}
	var b [2]byte
	if _, err := io.ReadFull(s.d.Rand, b[:]); err != nil {
		return wait
	}
	spread := wait / 5
	return wait - spread + 2*spread*time.Duration(binary.BigEndian.Uint16(b[:]))/65535
}

// paced is when the next repeat to a channel may go out: not before at, and not
// sooner after the one before than the budget allows.
func (s *Alerts) paced(channelID string, at time.Time) time.Time {
	s.pacing.Lock()
	defer s.pacing.Unlock()
	if next := s.paces[channelID].Add(retryPace); at.Before(next) {
		at = next
	}
	for id, last := range s.paces {
		if s.d.now().Sub(last) > lastRetry {
			delete(s.paces, id)
		}
	}
	s.paces[channelID] = at
	return at
}
