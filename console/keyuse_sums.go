package console

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/usage"
)

// keySums is what batches come to.
type keySums struct {
	sources map[KeySourceID]*KeySource
	uses    map[string]*KeyUse
	hours   map[keyHourID]*KeyHour
	alarms  map[string]bool // versions that were presented while they were not accepted
}

type keyHourID struct {
	kid  string
	hour time.Time
}

func newKeySums() *keySums {
	return &keySums{sources: map[KeySourceID]*KeySource{}, uses: map[string]*KeyUse{}, hours: map[keyHourID]*KeyHour{}, alarms: map[string]bool{}}
}

func (s *keySums) add(in *keyIntake, r *usage.KeyRow) {
	one := KeySource{KID: r.KID, Network: r.Network, Agent: r.Agent, Requests: r.Requests, Limited: r.Limited, Refused: r.Refused}
	use := s.uses[r.KID]
	if use == nil {
		use = &KeyUse{KID: r.KID}
		s.uses[r.KID] = use
	}
	if r.LastUsed > 0 {
		first, last := in.clamp(r.FirstUsed), in.clamp(r.LastUsed)
		one.FirstSeen, one.LastSeen, one.UsedAt = first, last, &last
		if use.FirstUsedAt == nil || first.Before(*use.FirstUsedAt) {
			use.FirstUsedAt = &first
		}
		if use.LastUsedAt == nil || last.After(*use.LastUsedAt) {
			use.LastUsedAt, use.LastNetwork, use.LastAgent = &last, r.Network, r.Agent
		}
	}
	if r.LastRefused > 0 {
		first, last := in.clamp(r.FirstRefused), in.clamp(r.LastRefused)
		one.RefusedAt = &last
		if one.UsedAt == nil || first.Before(one.FirstSeen) {
			one.FirstSeen = first
		}
		if last.After(one.LastSeen) {
			one.LastSeen = last
		}
		if use.RefusedAt == nil || last.After(*use.RefusedAt) {
			use.RefusedAt, use.RefusedNetwork, use.RefusedAgent = &last, r.Network, r.Agent
		}
		s.alarms[r.KID] = true
	}
	s.addSource(one)
	id := keyHourID{r.KID, one.LastSeen.Truncate(time.Hour)}
	hour := s.hours[id]
	if hour == nil {
		hour = &KeyHour{KID: id.kid, Hour: id.hour}
		s.hours[id] = hour
	}
	hour.Requests, hour.Limited, hour.Refused = hour.Requests+r.Requests, hour.Limited+r.Limited, hour.Refused+r.Refused
}

func (s *keySums) addSource(one KeySource) {
	id := KeySourceID{one.KID, one.Network, one.Agent}
	sum := s.sources[id]
	if sum == nil {
		s.sources[id] = &one
		return
	}
	if one.FirstSeen.Before(sum.FirstSeen) {
		sum.FirstSeen = one.FirstSeen
	}
	if one.LastSeen.After(sum.LastSeen) {
		sum.LastSeen = one.LastSeen
	}
	sum.UsedAt, sum.RefusedAt = laterOf(sum.UsedAt, one.UsedAt), laterOf(sum.RefusedAt, one.RefusedAt)
	sum.Requests, sum.Limited, sum.Refused = sum.Requests+one.Requests, sum.Limited+one.Limited, sum.Refused+one.Refused
}

// laterOf is the later of two times, of which either may be none.
func laterOf(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.After(*a) {
		return b
	}
	return a
}

func sorted[K comparable, V any](m map[K]*V, by func(a, b *V) int) []V {
	out := make([]V, 0, len(m))
	for _, v := range slices.SortedFunc(maps.Values(m), by) {
		out = append(out, *v)
	}
	return out
}

func bySource(a, b *KeySource) int {
	return cmp.Or(cmp.Compare(a.KID, b.KID), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Agent, b.Agent))
}
