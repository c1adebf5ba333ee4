package console

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Defaults of a KeyUseRetention.
const (
	KeySourcesKept = 90 * 24 * time.Hour
	// keyHoursKept is how long requests are counted by the hour, and how long it is
	// remembered which batches were taken.
	keyHoursKept = 8 * 24 * time.Hour
)

const (
	keyUseEvery = time.Second
	// keyUseBehind is the age of what is known from which on it counts as behind.
	keyUseBehind = time.Minute
	keyUseSwept  = 1000 // bounds the rows that one statement drops
	// keyRunsKept is as many as are ever read.
	keyRunsKept = 10_000
	// keyClockSlack is how far Redis' clock may seem to go back between two questions.
	keyClockSlack = 5 * time.Second
	// maxKeySources bounds what a page or a caller gets of one version's sources.
	maxKeySources = 1000
)

// KeyUseRetention says how long it is remembered who used a key. 0 means the
// default.
type KeyUseRetention struct {
	Sources time.Duration // a source that was not seen for so long is forgotten
	// Runs is how many runs of gateways are known at most, those that told last;
	// default keyRunsKept.
	Runs int
}

// KeyUses is what is known of the use of keys: by whom, and when last. Gateways
// tell it, by Redis; it is no record of usage that a bill may rest on.
type KeyUses struct {
	d     Deps
	fleet *Fleet
	keep  KeyUseRetention
	// ahead is Redis' clock less the own one, in ns, as it was last seen.
	ahead atomic.Int64
}

// NewKeyUses returns the service. Its Run must run on at least one console for
// anything to be learnt; fleet says which replicas have to tell.
func NewKeyUses(d Deps, fleet *Fleet, keep KeyUseRetention) *KeyUses {
	if keep.Sources <= 0 {
		keep.Sources = KeySourcesKept
	}
	if keep.Runs <= 0 {
		keep.Runs = keyRunsKept
	}
	return &KeyUses{d: d.withDefaults(), fleet: fleet, keep: keep}
}

// Run takes over what gateways tell until ctx ends, and forgets what is old. Several
// consoles may run it: each batch is counted once.
func (s *KeyUses) Run(ctx context.Context) error {
	s.d.repeat(ctx, keyUseEvery, "it is not learnt who uses keys", s.d.andSweep(s.Collect, s.Sweep))
	return nil
}

// Sweep forgets sources and counts that are older than is to be kept, and keeps
// what replicas that are gone did not tell.
func (s *KeyUses) Sweep(ctx context.Context) error {
	health := s.fleet.Health(ctx)
	now := s.redisNow(ctx)
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		if err := noteGone(ctx, tx, health, now); err != nil {
			return err
		}
		return tx.DeleteSurplusKeyUseRuns(ctx, s.keep.Runs)
	})
	if err != nil {
		return fmt.Errorf("note who is gone: %w", err)
	}
	for _, drop := range []func(Tx) (int64, error){
		func(tx Tx) (int64, error) { return tx.DeleteOldKeySources(ctx, now.Add(-s.keep.Sources), keyUseSwept) },
		func(tx Tx) (int64, error) { return tx.DeleteOldKeyUse(ctx, now.Add(-keyHoursKept), keyUseSwept) },
	} {
		for dropped := int64(keyUseSwept); dropped == keyUseSwept; {
			err := s.d.Store.InTx(ctx, func(tx Tx) (err error) {
				dropped, err = drop(tx)
				return err
			})
			if err != nil {
				return fmt.Errorf("forget old uses of keys: %w", err)
			}
		}
	}
	return nil
}

// redisNow is Redis' clock, by which gateways tell; while Redis is away, an estimate.
func (s *KeyUses) redisNow(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	at, err := s.d.Feed.Now(ctx)
	own := s.d.now()
	if err != nil || at.IsZero() {
		return own.Add(time.Duration(s.ahead.Load())).Truncate(time.Microsecond)
	}
	s.ahead.Store(int64(at.Sub(own)))
	return at.UTC().Truncate(time.Microsecond)
}

// estimated is redisNow without a question.
func (s *KeyUses) estimated() time.Time {
	return s.d.now().Add(time.Duration(s.ahead.Load())).Truncate(time.Microsecond)
}

// Uses implements KeyUseSource.
func (s *KeyUses) Uses(ctx context.Context, kids []string) (map[string]KeyUse, UseAge, error) {
	out := make(map[string]KeyUse, len(kids))
	age, err := s.ask(ctx, func(tx Tx, now time.Time) error {
		if len(kids) == 0 {
			return nil
		}
		list, err := tx.KeyUses(ctx, kids, now.Add(-24*time.Hour))
		for _, u := range list {
			out[u.KID] = u
		}
		return err
	})
	if err != nil {
		return nil, UseAge{Behind: true}, fmt.Errorf("read the use of keys: %w", err)
	}
	return out, age, nil
}

// Sources implements KeyUseSource.
func (s *KeyUses) Sources(ctx context.Context, kid string, since time.Time, limit int) ([]KeySource, UseAge, error) {
	var list []KeySource
	age, err := s.ask(ctx, func(tx Tx, _ time.Time) (err error) {
		list, err = tx.KeySources(ctx, kid, since, max(min(limit, maxKeySources), 0))
		return err
	})
	if err != nil {
		return nil, UseAge{Behind: true}, fmt.Errorf("read the sources of a key: %w", err)
	}
	return list, age, nil
}

// ask reads something together with its age. The age is read first, so that what is
// read is never older than it says.
func (s *KeyUses) ask(ctx context.Context, read func(Tx, time.Time) error) (UseAge, error) {
	health := s.fleet.Health(ctx)
	now := s.estimated()
	if health.RedisUp {
		now = s.redisNow(ctx)
	}
	var age UseAge
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		runs, err := tx.KeyUseRunsSince(ctx, now.Add(-keyHoursKept))
		if err != nil {
			return err
		}
		_, since, err := tx.KeyUsePlace(ctx)
		if err != nil {
			return err
		}
		age = ageOf(runs, health, now)
		if since != nil {
			age.Since = *since
		}
		return read(tx, now)
	})
	return age, err
}

// ageOf computes how current the runs of the replicas that are not gone are.
func ageOf(runs []KeyUseRun, health Health, now time.Time) (age UseAge) {
	told := make(map[[2]string]time.Time, len(runs))
	var newest time.Time
	for _, r := range runs {
		if r.Through.After(now.Add(keyClockSlack)) {
			continue // by a clock that has stepped back since: nobody knows of what is still to come
		}
		told[[2]string{r.Replica, r.Boot}] = r.Through
		if r.Through.After(newest) {
			newest = r.Through
		}
	}
	first := true
	for _, r := range health.Replicas {
		if r.Age > GoneAfter {
			continue
		}
		through, any := told[[2]string{r.ID, r.Boot}]
		if !any && !r.Started.IsZero() { // it has told nothing yet: what it saw began then
			through = startedAt(r)
		}
		if first || through.Before(age.Through) {
			age.Through, first = through, false
		}
		if now.Sub(through) > keyUseBehind {
			age.Silent = append(age.Silent, r.ID)
		}
	}
	if first { // nobody is there to tell
		age.Through = newest
	}
	if len(runs) == 0 {
		age.Through = time.Time{}
	}
	age.Missing, age.Longest = missingOf(runs, health, now)
	slices.Sort(age.Silent)
	age.Behind = now.Sub(age.Through) > keyUseBehind || !health.FleetKnown && len(health.Replicas) == 0
	return age
}
