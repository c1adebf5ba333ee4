package policy

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Canary offers a version to a few replicas before all others get it. It says
// nothing of the version itself, which carries its own signature.
type Canary struct {
	Version   int64     `json:"version"`
	Digest    string    `json:"digest"`
	Parent    string    `json:"parent"`   // digest of the version that the others enforce
	Base      int64     `json:"base"`     // its number
	Replicas  []string  `json:"replicas"` // ids, sorted, each once
	Issued    time.Time `json:"issued"`
	Signer    string    `json:"signer"`
	Signature []byte    `json:"signature"`
	// TrialSignature is that of the version itself, by the same signer: Ed25519 over
	// TrialMessage, so that it is worth nothing without this record.
	TrialSignature []byte `json:"trial_signature"`
}

// MaxCanaryReplicas bounds a canary, so that its record stays small enough to
// be polled.
const MaxCanaryReplicas = 1000

// CanaryMessage is what is signed for a canary. Issued counts in whole microseconds.
func CanaryMessage(deployment string, c Canary) []byte {
	h := sha256.New()
	for _, id := range c.Replicas {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(id), id) // a hash takes everything
	}
	return message("headgate-canary/v1", deployment, strconv.FormatInt(c.Version, 10), c.Digest, strconv.FormatInt(c.Base, 10), c.Parent,
		strconv.Itoa(len(c.Replicas)), hex.EncodeToString(h.Sum(nil)), strconv.FormatInt(c.Issued.UnixMicro(), 10))
}

// SignCanary offers a version, whose body is needed, to replicas, while all
// others keep base. The version's own signature goes nowhere: it is for all.
func SignCanary(priv ed25519.PrivateKey, deployment string, p SignedPolicy, base int64, replicas []string, issued time.Time) Canary {
	replicas = slices.Clone(replicas)
	slices.Sort(replicas)
	c := Canary{
		Version: p.Version, Digest: p.Digest, Parent: p.Parent, Base: base, Replicas: slices.Compact(replicas),
		Issued: issued.UTC().Truncate(time.Microsecond), Signer: SignerID(publicOf(priv)),
		TrialSignature: ed25519.Sign(priv, TrialMessage(deployment, p.Version, p.Parent, p.Body)),
	}
	c.Signature = ed25519.Sign(priv, CanaryMessage(deployment, c))
	return c
}

// VerifyCanary checks shape and signature of a canary. It fails with ErrBadSignature.
func VerifyCanary(keys []ed25519.PublicKey, deployment string, c Canary) error {
	if c.Version <= c.Base || c.Base < 1 || len(c.Replicas) == 0 || len(c.Replicas) > MaxCanaryReplicas ||
		!signedBy(keys, c.Signer, CanaryMessage(deployment, c), c.Signature) {
		return fmt.Errorf("verify canary of version %d, signer %q: %w", c.Version, c.Signer, ErrBadSignature)
	}
	return nil
}

// Names reports whether a replica is one of the canary's.
func (c Canary) Names(replica string) bool {
	_, found := slices.BinarySearch(c.Replicas, replica)
	return found && replica != ""
}

// Policy is the signed version that is offered, without its body.
func (c Canary) Policy() SignedPolicy {
	return SignedPolicy{
		Version: c.Version, Digest: c.Digest, Parent: c.Parent, Signer: c.Signer, Signature: c.TrialSignature, Issued: c.Issued, Trial: true,
	}
}

// Tag tells one record of a canary from another without reading it: version and
// time of issue, at most 40 bytes.
func (c Canary) Tag() string {
	return strconv.FormatInt(c.Version, 10) + "-" + strconv.FormatInt(c.Issued.UnixMicro(), 10)
}
