package policy

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Errors of the Verify functions; test with errors.Is.
var (
	// ErrBadDigest means that a body does not hash to the digest that came with it.
	ErrBadDigest = errors.New("body does not match its digest")
	// ErrBadSignature means that none of the configured keys made the signature,
	// or that it was made for another deployment, version, id or body.
	ErrBadSignature = errors.New("no configured key made this signature")
)

// DigestOf is "sha256:" and the 64 hex digits of the SHA-256 of body.
func DigestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// SignerID names a public key: the first 16 hex digits of its SHA-256.
func SignerID(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	return hex.EncodeToString(sum[:8])
}

// ValidDeployment reports whether a deployment may have this name:
// [a-z0-9-]{1,40}. The name is part of everything that is signed.
func ValidDeployment(name string) bool {
	if name == "" || len(name) > 40 {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// PolicyMessage is what is signed for a version. Parent is the digest of the
// version before, "" for the first.
func PolicyMessage(deployment string, version int64, parent string, body []byte) []byte { //nolint:revive // beside RecordMessage and StampMessage
	if parent == "" {
		parent = "-"
	}
	return message("headgate-policy/v1", deployment, strconv.FormatInt(version, 10), parent, bodyHex(body))
}

// TrialMessage is what is signed for a version while it is on trial. It is not
// the message of a version that all are to enforce, so that nobody but the
// console can make one of the other: both parts of a canary lie in Redis.
func TrialMessage(deployment string, version int64, parent string, body []byte) []byte {
	if parent == "" {
		parent = "-"
	}
	return message("headgate-trial/v1", deployment, strconv.FormatInt(version, 10), parent, bodyHex(body))
}

// RecordMessage is what is signed for a directory record.
func RecordMessage(deployment string, kind RecordKind, id string, seq int64, body []byte) []byte {
	return message("headgate-record/v1", deployment, string(kind), id, strconv.FormatInt(seq, 10), bodyHex(body))
}

// StampMessage is what is signed for a stamp. Issued counts in whole microseconds.
func StampMessage(deployment string, version int64, digest string, issued time.Time) []byte {
	return message("headgate-stamp/v1", deployment, strconv.FormatInt(version, 10), digest,
		strconv.FormatInt(issued.UnixMicro(), 10))
}

// message joins parts with line feeds. A part that holds one would let a
// message be read in two ways, so it is replaced by something that no verifier
// will ever be given.
func message(parts ...string) []byte {
	for i, p := range parts {
		if strings.ContainsAny(p, "\n\r") {
			parts[i] = strconv.Quote(p)
		}
	}
	return []byte(strings.Join(parts, "\n"))
}

func bodyHex(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// SignPolicy signs a version. Body is the canonical document; it is not copied.
func SignPolicy(priv ed25519.PrivateKey, deployment string, version int64, parent string, body []byte, issued time.Time) SignedPolicy {
	return SignedPolicy{
		Version:   version,
		Digest:    DigestOf(body),
		Parent:    parent,
		Body:      body,
		Signer:    SignerID(publicOf(priv)),
		Signature: ed25519.Sign(priv, PolicyMessage(deployment, version, parent, body)),
		Issued:    issued.UTC().Truncate(time.Microsecond),
	}
}

// VerifyPolicy checks digest and signature of a version against the configured
// public keys; one on trial has to be signed as such. It fails with ErrBadDigest
// or ErrBadSignature.
func VerifyPolicy(keys []ed25519.PublicKey, deployment string, p SignedPolicy) error {
	if got := DigestOf(p.Body); got != p.Digest {
		return fmt.Errorf("verify version %d: %w", p.Version, ErrBadDigest)
	}
	signed := PolicyMessage
	if p.Trial {
		signed = TrialMessage
	}
	if !signedBy(keys, p.Signer, signed(deployment, p.Version, p.Parent, p.Body), p.Signature) {
		return fmt.Errorf("verify version %d, signer %q: %w", p.Version, p.Signer, ErrBadSignature)
	}
	return nil
}

// SignRecord signs a directory record whose body is the JSON of body, a
// KeyRecord or a TenantRecord.
func SignRecord(priv ed25519.PrivateKey, deployment string, kind RecordKind, id string, seq int64, body any) (SignedRecord, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return SignedRecord{}, fmt.Errorf("encode body of %s %s: %w", kind, id, err)
	}
	r := SignedRecord{Kind: kind, ID: id, Seq: seq, Body: raw, Signer: SignerID(publicOf(priv))}
	if err := r.check(); err != nil {
		return SignedRecord{}, fmt.Errorf("sign %s %q: %w", kind, id, err)
	}
	r.Signature = ed25519.Sign(priv, RecordMessage(deployment, kind, id, seq, raw))
	return r, nil
}

// VerifyRecord checks the signature of a directory record against the
// configured public keys. It fails with ErrBadSignature.
func VerifyRecord(keys []ed25519.PublicKey, deployment string, r SignedRecord) error {
	if !signedBy(keys, r.Signer, RecordMessage(deployment, r.Kind, r.ID, r.Seq, r.Body), r.Signature) {
		return fmt.Errorf("verify %s %q, signer %q: %w", r.Kind, r.ID, r.Signer, ErrBadSignature)
	}
	return nil
}

// SignStamp says that a version is the newest at the moment issued, which is
// kept in whole microseconds.
func SignStamp(priv ed25519.PrivateKey, deployment string, version int64, digest string, issued time.Time) Stamp {
	issued = issued.UTC().Truncate(time.Microsecond)
	return Stamp{
		Version:   version,
		Digest:    digest,
		Issued:    issued,
		Signer:    SignerID(publicOf(priv)),
		Signature: ed25519.Sign(priv, StampMessage(deployment, version, digest, issued)),
	}
}

// VerifyStamp checks the signature of a stamp. It fails with ErrBadSignature.
func VerifyStamp(keys []ed25519.PublicKey, deployment string, s Stamp) error {
	if !signedBy(keys, s.Signer, StampMessage(deployment, s.Version, s.Digest, s.Issued), s.Signature) {
		return fmt.Errorf("verify stamp of version %d, signer %q: %w", s.Version, s.Signer, ErrBadSignature)
	}
	return nil
}

// signedBy looks for the key that the signer id names; the id is only a hint
// which key to try and is itself not trusted.
func signedBy(keys []ed25519.PublicKey, signer string, message, signature []byte) bool {
	for _, k := range keys {
		if len(k) == ed25519.PublicKeySize && SignerID(k) == signer && ed25519.Verify(k, message, signature) {
			return true
		}
	}
	return false
}

func publicOf(priv ed25519.PrivateKey) ed25519.PublicKey {
	return ed25519.PublicKey(priv[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}
