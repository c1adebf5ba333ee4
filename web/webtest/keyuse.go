package webtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/console"
)

// KeyUse is what is known of the use of keys, in memory. As long as a test does not
// say otherwise it is current and whole, and no key was used.
type KeyUse struct {
	now func() time.Time

	mu      sync.Mutex
	uses    map[string]console.KeyUse
	sources map[string][]console.KeySource
	age     *console.UseAge
	err     error
}

// NewKeyUse knows of no use.
func NewKeyUse(now func() time.Time) *KeyUse {
	return &KeyUse{now: now, uses: map[string]console.KeyUse{}, sources: map[string][]console.KeySource{}}
}

// Set says how a key version was used, and by whom.
func (k *KeyUse) Set(use console.KeyUse, sources ...console.KeySource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.uses[use.KID], k.sources[use.KID] = use, sources
}

// SetAge says how current it is, from now on.
func (k *KeyUse) SetAge(age console.UseAge) { k.mu.Lock(); defer k.mu.Unlock(); k.age = &age }

// Fail makes every question fail.
func (k *KeyUse) Fail(err error) { k.mu.Lock(); defer k.mu.Unlock(); k.err = err }

// Uses implements console.KeyUseSource.
func (k *KeyUse) Uses(_ context.Context, kids []string) (map[string]console.KeyUse, console.UseAge, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]console.KeyUse{}
	for _, kid := range kids {
		if use, known := k.uses[kid]; known {
			out[kid] = use
		}
	}
	return out, k.ageNow(), k.err
}

// Sources implements console.KeyUseSource.
func (k *KeyUse) Sources(_ context.Context, kid string, since time.Time, limit int) ([]console.KeySource, console.UseAge, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := slices.DeleteFunc(slices.Clone(k.sources[kid]), func(s console.KeySource) bool { return s.LastSeen.Before(since) })
	slices.SortStableFunc(out, func(a, b console.KeySource) int { return b.LastSeen.Compare(a.LastSeen) })
	return out[:min(limit, len(out))], k.ageNow(), k.err
}

func (k *KeyUse) ageNow() console.UseAge {
	if k.age != nil {
		return *k.age
	}
	now := k.now()
	return console.UseAge{Through: now.Add(-3 * time.Second), Since: now.Add(-365 * 24 * time.Hour)}
}
