package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	guardEvery   = 500 * time.Millisecond
	guardWindow  = time.Minute // that shares of refusals are compared over
	leastCompare = 100         // decisions on each side, for a share to mean anything
)

// watch is what the guards have seen of the canary that runs.
type watch struct {
	version int64
	seen    map[string][]tallied // by replica, the oldest first
}

// tallied is what a replica had decided at a moment.
type tallied struct {
	boot               string
	at                 time.Time
	decisions, refused int64
}

// Run holds the guards of the canary that runs until ctx ends: it stops one that
// harms, and promotes one that has held for long enough when its plan says so.
// It must not run twice at a time over one database; Relay.While sees to that.
func (s *Rollouts) Run(ctx context.Context) error {
	s.d.repeat(ctx, guardEvery, "the canary is not watched", s.Guard)
	return nil
}

// Guard looks at the canary that runs once, and ends it when it has to. An error
// says that it could not be judged.
func (s *Rollouts) Guard(ctx context.Context) error {
	r, err := s.Current(ctx)
	if err != nil || r == nil {
		return err
	}
	if s.watch.version != r.Version {
		s.watch = watch{version: r.Version, seen: map[string][]tallied{}}
	}
	ask, cancel := context.WithTimeout(ctx, 2*healthTimeout)
	defer cancel()
	p, err := s.fleet.Publication(ask, r.Version)
	if err != nil {
		return err
	}
	if !p.Known {
		return nil // an outage of Redis is none of the canary's doing
	}
	now := s.d.now()
	s.watch.note(p.Rows, now)
	if reason := s.watch.harm(*r, p, now); reason != "" {
		_, err := s.Stop(ctx, SystemActor(), r.Version, reason)
		return ended(err)
	}
	if r.Plan.Promote && r.holdOver(now) && p.Done() && s.watch.held(*r, p) {
		_, err := s.Promote(ctx, SystemActor(), r.Version, "held for "+policy.DurationText(r.Plan.Hold)+" without harm")
		if code := CodeOf(err); code == CodeInvalid {
			_, err = s.Stop(ctx, SystemActor(), r.Version, "it can no longer be published: "+err.Error())
		}
		return ended(err)
	}
	return nil
}

// ended makes nothing of a canary that somebody else ended at the same moment.
func ended(err error) error {
	if CodeOf(err) == CodeConflict {
		return nil
	}
	return err
}

// note keeps what replicas have decided, as far back as the window.
func (w *watch) note(rows []PublicationRow, now time.Time) {
	for _, r := range rows {
		c := tallied{boot: r.Boot, at: now, decisions: r.Decisions, refused: r.Refused}
		list := w.seen[r.ID]
		if n := len(list); n > 0 && (list[n-1].boot != c.boot || list[n-1].decisions > c.decisions) {
			list = nil // it started anew
		}
		if r.Target && !r.On {
			list = nil // what it decided by the version before says nothing
		}
		for len(list) > 1 && now.Sub(list[1].at) >= guardWindow {
			list = list[1:]
		}
		w.seen[r.ID] = append(list, c)
	}
}

// harm says why the canary has to end, "" while it need not.
func (w *watch) harm(r Rollout, p Publication, now time.Time) string {
	var others, othersDegraded int
	for _, row := range p.Rows {
		if !row.Target && row.Age <= SilentAfter {
			others++
			if row.Mode == policy.ModeDegraded {
				othersDegraded++
			}
		}
	}
	for _, row := range p.Rows {
		switch {
		case !row.Target:
		case row.Age <= SilentAfter && row.NACK != nil && row.NACK.Version == r.Version:
			return fmt.Sprintf("%s refuses it: %s, %s", row.ID, row.NACK.Code, row.NACK.Detail)
		case row.Age > SilentAfter && now.Sub(r.StartedAt) > SilentAfter:
			return fmt.Sprintf("%s has gone silent", row.ID)
		case row.On && row.Mode == policy.ModeDegraded && othersDegraded < others:
			return fmt.Sprintf("%s decides without Redis (%s), and others do not", row.ID, row.Cause)
		}
	}
	return w.rise(r, p)
}

// held reports whether each replica of a canary has enforced its version for as
// long as the plan says, by Redis' clock and its own word, and was watched here
// for a minute of it: what went on while no console ran, nobody has judged.
func (w *watch) held(r Rollout, p Publication) bool {
	for _, row := range p.Rows {
		if !row.Target {
			continue
		}
		list := w.seen[row.ID]
		watched := len(list) > 1 && list[len(list)-1].at.Sub(list[0].at) >= min(r.Plan.Hold, guardWindow)
		if !watched || row.Version != r.Version || row.Held >= 0 && row.Held < r.Plan.Hold {
			return false
		}
	}
	return true
}

// rise compares the shares of refused decisions.
func (w *watch) rise(r Rollout, p Publication) string {
	var with, without tallied
	for _, row := range p.Rows {
		list := w.seen[row.ID]
		if len(list) < 2 || row.Age > SilentAfter {
			continue
		}
		first, last := list[0], list[len(list)-1]
		sum := &without
		if slices.Contains(r.Replicas, row.ID) {
			sum = &with
		}
		sum.decisions += last.decisions - first.decisions
		sum.refused += last.refused - first.refused
	}
	if with.decisions < leastCompare || without.decisions < leastCompare {
		return ""
	}
	share, elsewhere := float64(with.refused)/float64(with.decisions), float64(without.refused)/float64(without.decisions)
	if share-elsewhere <= r.Plan.MaxRefusedRise {
		return ""
	}
	return fmt.Sprintf("refused %.1f %% against %.1f %% elsewhere", 100*share, 100*elsewhere)
}
