package console

import (
	"context"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// LockoutRef names a lockout: by id, or by limit and subject. A subject is a tenant's id,
// an address, "everything together", or what the list shows.
type LockoutRef struct {
	ID      string
	Limit   string
	Subject string
}

// LockoutDone is what an act on a lockout did.
type LockoutDone struct {
	Change
	Lockout Lockout // as it was
	// Before and After are whole tokens; they mean nothing where Part has none.
	Before, After int64
	// Until is when the least that was refused passes after it; nil when at once.
	Until *time.Time
}

// stateTimeoutAct bounds one change of limiter state.
const stateTimeoutAct = 3 * time.Second

// Unlock lets a subject through that a limit refuses: its bucket is filled, and gateways
// forget what they remember of it. Over any time that gives it one more burst at most.
// It is CodeConflict where filling would not help: a limit that admits nothing, places
// of a concurrency limit, and quotas.
func (s *Lockouts) Unlock(ctx context.Context, actor Actor, ref LockoutRef, reason string) (LockoutDone, error) {
	l, reason, err := s.open(ctx, actor, ref, reason)
	if err != nil {
		return LockoutDone{}, err
	}
	if !l.CanUnlock {
		return LockoutDone{}, conflict("An unlock would not let this through. " + l.Why)
	}
	return s.act(ctx, actor, "unlock", l, reason, func(ctx context.Context, done *LockoutDone) error {
		if l.Part == LockoutCredentials { // the replicas' own
			return nil
		}
		return s.move(ctx, done, l, l.ask.Numbers.Burst, l.ask.Numbers.Burst)
	})
}

// MaxLockoutExtension is the longest that a lockout can be made to last.
const MaxLockoutExtension = 24 * time.Hour

// Extend keeps a subject out of a rate limit for a time from now on: its bucket is drawn
// down as far as it takes. A lockout that lasts longer anyway stays as it is.
func (s *Lockouts) Extend(ctx context.Context, actor Actor, ref LockoutRef, lasting time.Duration, reason string) (LockoutDone, error) {
	l, reason, err := s.open(ctx, actor, ref, reason)
	if err != nil {
		return LockoutDone{}, err
	}
	if lasting < time.Second || lasting > MaxLockoutExtension {
		return LockoutDone{}, invalid(FieldError{Field: "for", Message: "This must be 1 second to 24 hours."})
	}
	if l.Part != LockoutRate || l.Never {
		return LockoutDone{}, conflict("Only a lockout by a rate limit can be prolonged.")
	}
	if l.Kind == LockoutGlobal || l.Shared {
		return LockoutDone{}, conflict("This bucket is shared: prolonging it would keep out everybody who draws from it.")
	}
	n := l.ask.Numbers
	high, drawn := bits.Mul64(uint64(lasting.Microseconds()), uint64(n.Tokens))
	if high != 0 || drawn >= policy.MaxUnits/2 {
		return LockoutDone{}, conflict("This limit refills too fast to be drawn down for so long. Suspend the tenant, or set an override of 0.")
	}
	ceiling := floorDiv(l.Cost*n.Period-int64(drawn), n.Period)
	return s.act(ctx, actor, "extend", l, reason, func(ctx context.Context, done *LockoutDone) error {
		return s.move(ctx, done, l, min(ceiling, -policy.MaxUnits), ceiling)
	})
}

// ReleaseTenant ends leases of a tenant's concurrency limit by name. The requests that
// hold them go on, uncounted.
func (s *Lockouts) ReleaseTenant(ctx context.Context, actor Actor, tenantID, limit string, names []string, reason string) (LockoutDone, error) {
	if err := actor.need(PermUnlock); err != nil {
		return LockoutDone{}, err
	}
	list, err := s.OfTenant(ctx, actor, tenantID)
	if err != nil {
		return LockoutDone{}, err
	}
	return s.release(ctx, actor, list, limit, names, reason)
}

// ReleaseLockout is ReleaseTenant for the subject of a lockout.
func (s *Lockouts) ReleaseLockout(ctx context.Context, actor Actor, id, limit string, names []string, reason string) (LockoutDone, error) {
	if err := actor.need(PermUnlock); err != nil {
		return LockoutDone{}, err
	}
	_, list, err := s.OfLockout(ctx, actor, id)
	if err != nil {
		return LockoutDone{}, err
	}
	return s.release(ctx, actor, list, limit, names, reason)
}

func (s *Lockouts) release(ctx context.Context, actor Actor, list []HeldLimit, limit string, names []string, reason string) (LockoutDone, error) {
	var p problems
	reason = p.reason(reason)
	at := slices.IndexFunc(list, func(h HeldLimit) bool { return h.Limit == limit && h.Part == LockoutConcurrency })
	if at < 0 {
		p.add("limit", "%s is no concurrency limit that counts this subject.", limit)
	}
	if len(names) == 0 || len(names) > limiter.MaxLeases {
		p.add("lease", "Choose 1 to %d leases.", limiter.MaxLeases)
	}
	if err := p.err(); err != nil {
		return LockoutDone{}, err
	}
	h := list[at]
	return s.act(ctx, actor, "release", h.lockout(s), reason, func(ctx context.Context, done *LockoutDone) error {
		moved, err := s.state.EndLeases(ctx, h.ask, names)
		done.Before, done.After = h.Most-moved.Before.Active, h.Most-moved.After.Active
		return err
	})
}

// open checks who asks and finds the lockout.
func (s *Lockouts) open(ctx context.Context, actor Actor, ref LockoutRef, reason string) (Lockout, string, error) {
	if err := actor.need(PermUnlock); err != nil {
		return Lockout{}, "", err
	}
	var p problems
	reason = p.reason(reason)
	if ref.ID == "" && ref.Limit == "" {
		p.add("limit", "Name the limit, such as plan.requests, or the lockout by its id.")
	}
	if ref.ID == "" && strings.TrimSpace(ref.Subject) == "" {
		p.add("subject", "Name who is refused: a tenant's id, an address, or what the list of lockouts shows.")
	}
	if err := p.err(); err != nil {
		return Lockout{}, "", err
	}
	if s.state == nil {
		return Lockout{}, "", &Error{Code: CodeUnavailable, Public: "This console is not connected to limiter state."}
	}
	l, err := s.resolve(ctx, ref)
	return l, reason, err
}

// resolve finds a lockout that is listed, or makes one of a limit and a subject that can
// be told from their names.
func (s *Lockouts) resolve(ctx context.Context, ref LockoutRef) (Lockout, error) {
	if ref.ID != "" {
		return s.find(ctx, ref.ID)
	}
	subject := strings.TrimSpace(ref.Subject)
	v := s.view(ctx, 0)
	for _, l := range v.list.Items {
		if l.Limit == ref.Limit && (l.Subject == subject || l.Tenant == subject && l.row.Kind == "t") {
			return l, nil
		}
	}
	row := usage.RefusedRow{Kind: "t", Tenant: subject}
	if addr, err := netip.ParseAddr(subject); err == nil {
		row = usage.RefusedRow{Kind: "i", Subject: usage.RawBytes(addr.Unmap().String())}
	} else if subject == "everything together" {
		row = usage.RefusedRow{Kind: "g"}
	} else if !strings.HasPrefix(subject, "ten_") {
		return Lockout{}, notFound("lockout of this subject by this limit")
	}
	return s.unlisted(ctx, ref.Limit, row)
}

// unlisted is a subject that nobody reported, as Redis has it now.
func (s *Lockouts) unlisted(ctx context.Context, limit string, row usage.RefusedRow) (Lockout, error) {
	var tenants []string
	if row.Tenant != "" {
		tenants = []string{row.Tenant}
	}
	known, err := s.terms(ctx, tenants)
	if err != nil {
		return Lockout{}, err
	}
	if row.Tenant != "" && known.own[row.Tenant].plan == "" {
		return Lockout{}, notFound("tenant")
	}
	for _, part := range []LockoutPart{LockoutRate, LockoutConcurrency, LockoutQuota} {
		now := s.d.now().UnixMicro()
		m := usage.MergedRefused{Limit: limit, RefusedCount: usage.RefusedCount{Refused: usage.Refused{Row: row, Part: string(part), Cost: 1}, First: now, Last: now}}
		if l, _, ok := s.candidate(&m, known); ok && s.countsBy(known, l) {
			return l, nil
		}
	}
	return Lockout{}, notFound("limit that refuses this subject")
}

// countsBy reports whether the limit counts subjects of this kind.
func (s *Lockouts) countsBy(known knownTerms, l Lockout) bool {
	limit, _ := known.law.limitNamed(l.Limit, known.own[l.Tenant].plan)
	per := policy.PerTenant
	switch {
	case limit.rate != nil:
		per = limit.rate.Per
	case limit.slots != nil:
		per = limit.slots.Per
	}
	return map[string]policy.Per{"t": policy.PerTenant, "i": policy.PerIP, "g": policy.PerGlobal}[l.row.Kind] == per
}

// move moves a bucket between two levels in whole tokens, and tells what came of it.
func (s *Lockouts) move(ctx context.Context, done *LockoutDone, l Lockout, floor, ceiling int64) error {
	moved, err := s.state.Adjust(ctx, []limiter.Adjustment{{Ask: l.ask, Floor: floor, Ceiling: ceiling}})
	if err != nil {
		return err
	}
	if moved[0].Before.Broken {
		return conflict("The key of this bucket in Redis holds something else. Repair it first.")
	}
	before, after := moved[0].Before, moved[0].After
	done.Before, done.After = floorDiv(before.Units, before.Numbers.Period), floorDiv(after.Units, after.Numbers.Period)
	if wait := after.Waits(l.Cost); wait > 0 {
		at := time.UnixMicro(after.NowMicros + wait).UTC()
		done.Until = &at
	}
	return nil
}

// act writes that something will be done, does it, and has gateways forget what they
// remember. The state lies in Redis and the trail in PostgreSQL, so one comes first: what
// was done without a trace would be worse than a trace of what failed, which is noted too.
func (s *Lockouts) act(ctx context.Context, actor Actor, verb string, l Lockout, reason string, do func(context.Context, *LockoutDone) error) (LockoutDone, error) {
	done := LockoutDone{Lockout: l.shownTo(actor)}
	masked, _ := maskSubject(l.row)
	ev := event{
		action: "lockout." + verb, object: "lockout", objectID: s.idOf(l.Limit, l.row), tenantID: l.Tenant, reason: reason,
		before: map[string]any{"limit": l.Limit, "subject": masked, "left": l.Left, "until": l.Until},
	}
	if err := s.note(ctx, actor, ev, nil); err != nil {
		return LockoutDone{}, err
	}
	ask, cancel := context.WithTimeout(ctx, stateTimeoutAct)
	err := do(ask, &done)
	cancel()
	if err != nil {
		s.d.Log.WarnContext(ctx, "limiter state was not changed", "act", verb, "limit", l.Limit, "error", err)
		failed := ev
		failed.action, failed.before = "lockout.failed", map[string]any{"act": verb, "limit": l.Limit, "subject": masked}
		if noted := s.note(context.WithoutCancel(ctx), actor, failed, nil); noted != nil {
			s.d.Log.ErrorContext(ctx, "it could not be noted that an act failed", "error", noted)
		}
		if CodeOf(err) != CodeInternal {
			return LockoutDone{}, err
		}
		return LockoutDone{}, &Error{Code: CodeUnavailable, Public: "Redis did not change the limit's state in time. Look again: it may have.", Cause: err, Unsure: true}
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		done.Change, err = s.forget(ctx, tx, l)
		return err
	})
	if err != nil {
		return LockoutDone{}, fmt.Errorf("have gateways forget: %w", err)
	}
	s.d.Nudge()
	s.mu.Lock()
	s.last = nil
	s.mu.Unlock()
	return done, nil
}

// note writes an event in a transaction of its own, with what else belongs to it.
func (s *Lockouts) note(ctx context.Context, actor Actor, ev event, also func(Tx) error) error {
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		if also != nil {
			if err := also(tx); err != nil {
				return err
			}
		}
		return s.d.record(ctx, tx, actor, s.d.now(), ev)
	})
}

// forget has gateways drop what they remember: a tenant's by its record, which is sent
// again, and others' by their group.
func (s *Lockouts) forget(ctx context.Context, tx Tx, l Lockout) (Change, error) {
	kind, ref := OutboxTenant, l.Tenant
	if ref == "" {
		row := l.ask.Row
		kind, ref = OutboxRefusals, strconv.Itoa(limiter.DenyGroup(&row))
	}
	id, err := tx.InsertOutbox(ctx, kind, ref, s.d.now())
	if err != nil {
		return Change{}, fmt.Errorf("insert outbox row: %w", err)
	}
	return Change{OutboxID: id}, nil
}
