package console

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// HeldLimit is a limit as Redis has it for one subject.
type HeldLimit struct {
	Limit  string
	Part   LockoutPart
	Counts bool // there is state: something is used
	Broken bool
	Used   int64 // tokens, places or units; above Most there is a debt
	Most   int64
	Full   *time.Time // when a bucket is full again by itself; nil when it is, or nobody knows
	Leases []LeaseHeld
	At     time.Time

	ask limiter.Ask
	row usage.RefusedRow
}

// LeaseHeld is a place that a request holds.
type LeaseHeld struct {
	ID      string
	Replica string // "" when no replica that is known made it
	Since   *time.Time
	Ends    time.Time // unless it is renewed
}

func (h *HeldLimit) lockout(s *Lockouts) Lockout {
	return Lockout{
		ID: s.idOf(h.Limit, h.row), Limit: h.Limit, Part: h.Part, Kind: kindOfRow(h.row), Tenant: h.row.Tenant, Subject: subjectText(h.row),
		Left: h.Most - h.Used, Most: h.Most, Cost: 1, ask: h.ask, row: h.row,
	}
}

// OfTenant tells the state of every limit that is counted per tenant, as a decision at
// this moment would read it. Quotas are told by their own service.
func (s *Lockouts) OfTenant(ctx context.Context, actor Actor, tenantID string) ([]HeldLimit, error) {
	if err := actor.need(PermView); err != nil {
		return nil, err
	}
	return s.heldBy(ctx, usage.RefusedRow{Kind: "t", Tenant: tenantID}, policy.PerTenant)
}

// OfLockout tells the state of the limits that count the subject of a lockout: of a
// tenant or an address all that count by that, of others the one that refuses.
func (s *Lockouts) OfLockout(ctx context.Context, actor Actor, id string) (Lockout, []HeldLimit, error) {
	if err := actor.need(PermView); err != nil {
		return Lockout{}, nil, err
	}
	l, err := s.find(ctx, id)
	if err != nil {
		return Lockout{}, nil, err
	}
	list, err := s.heldOf(ctx, l)
	return l.shownTo(actor), list, err
}

func (s *Lockouts) heldOf(ctx context.Context, l Lockout) ([]HeldLimit, error) {
	per := map[string]policy.Per{"t": policy.PerTenant, "i": policy.PerIP}[l.row.Kind]
	if per != "" && l.Part != LockoutCredentials {
		return s.heldBy(ctx, l.row, per)
	}
	if l.Part == LockoutQuota || l.Part == LockoutCredentials {
		return nil, nil
	}
	return s.inspect(ctx, []HeldLimit{{Limit: l.Limit, Part: l.Part, Most: l.Most, ask: l.ask, row: l.row}})
}

// heldBy lists the limits that count a row by one dimension.
func (s *Lockouts) heldBy(ctx context.Context, row usage.RefusedRow, per policy.Per) ([]HeldLimit, error) {
	var tenants []string
	if row.Tenant != "" {
		tenants = []string{row.Tenant}
	}
	known, err := s.terms(ctx, tenants)
	if err != nil {
		return nil, err
	}
	own := known.own[row.Tenant]
	if row.Tenant != "" && own.plan == "" {
		return nil, notFound("tenant")
	}
	if known.law == nil {
		return nil, nil
	}
	var list []HeldLimit
	add := func(id string, part LockoutPart, askPart limiter.Part, n policy.Numbers, most int64) {
		if slices.ContainsFunc(list, func(h HeldLimit) bool { return h.Limit == id }) {
			return
		}
		list = append(list, HeldLimit{Limit: id, Part: part, Most: most, row: row,
			ask: limiter.Ask{Part: askPart, Row: rowOf(row), Hash: policy.LimitHash(id), Numbers: n}})
	}
	at := s.d.now().UnixMicro()
	rates := func(limits []policy.CompiledLimit) {
		for i := range limits {
			if n, from := own.overrides.Limit(&limits[i], at); limits[i].Per == per && !from.Unlimited {
				add(limits[i].ID, LockoutRate, limiter.PartCharge, n, n.Burst)
			}
		}
	}
	rates(known.law.Global)
	rates(known.law.Plans[own.plan])
	for _, r := range known.law.Routes {
		rates(r.Limits)
		if c := r.Concurrency; c != nil && c.Per == per {
			most, _ := own.overrides.Slots(c, at)
			add(c.ID, LockoutConcurrency, limiter.PartSlot, policy.Numbers{}, most)
		}
	}
	return s.inspect(ctx, list)
}

// inspect fills in what Redis holds of each.
func (s *Lockouts) inspect(ctx context.Context, list []HeldLimit) ([]HeldLimit, error) {
	if s.state == nil {
		return nil, &Error{Code: CodeUnavailable, Public: "This console is not connected to limiter state."}
	}
	asks := make([]limiter.Ask, len(list))
	for i := range list {
		asks[i] = list[i].ask
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeoutAct)
	defer cancel()
	held, err := s.state.Inspect(ctx, asks)
	if err != nil {
		return nil, &Error{Code: CodeUnavailable, Public: "Redis cannot be asked: the limits' state is unknown.", Cause: err}
	}
	owners := map[string]string{}
	for _, r := range s.fleet.Health(ctx).Replicas {
		owners[limiter.LeaseTag(r.ID)] = r.ID
	}
	for i := range list {
		list[i].take(&held[i], owners)
	}
	return list, nil
}

func (h *HeldLimit) take(held *limiter.Held, owners map[string]string) {
	h.At, h.Counts, h.Broken = time.UnixMicro(held.NowMicros).UTC(), held.Found, held.Broken
	if h.Part == LockoutConcurrency {
		h.Used = held.Active
		for _, lease := range held.Leases {
			told := LeaseHeld{ID: lease.ID, Ends: time.UnixMicro(lease.EndsMicros).UTC()}
			if tag, second, ok := limiter.ReadLeaseName(lease.ID); ok {
				since := time.Unix(second, 0).UTC()
				told.Replica, told.Since = owners[tag], &since
			}
			h.Leases = append(h.Leases, told)
		}
		return
	}
	if n := held.Numbers; n.Period > 0 && held.Found {
		h.Used = n.Burst - floorDiv(held.Units, n.Period)
		if full := limiter.UntilFull(held.Units, n); full > 0 {
			at := time.UnixMicro(held.NowMicros + full).UTC()
			h.Full = &at
		}
	}
}

// ResetTenant drops the state of limits of a tenant: buckets are full again and debts are
// gone, places are free though their requests go on. What was lost is in the result, one
// for each limit.
func (s *Lockouts) ResetTenant(ctx context.Context, actor Actor, tenantID string, limits []string, reason string) ([]LockoutDone, error) {
	if err := actor.need(PermUnlock); err != nil {
		return nil, err
	}
	list, err := s.OfTenant(ctx, actor, tenantID)
	if err != nil {
		return nil, err
	}
	return s.reset(ctx, actor, list, limits, reason)
}

// ResetLockout is ResetTenant for the subject of a lockout: of the limits that OfLockout
// tells.
func (s *Lockouts) ResetLockout(ctx context.Context, actor Actor, id string, limits []string, reason string) ([]LockoutDone, error) {
	if err := actor.need(PermUnlock); err != nil {
		return nil, err
	}
	_, list, err := s.OfLockout(ctx, actor, id)
	if err != nil {
		return nil, err
	}
	return s.reset(ctx, actor, list, limits, reason)
}

func (s *Lockouts) reset(ctx context.Context, actor Actor, list []HeldLimit, limits []string, reason string) ([]LockoutDone, error) {
	var p problems
	reason = p.reason(reason)
	var chosen []HeldLimit
	for _, id := range limits {
		at := slices.IndexFunc(list, func(h HeldLimit) bool { return h.Limit == id })
		if at < 0 {
			p.add("limit", "%s is no limit that counts this subject.", id)
			continue
		}
		chosen = append(chosen, list[at])
	}
	if len(limits) == 0 {
		p.add("limit", "Choose what to reset.")
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	var out []LockoutDone
	for _, h := range chosen {
		done, err := s.act(ctx, actor, "reset", h.lockout(s), reason, func(ctx context.Context, done *LockoutDone) error {
			gone, err := s.state.Clear(ctx, []limiter.Ask{h.ask})
			if err == nil && h.Part == LockoutRate {
				done.Before, done.After = floorDiv(gone[0].Before.Units, gone[0].Before.Numbers.Period), h.Most
			} else if err == nil {
				done.Before, done.After = h.Most-gone[0].Before.Active, h.Most
			}
			return err
		})
		if err != nil {
			return out, err
		}
		out = append(out, done)
	}
	return out, nil
}

// strayBook is what is known of state without a TTL.
type strayBook struct {
	mu       sync.Mutex
	place    limiter.ScanPlace
	now      []limiter.Stray // of the round under way
	last     []limiter.Stray // of the last whole one
	whole    time.Time
	repaired int
}

// straySteps bounds one look, and maxStrays what is remembered.
const (
	straySteps = 8
	maxStrays  = 1000
)

// StrayList is limiter state that would stay for ever.
type StrayList struct {
	Keys  []limiter.Stray
	Whole time.Time // when all keys had been looked at last; zero before the first time
}

// Strays are keys without a TTL that were found.
func (s *Lockouts) Strays() StrayList {
	b := &s.strays
	b.mu.Lock()
	defer b.mu.Unlock()
	out := StrayList{Whole: b.whole}
	for _, list := range [][]limiter.Stray{b.now, b.last} {
		for _, k := range list {
			if !slices.Contains(out.Keys, k) {
				out.Keys = append(out.Keys, k)
			}
		}
	}
	return out
}

func (s *Lockouts) lookForStrays(ctx context.Context) error {
	if s.state == nil {
		return nil
	}
	b := &s.strays
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, stateTimeoutAct)
	defer cancel()
	found, whole, err := s.state.Strays(ctx, &b.place, straySteps)
	if err != nil {
		return err
	}
	if b.now = append(b.now, found...); len(b.now) > maxStrays {
		b.now = b.now[:maxStrays]
	}
	if whole {
		b.last, b.now, b.whole = b.now, nil, s.d.now()
	}
	return nil
}

// RepairStrays gives the keys that were found a TTL and returns how many it did; those
// that got one meanwhile are not among them.
func (s *Lockouts) RepairStrays(ctx context.Context, actor Actor, reason string) (int, error) {
	if err := actor.need(PermUnlock); err != nil {
		return 0, err
	}
	var p problems
	reason = p.reason(reason)
	if err := p.err(); err != nil {
		return 0, err
	}
	list := s.Strays().Keys
	if len(list) == 0 || s.state == nil {
		return 0, conflict("There is nothing to repair: no key without a TTL is known.")
	}
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = list[i].Key
	}
	err := s.note(ctx, actor, event{action: "state.repair", object: "redis", before: map[string]any{"keys": len(keys), "example": fmt.Sprintf("%.80q", keys[0])}, reason: reason}, nil)
	if err != nil {
		return 0, err
	}
	n, err := s.state.Repair(ctx, keys)
	if err != nil {
		return n, &Error{Code: CodeUnavailable, Public: fmt.Sprintf("Redis did not answer: %d of %d keys were repaired.", n, len(keys)), Cause: err}
	}
	s.strays.mu.Lock()
	s.strays.now, s.strays.last, s.strays.place = nil, nil, limiter.ScanPlace{}
	s.strays.mu.Unlock()
	return n, nil
}
