package console

import (
	"context"
	"slices"
	"time"
)

const (
	evaluateEvery = 2 * time.Second
	// settleFor is how long something must not be so any more before it is told that
	// it is over: what comes and goes is one alert.
	settleFor = 30 * time.Second
	// seeEvery bounds how old an open alert's SeenAt gets.
	seeEvery       = 30 * time.Second
	maxOpenAlerts  = 10_000
	maxToldWaiting = 500 // messages of one channel: beyond, alerts wait to be told
	alertsKept     = 400 * 24 * time.Hour
	deliveriesKept = 90 * 24 * time.Hour
)

// watch is a rule of operators or a tenant's own mark.
type alertWatch struct {
	id, name  string
	kind      AlertKind
	threshold int64
	hold      time.Duration // how long it has to be so
	tenantID  string        // whose mark it is; "" for a rule
	channels  []string      // of a rule
	enabled   bool
	changed   time.Time
}

// outlook is what an evaluation begins with.
type outlook struct {
	now      time.Time
	watches  []alertWatch
	open     map[string]map[string]Alert // by rule and object
	silences []AlertSilence
}

// silenced reports whether nobody is to be told. Tenants' own marks are not silenced.
func (o *outlook) silenced(w alertWatch, object string) bool {
	return w.tenantID == "" && slices.ContainsFunc(o.silences, func(s AlertSilence) bool { return s.Fits(w.id, object) && s.Holds(o.now) })
}

// Run evaluates until ctx ends. One console at a time does.
func (s *Alerts) Run(ctx context.Context) error {
	s.mu.Lock()
	clear(s.since)
	clear(s.gone)
	clear(s.found)
	s.mu.Unlock()
	trail := make(chan struct{})
	go func() {
		defer close(trail)
		s.d.repeat(ctx, trailEvery, "the audit trail is not verified", s.CheckTrail)
	}()
	s.d.repeat(ctx, evaluateEvery, "alerts are not evaluated", s.d.andSweep(s.Evaluate, s.sweep))
	<-trail
	return nil
}

// Evaluate looks once at all that rules and marks ask for, and opens and resolves
// alerts. What nobody knows at the moment stays as it is.
func (s *Alerts) Evaluate(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.outlook(ctx)
	if err != nil {
		return err
	}
	asked := map[string]bool{}
	for _, w := range o.watches {
		if !w.enabled {
			continue
		}
		asked[w.id] = true
		list, known := s.facts(ctx, w, o.now)
		if !known {
			continue
		}
		if err := s.judge(ctx, o, w, list); err != nil {
			return err
		}
	}
	return s.forget(ctx, o, asked)
}

// outlook reads rules, marks, open alerts and silences.
func (s *Alerts) outlook(ctx context.Context) (*outlook, error) {
	o := &outlook{now: s.d.now(), open: map[string]map[string]Alert{}}
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		rules, err := tx.AlertRules(ctx)
		if err != nil {
			return err
		}
		marks, err := tx.AllThresholds(ctx)
		if err != nil {
			return err
		}
		open, err := tx.OpenAlerts(ctx, maxOpenAlerts)
		if err != nil {
			return err
		}
		o.watches = watchesOf(rules, marks)
		for _, a := range open {
			if o.open[a.RuleID] == nil {
				o.open[a.RuleID] = map[string]Alert{}
			}
			o.open[a.RuleID][a.Object] = a
		}
		o.silences, err = tx.AlertSilences(ctx, true, o.now)
		return err
	})
	return o, err
}

func watchesOf(rules []AlertRule, marks []TenantThreshold) []alertWatch {
	out := make([]alertWatch, 0, len(rules)+len(marks))
	for _, r := range rules {
		w := alertWatch{id: r.ID, name: r.Name, kind: r.Kind, threshold: r.Threshold, hold: r.For, channels: r.Channels, enabled: r.Enabled, changed: r.UpdatedAt}
		if r.Kind == AlertDegraded {
			w.hold += time.Duration(r.Threshold) * time.Second
		}
		out = append(out, w)
	}
	kinds := map[ThresholdKind]AlertKind{ThresholdRefused: AlertMarkRefused, ThresholdRequests: AlertMarkRequests, ThresholdQuota: AlertMarkQuota}
	for _, m := range marks {
		out = append(out, alertWatch{id: m.ID, name: "Mark of " + m.Tenant, kind: kinds[m.Kind], threshold: m.Value, tenantID: m.TenantID, enabled: true, changed: m.CreatedAt})
	}
	return out
}

// judge compares what is so with what is open of one rule.
func (s *Alerts) judge(ctx context.Context, o *outlook, w alertWatch, list []finding) error {
	so := map[string]bool{}
	for _, f := range list {
		so[f.object] = true
		at := place{w.id, f.object}
		if s.since[at].IsZero() {
			s.since[at] = o.now
		}
		a, isOpen := o.open[w.id][f.object]
		var err error
		switch {
		case isOpen:
			delete(s.gone, a.ID)
			err = s.keep(ctx, o, w, a, f)
		case o.now.Sub(s.since[at]) >= w.hold:
			err = s.open(ctx, o, w, f)
		}
		if err != nil {
			return err
		}
	}
	for at := range s.since {
		if at.rule == w.id && !so[at.object] {
			delete(s.since, at)
		}
	}
	for object, a := range o.open[w.id] {
		if so[object] {
			continue
		}
		if s.gone[a.ID].IsZero() {
			s.gone[a.ID] = o.now
		}
		if o.now.Sub(s.gone[a.ID]) < settleFor {
			continue
		}
		if err := s.resolve(ctx, o, w, a, "It is no longer so."); err != nil {
			return err
		}
	}
	return nil
}

// forget resolves alerts that no rule asks for any more, and what is remembered of them.
func (s *Alerts) forget(ctx context.Context, o *outlook, asked map[string]bool) error {
	for at := range s.since {
		if !asked[at.rule] {
			delete(s.since, at)
		}
	}
	for id := range s.found {
		if !asked[id] {
			delete(s.found, id)
		}
	}
	for id, open := range o.open {
		if asked[id] {
			continue
		}
		w := alertWatch{id: id}
		if i := slices.IndexFunc(o.watches, func(w alertWatch) bool { return w.id == id }); i >= 0 {
			w = o.watches[i]
		}
		for _, a := range open {
			w.tenantID = a.TenantID
			if err := s.resolve(ctx, o, w, a, "Nobody asks for it any more: the rule was switched off or removed."); err != nil {
				return err
			}
		}
	}
	return nil
}

// open raises an alert and, unless it is silenced, writes the messages that tell of it.
func (s *Alerts) open(ctx context.Context, o *outlook, w alertWatch, f finding) error {
	id, err := s.d.newID("alt")
	if err != nil {
		return err
	}
	a := Alert{
		ID: id, TenantID: w.tenantID, RuleID: w.id, RuleName: w.name, Kind: w.kind, Object: f.object, ObjectName: f.name, Value: f.value, Threshold: w.threshold,
		Words: f.words, OpenedAt: o.now, SeenAt: o.now,
	}
	told := false
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		ok, err := tx.OpenAlert(ctx, a)
		if err != nil || !ok || o.silenced(w, f.object) {
			return err
		}
		told, err = s.tell(ctx, tx, w, a, o.now)
		return err
	})
	if told {
		s.nudge()
	}
	return err
}

// keep notes that an alert is still so, and tells of it when that was held back.
func (s *Alerts) keep(ctx context.Context, o *outlook, w alertWatch, a Alert, f finding) error {
	late := a.ToldAt == nil && !o.silenced(w, a.Object)
	if !late && a.Value == f.value && a.Words == f.words && o.now.Sub(a.SeenAt) < seeEvery {
		return nil
	}
	a.Value, a.Threshold, a.Words = f.value, w.threshold, f.words
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		if err := tx.SeeAlert(ctx, a, o.now); err != nil || !late {
			return err
		}
		_, err := s.tell(ctx, tx, w, a, o.now)
		return err
	})
	if late {
		s.nudge()
	}
	return err
}

// tell writes the messages that an alert is open. False: all channels have too many
// that wait, and it will be tried again.
func (s *Alerts) tell(ctx context.Context, tx Tx, w alertWatch, a Alert, now time.Time) (bool, error) {
	if room, err := s.post(ctx, tx, w, a, EventOpened, now); err != nil || !room {
		return false, err
	}
	return tx.TellAlert(ctx, a.ID, now)
}

// resolve ends an alert and tells those who were told of it.
func (s *Alerts) resolve(ctx context.Context, o *outlook, w alertWatch, a Alert, why string) error {
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		ok, err := tx.ResolveAlert(ctx, a.ID, why, o.now)
		if err != nil || !ok || a.ToldAt == nil || o.silenced(w, a.Object) {
			return err
		}
		over := a
		over.ResolvedAt, over.Resolution = &o.now, why
		_, err = s.post(ctx, tx, w, over, EventResolved, o.now)
		return err
	})
	if err != nil {
		return err
	}
	delete(s.gone, a.ID)
	s.nudge()
	return nil
}

// sweep removes what is old.
func (s *Alerts) sweep(ctx context.Context) error {
	for _, remove := range []func(Tx) (int64, error){
		func(tx Tx) (int64, error) {
			return tx.DeleteOldAlertDeliveries(ctx, s.d.now().Add(-deliveriesKept), sweepBatch)
		},
		func(tx Tx) (int64, error) { return tx.DeleteOldAlerts(ctx, s.d.now().Add(-alertsKept), sweepBatch) },
	} {
		err := s.d.Store.InTx(ctx, func(tx Tx) error {
			_, err := remove(tx)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
