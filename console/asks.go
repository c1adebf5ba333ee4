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
	s.d.Nudge()
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

// keep stores an ask and, when the rules say so, grants it. The tenant is locked,
// so that of several at the same time no more are granted than may be.
func (s *Asks) keep(ctx context.Context, actor Actor, in NewAsk, a *Ask) error {
	asked := *a
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		*a = asked // of a transaction that is repeated
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
		if rules.grants(in, byRule) {
			if err := s.grantByRule(ctx, tx, rules, in, a); err != nil {
				return err
			}
		}
		if a.State == AskOpen && open >= MaxOpenAsks {
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

// grantByRule gives the boost. What it may not give waits for an operator: a
// boost in the place of one that there is could be the smaller or shorter one.
func (s *Asks) grantByRule(ctx context.Context, tx Tx, rules PortalRules, in NewAsk, a *Ask) error {
	if _, has, err := boostOf(ctx, tx, a.TenantID, a.Limit, a.CreatedAt); err != nil || has {
		return err
	}
	caps := boostCaps{factor: rules.AskFactor, length: time.Duration(rules.AskDays) * 24 * time.Hour}
	_, err := s.overrides.boostIn(ctx, tx, SystemActor(), a.TenantID, NewBoost{Limit: a.Limit, FactorMilli: a.Factor, For: in.For, Reason: "asked for: " + a.Why}, caps)
	switch CodeOf(err) {
	case "":
		at := a.CreatedAt
		a.State, a.DecidedBy, a.DecidedAt, a.Answer = AskGranted, AskByRule, &at, "Granted at once: it is small and ends by itself."
		return nil
	case CodeInvalid, CodeConflict, CodeForbidden:
		s.d.Log.InfoContext(ctx, "an ask was not granted by rule", "ask", a.ID, "error", err)
		return nil
	default:
		return err
	}
}

// boostOf is the boost that a limit has now.
func boostOf(ctx context.Context, tx Tx, tenantID, limit string, now time.Time) (TenantOverride, bool, error) {
	open, err := tx.OpenOverrides(ctx, []string{tenantID})
	if err != nil {
		return TenantOverride{}, false, err
	}
	for _, o := range open {
		if o.Limit == limit && o.IsBoost() && o.Live(now) {
			return o, true, nil
		}
	}
	return TenantOverride{}, false, nil
}

// grants reports whether the rules grant a wish at once.
func (r PortalRules) grants(in NewAsk, already int64) bool {
	return r.AskFactor > 0 && in.FactorMilli <= r.AskFactor && in.For > 0 && in.For <= time.Duration(r.AskDays)*24*time.Hour && already < int64(r.AskMonthly)
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
	caps, err := boostCapsOf(actor)
	if err != nil {
		return Ask{}, err
	}
	a, err := s.decide(ctx, actor, id, AskGranted, answer, func(tx Tx, a Ask, now time.Time) error {
		if !boost {
			return nil
		}
		length := MaxBoostFor
		if a.Until != nil {
			length = max(min(a.Until.Sub(now), MaxBoostFor), MinBoostFor)
		}
		had, has, err := boostOf(ctx, tx, a.TenantID, a.Limit, now)
		if err != nil {
			return err
		}
		if has && (had.FactorMilli > a.Factor || had.ExpiresAt != nil && had.ExpiresAt.After(now.Add(length))) {
			return conflict("The tenant has a boost of this limit that is larger or lasts longer. It stays, and nothing was granted.")
		}
		_, err = s.overrides.boostIn(ctx, tx, actor, a.TenantID, NewBoost{Limit: a.Limit, FactorMilli: a.Factor, For: length, Reason: "asked for: " + a.Why}, caps)
		return err
	})
	s.d.Nudge()
	return a, err
}

// Refuse says no; answer is shown to the tenant.
func (s *Asks) Refuse(ctx context.Context, actor Actor, id, answer string) (Ask, error) {
	if err := actor.need(PermManageTenants); err != nil {
		return Ask{}, err
	}
	return s.decide(ctx, actor, id, AskRefused, answer, func(Tx, Ask, time.Time) error { return nil })
}

func (s *Asks) decide(ctx context.Context, actor Actor, id string, state AskState, answer string, do func(Tx, Ask, time.Time) error) (a Ask, err error) {
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
		if err := do(tx, before, now); err != nil {
			return err
		}
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
