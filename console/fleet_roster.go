package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	rosterEvery = 5 * time.Second // how often what Redis knows of replicas is kept in PostgreSQL
	rosterKept  = 24 * time.Hour
	rosterShown = time.Hour
	maxRoster   = 5000
)

// roster lists the replicas that were heard of within the last hour or so. It
// asks Redis; when Redis cannot be asked, or a replica is silent there, it also
// looks at what replicas brought to a console themselves. Of two heartbeats of
// one replica the younger counts.
//
// last is what was known before, with its ages as of now; it serves while Redis
// is away. known is false when nobody tells how the replicas are, or when it may
// be that some are unknown: then what is returned is old, or a part. err says why
// Redis could not be asked.
func (d Deps) roster(ctx context.Context, last []Replica) (replicas []Replica, known bool, err error) {
	replicas, err = d.redisReplicas(ctx)
	if err == nil && !slices.ContainsFunc(replicas, func(r Replica) bool { return r.Age > SilentAfter }) {
		return replicas, true, nil
	}
	if err != nil {
		replicas = last
	}
	var beats []Beat
	if dbErr := d.Store.Read(ctx, func(tx Tx) (err error) {
		beats, err = tx.Beats(ctx, rosterKept, 2*maxRoster)
		return err
	}); dbErr != nil {
		return replicas, err == nil, err
	}
	if err == nil {
		return mergeBeats(replicas, beats, false), true, nil
	}
	// Whoever runs was in Redis before it went away, and a console noted it.
	whole := len(last) > 0 || slices.ContainsFunc(beats, func(b Beat) bool { return b.Via == BeatRedis })
	replicas = mergeBeats(replicas, beats, true)
	told := slices.ContainsFunc(replicas, func(r Replica) bool { return r.ViaConsole && r.Age <= SilentAfter })
	return replicas, whole && told, err
}

// redisReplicas is what Redis knows.
func (d Deps) redisReplicas(ctx context.Context) ([]Replica, error) {
	beats, err := d.Feed.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	now, err := d.Feed.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Replica, len(beats))
	for i, h := range beats {
		out[i] = Replica{Heartbeat: h, Age: max(now.Sub(h.At), 0)}
	}
	return out, nil
}

// mergeBeats takes the younger heartbeat of each replica. What consoles saw in
// Redis counts only while Redis is away: else Redis itself knows it better.
func mergeBeats(replicas []Replica, beats []Beat, away bool) []Replica {
	byID := make(map[string]Replica, len(replicas))
	for _, r := range replicas {
		byID[r.ID] = r
	}
	for _, b := range beats {
		if b.Via == BeatRedis && !away || b.Age > rosterShown {
			continue
		}
		if had, ok := byID[b.ID]; ok && had.Age <= b.Age {
			continue
		}
		byID[b.ID] = Replica{Heartbeat: b.Heartbeat, Age: b.Age, ViaConsole: b.Via == BeatHTTPS}
	}
	out := make([]Replica, 0, len(byID))
	for _, r := range byID {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Replica) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// keepRoster notes what Redis knows of the replicas, for consoles that start
// while it is away.
func (r *Relay) keepRoster(ctx context.Context) error {
	if time.Since(r.rostered) < rosterEvery {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	replicas, err := r.d.redisReplicas(ask)
	if err != nil {
		return err
	}
	beats := make([]Beat, 0, len(replicas))
	for _, p := range replicas {
		if p.Age <= GoneAfter && len(p.ID) <= 64 {
			beats = append(beats, Beat{Heartbeat: p.Heartbeat, Via: BeatRedis, Age: p.Age})
		}
	}
	err = r.store.InTx(ctx, func(tx Tx) error {
		if err := tx.DeleteOldBeats(ctx, rosterKept); err != nil {
			return err
		}
		return tx.PutBeats(ctx, BeatRedis, beats)
	})
	if err == nil {
		r.rostered = time.Now()
	}
	return err
}

// standing is what replicas are compared with.
type standing struct {
	version int64
	digest  string
	canary  *Rollout // that runs
	canaryD string   // digest of its version
}

// status says how a replica stands.
func (s standing) status(h policy.Heartbeat, age time.Duration) Status {
	if c := s.canary; c != nil && age <= SilentAfter && slices.Contains(c.Replicas, h.ID) {
		switch {
		case h.NACK != nil && h.NACK.Version >= c.Version:
			return StatusNACKed
		case h.Version == c.Version && h.Digest == s.canaryD && !h.Unsaved:
			return StatusCanary
		case h.Version <= c.Version && h.NACK == nil:
			return StatusBehind
		}
	}
	return statusOf(h, age, s.version, s.digest)
}
