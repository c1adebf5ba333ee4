package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of the silence after which a rotation is ready: a quarter of the
// overlap, and within these; twice the longest gap of a source that has not
// switched, if that is more, up to a bound of its own.
const (
	DefaultMinQuiet = 15 * time.Minute
	maxQuiet        = 24 * time.Hour
	maxRhythm       = 48 * time.Hour
)

const (
	// sourcesOf is how far back sources of an old version are looked at.
	sourcesOf = 7 * 24 * time.Hour
	// switching is how long a source may be seen with both versions and still count
	// as one that has switched: its own parts do not switch in the same second.
	switching = 30 * time.Second
	// shortGap is how long a stretch of which something was lost may be without
	// counting as use: a gateway that is killed takes its last seconds along.
	shortGap = time.Minute
	// maxSources bounds the sources that are looked at, per version.
	maxSources = 1000
)

// RotationShown is a rotation's state with what is known of the use of its
// versions. It is computed when read and never stored.
type RotationShown string

// What a rotation is shown as. Overlap, ready and overdue run still.
const (
	ShownOverlap   RotationShown = "overlap"
	ShownReady     RotationShown = "ready"   // the old version has been silent for long enough
	ShownOverdue   RotationShown = "overdue" // under a day left, and the old version is still used
	ShownCompleted RotationShown = "completed"
	ShownForced    RotationShown = "forced"
	ShownCancelled RotationShown = "cancelled"
)

// SourceStand says where one source stands in a rotation.
type SourceStand string

// Where a source can stand.
const (
	SourceOld      SourceStand = "old"      // uses the old version alone
	SourceBoth     SourceStand = "both"     // uses both: more than one client may be behind it
	SourceSwitched SourceStand = "switched" // used the old version, and uses the new one since
	SourceNew      SourceStand = "new"      // was never seen with the old version
	SourceAwaited  SourceStand = "awaited"  // used the old version in the last week, and was not seen since the start
)

// SourceEvidence is one source in a rotation: old against new.
type SourceEvidence struct {
	Network     string // CIDR; "" is the rest beyond what is told apart
	Agent       string
	Stand       SourceStand
	OldRequests int64
	OldRefused  int64
	OldLast     *time.Time
	NewRequests int64
	NewLast     *time.Time
}

// Evidence is what is known of a rotation's two versions.
type Evidence struct {
	Rotation Rotation
	Shown    RotationShown
	Since    time.Time        // from when on sources are told
	Sources  []SourceEvidence // those that keep it from being ready first
	Age      UseAge
	OldLast  *time.Time    // when the old version was presented last, accepted or not; nil: not since Since
	Quiet    time.Duration // for how long the old version has been silent, as far as is known
	Needed   time.Duration // how long it has to be
	Ready    bool
	Overdue  bool
	WhyNot   string // in words; "" when it is ready or over
	// ReadyAt is when it is ready if nobody uses the old version again; nil when
	// that is not known.
	ReadyAt *time.Time
}

// Stragglers are the sources that used the old version since the start and have
// not switched.
func (e Evidence) Stragglers() []SourceEvidence {
	var out []SourceEvidence
	for _, s := range e.Sources {
		if s.Stand == SourceOld || s.Stand == SourceBoth {
			out = append(out, s)
		}
	}
	return out
}

// RatedRotation is a rotation in a list, with what it is shown as.
type RatedRotation struct {
	Rotation
	Shown   RotationShown
	OldLast *time.Time // when the old version was presented last, accepted or not; nil: not known to be used
	WhyNot  string     // why it is not ready, in words

	section rune // of the list
}

// RotationQuery filters rotations. State "" is every one; ShownOverlap stands
// for all that run.
type RotationQuery struct {
	State    RotationShown
	TenantID string
	Page     Page
}

// Evidence tells what is known of a rotation's two versions: who uses which, and
// whether the old one can be ended.
func (s *Rotations) Evidence(ctx context.Context, actor Actor, id string) (Evidence, error) {
	r, err := s.GetFor(ctx, actor, id)
	if err != nil {
		return Evidence{}, err
	}
	now := s.d.now()
	e := Evidence{Rotation: r, Since: now.Add(-sourcesOf), Age: UseAge{Behind: true}}
	if r.StartedAt.After(e.Since) {
		e.Since = r.StartedAt
	}
	var gap time.Duration
	if s.d.KeyUse != nil {
		if gap, err = s.gather(ctx, &e, now); err != nil {
			return Evidence{}, fmt.Errorf("read use of rotation %s: %w", id, err)
		}
	}
	v := judge(r, use{last: e.OldLast, gap: gap, age: e.Age, sources: len(e.Stragglers())}, s.d.MinQuiet, now)
	e.Shown, e.Quiet, e.Needed, e.Ready, e.Overdue, e.WhyNot, e.ReadyAt = v.shown, v.quiet, v.needed, v.ready, v.overdue, v.whyNot, v.readyAt
	return e, nil
}

// gather reads who uses the two versions, and returns the longest gap of a
// source that has not switched.
func (s *Rotations) gather(ctx context.Context, e *Evidence, now time.Time) (gap time.Duration, err error) {
	r := e.Rotation
	until := now
	if r.EndedAt != nil {
		until = *r.EndedAt
	}
	old, age, err := s.d.KeyUse.Sources(ctx, r.OldKID, until.Add(-sourcesOf), maxSources)
	if err != nil {
		return 0, err
	}
	fresh, _, err := s.d.KeyUse.Sources(ctx, r.NewKID, r.StartedAt, maxSources)
	if err != nil {
		return 0, err
	}
	uses, _, err := s.d.KeyUse.Uses(ctx, []string{r.OldKID})
	if err != nil {
		return 0, err
	}
	e.Age = age
	if last := lastOf(uses[r.OldKID]); last != nil && !last.Before(e.Since) {
		e.OldLast = last
	}
	e.Sources, gap = compare(r, old, fresh)
	for _, o := range old {
		if !o.LastSeen.Before(e.Since) && (e.OldLast == nil || o.LastSeen.After(*e.OldLast)) {
			last := o.LastSeen
			e.OldLast = &last
		}
	}
	return gap, nil
}

// lastOf is when a version was presented last, accepted or not: who is refused
// by a brown-out depends on it all the same.
func lastOf(u KeyUse) *time.Time {
	if u.LastUsedAt == nil || u.RefusedAt != nil && u.RefusedAt.After(*u.LastUsedAt) {
		return u.RefusedAt
	}
	return u.LastUsedAt
}

type sourceName struct{ network, agent string }

// compare sets the sources of the old version against those of the new one.
func compare(r Rotation, old, fresh []KeySource) (out []SourceEvidence, gap time.Duration) {
	seen := make(map[sourceName]KeySource, len(fresh))
	for _, n := range fresh {
		seen[sourceName{n.Network, n.Agent}] = n
	}
	for _, o := range old {
		name := sourceName{o.Network, o.Agent}
		n, both := seen[name]
		delete(seen, name)
		last := o.LastSeen
		e := SourceEvidence{
			Network: o.Network, Agent: o.Agent, Stand: standOf(r, o, n, both), OldRequests: o.Requests, OldRefused: o.Refused, OldLast: &last,
			NewRequests: n.Requests,
		}
		if both {
			e.NewLast = &n.LastSeen
		}
		if e.Stand != SourceSwitched {
			gap = max(gap, o.LongestGap)
		}
		out = append(out, e)
	}
	for _, n := range fresh {
		if _, alone := seen[sourceName{n.Network, n.Agent}]; alone {
			out = append(out, SourceEvidence{Network: n.Network, Agent: n.Agent, Stand: SourceNew, NewRequests: n.Requests, NewLast: &n.LastSeen})
		}
	}
	slices.SortStableFunc(out, func(a, b SourceEvidence) int {
		return cmp.Or(standRank(a.Stand)-standRank(b.Stand), strings.Compare(a.Network, b.Network), strings.Compare(a.Agent, b.Agent))
	})
	return out, gap
}

func standRank(s SourceStand) int {
	return slices.Index([]SourceStand{SourceOld, SourceBoth, SourceAwaited, SourceSwitched, SourceNew}, s)
}

// standOf says where a source of the old version stands. Behind one address may
// be several clients: one that uses both versions for longer than switching
// takes has not switched, until it was seen with the new one alone for a while.
func standOf(r Rotation, o, n KeySource, both bool) SourceStand {
	switch {
	case both && (!o.LastSeen.After(n.FirstSeen.Add(switching)) || n.LastSeen.Sub(o.LastSeen) >= quarter(r)):
		return SourceSwitched
	case both:
		return SourceBoth
	case o.LastSeen.Before(r.StartedAt):
		return SourceAwaited
	}
	return SourceOld
}

// quarter is a quarter of the overlap that the rotation has.
func quarter(r Rotation) time.Duration { return r.EndsAt.Sub(r.StartedAt) / 4 }

// use is what is known of the use of an old version.
type use struct {
	last    *time.Time // since the start, or before it
	gap     time.Duration
	age     UseAge
	sources int // that have not switched; 0 when nobody counted
}

// verdict is what follows for a rotation.
type verdict struct {
	shown          RotationShown
	quiet, needed  time.Duration
	ready, overdue bool
	whyNot         string
	readyAt        *time.Time
}

// judge says whether a rotation is ready or overdue. What is not known counts as
// use: the silence begins when the rotation began, when use began to be told, or
// after a stretch of which something was lost.
func judge(r Rotation, u use, least time.Duration, now time.Time) verdict {
	if !r.Open() {
		return verdict{shown: RotationShown(r.State)}
	}
	v := verdict{shown: ShownOverlap, needed: min(max(quarter(r), least), max(maxQuiet, least))}
	if rhythm := min(2*u.gap, maxRhythm); rhythm > v.needed {
		v.needed = rhythm
	}
	used := u.last != nil && !u.last.Before(r.StartedAt)
	from := later(r.StartedAt, u.age.Since)
	if used {
		from = later(from, *u.last)
	}
	if m := u.age.Missing; m != nil && m.To.Sub(m.From) > shortGap {
		from = later(from, m.To)
	}
	v.quiet = max(0, u.age.Through.Sub(from))
	v.ready = !u.age.Behind && !u.age.Since.IsZero() && v.quiet >= v.needed
	v.overdue = !v.ready && used && r.Overdue(now)
	switch {
	case v.ready:
		v.shown = ShownReady
	case v.overdue:
		v.shown = ShownOverdue
	}
	if !v.ready {
		v.whyNot = notReady(u, used, v)
		if !u.age.Behind {
			at := from.Add(v.needed)
			v.readyAt = &at
		}
	}
	return v
}

func notReady(u use, used bool, v verdict) string {
	needed := "it has to be silent for " + spell(v.needed) + "."
	switch {
	case u.age.Since.IsZero():
		return "Gateways have not told yet who uses keys."
	case u.age.Behind:
		return "What is known of the use of keys is behind: nobody can say whether the old key is silent."
	case used && u.sources == 1:
		return "The old key was used " + spell(v.quiet) + " ago, and one source has not switched; " + needed
	case used && u.sources > 1:
		return fmt.Sprintf("The old key was used %s ago, and %d sources have not switched; %s", spell(v.quiet), u.sources, needed)
	case used:
		return "The old key was used " + spell(v.quiet) + " ago; " + needed
	}
	return "The old key has been silent for " + spell(v.quiet) + "; " + needed
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// spell writes a span of time in words, in its largest unit that loses little.
func spell(d time.Duration) string {
	n, unit := int64(d/time.Second), "second"
	switch {
	case d >= 48*time.Hour:
		n, unit = int64(d/(24*time.Hour)), "day"
	case d >= 2*time.Hour:
		n, unit = int64(d/time.Hour), "hour"
	case d >= 2*time.Minute:
		n, unit = int64(d/time.Minute), "minute"
	}
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
