package console

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// boostCaps is how far somebody may raise a limit.
type boostCaps struct {
	factor int64 // thousandths
	length time.Duration
	manage bool // also what others set
}

func boostCapsOf(actor Actor) (boostCaps, error) {
	if actor.need(PermManageTenants) == nil {
		return boostCaps{MaxBoost, MaxBoostFor, true}, nil
	}
	return boostCaps{MaxSmallBoost, MaxSmallBoostFor, false}, actor.need(PermBoost)
}

// within reports whether an override is one that these caps could have made.
func (c boostCaps) within(o TenantOverride) bool {
	return c.manage || o.IsBoost() && o.FactorMilli <= c.factor && o.ExpiresAt != nil && o.ExpiresAt.Sub(o.CreatedAt) <= c.length
}

// beyond is the refusal of somebody who may boost a little and no more.
func (c boostCaps) beyond(field string) error {
	text := fmt.Sprintf("Your role may raise a limit by ×%s at most, for %s at most.", FactorText(c.factor), lengthText(c.length))
	return &Error{Code: CodeForbidden, Public: text, Fields: []FieldError{{Field: field, Message: text}}}
}

func lengthText(d time.Duration) string {
	if d%(24*time.Hour) == 0 && d > 24*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return fmt.Sprintf("%g h", d.Hours())
}

// overrideWriter is one tenant whose overrides change, locked for the rest of the
// transaction. Opening it ends those whose time is over.
type overrideWriter struct {
	s      *Overrides
	tx     Tx
	actor  Actor
	now    time.Time
	tenant Tenant
	before Tenant
	law    *law // for set
	open   []TenantOverride
	events []overrideEvent
}

// overrideEvent is an event of the trail, which is written last: it has one
// writer at a time.
type overrideEvent struct {
	event
	actor Actor
}

func (s *Overrides) open(ctx context.Context, tx Tx, actor Actor, tenantID string) (*overrideWriter, error) {
	t, err := lockLiveTenant(ctx, tx, tenantID)
	if err != nil {
		return nil, err
	}
	w := &overrideWriter{s: s, tx: tx, actor: actor, now: s.d.now(), tenant: t, before: t}
	open, err := tx.OpenOverrides(ctx, []string{tenantID})
	if err != nil {
		return nil, err
	}
	for _, o := range open {
		o.TenantName = t.Name
		if o.Live(w.now) {
			w.open = append(w.open, o)
			continue
		}
		if err := w.finish(ctx, SystemActor(), "expire", o, *o.ExpiresAt, endExpired); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// endExpired is why an override ended whose time was over.
const endExpired = "Its time was over."

// finish ends one; it is not among the open ones any more.
func (w *overrideWriter) finish(ctx context.Context, actor Actor, verb string, o TenantOverride, at time.Time, reason string) error {
	before := viewOverride(o)
	o.EndedAt, o.EndedBy, o.EndReason = &at, actor.Name, reason
	if err := w.tx.UpdateOverride(ctx, o); err != nil {
		return fmt.Errorf("end override %s: %w", o.ID, err)
	}
	w.note(actor, verb, o, before, nil, reason)
	return nil
}

// note keeps an event for save: "override.set", "boost.end", ….
func (w *overrideWriter) note(actor Actor, verb string, o TenantOverride, before, after any, reason string) {
	w.events = append(w.events, overrideEvent{event{
		action: string(o.Kind()) + "." + verb, object: "override", objectID: o.ID, tenantID: o.TenantID, before: before, after: after, reason: reason,
	}, actor})
}

// save writes the tenant with its record for the gateways, and the events.
func (w *overrideWriter) save(ctx context.Context) (Change, error) {
	w.tenant.Seq, w.tenant.UpdatedAt = w.before.Seq+1, w.now
	if err := w.tx.UpdateTenant(ctx, w.tenant); err != nil {
		return Change{}, err
	}
	id, err := w.tx.InsertOutbox(ctx, OutboxTenant, w.tenant.ID, w.now)
	if err != nil {
		return Change{}, fmt.Errorf("insert outbox row of tenant %s: %w", w.tenant.ID, err)
	}
	return Change{OutboxID: id}, w.tell(ctx)
}

// tell writes the events.
func (w *overrideWriter) tell(ctx context.Context) error {
	for _, e := range w.events {
		if err := w.s.d.record(ctx, w.tx, e.actor, w.now, e.event); err != nil {
			return err
		}
	}
	w.events = nil
	return nil
}

// take removes one kind of override of a limit from the open ones and returns it.
func (w *overrideWriter) take(limit string, kind OverrideKind) (TenantOverride, bool) {
	for i, o := range w.open {
		if o.Limit == limit && o.Kind() == kind {
			w.open = append(w.open[:i:i], w.open[i+1:]...)
			return o, true
		}
	}
	return TenantOverride{}, false
}

// set puts an override or a boost in force, in place of the one there was.
func (w *overrideWriter) set(ctx context.Context, o TenantOverride, lower bool) (OverrideSet, error) {
	o.Limit, o.Rate = strings.TrimSpace(o.Limit), strings.TrimSpace(o.Rate)
	var err error
	if w.law, err = w.s.laws.inForce(ctx, w.tx); err != nil {
		return OverrideSet{}, err
	}
	was, err := w.check(&o)
	if err != nil {
		return OverrideSet{}, err
	}
	if o.ID, err = w.s.d.newID("ovr"); err != nil {
		return OverrideSet{}, err
	}
	old, replaced := w.take(o.Limit, o.Kind())
	w.open = append([]TenantOverride{o}, w.open...)
	if err := w.fits(); err != nil {
		return OverrideSet{}, err
	}
	now := w.law.limit(w.tenant.Plan, o.Limit, w.open, w.now)
	if !lower && now.Now().Value.Below(was.Now().Value) {
		return OverrideSet{}, askLower(was, now)
	}
	after := viewOverride(o)
	after.InForce, after.Instead = now.Now().Text, was.Now().Text
	var before any
	if replaced {
		before = viewOverride(old)
		old.EndedAt, old.EndedBy, old.EndReason = &w.now, w.actor.Name, "Replaced by "+o.ID+"."
		if err := w.tx.UpdateOverride(ctx, old); err != nil {
			return OverrideSet{}, fmt.Errorf("end override %s: %w", old.ID, err)
		}
	}
	if err := w.tx.InsertOverride(ctx, o); err != nil {
		return OverrideSet{}, fmt.Errorf("insert override %s: %w", o.ID, err)
	}
	w.note(w.actor, "set", o, before, after, o.Reason)
	c, err := w.save(ctx)
	return OverrideSet{o, c}, err
}

// check fills in who and when, and holds the override against the policy in
// force. It returns the limit as it is now.
func (w *overrideWriter) check(o *TenantOverride) (*LimitInForce, error) {
	var p problems
	o.TenantID, o.TenantName, o.AuthorID, o.Author, o.CreatedAt = w.tenant.ID, w.tenant.Name, w.actor.ID, w.actor.Name, w.now
	o.Reason = p.reason(o.Reason)
	if o.ExpiresAt != nil {
		at := o.ExpiresAt.UTC().Truncate(time.Microsecond)
		o.ExpiresAt = &at
		p.future("expires_at", at, w.now)
	}
	if w.law == nil {
		return nil, conflict("No policy is in force yet: there is no limit to have another value for.")
	}
	now := w.law.limit(w.tenant.Plan, o.Limit, w.open, w.now)
	if now == nil || !now.Own {
		p.add("limit", "%s", w.unknown(o.Limit, now))
		return nil, p.err()
	}
	for _, problem := range w.law.CheckOverrides(w.tenant.Plan, []policy.Override{o.Override}).Problems {
		p.add(overrideField(problem.Path), "%s", sentence(problem.Message))
	}
	if v := now.Now().Value; o.IsBoost() && v.Unlimited {
		p.add("limit", "%s is unlimited for this tenant already.", o.Limit)
	} else if o.IsBoost() && (v.Blocked() || v.Rate == "" && v.Amount+v.Max == 0) {
		p.add("limit", "%s admits nothing for this tenant, and a multiple of nothing is nothing. Set a value of its own.", o.Limit)
	}
	return now, p.err()
}

// unknown says that the tenant meets no such limit and which it does.
func (w *overrideWriter) unknown(id string, met *LimitInForce) string {
	text := fmt.Sprintf("A tenant on plan %s meets no limit %q.", w.tenant.Plan, excerptOf(id))
	if met != nil {
		text = fmt.Sprintf("%s is counted for several tenants together: a tenant has no value of its own for it.", excerptOf(id))
	}
	if near := w.law.near(w.tenant.Plan, id); len(near) > 0 {
		text += " It does meet " + strings.Join(near, ", ") + "."
	}
	return text
}

// overrideField is the input field of a problem's path.
func overrideField(path string) string {
	field := strings.TrimPrefix(path, "overrides[0].")
	if field == "factor_milli" {
		return "factor"
	}
	return field
}

// sentence makes one of a problem that is meant to follow its path.
func sentence(s string) string {
	if strings.HasPrefix(s, "is ") || strings.HasPrefix(s, "means ") || strings.HasPrefix(s, "stands ") {
		s = "This " + s
	}
	return strings.TrimSuffix(s, ".") + "."
}

// fits refuses more overrides than a record carries.
func (w *overrideWriter) fits() error {
	if n := len(w.open); n > policy.MaxOverrides {
		return invalid(FieldError{Field: "limit", Message: fmt.Sprintf(
			"The tenant has %d values of its own and boosts, and at most %d can hold at once. End some first.", n-1, policy.MaxOverrides)})
	}
	size, err := tenantTerms{Tenant: w.tenant, open: w.open}.size()
	if err != nil {
		return err
	}
	if size > MaxTenantRecord {
		return invalid(FieldError{Field: "reason", Message: fmt.Sprintf(
			"With this the tenant's record has %d bytes, and gateways take %d. Shorten reasons or end some of its %d overrides first.", size, MaxTenantRecord, len(w.open)-1)})
	}
	return nil
}

// askLower asks whether a lower value is meant.
func askLower(was, now *LimitInForce) error {
	text := fmt.Sprintf("%s goes down from %s (%s) to %s.", was.ID, was.Now().Text, was.Now().Source, now.Now().Text)
	return confirmed([]Confirmation{{Code: ConfirmLower, Text: text}}, nil)
}

// end ends one before its time.
func (w *overrideWriter) end(ctx context.Context, limit string, kind OverrideKind, reason string, caps boostCaps) (OverrideSet, error) {
	o, ok := w.take(limit, kind)
	if !ok {
		return OverrideSet{}, notFound(string(kind))
	}
	if !caps.within(o) {
		return OverrideSet{}, caps.beyond("limit")
	}
	if err := w.finish(ctx, w.actor, "end", o, w.now, reason); err != nil {
		return OverrideSet{}, err
	}
	c, err := w.save(ctx)
	o.EndedAt, o.EndedBy, o.EndReason = &w.now, w.actor.Name, reason
	return OverrideSet{o, c}, err
}

// extend gives one another end.
func (w *overrideWriter) extend(ctx context.Context, id string, in Extension, caps boostCaps) (OverrideSet, error) {
	for i := range w.open {
		o := &w.open[i]
		if o.ID != id {
			continue
		}
		before := viewOverride(*o)
		old := *o
		if in.Until != nil {
			at := in.Until.UTC().Truncate(time.Microsecond)
			in.Until = &at
		}
		o.ExpiresAt = in.Until
		if err := w.mayEndAt(old, *o, caps); err != nil {
			return OverrideSet{}, err
		}
		if err := w.fits(); err != nil {
			return OverrideSet{}, err
		}
		if err := w.tx.UpdateOverride(ctx, *o); err != nil {
			return OverrideSet{}, fmt.Errorf("extend override %s: %w", id, err)
		}
		w.note(w.actor, "extend", *o, before, viewOverride(*o), in.Reason)
		c, err := w.save(ctx)
		return OverrideSet{*o, c}, err
	}
	return OverrideSet{}, conflict("It has ended; make a new one.")
}

func (w *overrideWriter) mayEndAt(old, o TenantOverride, caps boostCaps) error {
	switch {
	case !caps.within(old):
		return caps.beyond("until")
	case o.ExpiresAt == nil && o.IsBoost():
		return invalid(FieldError{Field: "until", Message: "A boost has an end."})
	case o.ExpiresAt != nil && !o.ExpiresAt.After(w.now):
		return invalid(FieldError{Field: "until", Message: "This is over already; give a time to come."})
	case !caps.within(o):
		return caps.beyond("until")
	case o.IsBoost() && o.ExpiresAt.Sub(w.now) > MaxBoostFor:
		return invalid(FieldError{Field: "until", Message: fmt.Sprintf("A boost ends within %s.", lengthText(MaxBoostFor))})
	}
	return nil
}

// endAll ends what a tenant has that is deleted, without a change of its own.
func (w *overrideWriter) endAll(ctx context.Context, reason string) error {
	for _, o := range w.open {
		if err := w.finish(ctx, w.actor, "end", o, w.now, reason); err != nil {
			return err
		}
	}
	w.open = nil
	return w.tell(ctx)
}

// boostIn raises a limit within caps, in the caller's transaction, whatever the
// actor's role; the caller nudges the relay after its commit. It never lowers
// anything unless in says so.
func (s *Overrides) boostIn(ctx context.Context, tx Tx, actor Actor, tenantID string, in NewBoost, caps boostCaps) (OverrideSet, error) {
	if err := in.check(caps); err != nil {
		return OverrideSet{}, err
	}
	w, err := s.open(ctx, tx, actor, tenantID)
	if err != nil {
		return OverrideSet{}, err
	}
	for _, o := range w.open {
		if o.IsBoost() && o.Limit == strings.TrimSpace(in.Limit) && !caps.within(o) {
			return OverrideSet{}, caps.beyond("limit")
		}
	}
	until := w.now.Add(in.For)
	o := TenantOverride{TenantID: tenantID}
	o.Limit, o.FactorMilli, o.Reason, o.ExpiresAt = in.Limit, in.FactorMilli, in.Reason, &until
	return w.set(ctx, o, in.Lower)
}

func (in NewBoost) check(caps boostCaps) error {
	var p problems
	if in.FactorMilli <= 1000 || in.FactorMilli > MaxBoost {
		p.add("factor", "More than 1, at most %s.", FactorText(MaxBoost))
	}
	if in.For < MinBoostFor || in.For > MaxBoostFor {
		p.add("for", "From %s to %s.", MinBoostFor, lengthText(MaxBoostFor))
	}
	if err := p.err(); err != nil {
		return err
	}
	if in.FactorMilli > caps.factor {
		return caps.beyond("factor")
	}
	if in.For > caps.length {
		return caps.beyond("for")
	}
	return nil
}
