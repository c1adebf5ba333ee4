package console

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// Bounds of a canary's plan.
const (
	MinHold        = 10 * time.Second
	MaxHold        = 24 * time.Hour
	DefaultRefused = 0.05 // MaxRefusedRise when a plan says none
)

// canary is a plan with the replicas that were picked for it.
type canary struct {
	plan     CanaryPlan
	replicas []string
}

// chooseCanary checks a plan and picks its replicas from those that are heard
// of now. Call it before the transaction: it asks Redis. Problems are
// CodeInvalid with fields canary.count, canary.zone, canary.hold, canary.max_refused_rise.
func (d Deps) chooseCanary(ctx context.Context, plan CanaryPlan) (canary, error) {
	if plan.MaxRefusedRise == 0 {
		plan.MaxRefusedRise = DefaultRefused
	}
	if err := checkPlan(plan); err != nil {
		return canary{}, err
	}
	ask, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	replicas, known, err := d.roster(ask, nil, true)
	if err != nil || !known {
		return canary{}, &Error{Code: CodeUnavailable, Public: "It is not known at the moment which gateways run, so none can be picked.", Cause: err, RetryAfter: RetryLater}
	}
	picked, err := pick(plan, replicas)
	return canary{plan, picked}, err
}

func checkPlan(p CanaryPlan) error {
	var bad []FieldError
	add := func(field, message string) { bad = append(bad, FieldError{Field: "canary." + field, Message: message}) }
	switch {
	case p.Zone == "" && p.Count == 0:
		add("count", "Say how many gateways get it first, or name a zone.")
	case p.Zone != "" && p.Count != 0:
		add("count", "This must be 0 when a zone is named.")
	case p.Count < 0 || p.Count > policy.MaxCanaryReplicas:
		add("count", fmt.Sprintf("This must be between 1 and %d.", policy.MaxCanaryReplicas))
	}
	if len(p.Zone) > 200 {
		add("zone", "This is too long for a zone.")
	}
	if p.Hold < MinHold || p.Hold > MaxHold {
		add("hold", "This must be between 10 s and 24 h.")
	}
	if !(p.MaxRefusedRise > 0 && p.MaxRefusedRise <= 1) {
		add("max_refused_rise", "This must be above 0 and at most 1.")
	}
	if len(bad) > 0 {
		return invalid(bad...)
	}
	return nil
}

// pick chooses from replicas that are heard of. For a count it is always the
// same ones, as long as they are there (rendezvous hashing), so that a second
// attempt spreads trouble no further. At least one other replica has to remain:
// a canary is a comparison.
func pick(plan CanaryPlan, replicas []Replica) ([]string, error) {
	var able []Replica
	for _, r := range replicas {
		if r.Age <= SilentAfter && policy.ValidID(r.ID) {
			able = append(able, r)
		}
	}
	var ids []string
	field := "count"
	if plan.Zone != "" {
		field = "zone"
		for _, r := range able {
			if r.Zone == plan.Zone {
				ids = append(ids, r.ID)
			}
		}
	} else {
		for _, r := range able {
			ids = append(ids, r.ID)
		}
		slices.SortFunc(ids, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
		ids = ids[:min(plan.Count, len(ids))]
	}
	problem := ""
	switch {
	case len(able) == 0:
		problem = "No gateway is heard of."
	case len(ids) == 0:
		problem = fmt.Sprintf("No gateway of zone %q is heard of.", plan.Zone)
	case len(ids) >= len(able) || len(ids) < plan.Count:
		problem = fmt.Sprintf("%s heard of, and at least one has to keep the version in force.", gatewaysAre(len(able)))
	case len(ids) > policy.MaxCanaryReplicas:
		problem = fmt.Sprintf("This zone has %d gateways; a canary has at most %d.", len(ids), policy.MaxCanaryReplicas)
	}
	if problem != "" {
		return nil, invalid(FieldError{Field: "canary." + field, Message: problem})
	}
	slices.Sort(ids)
	return ids, nil
}

func gatewaysAre(n int) string {
	if n == 1 {
		return "1 gateway is"
	}
	return strconv.Itoa(n) + " gateways are"
}

// rank orders replicas at random, but always in the same way.
func rank(id string) string {
	sum := sha256.Sum256([]byte("canary\n" + id))
	return string(sum[:])
}

// beginRollout notes that v, which is inserted already and above the head, goes
// to the canary's replicas first, and tells the relay. The caller holds the
// head's lock, and leaves the head as it is. It refuses (CodeConflict) while
// another one runs.
func (d Deps) beginRollout(ctx context.Context, tx Tx, actor Actor, v Version, c canary) error {
	base, _, err := tx.HeadNumber(ctx)
	if IsNotFound(err) {
		return conflict("A first version has nothing to be compared with: publish it to all gateways.")
	}
	if err != nil {
		return err
	}
	running, err := runningRollout(ctx, tx)
	if err != nil {
		return err
	}
	if running != nil {
		return conflict(fmt.Sprintf("v%d is on trial: promote or stop it first.", running.Version))
	}
	r := Rollout{
		Version: v.Number, Base: base, Plan: c.plan, Replicas: c.replicas, State: RolloutRunning, Author: actor.Name, StartedAt: v.CreatedAt,
	}
	if err := tx.InsertRollout(ctx, r, actor.ID); err != nil {
		return fmt.Errorf("insert canary of version %d: %w", v.Number, err)
	}
	if _, err := tx.InsertOutbox(ctx, OutboxCanary, strconv.FormatInt(v.Number, 10), v.CreatedAt); err != nil {
		return fmt.Errorf("insert outbox row of canary %d: %w", v.Number, err)
	}
	return nil
}

// endRollout notes that v, which goes to all replicas, ends the canary that
// runs: by promotion when it is the canary's own version, else by stopping it.
// It does nothing when none runs. The caller holds the head's lock.
func (d Deps) endRollout(ctx context.Context, tx Tx, actor Actor, v Version, reason string) error {
	r, err := runningRollout(ctx, tx)
	if err != nil || r == nil {
		return err
	}
	now := d.now()
	r.State, r.EndedAt, r.EndReason, r.By, r.Successor = RolloutStopped, &now, shorten(reason, maxNote), actor.Name, v.Number
	if v.Number == r.Version {
		r.State = RolloutPromoted
	}
	ok, err := tx.EndRollout(ctx, *r)
	if err != nil {
		return fmt.Errorf("end canary of version %d: %w", r.Version, err)
	}
	if !ok {
		return conflict(fmt.Sprintf("The trial of v%d has ended already.", r.Version))
	}
	return nil
}

// runningRollout is the canary that runs, nil when there is none.
func runningRollout(ctx context.Context, tx Tx) (*Rollout, error) {
	r, err := tx.RunningRollout(ctx)
	if IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}
