package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// KeyUses implements console.KeyUseRows.
func (t tx) KeyUses(ctx context.Context, kids []string, dayAgo time.Time) ([]console.KeyUse, error) {
	rows, err := t.q.ListKeyUses(ctx, gen.ListKeyUsesParams{Since: dayAgo, Kids: orEmpty(kids)})
	return each(rows, func(r gen.ListKeyUsesRow) console.KeyUse {
		return console.KeyUse{
			KID: r.KID, FirstUsedAt: r.FirstUsedAt, LastUsedAt: r.LastUsedAt, LastNetwork: r.LastNetwork, LastAgent: r.LastAgent,
			RefusedAt: r.RefusedAt, RefusedNetwork: r.RefusedNetwork, RefusedAgent: r.RefusedAgent, Requests24h: r.Requests, Refused24h: r.Refused,
		}
	}), err
}

// KeySources implements console.KeyUseRows.
func (t tx) KeySources(ctx context.Context, kid string, since time.Time, limit int) ([]console.KeySource, error) {
	rows, err := t.q.ListKeySources(ctx, gen.ListKeySourcesParams{KID: kid, Since: since, MaxRows: int32(limit)})
	return each(rows, func(r gen.KeySource) console.KeySource {
		return console.KeySource{
			KID: r.KID, Network: r.Network, Agent: r.Agent, FirstSeen: r.FirstSeen, LastSeen: r.LastSeen, UsedAt: r.UsedAt, RefusedAt: r.RefusedAt,
			LongestGap: time.Duration(r.LongestGap) * time.Second, Requests: r.Requests, Limited: r.Limited, Refused: r.Refused,
		}
	}), err
}

func useRun(r gen.KeyUseReplica) console.KeyUseRun {
	run := console.KeyUseRun{Replica: r.Replica, Boot: r.Boot, Seq: r.Seq, Through: r.Through, Final: r.Final, UpdatedAt: r.UpdatedAt}
	if r.MissingFrom != nil && r.MissingTo != nil {
		run.Missing = &console.UseGap{Replica: r.Replica, From: *r.MissingFrom, To: *r.MissingTo}
	}
	return run
}

// KeyUseRunsSince implements console.KeyUseRuns.
func (t tx) KeyUseRunsSince(ctx context.Context, since time.Time) ([]console.KeyUseRun, error) {
	rows, err := t.q.ListKeyUseReplicas(ctx, since)
	return each(rows, useRun), err
}

// KeyUseRunsOf implements console.KeyUseRuns.
func (t tx) KeyUseRunsOf(ctx context.Context, replicas []string) ([]console.KeyUseRun, error) {
	rows, err := t.q.ListKeyUseReplicasNamed(ctx, orEmpty(replicas))
	return each(rows, useRun), err
}

// PutKeyUseRun implements console.KeyUseRuns.
func (t tx) PutKeyUseRun(ctx context.Context, r console.KeyUseRun) error {
	p := gen.PutKeyUseReplicaParams{Replica: r.Replica, Boot: r.Boot, Seq: r.Seq, Through: r.Through, Final: r.Final, Now: r.UpdatedAt}
	if r.Missing != nil {
		p.MissingFrom, p.MissingTo = &r.Missing.From, &r.Missing.To
	}
	return t.q.PutKeyUseReplica(ctx, p)
}

// KeyUsePlace implements console.KeyUseRuns.
func (t tx) KeyUsePlace(ctx context.Context) (string, *time.Time, error) {
	r, err := t.q.GetKeyUsePlace(ctx)
	return r.Place, r.Since, err
}

// LockKeyUsePlace implements console.KeyUseRuns.
func (t tx) LockKeyUsePlace(ctx context.Context) (string, error) { return t.q.LockKeyUsePlace(ctx) }

// KnownKeySources implements console.KeyUseIntake.
func (t tx) KnownKeySources(ctx context.Context, of []console.KeySource) (map[console.KeySourceID]bool, error) {
	var p gen.ListKnownKeySourcesParams
	p.Kids, p.Networks, p.Agents = sourceIDs(of)
	rows, err := t.q.ListKnownKeySources(ctx, p)
	out := make(map[console.KeySourceID]bool, len(rows))
	for _, r := range rows {
		out[console.KeySourceID{KID: r.KID, Network: r.Network, Agent: r.Agent}] = true
	}
	return out, err
}

// CountKeySources implements console.KeyUseIntake.
func (t tx) CountKeySources(ctx context.Context, kids []string) (map[string]int, error) {
	rows, err := t.q.CountKeySources(ctx, orEmpty(kids))
	out := make(map[string]int, len(rows))
	for _, r := range rows {
		out[r.KID] = int(r.Sources)
	}
	return out, err
}

func sourceIDs(of []console.KeySource) (kids, networks, agents []string) {
	kids, networks, agents = make([]string, len(of)), make([]string, len(of)), make([]string, len(of))
	for i, s := range of {
		kids[i], networks[i], agents[i] = s.KID, s.Network, s.Agent
	}
	return kids, networks, agents
}

// orEpoch stands for no time where an array takes no NULL.
func orEpoch(at *time.Time) time.Time {
	if at == nil {
		return time.Unix(0, 0)
	}
	return *at
}

// AddKeySources implements console.KeyUseIntake.
func (t tx) AddKeySources(ctx context.Context, sources []console.KeySource) error {
	if err := t.q.PlanChecksOnce(ctx); err != nil {
		return err
	}
	n := len(sources)
	p := gen.AddKeySourcesParams{
		FirstSeens: make([]time.Time, n), LastSeens: make([]time.Time, n), UsedAts: make([]time.Time, n), RefusedAts: make([]time.Time, n),
		Requests: make([]int64, n), Limiteds: make([]int64, n), Refuseds: make([]int64, n),
	}
	p.Kids, p.Networks, p.Agents = sourceIDs(sources)
	for i, s := range sources {
		p.FirstSeens[i], p.LastSeens[i], p.UsedAts[i], p.RefusedAts[i] = s.FirstSeen, s.LastSeen, orEpoch(s.UsedAt), orEpoch(s.RefusedAt)
		p.Requests[i], p.Limiteds[i], p.Refuseds[i] = s.Requests, s.Limited, s.Refused
	}
	return t.q.AddKeySources(ctx, p)
}

// AddKeyUses implements console.KeyUseIntake.
func (t tx) AddKeyUses(ctx context.Context, uses []console.KeyUse) error {
	n := len(uses)
	p := gen.AddKeyUsesParams{
		Kids: make([]string, n), FirstUsedAts: make([]time.Time, n), LastUsedAts: make([]time.Time, n), LastNetworks: make([]string, n), LastAgents: make([]string, n),
		RefusedAts: make([]time.Time, n), RefusedNetworks: make([]string, n), RefusedAgents: make([]string, n),
	}
	for i, u := range uses {
		p.Kids[i], p.FirstUsedAts[i], p.LastUsedAts[i], p.RefusedAts[i] = u.KID, orEpoch(u.FirstUsedAt), orEpoch(u.LastUsedAt), orEpoch(u.RefusedAt)
		p.LastNetworks[i], p.LastAgents[i], p.RefusedNetworks[i], p.RefusedAgents[i] = u.LastNetwork, u.LastAgent, u.RefusedNetwork, u.RefusedAgent
	}
	return t.q.AddKeyUses(ctx, p)
}

// AddKeyHours implements console.KeyUseIntake.
func (t tx) AddKeyHours(ctx context.Context, hours []console.KeyHour) error {
	n := len(hours)
	p := gen.AddKeyUseHoursParams{
		Kids: make([]string, n), Hours: make([]time.Time, n), Requests: make([]int64, n), Limiteds: make([]int64, n), Refuseds: make([]int64, n),
	}
	for i, h := range hours {
		p.Kids[i], p.Hours[i], p.Requests[i], p.Limiteds[i], p.Refuseds[i] = h.KID, h.Hour, h.Requests, h.Limited, h.Refused
	}
	return t.q.AddKeyUseHours(ctx, p)
}

// SetKeyUsePlace implements console.KeyUseUpkeep.
func (t tx) SetKeyUsePlace(ctx context.Context, place string, since *time.Time, now time.Time) error {
	return t.q.SetKeyUsePlace(ctx, gen.SetKeyUsePlaceParams{Place: place, Since: since, Now: &now})
}

// KeyAlarms implements console.KeyUseUpkeep.
func (t tx) KeyAlarms(ctx context.Context, kids []string, toldBefore time.Time, limit int) ([]console.KeyAlarm, error) {
	rows, err := t.q.ListKeyAlarms(ctx, gen.ListKeyAlarmsParams{Kids: orEmpty(kids), ToldBefore: &toldBefore, MaxRows: int32(limit)})
	return each(rows, func(r gen.ListKeyAlarmsRow) console.KeyAlarm {
		return console.KeyAlarm{KID: r.KID, TenantID: r.TenantID, At: orEpoch(r.RefusedAt), Network: r.RefusedNetwork, Agent: r.RefusedAgent, ToldAt: r.AlarmedAt}
	}), err
}

// SetKeyAlarms implements console.KeyUseUpkeep.
func (t tx) SetKeyAlarms(ctx context.Context, kids []string, now time.Time) error {
	return t.q.SetKeyAlarms(ctx, gen.SetKeyAlarmsParams{Kids: orEmpty(kids), Now: &now})
}

// DeleteOldKeySources implements console.KeyUseUpkeep.
func (t tx) DeleteOldKeySources(ctx context.Context, before time.Time, limit int) (int64, error) {
	return t.q.DeleteOldKeySources(ctx, gen.DeleteOldKeySourcesParams{Before: before, MaxRows: int32(limit)})
}

// DeleteOldKeyUse implements console.KeyUseUpkeep.
func (t tx) DeleteOldKeyUse(ctx context.Context, before time.Time, limit int) (int64, error) {
	n, err := t.q.DeleteOldKeyUseHours(ctx, gen.DeleteOldKeyUseHoursParams{Before: before, MaxRows: int32(limit)})
	if err != nil {
		return 0, err
	}
	return n, t.q.DeleteOldKeyUseReplicas(ctx, before)
}

// DeleteSurplusKeyUseRuns implements console.KeyUseUpkeep.
func (t tx) DeleteSurplusKeyUseRuns(ctx context.Context, kept int) error {
	return t.q.DeleteSurplusKeyUseReplicas(ctx, int32(kept))
}
