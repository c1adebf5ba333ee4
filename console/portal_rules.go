package console

import (
	"context"
	"strings"
	"time"
)

// PortalRules say what a tenant may do by itself.
type PortalRules struct {
	Credentials int           `json:"credentials"` // with a working key, at most
	Members     int           `json:"members"`     // open invitations count too
	MaxOverlap  time.Duration `json:"max_overlap"` // of a rotation
	MayCreate   bool          `json:"may_create"`  // credentials
	MayRotate   bool          `json:"may_rotate"`
	MayRevoke   bool          `json:"may_revoke"`
	AskFactor   int64         `json:"ask_factor_milli"` // the most that is granted at once, in thousandths; 0: nothing is
	AskDays     int           `json:"ask_days"`         // for how long, at most
	AskMonthly  int           `json:"ask_monthly"`      // how often in 30 days
}

// DefaultPortalRules hold where nothing else was said.
func DefaultPortalRules() PortalRules {
	return PortalRules{
		Credentials: 20, Members: 25, MaxOverlap: 30 * 24 * time.Hour, MayCreate: true, MayRotate: true, MayRevoke: true,
		AskFactor: 1500, AskDays: 7, AskMonthly: 2,
	}
}

// ScopedRules are rules for all tenants (scope ""), those on a plan ("plan:" and
// its name) or one (its id). The narrowest that there are hold, as a whole.
type ScopedRules struct {
	Scope     string
	Rules     PortalRules
	UpdatedAt time.Time
}

// Bounds of PortalRules.
const (
	maxPortalCredentials = 1000
	maxPortalMembers     = 500
	maxAskMonthly        = 100
)

func (r PortalRules) check() error {
	var p problems
	between := func(field string, v, least, most int64) {
		if v < least || v > most {
			p.add(field, "Between %d and %d.", least, most)
		}
	}
	between("credentials", int64(r.Credentials), 0, maxPortalCredentials)
	between("members", int64(r.Members), 1, maxPortalMembers)
	if r.MaxOverlap < 0 || r.MaxOverlap > MaxOverlap {
		p.add("max_overlap", "Between 0 and %d days.", int(MaxOverlap.Hours()/24))
	}
	if r.AskFactor != 0 {
		between("ask_factor", r.AskFactor, 1001, MaxAskFactor)
	}
	between("ask_days", int64(r.AskDays), 0, 30)
	between("ask_monthly", int64(r.AskMonthly), 0, maxAskMonthly)
	return p.err()
}

// portalRules are those that hold for a tenant.
func portalRules(ctx context.Context, tx Tx, t Tenant) (PortalRules, error) {
	list, err := tx.PortalRulesFor(ctx, t.Plan, t.ID)
	if err != nil || len(list) == 0 {
		return DefaultPortalRules(), err
	}
	return list[len(list)-1].Rules, nil
}

// Rules lists all rules that were set, the general ones first.
func (s *Members) Rules(ctx context.Context) (out []ScopedRules, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.PortalRules(ctx)
		return err
	})
	return out, err
}

// RulesFor are the rules that hold for a tenant.
func (s *Members) RulesFor(ctx context.Context, tenantID string) (PortalRules, error) {
	return s.d.rulesFor(ctx, tenantID)
}

func (d Deps) rulesFor(ctx context.Context, tenantID string) (r PortalRules, err error) {
	err = d.Store.Read(ctx, func(tx Tx) error {
		t, err := tx.Tenant(ctx, tenantID)
		if err != nil {
			return err
		}
		r, err = portalRules(ctx, tx, t)
		return err
	})
	return r, err
}

// SetRules says what tenants in a scope may do by themselves; nil takes the
// scope's rules away, so that wider ones hold.
func (s *Members) SetRules(ctx context.Context, actor Actor, scope string, r *PortalRules) error {
	if err := actor.need(PermManageTenants); err != nil {
		return err
	}
	plan, isPlan := strings.CutPrefix(scope, "plan:")
	isTenant := strings.HasPrefix(scope, "ten_")
	if scope != "" && !isTenant && (!isPlan || !planName.MatchString(plan)) {
		return invalid(FieldError{Field: "scope", Message: "Nothing for all tenants, plan: and the name of a plan, or a tenant's id."})
	}
	if r != nil {
		if err := r.check(); err != nil {
			return err
		}
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		now := s.d.now()
		ev := event{action: "portal.rules", object: "portal-rules", objectID: scope}
		if isTenant {
			if _, err := tx.Tenant(ctx, scope); err != nil {
				return err
			}
			ev.tenantID = scope
		}
		list, err := tx.PortalRules(ctx)
		if err != nil {
			return err
		}
		for _, old := range list {
			if old.Scope == scope {
				ev.before = old.Rules
			}
		}
		if r == nil {
			err = tx.DeletePortalRules(ctx, scope)
		} else {
			ev.after = *r
			err = tx.SetPortalRules(ctx, ScopedRules{Scope: scope, Rules: *r, UpdatedAt: now})
		}
		if err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, ev)
	})
}
