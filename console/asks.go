package console

import (
	"context"
	"fmt"
	"time"
)

// Asks are tenants' wishes for more. Small ones for a while are granted by rule
// at once, as a boost; the others wait for an operator. None lowers anything.
type Asks struct {
	d         Deps
	overrides *Overrides
}

// NewAsks returns the asks service.
func NewAsks(d Deps, o *Overrides) *Asks { return &Asks{d: d.withDefaults(), overrides: o} }

// Ask notes a wish of a tenant's admin. The answer says whether a rule granted it.
func (s *Asks) Ask(ctx context.Context, actor Actor, in NewAsk) (Ask, error) {
	if actor.TenantID == "" {
		return Ask{}, &Error{Code: CodeForbidden, Public: "Only a tenant's own members ask."}
	}
	if err := actor.need(PermOwnMembers); err != nil {
		return Ask{}, err
	}
	now := s.d.now()
	a, err := s.wish(ctx, actor, in, now)
	if err != nil {
		return Ask{}, err
	}
	if err := s.keep(ctx, actor, in, &a); err != nil {
		return Ask{}, err
	}
	if a.State != AskGranted {
		return a, nil
	}
	// The place in the month's number is taken; now the boost. When it cannot be
	// given, an operator decides.
	boost := NewBoost{Limit: a.Limit, FactorMilli: a.Factor, For: in.For, Reason: "asked for: " + a.Why}
	if _, err := s.overrides.Boost(ctx, SystemActor(), a.TenantID, boost); err != nil {
		s.d.Log.WarnContext(ctx, "an ask could not be granted by rule", "ask", a.ID, "error", err)
		return s.reopen(ctx, a)
	}
	return a, nil
}

// wish checks what is asked for against what the tenant has.
func (s *Asks) wish(ctx context.Context, actor Actor, in NewAsk, now time.Time) (Ask, error) {
	var p problems
	a := Ask{TenantID: actor.TenantID, Limit: in.Limit, Factor: in.FactorMilli, State: AskOpen, MemberID: actor.ID, Member: actor.Name, CreatedAt: now}
	if a.Why = p.text("why", in.Why, maxReason, true); a.Factor <= 1000 || a.Factor > MaxAskFactor {
		p.add("factor", "Above 1 and at most %d times what you have.", MaxAskFactor/1000)
	}
	if in.For < 0 || in.For > MaxAskFor || in.For > 0 && in.For < time.Hour {
		p.add("for", "Between an hour and %d days, or for good.", int(MaxAskFor.Hours()/24))
	}
	limits, err := s.overrides.Effective(ctx, actor.TenantID)
	if err != nil {
		return Ask{}, err
	}
	l, ok := limits.Find(in.Limit)
	switch {
	case !ok || !l.Own:
		p.add("limit", "Choose one of your limits.")
	case l.Now().Value.Unlimited:
		p.add("limit", "This limit is unlimited for you already.")
	}
	if err := p.err(); err != nil {
		return Ask{}, err
	}
	if in.For > 0 {
		until := now.Add(in.For)
		a.Until = &until
	}
	a.Wanted = FactorText(a.Factor) + " times " + l.Now().Text
	a.ID, err = s.d.newID("ask")
	return a, err
}

// keep stores an ask, granted when the rules say so. The tenant is locked, so
// that of several at the same time no more are granted than may be.
func (s *Asks) keep(ctx context.Context, actor Actor, in NewAsk, a *Ask) error {
	_, last, err := s.liveBoost(ctx, a.TenantID, a.Limit)
	if err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		t, err := tx.LockTenant(ctx, a.TenantID)
		if err != nil {
			return err
		}
		rules, err := portalRules(ctx, tx, t)
		if err != nil {
			return err
		}
		open, byRule, err := tx.CountAsks(ctx, t.ID, a.CreatedAt.Add(-30*24*time.Hour))
		if err != nil {
			return err
		}
		if rules.grants(in, byRule) && !last {
			at := a.CreatedAt
			a.State, a.DecidedBy, a.DecidedAt, a.Answer = AskGranted, AskByRule, &at, "Granted at once: it is small and ends by itself."
		} else if open >= MaxOpenAsks {
			return conflict(fmt.Sprintf("%d wishes of yours wait for an answer already.", open))
		}
		if err := tx.InsertAsk(ctx, *a); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, a.CreatedAt, event{
			action: "ask.create", object: "ask", objectID: a.ID, tenantID: a.TenantID, after: viewAsk(*a), reason: a.Why,
		})
	})
}

// grants reports whether the rules grant a wish at once.
func (r PortalRules) grants(in NewAsk, already int64) bool {
	return r.AskFactor > 0 && in.FactorMilli <= r.AskFactor && in.For > 0 && in.For <= time.Duration(r.AskDays)*24*time.Hour && already < int64(r.AskMonthly)
}

// liveBoost is the boost that a limit has now. A rule gives none in its place: it
// may be the larger one.
func (s *Asks) liveBoost(ctx context.Context, tenantID, limit string) (TenantOverride, bool, error) {
	limits, err := s.overrides.Effective(ctx, tenantID)
	if err != nil {
		return TenantOverride{}, false, err
	}
	for _, o := range limits.Live {
		if o.Limit == limit && o.IsBoost() {
			return o, true, nil
		}
	}
	return TenantOverride{}, false, nil
}

func (s *Asks) reopen(ctx context.Context, a Ask) (Ask, error) {
	a.State, a.DecidedBy, a.DecidedAt, a.Answer = AskOpen, "", nil, ""
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		if _, err := tx.LockAsk(ctx, a.ID); err != nil {
			return err
		}
		if err := tx.UpdateAsk(ctx, a); err != nil {
			return err
		}
		return s.d.record(ctx, tx, SystemActor(), s.d.now(), event{action: "ask.reopen", object: "ask", objectID: a.ID, tenantID: a.TenantID, after: viewAsk(a)})
	})
	return a, err
}

// List returns asks, the newest first, at most 500: of one tenant, or of all
// when tenantID is ""; only those that wait when open is set.
func (s *Asks) List(ctx context.Context, actor Actor, tenantID string, open bool) (out []Ask, err error) {
	if err := actor.needOf(tenantID, PermView, PermOwnTenant); err != nil {
		return nil, err
	}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Asks(ctx, tenantID, open, 500)
		return err
	})
	return out, err
}

// Grant gives what was asked for as a boost, until the end that was asked for
// and at most MaxBoostFor; who wants to give it for good sets an override by
// hand and grants with boost false. answer is shown to the tenant.
func (s *Asks) Grant(ctx context.Context, actor Actor, id, answer string, boost bool) (Ask, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return Ask{}, err
	}
	a, err := s.decide(ctx, actor, id, AskGranted, answer)
	if err != nil || !boost {
		return a, err
	}
	length := MaxBoostFor
	if a.Until != nil {
		length = min(a.Until.Sub(s.d.now()), MaxBoostFor)
	}
	had, has, err := s.liveBoost(ctx, a.TenantID, a.Limit)
	if err == nil && has && (had.FactorMilli > a.Factor || had.ExpiresAt != nil && had.ExpiresAt.After(s.d.now().Add(length))) {
		err = conflict("The tenant has a boost of this limit that is larger or lasts longer. It stays; nothing was granted.")
	}
	if err == nil {
		_, err = s.overrides.Boost(ctx, actor, a.TenantID, NewBoost{Limit: a.Limit, FactorMilli: a.Factor, For: max(length, MinBoostFor), Reason: "asked for: " + a.Why})
	}
	if err != nil {
		if _, again := s.reopen(ctx, a); again != nil {
			s.d.Log.ErrorContext(ctx, "an ask counts as granted although its boost failed", "ask", a.ID, "error", again)
		}
		return Ask{}, err
	}
	return a, nil
}

// Refuse says no; answer is shown to the tenant.
func (s *Asks) Refuse(ctx context.Context, actor Actor, id, answer string) (Ask, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return Ask{}, err
	}
	return s.decide(ctx, actor, id, AskRefused, answer)
}

func (s *Asks) decide(ctx context.Context, actor Actor, id string, state AskState, answer string) (a Ask, err error) {
	var p problems
	if answer = p.text("answer", answer, maxReason, state == AskRefused); p.err() != nil {
		return Ask{}, p.err()
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		before, err := tx.LockAsk(ctx, id)
		if err != nil {
			return err
		}
		if before.State != AskOpen {
			return conflict("It was " + string(before.State) + " already.")
		}
		now := s.d.now()
		a = before
		a.State, a.DecidedBy, a.DecidedAt, a.Answer = state, actor.Name, &now, answer
		if err := tx.UpdateAsk(ctx, a); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "ask." + map[AskState]string{AskGranted: "grant", AskRefused: "refuse"}[state], object: "ask", objectID: id, tenantID: a.TenantID,
			before: viewAsk(before), after: viewAsk(a), reason: answer,
		})
	})
	return a, err
}

type askView struct {
	Limit  string     `json:"limit"`
	Factor int64      `json:"factor_milli"`
	Until  *time.Time `json:"until,omitempty"`
	State  AskState   `json:"state"`
	By     string     `json:"decided_by,omitempty"`
}

func viewAsk(a Ask) askView { return askView{a.Limit, a.Factor, a.Until, a.State, a.DecidedBy} }
