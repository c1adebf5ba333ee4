package console

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"strconv"

	"github.com/headgate/headgate/policy"
)

// genuine reports whether a version carries this console's signature.
func (d Deps) genuine(p policy.SignedPolicy) bool {
	return policy.VerifyPolicy([]ed25519.PublicKey{d.public()}, d.Deployment, p) == nil
}

// plausible reports whether a version that somebody speaks of may exist: those
// who only report must not use up the numbers.
func plausible(highest, version int64) bool { return version <= highest+plausibleJump }

// believed is the version that Redis offers, or 0 when it is above all that the
// database has and not signed by this console.
func (d Deps) believed(ctx context.Context, version int64) int64 {
	var highest int64
	err := d.Store.Read(ctx, func(tx Tx) (err error) {
		highest, err = tx.HighestVersion(ctx)
		return err
	})
	reader, ok := d.Feed.(PolicyReader)
	if err != nil || version <= highest || !ok {
		return version
	}
	if p, err := reader.ReadPolicy(ctx); err != nil || p.Version != version || !d.genuine(p) {
		return 0
	}
	return version
}

// behind returns the version that Redis has above all that the database knows,
// signed by this console: the database was restored from an older copy. False
// when it is not, or Redis cannot be asked.
func (d Deps) behind(ctx context.Context) (int64, bool) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	st, err := d.Feed.State(ctx)
	if err != nil {
		return 0, false
	}
	// Redis first: what another console publishes meanwhile is no version that was lost.
	var highest int64
	err = d.Store.Read(ctx, func(tx Tx) (err error) {
		highest, err = tx.HighestVersion(ctx)
		return err
	})
	if err != nil || st.Version <= highest {
		return 0, false
	}
	v := d.believed(ctx, st.Version)
	return v, v > highest
}

// Adopt takes over the version that Redis holds, after the database was
// restored from a copy that is behind it: history goes on from there. The
// version must be signed with this console's key. It is CodeConflict when the
// database is not behind, and CodeUnavailable when Redis cannot be read.
func (s *Rollouts) Adopt(ctx context.Context, actor Actor, reason string) (v Version, err error) {
	if err := s.may(actor, &reason, "reason", true); err != nil {
		return Version{}, err
	}
	p, err := s.readRedis(ctx)
	if err != nil {
		return Version{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		v, err = s.adoptIn(ctx, tx, actor, p, reason)
		return err
	})
	if err != nil {
		return Version{}, err
	}
	s.d.Nudge()
	return v, nil
}

// readRedis reads the version that Redis offers, which must be our own.
func (s *Rollouts) readRedis(ctx context.Context) (policy.SignedPolicy, error) {
	reader, ok := s.d.Feed.(PolicyReader)
	if !ok {
		return policy.SignedPolicy{}, &Error{Code: CodeUnavailable, Public: "This console cannot read back what it has published."}
	}
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	p, err := reader.ReadPolicy(ctx)
	switch {
	case err != nil:
		return p, &Error{Code: CodeUnavailable, Public: "Redis cannot be read at the moment; nothing was changed.", Cause: err, RetryAfter: RetryLater}
	case p.Version == 0:
		return p, conflict("Redis has no policy that could be adopted.")
	case !s.d.genuine(p):
		return p, conflict(fmt.Sprintf("v%d in Redis is not signed with this console's key, so it cannot be trusted.", p.Version))
	}
	return p, nil
}

func (s *Rollouts) adoptIn(ctx context.Context, tx Tx, actor Actor, p policy.SignedPolicy, reason string) (Version, error) {
	head, headDoc, err := lockHead(ctx, tx, Version.Document)
	if err != nil {
		return Version{}, err
	}
	highest, err := tx.HighestVersion(ctx)
	if err != nil {
		return Version{}, err
	}
	if p.Version <= highest {
		return Version{}, conflict(fmt.Sprintf("The database is not behind: it has v%d, and Redis has v%d.", highest, p.Version))
	}
	v := Version{
		Number: p.Version, Digest: p.Digest, Parent: p.Parent, Body: p.Body, Note: reason, Author: actor.Name, AuthorID: actor.ID,
		Kind: KindAdopt, CreatedAt: s.d.now(), Tests: head.Tests, // Redis has none
	}
	doc, err := v.Document()
	if err != nil {
		return Version{}, fmt.Errorf("read adopted version %d: %w", v.Number, err)
	}
	for _, c := range policy.Diff(headDoc, doc) {
		v.Changes = append(v.Changes, RatedChange{Change: c}) // whom it concerned when it was published, nobody knows any more
	}
	if err := tx.InsertVersion(ctx, v); err != nil {
		return Version{}, fmt.Errorf("insert version %d: %w", v.Number, err)
	}
	// Plans that tenants are on and it lacks are no reason to refuse: it is what is enforced.
	return v, s.adopted(ctx, tx, actor, head, v, reason)
}

func (s *Rollouts) adopted(ctx context.Context, tx Tx, actor Actor, head, v Version, reason string) error {
	if err := tx.SetHead(ctx, v.Number, v.CreatedAt); err != nil {
		return fmt.Errorf("set head to %d: %w", v.Number, err)
	}
	if err := s.d.endRollout(ctx, tx, actor, v, reason); err != nil {
		return err
	}
	number := strconv.FormatInt(v.Number, 10)
	if _, err := tx.InsertOutbox(ctx, OutboxPolicy, number, v.CreatedAt); err != nil {
		return fmt.Errorf("insert outbox row of version %d: %w", v.Number, err)
	}
	ev := event{
		action: "policy.adopt", object: "policy", objectID: number, changes: PlainChanges(v.Changes), reason: reason,
		after: versionView{v.Number, v.Digest, string(v.Kind), 0, v.Note},
	}
	if head.Number > 0 {
		ev.before = versionView{Number: head.Number, Digest: head.Digest}
	}
	return s.d.record(ctx, tx, actor, v.CreatedAt, ev)
}

// public is the key that gateways verify with.
func (d Deps) public() ed25519.PublicKey {
	public, _ := d.Signer.Public().(ed25519.PublicKey) // of its own type, always
	return public
}

// signVersion reads a version and signs it.
func (d Deps) signVersion(ctx context.Context, number int64) (policy.SignedPolicy, error) {
	var v Version
	err := d.Store.Read(ctx, func(tx Tx) (err error) {
		v, err = tx.Version(ctx, number)
		return err
	})
	if err != nil {
		return policy.SignedPolicy{}, fmt.Errorf("read version %d: %w", number, err)
	}
	return policy.SignPolicy(d.Signer, d.Deployment, v.Number, v.Parent, v.Body, d.now()), nil
}

// headRef reads which version is in force, the zero headRef when none is.
func (d Deps) headRef(ctx context.Context) (h headRef, err error) {
	err = d.Store.Read(ctx, func(tx Tx) error {
		h.Number, h.Digest, err = tx.HeadNumber(ctx)
		if err == nil {
			h.Canary, err = runningRollout(ctx, tx)
		}
		return err
	})
	if IsNotFound(err) {
		return headRef{}, nil
	}
	return h, err
}
