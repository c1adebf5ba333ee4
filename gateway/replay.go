package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate/gateway/dimension"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
)

// Replay marks an Inbound that is decided by a Replayer.
type Replay struct {
	// Credential of Inbound.Tenant.
	Credential string
	// Logged says that a decision log tells of the request: it has neither header
	// nor body, and Values has what limits count per instead, by the dimension's
	// spelling ("header:X-Region"): "" for one that was missing, Unreadable for one that
	// could not be told, else whatever stands for the value.
	Logged     bool
	Values     map[string]string
	Unreadable string
	// Priced says that Inbound.Cost came from the request, Queried that it was computed
	// from a query. Other costs are those of the route.
	Priced, Queried bool
	// Lacks is set by Decide: a dimension that a limit counts per and that Values does
	// not have. It counts as missing from the request. "" for none.
	Lacks string
	// Unpriced is set by Decide: the route computes its cost from a query that nobody
	// has any more, and Inbound.Cost stands for it.
	Unpriced bool
}

// value is what the log has of a dimension.
func (r *Replay) value(d policy.Dimension) (string, dimension.State) {
	name := d.String()
	value, known := r.Values[name]
	switch {
	case !known:
		r.Lacks = name
		return "", dimension.Missing
	case value == "":
		return "", dimension.Missing
	case value == r.Unreadable:
		return "", dimension.Unreadable
	}
	return value, dimension.Present
}

// price is the cost of a logged request on the route that it meets now.
func (r *Replay) price(in *Inbound, v *Verdict, computed bool) {
	if computed || r.Priced && !r.Queried {
		v.Cost = in.Cost
	}
	r.Unpriced = computed && !r.Priced
}

// Replayer decides requests as a gateway does, by the same code, on a store and by a
// clock of its caller's: for tests of a policy and for its simulation. Leased limits
// are counted exactly, from the burst that they have in the store, and refusals are not remembered. It is for one goroutine.
type Replayer struct {
	g *Gateway
	// forever is a budget that is never spent, made once: the parts of the gateway that
	// a replay runs through take a budget within another one as it is.
	forever context.Context //nolint:containedctx // see above; it belongs to no request
}

// ReplayConfig is what a Replayer needs.
type ReplayConfig struct {
	Compiled *policy.Compiled
	Store    limiter.Store
	Now      func() time.Time // the store's clock
	// Tenant finds a tenant by its id.
	Tenant func(id string) (policy.TenantRecord, bool)
	// Without leaves limits out, by their id: they are not counted and refuse nobody.
	// nil leaves out none.
	Without func(limitID string) bool
}

// replayBudget never ends: what slows a replay down is no fault of its store.
const replayBudget = 1000 * time.Hour

// NewReplayer makes a Replayer.
func NewReplayer(cfg ReplayConfig) (*Replayer, error) {
	compiled := exactly(cfg.Compiled, cfg.Without)
	g := &Gateway{
		cfg: Config{
			Policies: replayPolicy{snapshot: &feed.Snapshot{Digest: compiled.Digest, Compiled: compiled}}, Directory: replayTenants{find: cfg.Tenant},
			Store: cfg.Store, Now: cfg.Now, Budget: replayBudget, Log: slog.New(slog.DiscardHandler), Jitter: func() int64 { return 1 },
		},
		metrics: newMetrics(), tally: newTally(), invalid: newInvalidLimit(maxInvalidEntries), rescued: newInvalidLimit(1),
		counter: usage.NewCounter("replay", "replay"), terms: newTermsBook(slog.New(slog.DiscardHandler)), started: cfg.Now(), leaseTag: limiter.LeaseTag("replay"),
	}
	var err error
	g.limiter, err = limiter.New(limiter.Config{Store: cfg.Store, Budget: replayBudget, Now: cfg.Now, DenyEntries: -1})
	if err != nil {
		return nil, fmt.Errorf("make replayer: %w", err)
	}
	forever, _ := limiter.WithBudget(context.Background(), replayBudget)
	return &Replayer{g: g, forever: forever}, nil
}

// Decide is the gateway's answer to in, whose Replay must be set. What v was before,
// with all that it points to, must not be looked at any more.
func (r *Replayer) Decide(in *Inbound, v *Verdict) {
	in.Replay.Lacks, in.Replay.Unpriced = "", false
	*v = Verdict{Deciding: -1, RequestID: "replay", Status: http.StatusOK, room: v.room}
	r.g.judge(r.forever, in, v)
}

// Kept is what an admitted request holds, and what may be corrected of it.
type Kept struct {
	leases  []limiter.Lease
	spent   *limiter.Draw
	reserve int64
}

// Kept is what the request keeps; Empty when that is nothing.
func (v *Verdict) Kept() Kept { return Kept{v.leases, v.spent, v.reserve} }

// Empty reports whether there is nothing to end or to correct.
func (k *Kept) Empty() bool { return len(k.leases) == 0 && k.spent == nil }

// Holds reports whether it has places that End gives back.
func (k *Kept) Holds() bool { return len(k.leases) > 0 }

// Renew lets the places be held until End, as they are while a request is under way.
func (r *Replayer) Renew(k *Kept) error {
	for i := range k.leases {
		k.leases[i].HoldMicros = (24 * time.Hour).Microseconds()
	}
	if len(k.leases) == 0 {
		return nil
	}
	if _, err := r.g.cfg.Store.Renew(r.forever, k.leases); err != nil {
		return fmt.Errorf("renew places: %w", err)
	}
	return nil
}

// End gives the places back; k holds them no more.
func (r *Replayer) End(k *Kept) error {
	leases := k.leases
	k.leases = nil
	if err := r.g.limiter.ReleaseLeases(r.forever, leases); err != nil {
		return fmt.Errorf("give places back: %w", err)
	}
	return nil
}

// Settle corrects what was charged to the real cost, and reports whether something was
// given back.
func (r *Replayer) Settle(k *Kept, cost int64) (back bool, err error) {
	if k.spent == nil || cost == k.reserve {
		return false, nil
	}
	if err := r.g.limiter.Settle(r.forever, "", k.spent, cost-k.reserve); err != nil {
		return false, fmt.Errorf("settle: %w", err)
	}
	return cost < k.reserve, nil
}

// DecidingLimit is the id of the limit that refused; "" when none did.
func (v *Verdict) DecidingLimit() string {
	switch {
	case v.Allowed:
	case v.Deciding >= 0 && v.Deciding < len(v.Limits):
		return v.Limits[v.Deciding].ID
	case v.Code == CodeCostExceedsBurst && len(v.Limits) > 0:
		return v.Limits[0].ID
	}
	return ""
}

// Waits is what a refusal tells of when to come back: whole seconds as in
// Retry-After, and exact ms; 0 for what is not told.
func (v *Verdict) Waits() (seconds, millis int64) {
	if v.Allowed {
		return 0, 0
	}
	return v.retryAfter(), v.retryAfterMillis()
}

// exactly is c without leases, but with the bursts that leased limits have in the
// store, which is all that gateways admit at once, and without the limits that are left out.
func exactly(c *policy.Compiled, without func(string) bool) *policy.Compiled {
	if without == nil {
		without = func(string) bool { return false }
	}
	limits := func(list []policy.CompiledLimit) []policy.CompiledLimit {
		list = slices.DeleteFunc(slices.Clone(list), func(l policy.CompiledLimit) bool { return without(l.ID) })
		for i := range list {
			if l := &list[i]; l.Leased {
				l.Leased, l.Numbers.Burst = false, l.Numbers.LeasedBurst()
			}
		}
		return list
	}
	out := *c
	out.Global = limits(c.Global)
	out.Plans = make(map[string][]policy.CompiledLimit, len(c.Plans))
	for name, list := range c.Plans {
		out.Plans[name] = limits(list)
	}
	out.Routes = make([]*policy.CompiledRoute, len(c.Routes))
	for i, route := range c.Routes {
		own := *route
		own.Limits = limits(route.Limits)
		if own.Concurrency != nil && without(own.Concurrency.ID) {
			own.Concurrency = nil
		}
		out.Routes[i] = &own
	}
	if without(policy.QuotaID) {
		out.Quotas = nil
	}
	return &out
}

// replayPolicy is one policy that stays.
type replayPolicy struct{ snapshot *feed.Snapshot }

// Current is the policy.
func (p replayPolicy) Current() *feed.Snapshot { return p.snapshot }

// Status says nothing.
func (p replayPolicy) Status() feed.Status { return feed.Status{} }

// Run does nothing.
func (p replayPolicy) Run(context.Context) error { return nil }

// replayTenants knows tenants, and no keys.
type replayTenants struct {
	find func(id string) (policy.TenantRecord, bool)
}

// Key knows none.
func (d replayTenants) Key(context.Context, string) (policy.KeyRecord, error) {
	return policy.KeyRecord{}, feed.ErrUnknown
}

// Tenant looks a tenant up.
func (d replayTenants) Tenant(_ context.Context, id string) (policy.TenantRecord, error) {
	if t, ok := d.find(id); ok {
		return t, nil
	}
	return policy.TenantRecord{}, feed.ErrUnknown
}

// Place says nothing.
func (d replayTenants) Place() policy.Place { return policy.Place{} }

// Run does nothing.
func (d replayTenants) Run(context.Context) error { return nil }
