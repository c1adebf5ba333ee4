package console

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
)

// offer makes Redis offer the version that is on trial to its replicas, and
// nothing when none is. It renews the offer every minute, as replicas take only
// a fresh one, and puts back what was lost or written over.
func (r *Relay) offer(ctx context.Context, state policy.FeedState, head headRef) error {
	feed, ok := r.d.Feed.(CanaryFeed)
	if !ok {
		return nil
	}
	if head.Canary == nil {
		r.offered = ""
		if state.Canary == 0 && state.CanaryTag == "" {
			return nil
		}
		ask, cancel := context.WithTimeout(ctx, stateTimeout)
		defer cancel()
		return feed.DropCanary(ask)
	}
	c := head.Canary
	whole := state.Canary == c.Version && state.CanaryTag == r.offered && !state.CanaryBodyMissing && state.PolicyEpoch != ""
	if whole && r.offered != "" && time.Since(r.offering) < stampEvery {
		return nil
	}
	signed, err := r.d.signVersion(ctx, c.Version)
	if err != nil {
		return err
	}
	record := policy.SignCanary(r.d.Signer, r.d.Deployment, signed, c.Base, c.Replicas, r.d.now())
	ask, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	result, err := feed.PutCanary(ask, signed, record)
	if err != nil {
		return fmt.Errorf("offer version %d to its replicas: %w", c.Version, err)
	}
	if result == "went-back" {
		r.once(ctx, fmt.Sprintf("canary %d", c.Version), "Redis has something above the version on trial", "version", c.Version)
		return nil
	}
	r.offered, r.offering = record.Tag(), time.Now()
	return nil
}

// sendCanaries offers what outbox rows tell of. A trial that has ended meanwhile
// needs no offer.
func (r *Relay) sendCanaries(ctx context.Context, rows []OutboxRow) error {
	if len(rows) == 0 {
		return nil
	}
	head, err := r.head(ctx)
	if err != nil {
		return err
	}
	if head.Canary != nil {
		r.offered = "" // put it for certain
	}
	if err := r.offer(ctx, policy.FeedState{}, head); err != nil {
		return err
	}
	return r.finish(ctx, rows, policy.Place{})
}

// examineHigher looks at a version in Redis that is above the one in force. One
// that this console signed means that the database was restored from an older
// copy: it stays, and Rollouts.Adopt can take it over. Any other was written by
// somebody else, and no gateway takes it: ours goes back over it as soon as it
// keeps a publication out, and after foreignShown otherwise. Until then gateways
// report why they refuse it, which is how people learn that it is there.
func (r *Relay) examineHigher(ctx context.Context, state policy.FeedState, head headRef) error {
	found := fmt.Sprintf("%d %s", state.Version, state.Digest)
	reader, ok := r.d.Feed.(PolicyReader)
	if !ok || r.odd == "behind "+found {
		return nil
	}
	ask, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	p, err := reader.ReadPolicy(ask)
	if err != nil {
		return fmt.Errorf("read version %d from Redis: %w", state.Version, err)
	}
	if p.Version != state.Version {
		return nil // it changed meanwhile: the next round sees what it is
	}
	if r.d.genuine(p) {
		r.once(ctx, "behind "+found, "the database is behind the gateways: adopt the version in Redis, or publish", "database", head.Number, "redis", p.Version)
		return nil
	}
	if head.Number == 0 {
		r.once(ctx, "foreign "+found, "Redis has a version that this console did not sign", "version", p.Version)
		return nil
	}
	r.once(ctx, "foreign "+p.Digest, foreignText, "version", p.Version)
	if r.foreign.what != found {
		r.foreign = foreignHead{found, r.d.now()}
	}
	if head.Number == r.sent && r.d.now().Sub(r.foreign.since) < foreignShown {
		return nil
	}
	signed, err := r.d.signVersion(ctx, head.Number)
	if err != nil {
		return err
	}
	return r.restoreOver(ctx, signed, p)
}

const (
	// foreignShown is how long a version above ours that this console did not sign
	// is left in Redis while nothing has to be published.
	foreignShown = 45 * time.Second
	foreignText  = "Redis has a version that this console did not sign: something else writes to it"
)

// foreignHead is a version above ours that this console did not sign.
type foreignHead struct {
	what  string    // its number and digest
	since time.Time // when it was first seen
}

// restore puts the version in force back over another document that stands in
// Redis under its number. When that one is ours, too, the database was restored
// and has given the number twice: gateways keep to the first, and the next
// publication takes a number above both.
func (r *Relay) restore(ctx context.Context, signed policy.SignedPolicy) error {
	reader, ok := r.d.Feed.(PolicyReader)
	if !ok {
		r.once(ctx, "differs", "Redis has this version with another digest: something else writes to it", "version", signed.Version)
		return nil
	}
	p, err := reader.ReadPolicy(ctx)
	if err != nil {
		return fmt.Errorf("read version %d from Redis: %w", signed.Version, err)
	}
	if p.Version != signed.Version || p.Digest == signed.Digest {
		return nil
	}
	if r.d.genuine(p) {
		r.once(ctx, "twice "+p.Digest, "this version exists twice, because the database was restored: publish once more", "version", signed.Version,
			"database", signed.Digest, "redis", p.Digest)
		return nil
	}
	return r.restoreOver(ctx, signed, p)
}

func (r *Relay) restoreOver(ctx context.Context, signed, foreign policy.SignedPolicy) error {
	r.once(ctx, "foreign "+foreign.Digest, foreignText, "version", foreign.Version)
	feed, ok := r.d.Feed.(PolicyRestorer)
	if !ok {
		return nil
	}
	if err := feed.RestorePolicy(ctx, signed, foreign); err != nil {
		return fmt.Errorf("restore version %d: %w", signed.Version, err)
	}
	r.odd, r.stamped, r.sent = "", time.Time{}, signed.Version
	return nil
}

// once logs something wrong with Redis when it is first seen.
func (r *Relay) once(ctx context.Context, what, text string, args ...any) {
	if r.odd != what {
		r.d.Log.ErrorContext(ctx, text, args...)
	}
	r.odd = what
}
