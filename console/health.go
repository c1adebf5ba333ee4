package console

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	historyEvery = 10 * time.Second
	historyKept  = 360 // an hour
	staleHealth  = 3 * time.Second
	inspectEvery = 10 * time.Second
)

// Health is a cached snapshot of what the console depends on; reading it never
// waits for Redis. While Redis is down the replicas are the last known ones,
// FleetKnown is false and FleetAt says when they were known.
type Health struct {
	At            time.Time
	RedisUp       bool
	RedisSince    time.Time // since when RedisUp has its value
	RedisRTT      time.Duration
	RedisError    string
	PostgresUp    bool
	PostgresSince time.Time // since when PostgresUp has its value

	Version int64  // in force; 0 when there is none. Last known while PostgreSQL is down
	Digest  string // of Version

	// PolicyDiffers says that Redis has this version with another digest: something
	// else writes to it. The relay puts it right; gateways never take it.
	PolicyDiffers bool
	// Behind is the version that Redis or a replica has, above all that the
	// database knows: it was restored from an older copy. 0 when it is not. Rollouts.Adopt
	// takes over what Redis still has.
	Behind int64
	// Rollout is the canary that runs; nil when there is none.
	Rollout *Rollout

	FleetKnown    bool
	FleetAt       time.Time
	Replicas      []Replica
	InSync, Of    int // Of leaves out those that are gone
	OnCanary      int // of Of: enforce the version on trial, as they should
	ViaConsole    int // of Of: cannot reach Redis and told a console themselves
	Nacked        int
	Stale         int // of Of: nobody has told them for StaleAfter that their version is current; Redis may be frozen, or an old copy
	Degraded      int // replicas that decide without Redis
	DecisionsPerS float64
	RefusedPerS   float64
	FallbackPerS  float64

	Drafts        int
	OutboxPending int // changes that have not reached Redis yet

	Hazards   []policy.Hazard // what endangers the limits, the worst first
	HazardsAt time.Time       // of the last look; zero before the first

	feed     policy.FeedState // as last known
	highest  int64            // version that the database knows
	standing standing
}

// Sample is one point of the hour that Health looks back on.
type Sample struct {
	At         time.Time
	RedisUp    bool
	RTT        time.Duration
	InSync, Of int
	Degraded   int
}

// Run refreshes the snapshot until ctx ends.
func (s *Fleet) Run(ctx context.Context) error {
	for {
		s.refreshHealth(ctx)
		if !pause(ctx, healthEvery) {
			return nil
		}
	}
}

// Health returns the last snapshot. Only when there is none that is fresh,
// which means that Run does not run, it makes one.
func (s *Fleet) Health(ctx context.Context) Health {
	if h := s.cached.Load(); h != nil && s.d.now().Sub(h.At) < staleHealth {
		return *h
	}
	s.refreshHealth(ctx)
	if h := s.cached.Load(); h != nil {
		return *h
	}
	return s.first(ctx)
}

// first waits for the first snapshot of all, which is on its way elsewhere: a
// console that has just started knows soon, and must not say until then that
// nothing can be reached.
func (s *Fleet) first(ctx context.Context) Health {
	s.refresh.Lock()
	defer s.refresh.Unlock()
	if s.cached.Load() == nil {
		s.takeSnapshot(ctx)
	}
	if h := s.cached.Load(); h != nil {
		return *h
	}
	return Health{}
}

// History returns samples of the last hour, one every 10 s, the oldest first.
func (s *Fleet) History() []Sample {
	if h := s.history.Load(); h != nil {
		return *h
	}
	return nil
}

func (s *Fleet) refreshHealth(ctx context.Context) {
	if !s.refresh.TryLock() {
		return // another one is on its way
	}
	defer s.refresh.Unlock()
	s.takeSnapshot(ctx)
}

// catchUp makes a snapshot that is younger than the call: what a wait has seen
// is then on every page that follows.
func (s *Fleet) catchUp(ctx context.Context) {
	s.refresh.Lock()
	defer s.refresh.Unlock()
	s.takeSnapshot(ctx)
}

// takeSnapshot asks Redis and PostgreSQL. The caller holds refresh.
func (s *Fleet) takeSnapshot(ctx context.Context) {
	var h Health
	if last := s.cached.Load(); last != nil {
		h = *last
	}
	before := h
	databaseDone := make(chan Health, 1)
	go func() { databaseDone <- s.askDatabase(ctx, before) }()
	s.askRedis(ctx, &h)
	s.inspect(ctx, &h)
	db := <-databaseDone
	if db.PostgresUp && h.speaksAbove(db.highest) {
		db = s.askDatabase(ctx, db) // it was asked before it was published, as a rule
	}
	h.PostgresUp, h.Version, h.Digest, h.Drafts, h.OutboxPending = db.PostgresUp, db.Version, db.Digest, db.Drafts, db.OutboxPending
	h.Rollout, h.highest, h.standing = db.Rollout, db.highest, db.standing
	if ctx.Err() != nil && before.At.IsZero() {
		return
	}
	h.At = s.d.now()
	h.RedisSince = since(before.RedisUp == h.RedisUp, before.RedisSince, h.At)
	h.PostgresSince = since(before.PostgresUp == h.PostgresUp, before.PostgresSince, h.At)
	h.sum()
	s.cached.Store(&h)
	s.remember(h)
}

// speaksAbove reports whether Redis or a replica speaks of a version above all
// that the database was said to know.
func (h *Health) speaksAbove(highest int64) bool {
	return h.feed.Version > highest || slices.ContainsFunc(h.Replicas, func(r Replica) bool { return r.Version > highest })
}

// since keeps the moment of the last change.
func since(same bool, before, now time.Time) time.Time {
	if same && !before.IsZero() {
		return before
	}
	return now
}

// askDatabase reads the version in force and two counts. On failure the last
// known values stay.
func (s *Fleet) askDatabase(ctx context.Context, h Health) Health {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		number, digest, err := tx.HeadNumber(ctx)
		if err != nil && !IsNotFound(err) {
			return err
		}
		drafts, err := tx.CountDrafts(ctx)
		if err != nil {
			return err
		}
		pending, err := tx.CountPendingOutbox(ctx)
		if err != nil {
			return err
		}
		h.Version, h.Digest, h.Drafts, h.OutboxPending = number, digest, int(drafts), int(pending)
		if h.highest, err = tx.HighestVersion(ctx); err != nil {
			return err
		}
		h.standing, err = standingOf(ctx, tx, number, digest)
		h.Rollout = h.standing.canary
		return err
	})
	h.PostgresUp = err == nil
	return h
}

// askRedis reads what Redis has. Replicas come from there, or, while it is away,
// by themselves.
func (s *Fleet) askRedis(ctx context.Context, h *Health) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	rtt, err := s.d.Feed.Ping(ctx)
	var state policy.FeedState
	if err == nil {
		state, err = s.d.Feed.State(ctx)
	}
	last := h.Replicas
	if !h.At.IsZero() {
		last = aged(last, s.d.now().Sub(h.At))
	}
	away, cancelRoster := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
	defer cancelRoster()
	replicas, known, rosterErr := s.d.roster(away, last, true)
	if err == nil {
		err = rosterErr
	}
	h.RedisUp, h.RedisError = err == nil, ""
	if err != nil {
		h.RedisError = err.Error()
	} else {
		h.RedisRTT, h.feed = rtt, state
	}
	h.FleetKnown = err == nil || known
	h.Replicas = replicas
	if h.FleetKnown {
		h.FleetAt = s.d.now()
		s.noteRoster(ctx, replicas)
	}
}

// aged is replicas as of some time later, without news of them.
func aged(replicas []Replica, by time.Duration) []Replica {
	out := slices.Clone(replicas)
	for i := range out {
		out[i].Age += max(by, 0)
	}
	return out
}

// inspect looks Redis over, once every inspectEvery. What cannot be looked at
// keeps what the last look found.
func (s *Fleet) inspect(ctx context.Context, h *Health) {
	inspector, ok := s.d.Feed.(RedisInspector)
	if !ok || !h.RedisUp || s.d.now().Sub(h.HazardsAt) < inspectEvery {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	found, err := inspector.Inspect(ctx)
	if err != nil {
		s.d.Log.WarnContext(ctx, "Redis cannot be looked over", "error", err)
		return
	}
	for _, z := range found {
		known := func(was policy.Hazard) bool { return was.Code == z.Code && was.Server == z.Server }
		if z.Severity == policy.SeverityRed && !slices.ContainsFunc(h.Hazards, known) {
			s.d.Log.ErrorContext(ctx, "hazard", "code", z.Code, "server", z.Server, "text", z.Text, "mend", z.Mend)
		}
	}
	h.Hazards, h.HazardsAt = found, s.d.now()
}

// sum computes statuses and totals from replicas and version. Without Redis
// the totals are those of the last known replicas, older by the time since.
func (h *Health) sum() {
	h.PolicyDiffers = h.Version > 0 && h.feed.Version == h.Version && h.feed.Digest != h.Digest
	h.InSync, h.Of, h.Nacked, h.Degraded, h.OnCanary, h.ViaConsole, h.Stale, h.Behind = 0, 0, 0, 0, 0, 0, 0, 0
	h.DecisionsPerS, h.RefusedPerS, h.FallbackPerS = 0, 0, 0
	replicas := slices.Clone(h.Replicas)
	for i := range replicas {
		replicas[i].Status = h.standing.status(replicas[i].Heartbeat, replicas[i].Age)
		h.add(replicas[i])
	}
	h.Replicas = replicas
	if h.PostgresUp && h.feed.Version > h.highest && plausible(h.highest, h.feed.Version) {
		h.Behind = max(h.Behind, h.feed.Version)
	}
}

func (h *Health) add(r Replica) {
	if r.Status == StatusGone {
		return
	}
	h.Of++
	if r.Status == StatusSilent {
		return
	}
	if r.Status == StatusInSync {
		h.InSync++
	}
	if r.Status == StatusCanary {
		h.OnCanary++
	}
	if r.ViaConsole {
		h.ViaConsole++
	}
	if time.Duration(r.StampAgeMS)*time.Millisecond > StaleAfter {
		h.Stale++
	}
	if r.Status == StatusAhead && h.PostgresUp && plausible(h.highest, r.Version) {
		h.Behind = max(h.Behind, r.Version)
	}
	if r.Status == StatusNACKed {
		h.Nacked++
	}
	if r.Mode == policy.ModeDegraded {
		h.Degraded++
	}
	h.DecisionsPerS += r.DecisionsPerS
	h.RefusedPerS += r.RefusedPerS
	h.FallbackPerS += r.FallbackPerS
}

// remember appends a sample to the history, one every historyEvery.
func (s *Fleet) remember(h Health) {
	old := s.History()
	if n := len(old); n > 0 && h.At.Sub(old[n-1].At) < historyEvery {
		return
	}
	if len(old) >= historyKept {
		old = old[len(old)-historyKept+1:]
	}
	next := append(append(make([]Sample, 0, len(old)+1), old...),
		Sample{At: h.At, RedisUp: h.RedisUp, RTT: h.RedisRTT, InSync: h.InSync, Of: h.Of, Degraded: h.Degraded})
	s.history.Store(&next)
}
