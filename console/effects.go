package console

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/usage"
)

const (
	// effectsEvery is how often the version in force is looked at until all
	// gateways enforce it.
	effectsEvery = time.Second
	// judgeEvery is how often traffic around publications is looked at, and
	// judgedAtOnce of how many versions.
	judgeEvery   = 30 * time.Second
	judgedAtOnce = 100
	// aroundPublication is how much traffic before and after a publication is compared.
	aroundPublication = 10 * time.Minute
	// leastAround is below what a span says nothing.
	leastAround = time.Minute
	// effectsKnown is how far back live counts go, with room for a slow round.
	effectsKnown = 45 * time.Minute
)

// Share is how much of some requests was refused.
type Share struct{ Requests, Refused int64 }

// Effect is what became of a version.
type Effect struct {
	Number   int64
	Replicas int           // that enforced it when all did; 0 when that was never seen
	After    time.Duration // from its commit until the last of them did
	Before   *Share        // in the 10 minutes before it was published; nil when unknown
	Since    *Share        // in the 10 minutes after, or until the next version; nil when unknown
	Judged   bool          // Before and Since are final
}

// EffectRows keeps effects, and knows which version a draft became.
type EffectRows interface {
	// PutConverged keeps the first sight of a version on all gateways.
	PutConverged(ctx context.Context, number int64, replicas int, after time.Duration, now time.Time) error
	// PutTraffic keeps what was refused before and after; nil is unknown.
	PutTraffic(ctx context.Context, number int64, before, since *Share, now time.Time) error
	// Effects returns those that are known of these versions.
	Effects(ctx context.Context, numbers []int64) (map[int64]Effect, error)
	// VersionOfDraft is the version that a draft was published as; CodeNotFound when it was not.
	VersionOfDraft(ctx context.Context, draft string) (int64, error)
}

// AllTraffic is the live counts of all requests together; usage.Live has them.
type AllTraffic interface {
	Totals(from, to time.Time, step time.Duration) []usage.Point
}

// Effects notes what becomes of versions while they do, as gateways and live
// counts forget it.
type Effects struct {
	d       Deps
	fleet   *Fleet
	traffic AllTraffic

	// Of Run's goroutine alone:
	settled int64     // the version that is known to be on all gateways
	judged  time.Time // when traffic was last looked at
}

// NewEffects returns the service. Without Run nothing new is noted.
func NewEffects(d Deps, fleet *Fleet, traffic AllTraffic) *Effects {
	return &Effects{d: d.withDefaults(), fleet: fleet, traffic: traffic}
}

// Run notes until ctx ends. It may run in one console of a database at a time;
// Relay.While sees to that.
func (s *Effects) Run(ctx context.Context) error {
	s.d.repeat(ctx, effectsEvery, "what becomes of versions is not noted", s.Note)
	return nil
}

// Note looks once at what is due.
func (s *Effects) Note(ctx context.Context) error {
	if err := s.noteConverged(ctx); err != nil {
		return err
	}
	now := s.d.now()
	if now.Sub(s.judged) < judgeEvery {
		return nil
	}
	var recent []Version
	err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
		recent, err = tx.Versions(ctx, 0, judgedAtOnce)
		return err
	})
	if err == nil {
		err = s.noteTraffic(ctx, recent)
	}
	if err == nil {
		s.judged = now
	}
	return err
}

// noteConverged keeps how long the version in force took, once all have it.
func (s *Effects) noteConverged(ctx context.Context) error {
	head, err := s.d.headRef(ctx)
	if err != nil || head.Number == 0 || head.Number == s.settled {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, 2*healthTimeout)
	defer cancel()
	p, err := s.fleet.Publication(ask, head.Number)
	if err != nil {
		return err
	}
	if !p.Done() || p.Canary || p.Overtook > 0 {
		return nil
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		return tx.PutConverged(ctx, head.Number, p.Of, max(p.After, 0), s.d.now())
	})
	if err != nil {
		return fmt.Errorf("keep how long version %d took: %w", head.Number, err)
	}
	s.settled = head.Number
	return nil
}

// noteTraffic keeps what was refused around publications before live counts
// forget it.
func (s *Effects) noteTraffic(ctx context.Context, recent []Version) error {
	now := s.d.now()
	var due []int64
	for _, v := range recent {
		if age := now.Sub(v.CreatedAt); age > aroundPublication && age < effectsKnown {
			due = append(due, v.Number)
		}
	}
	if len(due) == 0 {
		return nil
	}
	known, err := s.stored(ctx, due)
	if err != nil {
		return err
	}
	for i, v := range recent {
		if age := now.Sub(v.CreatedAt); age <= aroundPublication || age >= effectsKnown || known[v.Number].Judged {
			continue
		}
		before, since := s.around(recent, i, now)
		if err := s.d.Store.InTx(ctx, func(tx Tx) error { return tx.PutTraffic(ctx, v.Number, before, since, now) }); err != nil {
			return fmt.Errorf("keep what was refused around version %d: %w", v.Number, err)
		}
	}
	return nil
}

func (s *Effects) stored(ctx context.Context, numbers []int64) (out map[int64]Effect, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Effects(ctx, numbers)
		return err
	})
	return out, err
}

// around is what was refused before and after the publication of one of several
// versions, the newest first. Neither span reaches into another version's time.
func (s *Effects) around(versions []Version, i int, now time.Time) (before, since *Share) {
	at := versions[i].CreatedAt
	from, to := at.Add(-aroundPublication), at.Add(aroundPublication)
	if i+1 < len(versions) && versions[i+1].CreatedAt.After(from) {
		from = versions[i+1].CreatedAt
	}
	if i > 0 && versions[i-1].CreatedAt.Before(to) {
		to = versions[i-1].CreatedAt
	}
	if to.After(now) {
		to = now
	}
	return s.share(from, at), s.share(at, to)
}

// share is what was refused in a span; nil when it is short, or when no gateway
// said anything of some part of it.
func (s *Effects) share(from, to time.Time) *Share {
	const step = 10 * time.Second
	if s.traffic == nil || to.Sub(from) < leastAround {
		return nil
	}
	from, to = from.Truncate(step).Add(step), to.Truncate(step)
	points := s.traffic.Totals(from, to, step)
	if len(points) == 0 || points[0].At.After(from) {
		return nil
	}
	var out Share
	for _, p := range points {
		if !p.Reported {
			return nil
		}
		out.Requests += p.Admitted + p.Refused
		out.Refused += p.Refused
	}
	return &out
}

// Of returns what became of versions, the newest first and next to each other, as
// Policies.Versions lists them. What is younger than live counts reach and not
// kept yet is as of now.
func (s *Effects) Of(ctx context.Context, versions []Version) (map[int64]Effect, error) {
	numbers := make([]int64, len(versions))
	for i, v := range versions {
		numbers[i] = v.Number
	}
	out, err := s.stored(ctx, numbers)
	if err != nil {
		return nil, err
	}
	now := s.d.now()
	for i, v := range versions {
		e := out[v.Number]
		e.Number = v.Number
		if !e.Judged && now.Sub(v.CreatedAt) < effectsKnown {
			e.Before, e.Since = s.around(versions, i, now)
		}
		out[v.Number] = e
	}
	return out, nil
}

// VersionOfDraft is the version that a draft was published as; CodeNotFound when
// it was not.
func (s *Policies) VersionOfDraft(ctx context.Context, draft string) (n int64, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		n, err = tx.VersionOfDraft(ctx, draft)
		return err
	})
	return n, err
}
