package webtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// ErrDown is what a Feed that is Down answers.
var ErrDown = errors.New("redis: connection refused")

// Feed plays Redis and gateways that apply at once whatever they are sent.
type Feed struct {
	now func() time.Time

	mu       sync.Mutex
	down     bool
	frozen   bool
	nack     *policy.NACK
	policies []policy.SignedPolicy
	records  map[string]policy.SignedRecord
	place    policy.Place
	replicas []policy.Heartbeat
	hazards  []policy.Hazard
	canary   *policy.Canary
	trial    policy.SignedPolicy // that canary offers

	refused   map[string]*usage.RefusedReport // by replica
	forgotten []int
}

// NewFeed returns a Feed without gateways.
func NewFeed(now func() time.Time) *Feed {
	return &Feed{now: now, records: map[string]policy.SignedRecord{}}
}

// Gateways sets how many gateways report.
func (f *Feed) Gateways(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replicas = nil
	for i := range n {
		f.replicas = append(f.replicas, policy.Heartbeat{ID: "gw_" + string(rune('a'+i)) + "aaaaaaaaaaaaaaa", Host: "host", Build: "test", Breaker: "closed", Mode: policy.ModeNormal})
	}
	f.apply()
}

// Down makes every call fail, as when Redis is away.
func (f *Feed) Down(down bool) { f.mu.Lock(); defer f.mu.Unlock(); f.down = down }

// Freeze keeps the gateways from applying anything; nack, if any, is what they
// say about it.
func (f *Feed) Freeze(nack *policy.NACK) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen, f.nack = true, nack
}

// Thaw lets the gateways take up what they were kept from.
func (f *Feed) Thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen, f.nack = false, nil
	f.apply()
}

// apply lets the gateways take up what is there. The caller holds the lock.
func (f *Feed) apply() {
	for i := range f.replicas {
		r := &f.replicas[i]
		if r.At = f.now(); f.frozen {
			r.NACK = f.nack
			continue
		}
		r.Directory = f.place
		if n := len(f.policies); n > 0 && r.Version < f.policies[n-1].Version {
			r.Version, r.Digest, r.Since = f.policies[n-1].Version, f.policies[n-1].Digest, f.now()
		}
		if f.canary != nil && slices.Contains(f.canary.Replicas, r.ID) && r.Version < f.trial.Version {
			r.Version, r.Digest, r.Since = f.trial.Version, f.trial.Digest, f.now()
		}
	}
}

func (f *Feed) do(fn func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return ErrDown
	}
	fn()
	f.apply()
	return nil
}

// Records returns the directory as it was written.
func (f *Feed) Records() map[string]policy.SignedRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]policy.SignedRecord{}
	for k, v := range f.records {
		out[k] = v
	}
	return out
}

// PublishPolicy implements console.Feed.
func (f *Feed) PublishPolicy(_ context.Context, p policy.SignedPolicy) (string, error) {
	result := "published"
	err := f.do(func() {
		if n := len(f.policies); n > 0 && f.policies[n-1].Version >= p.Version {
			result = "same"
			return
		}
		f.policies = append(f.policies, p)
	})
	return result, err
}

// PutCanary implements console.CanaryFeed.
func (f *Feed) PutCanary(_ context.Context, p policy.SignedPolicy, c policy.Canary) (string, error) {
	return "published", f.do(func() { f.trial, f.canary = p, &c })
}

// DropCanary implements console.CanaryFeed.
func (f *Feed) DropCanary(context.Context) error { return f.do(func() { f.canary = nil }) }

// PutStamp implements console.Feed.
func (f *Feed) PutStamp(context.Context, policy.Stamp) error { return f.do(func() {}) }

// State implements console.Feed.
func (f *Feed) State(context.Context) (s policy.FeedState, err error) {
	err = f.do(func() {
		s.Directory = f.place
		if n := len(f.policies); n > 0 {
			s.PolicyEpoch, s.Version, s.Digest = "epoch", f.policies[n-1].Version, f.policies[n-1].Digest
		}
		if f.canary != nil {
			s.Canary, s.CanaryTag = f.trial.Version, f.canary.Tag()
		}
	})
	return s, err
}

// PutRecords implements console.Feed.
func (f *Feed) PutRecords(_ context.Context, records []policy.SignedRecord) (p policy.Place, err error) {
	err = f.do(func() {
		for _, r := range records {
			f.records[string(r.Kind)+":"+r.ID] = r
			f.place.Seq++
		}
		p = f.place
	})
	return p, err
}

// BeginDirectory implements console.Feed.
func (f *Feed) BeginDirectory(context.Context) error {
	return f.do(func() { f.place = policy.Place{} })
}

// FinishDirectory implements console.Feed.
func (f *Feed) FinishDirectory(_ context.Context, epoch string) (p policy.Place, err error) {
	err = f.do(func() { f.place.Epoch = epoch; p = f.place })
	return p, err
}

// Replicas implements console.Feed.
func (f *Feed) Replicas(context.Context) (out []policy.Heartbeat, err error) {
	err = f.do(func() { f.apply(); out = slices.Clone(f.replicas) })
	return out, err
}

// Now implements console.Feed.
func (f *Feed) Now(context.Context) (now time.Time, err error) {
	err = f.do(func() { now = f.now() })
	return now, err
}

// Endanger has the next looks at Redis find hazards.
func (f *Feed) Endanger(hazards ...policy.Hazard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hazards = hazards
}

// Inspect finds what Endanger said.
func (f *Feed) Inspect(context.Context) (found []policy.Hazard, err error) {
	err = f.do(func() { found = f.hazards })
	return found, err
}

// Ping implements console.Feed.
func (f *Feed) Ping(context.Context) (time.Duration, error) {
	return time.Millisecond, f.do(func() {})
}

// Usage implements console.Feed.
func (f *Feed) Usage(_ context.Context, after string) ([]usage.Batch, string, error) {
	return nil, after, f.do(func() {})
}
