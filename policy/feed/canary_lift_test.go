package feed

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// lifted is the canary's version, dressed up as the one in force for all: what
// somebody can make of a canary who reads Redis and writes to it.
func lifted(c policy.Canary, body []byte) policy.SignedPolicy {
	p := c.Policy()
	p.Trial, p.Body = false, body
	return p
}

// TestCanary_A23_CannotBeLiftedToAllByWhoeverWritesToRedis holds what a
// promotion is worth: the console alone gives the version on trial to all.
func TestCanary_A23_CannotBeLiftedToAllByWhoeverWritesToRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	base := r.publish(5, 60)
	dir := t.TempDir()
	on, other := r.named("gw_a", dir, often), r.named("gw_b", t.TempDir(), often)
	start(t, on.Run)
	start(t, other.Run)
	p, c := r.try(base, 6, 1_000_000, "gw_a")
	on.untilVersion(t, 6)
	other.untilVersion(t, 5)

	r.writeRaw(lifted(c, p.Body), nil)
	if n := other.untilNACK(t, policy.NACKBadSignature); n.Version != 6 {
		t.Errorf("NACK %+v", n)
	}
	if other.version() != 5 || on.version() != 6 {
		t.Errorf("versions %d and %d", other.version(), on.version())
	}
	head, err := r.pub.ReadPolicy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := policy.VerifyPolicy([]ed25519.PublicKey{public(r.key)}, deployment, head); !errors.Is(err, policy.ErrBadSignature) {
		t.Errorf("a console takes it for a version that it published: %v", err)
	}
	if err := r.pub.RestorePolicy(t.Context(), base, head); err != nil {
		t.Fatal(err)
	}
	other.untilNoNACK(t)

	// What lies on the disk of a replica on trial stays good, and gets the signature of the promotion.
	again := r.named("gw_a", copied(t, dir), rarely)
	if again.version() != 6 {
		t.Errorf("a restart leads back to version %d: %+v", again.version(), again.Status())
	}
	if result, err := r.pub.PublishPolicy(t.Context(), p); err != nil || result != "published" {
		t.Fatal(result, err)
	}
	other.untilVersion(t, 6)
	again.poll(t.Context())
	if s := again.Status(); s.NACK != nil || base64.StdEncoding.EncodeToString(again.signature) != base64.StdEncoding.EncodeToString(p.Signature) {
		t.Errorf("after the promotion: %+v", s)
	}
}

// TestCanary_A23_CannotBeLiftedToAllOnTheWayFromTheConsole is the same for
// whoever stands between a gateway and its console.
func TestCanary_A23_CannotBeLiftedToAllOnTheWayFromTheConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	base := r.publish(5, 60)
	w := r.named("gw_b", t.TempDir(), rarely)
	w.poll(t.Context())
	p := policy.SignPolicy(r.key, deployment, 6, base.Digest, document(1_000_000), time.Now())
	c := policy.SignCanary(r.key, deployment, p, 5, []string{"gw_a"}, time.Now())
	w.takeOffer(t.Context(), policy.Pulled{Policy: lifted(c, p.Body)})
	if s := w.Status(); s.Version != 5 || s.NACK == nil || s.NACK.Code != policy.NACKBadSignature {
		t.Errorf("status %+v", s)
	}
	w.takeOffer(t.Context(), policy.Pulled{Policy: base, Canary: &c, CanaryBody: p.Body})
	if w.version() != 5 {
		t.Errorf("version %d", w.version())
	}
}
