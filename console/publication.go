package console

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Publication is how far a version has come, as of now.
type Publication struct {
	Version  int64
	Digest   string
	Canary   bool     // it goes to Targets alone
	Targets  []string // ids: the canary's, or all replicas that are not gone
	On, Of   int      // of Targets
	Silent   int      // of Targets: not heard of for SilentAfter, never counted in On
	Nacks    []ReplicaNACK
	After    time.Duration // from its commit until the last target that enforces it did; 0 when none does
	Known    bool          // false when replicas could not be asked: On and Of are the last known
	Rows     []PublicationRow
	Head     int64 // the version in force as of now: above Version, this is history
	Overtook int   // of On: enforce a later version by now
	OnTrial  int   // of Of: enforce the version on trial instead, and are not counted in On
}

// Done reports whether all targets enforce the version or a later one, and
// there are some.
func (p Publication) Done() bool { return p.Known && p.Of > 0 && p.On == p.Of }

// PublicationRow is one replica and a version.
type PublicationRow struct {
	Replica
	Target bool
	On     bool          // enforces it or a later one that is for all
	After  time.Duration // from the commit until it came into force there; -1 when unknown
	Held   time.Duration // since it came into force there, by Redis' clock; -1 when unknown
}

// digests remembers which digest a version has. Both never change; a version is
// asked for again only when it was not there.
type digests struct {
	mu sync.Mutex
	of map[int64]string
}

// maxDigests bounds what is remembered; replicas enforce a handful of versions.
const maxDigests = 1000

// versions returns the digests of versions that the database has.
func (s *Fleet) versions(ctx context.Context, tx Tx, replicas []Replica) (map[int64]string, error) {
	s.digests.mu.Lock()
	defer s.digests.mu.Unlock()
	if s.digests.of == nil || len(s.digests.of) > maxDigests {
		s.digests.of = map[int64]string{}
	}
	var missing []int64
	for _, r := range replicas {
		if _, ok := s.digests.of[r.Version]; !ok && r.Version > 0 && !slices.Contains(missing, r.Version) {
			missing = append(missing, r.Version)
		}
	}
	out := make(map[int64]string, len(s.digests.of))
	if len(missing) > 0 {
		found, err := tx.VersionDigests(ctx, missing)
		if err != nil {
			return nil, err
		}
		for n, d := range found {
			s.digests.of[n] = d
		}
	}
	for n, d := range s.digests.of {
		out[n] = d
	}
	return out, nil
}

// Publication says how far a version has come. CodeNotFound when there is none.
//
// What it says is true as of the replicas' last heartbeats and stays true: a
// replica counts as On when it enforces, by its digest and safely on its disk,
// this version or a later one that is for all, and no replica ever goes back. What
// they are compared with is read after they were asked: what they enforce was
// committed by then, or it does not count.
func (s *Fleet) Publication(ctx context.Context, version int64) (Publication, error) {
	var mark VersionMark
	var st standing
	var r *Rollout
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		mark, err = tx.VersionMark(ctx, version)
		return err
	})
	if err != nil {
		return Publication{}, err
	}
	replicas, known, _ := s.d.roster(ctx, s.lastKnown(), false)
	var have map[int64]string
	if err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		if have, err = s.versions(ctx, tx, replicas); err != nil {
			return err
		}
		if r, err = rolloutOfVersion(ctx, tx, version); err != nil {
			return err
		}
		head, digest, err := tx.HeadNumber(ctx)
		if err != nil && !IsNotFound(err) {
			return err
		}
		st, err = standingOf(ctx, tx, head, digest)
		return err
	}); err != nil {
		return Publication{}, err
	}
	p := Publication{Version: version, Digest: mark.Digest, Head: st.version, Known: known}
	// While it is on trial, and after it was stopped, it concerns its replicas alone.
	p.Canary = r != nil && r.State != RolloutPromoted
	if p.Canary {
		p.Targets = r.Replicas
		replicas = withAbsent(replicas, r.Replicas, r.State == RolloutRunning)
	}
	p.count(mark, st, have, replicas)
	return p, nil
}

// rolloutOfVersion is the canary of a version, nil when it was none.
func rolloutOfVersion(ctx context.Context, tx Tx, version int64) (*Rollout, error) {
	r, err := tx.Rollout(ctx, version)
	if IsNotFound(err) {
		return nil, nil
	}
	return &r, err
}

// standingOf reads what replicas are compared with.
func standingOf(ctx context.Context, tx Tx, head int64, digest string) (standing, error) {
	st := standing{version: head, digest: digest}
	r, err := runningRollout(ctx, tx)
	if err != nil || r == nil {
		return st, err
	}
	mark, err := tx.VersionMark(ctx, r.Version)
	st.canary, st.canaryD = r, mark.Digest
	return st, err
}

// lastKnown are the replicas of the last snapshot, with their ages as of now.
func (s *Fleet) lastKnown() []Replica {
	h := s.cached.Load()
	if h == nil {
		return nil
	}
	return aged(h.Replicas, s.d.now().Sub(h.At))
}

// withAbsent adds the replicas of a canary that nobody has heard of lately:
// while it runs they count, and count against it.
func withAbsent(replicas []Replica, ids []string, running bool) []Replica {
	if !running {
		return replicas
	}
	for _, id := range ids {
		if !slices.ContainsFunc(replicas, func(r Replica) bool { return r.ID == id }) {
			gone := Replica{Age: GoneAfter + time.Second}
			gone.ID = id
			replicas = append(replicas, gone)
		}
	}
	return replicas
}

// count fills in what the replicas say.
func (p *Publication) count(mark VersionMark, st standing, have map[int64]string, replicas []Replica) {
	for _, r := range replicas {
		r.Status = st.status(r.Heartbeat, r.Age)
		row := PublicationRow{Replica: r, Target: !p.Canary || slices.Contains(p.Targets, r.ID), After: -1, Held: -1}
		trial := p.Canary && st.canary != nil && st.canary.Version == p.Version
		if !row.Target && r.Age > GoneAfter || row.Target && r.Age > GoneAfter && !trial {
			continue
		}
		digest, there := have[r.Version]
		row.On = r.Age <= SilentAfter && r.Version >= p.Version && there && digest == r.Digest && !r.Unsaved
		if c := st.canary; row.On && c != nil && r.Version == c.Version && p.Version < c.Version {
			row.On = false // it may still be stopped, and is for few until then
			if row.Target {
				p.OnTrial++
			}
		}
		if r.Version == p.Version && !r.Since.IsZero() {
			since := r.Since.Add(-time.Duration(r.ClockOffsetMS) * time.Millisecond)
			row.After = max(since.Sub(mark.CreatedAt), 0)
			if !r.At.IsZero() {
				row.Held = max(r.At.Add(r.Age).Sub(since), 0)
			}
		}
		p.Rows = append(p.Rows, row)
		if row.Target {
			p.add(row)
		}
	}
	slices.SortFunc(p.Rows, func(a, b PublicationRow) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(p.Targets)
}

// add counts one target.
func (p *Publication) add(row PublicationRow) {
	p.Of++
	if !p.Canary {
		p.Targets = append(p.Targets, row.ID)
	}
	switch {
	case row.Age > SilentAfter:
		p.Silent++
	case row.On:
		p.On++
		p.After = max(p.After, row.After)
		if row.Version > p.Version {
			p.Overtook++
		}
	case row.NACK != nil && row.NACK.Version >= p.Version:
		p.Nacks = append(p.Nacks, ReplicaNACK{Replica: row.ID, NACK: *row.NACK})
	}
}
