package console

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/usage"
)

// AlertConfig is what alerts rest on besides Deps.
type AlertConfig struct {
	Fleet    *Fleet
	Live     *usage.Live
	Notifier Notifier // nil: nothing is sent, and channels cannot be made
	// TenantNotifier sends to where tenants say, who must not reach networks that only
	// operators may; nil is Notifier.
	TenantNotifier Notifier
	// Quotas and Ledger may be nil: what they would tell is unknown then.
	Quotas AlertQuotas
	Ledger AlertLedger
	// PublicURL is the console's origin, for links in messages; "" leaves them out.
	PublicURL string
}

// Alerts says what is told to whom, finds what is so, and sends messages. Evaluation
// runs on one console at a time; messages are sent by all.
type Alerts struct {
	d Deps
	c AlertConfig

	mu    sync.Mutex           // of what evaluation remembers
	since map[place]time.Time  // since when something is so without a break
	gone  map[string]time.Time // since when an open alert's object is found no more
	found map[string]cachedFacts

	pacing sync.Mutex
	paces  map[string]time.Time // of channels: when the last repeat that was planned goes out

	trail  atomic.Pointer[trailState]
	wakeup chan struct{}
}

// place is what an alert is of.
type place struct{ rule, object string }

// NewAlerts returns the service.
func NewAlerts(d Deps, c AlertConfig) *Alerts {
	if c.TenantNotifier == nil {
		c.TenantNotifier = c.Notifier
	}
	return &Alerts{
		d: d.withDefaults(), c: c, since: map[place]time.Time{}, gone: map[string]time.Time{}, found: map[string]cachedFacts{},
		paces: map[string]time.Time{}, wakeup: make(chan struct{}, 1),
	}
}

// notifier is what sends to a channel of a tenant's, or, with "", of the operators'.
func (s *Alerts) notifier(tenantID string) Notifier {
	if tenantID != "" {
		return s.c.TenantNotifier
	}
	return s.c.Notifier
}

// CanMail reports whether mail can be sent at all.
func (s *Alerts) CanMail() bool { return s.c.Notifier != nil && s.c.Notifier.CanMail() }

// CanSend reports whether anything can be sent.
func (s *Alerts) CanSend() bool { return s.c.Notifier != nil }

// Unknown says why nobody can answer what rules of a kind ask; "" when somebody can.
func (s *Alerts) Unknown(k AlertKind) string {
	switch {
	case (k == AlertQuotaUsed || k == AlertForecast) && s.c.Quotas == nil:
		return "This console does not know how quotas stand."
	case k == AlertLedgerGap && s.c.Ledger == nil:
		return "This console keeps no ledger."
	}
	return ""
}

// nudge has messages sent now. It never blocks.
func (s *Alerts) nudge() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// List lists the operators' alerts, the newest first, and the cursor to the next page.
func (s *Alerts) List(ctx context.Context, q AlertQuery) (items []Alert, next string, err error) {
	q.TenantID = ""
	return paged(ctx, s.d.Store, q.Page, func(tx Tx, after Cursor, limit int) ([]Alert, error) {
		return tx.Alerts(ctx, q, after, limit)
	}, func(a Alert) Cursor { return Cursor{At: a.OpenedAt, ID: a.ID} })
}

// CountOpen counts the operators' open alerts.
func (s *Alerts) CountOpen(ctx context.Context) (n int64, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		n, err = tx.CountOpenAlerts(ctx)
		return err
	})
	return n, err
}

// Rules lists the rules, the oldest first.
func (s *Alerts) Rules(ctx context.Context) (out []AlertRule, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.AlertRules(ctx)
		return err
	})
	return out, err
}

// Rule finds a rule.
func (s *Alerts) Rule(ctx context.Context, id string) (AlertRule, error) {
	all, err := s.Rules(ctx)
	if err != nil {
		return AlertRule{}, err
	}
	i := slices.IndexFunc(all, func(r AlertRule) bool { return r.ID == id })
	if i < 0 {
		return AlertRule{}, notFound("rule")
	}
	return all[i], nil
}

// AlertRuleInput is what a rule is made of. Kind cannot be changed afterwards.
type AlertRuleInput struct {
	Name      string
	Kind      AlertKind
	Threshold int64
	For       time.Duration
	Channels  []string
	Enabled   bool
}

const (
	maxAlertRules = 100
	maxAlertFor   = 24 * time.Hour
)

// checked is the rule that an input makes of r.
func (in AlertRuleInput) checked(r AlertRule, channels []AlertChannel) (AlertRule, error) {
	var p problems
	r.Name, r.Threshold, r.For, r.Enabled = p.name("name", in.Name), in.Threshold, in.For, in.Enabled
	info, ok := in.Kind.KindInfo()
	switch {
	case !ok:
		p.add("kind", "Choose what to look at.")
	case info.Unit == "":
		r.Threshold = 0
	case in.Threshold < info.Least || in.Threshold > info.Most:
		p.add("threshold", "Between %d and %d %s.", info.Least, info.Most, info.Unit)
	}
	if in.For < 0 || in.For > maxAlertFor || in.For%time.Second != 0 {
		p.add("for", "Whole seconds, at most 24 hours.")
	}
	r.Channels = nil
	for _, id := range in.Channels {
		switch {
		case !slices.ContainsFunc(channels, func(c AlertChannel) bool { return c.ID == id }):
			p.add("channels", "There is no such channel.")
		case !slices.Contains(r.Channels, id):
			r.Channels = append(r.Channels, id)
		}
	}
	return r, p.err()
}

// ruleView is what the audit trail says of a rule.
type ruleView struct {
	Name      string    `json:"name"`
	Kind      AlertKind `json:"kind"`
	Threshold int64     `json:"threshold"`
	For       string    `json:"for,omitempty"`
	Channels  []string  `json:"channels"`
	Enabled   bool      `json:"enabled"`
}

func viewRule(r AlertRule) ruleView {
	v := ruleView{Name: r.Name, Kind: r.Kind, Threshold: r.Threshold, Channels: r.Channels, Enabled: r.Enabled}
	if r.For > 0 {
		v.For = r.For.String()
	}
	return v
}

// AddRule makes a rule.
func (s *Alerts) AddRule(ctx context.Context, actor Actor, in AlertRuleInput) (AlertRule, error) {
	if err := actor.need(PermManageAlerts); err != nil {
		return AlertRule{}, err
	}
	id, err := s.d.newID("alr")
	if err != nil {
		return AlertRule{}, err
	}
	var r AlertRule
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		channels, err := tx.AlertChannels(ctx, "")
		if err != nil {
			return err
		}
		now := s.d.now()
		if r, err = in.checked(AlertRule{ID: id, Kind: in.Kind, CreatedAt: now, UpdatedAt: now}, channels); err != nil {
			return err
		}
		all, err := tx.AlertRules(ctx)
		if err != nil {
			return err
		}
		if len(all) >= maxAlertRules {
			return conflict("100 rules are the most. Remove one first.")
		}
		if err := tx.InsertAlertRule(ctx, r); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{action: "alert.add-rule", object: "alert-rule", objectID: id, after: viewRule(r)})
	})
	return r, err
}

// ChangeRule replaces all of a rule but its kind.
func (s *Alerts) ChangeRule(ctx context.Context, actor Actor, id string, in AlertRuleInput) (AlertRule, error) {
	if err := actor.need(PermManageAlerts); err != nil {
		return AlertRule{}, err
	}
	var r AlertRule
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		old, err := tx.LockAlertRule(ctx, id)
		if err != nil {
			return err
		}
		channels, err := tx.AlertChannels(ctx, "")
		if err != nil {
			return err
		}
		in.Kind = old.Kind
		now := s.d.now()
		if r, err = in.checked(old, channels); err != nil {
			return err
		}
		r.UpdatedAt = now
		if err := tx.UpdateAlertRule(ctx, r); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{action: "alert.change-rule", object: "alert-rule", objectID: id, before: viewRule(old), after: viewRule(r)})
	})
	return r, err
}

// RemoveRule removes a rule. Alerts that it raised are over with the next evaluation.
func (s *Alerts) RemoveRule(ctx context.Context, actor Actor, id string) error {
	if err := actor.need(PermManageAlerts); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		old, err := tx.LockAlertRule(ctx, id)
		if err != nil {
			return err
		}
		if err := tx.DeleteAlertRule(ctx, id); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, s.d.now(), event{action: "alert.remove-rule", object: "alert-rule", objectID: id, before: viewRule(old)})
	})
}
