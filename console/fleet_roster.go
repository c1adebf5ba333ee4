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

// roster lists the replicas that were heard of within the last hour or so: in
// Redis, by this console before, by any console (PostgreSQL), or from themselves
// over HTTPS. Of two heartbeats of one replica the younger counts. So neither a
// Redis that lost its data nor one that is away makes a replica unheard of.
//
// last is what this console knew before, with its ages as of now. PostgreSQL is
// asked when Redis is not enough, and always when always is true.
//
// known is false when nobody tells how the replicas are now, or when it may be
// that some are unknown: then what is returned is old, or a part. err says why
// Redis could not be asked.
func (d Deps) roster(ctx context.Context, last []Replica, always bool) (replicas []Replica, known bool, err error) {
	replicas, err = d.redisReplicas(ctx)
	replicas = younger(replicas, last)
	silent := slices.ContainsFunc(replicas, func(r Replica) bool { return r.Age > SilentAfter })
	if err == nil && last != nil && !silent && !always {
		return replicas, true, nil
	}
	var beats []Beat
	if dbErr := d.Store.Read(ctx, func(tx Tx) (err error) {
		beats, err = tx.Beats(ctx, rosterKept, 2*maxRoster)
		return err
	}); dbErr != nil {
		return replicas, err == nil, err
	}
	// Whoever runs was in Redis before it went away, and a console noted it.
	whole := len(last) > 0 || slices.ContainsFunc(beats, func(b Beat) bool { return b.Via == BeatRedis })
	replicas = younger(replicas, unheard(ofBeats(beats), replicas))
	told := slices.ContainsFunc(replicas, func(r Replica) bool { return r.ViaConsole && r.Age <= SilentAfter })
	return replicas, err == nil || whole && told, err
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

// ofBeats is what PostgreSQL has of replicas that are worth a row.
func ofBeats(beats []Beat) []Replica {
	out := make([]Replica, 0, len(beats))
	for _, b := range beats {
		if b.Age <= rosterShown {
			out = append(out, Replica{Heartbeat: b.Heartbeat, Age: b.Age, ViaConsole: b.Via == BeatHTTPS})
		}
	}
	return out
}

// unheard leaves out what a console saw in Redis of replicas that this console
// itself has heard of: it knows them better, and by one clock.
func unheard(noted, heard []Replica) []Replica {
	return slices.DeleteFunc(noted, func(r Replica) bool {
		return !r.ViaConsole && slices.ContainsFunc(heard, func(h Replica) bool { return h.ID == r.ID })
	})
}

// younger merges lists of replicas: of each the one that was heard of last.
func younger(lists ...[]Replica) []Replica {
	byID := map[string]Replica{}
	for _, list := range lists {
		for _, r := range list {
			if had, ok := byID[r.ID]; !ok || r.Age < had.Age {
				byID[r.ID] = r
			}
		}
	}
	out := make([]Replica, 0, len(byID))
	for _, r := range byID {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Replica) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// noteRoster keeps what is known of the replicas in PostgreSQL: every rosterEvery,
// and at once when there is one that was not there before. Other consoles, and
// those that start while Redis is away, know of it then.
func (s *Fleet) noteRoster(ctx context.Context, replicas []Replica) {
	fresh := time.Since(s.rostered) >= rosterEvery
	var beats []Beat
	for _, r := range replicas {
		if r.Age > GoneAfter || r.ViaConsole || len(r.ID) > 64 || len(beats) >= maxRoster {
			continue
		}
		fresh = fresh || !slices.Contains(s.noted, r.ID)
		beats = append(beats, Beat{Heartbeat: r.Heartbeat, Via: BeatRedis, Age: r.Age})
	}
	if !fresh || len(beats) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		if err := tx.DeleteOldBeats(ctx, rosterKept); err != nil {
			return err
		}
		return tx.PutBeats(ctx, BeatRedis, beats)
	})
	if err != nil {
		return // PostgreSQL is away: the snapshot says so
	}
	s.rostered, s.noted = time.Now(), s.noted[:0]
	for _, b := range beats {
		s.noted = append(s.noted, b.ID)
	}
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
