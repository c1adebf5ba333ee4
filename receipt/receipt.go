package receipt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// Prefix begins every receipt; a new format gets a new one.
const Prefix = "hgr1_"

// MaxLength bounds a receipt, in bytes of text.
const MaxLength = 200

// maxPayload is what MaxLength leaves for the payload: base64 takes four bytes for three.
const maxPayload = (MaxLength-len(Prefix))*3/4 - ed25519.SignatureSize

// domain keeps a signature from meaning anything elsewhere.
const domain = "headgate receipt 1\n"

// Errors of receipts.
var (
	// ErrFormat means that a text is no receipt, or not all of one.
	ErrFormat = errors.New("not a receipt")
	// ErrSignature means that nobody with the given key made the receipt as it is.
	ErrSignature = errors.New("the receipt was not made by this key, or was changed since")
	// ErrValue means that a receipt cannot be made of such values.
	ErrValue = errors.New("value out of range")
)

// KeyID names the public key that a receipt can be checked with: the first 8 bytes of
// its SHA-256.
type KeyID [8]byte

// String is the id in hexadecimal.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// IDOf is the id of a public key.
func IDOf(key ed25519.PublicKey) KeyID {
	sum := sha256.Sum256(key)
	return KeyID(sum[:8])
}

// Kind says what the limit counts that refused.
type Kind byte

// Kinds of limits.
const (
	KindRate        Kind = iota // Numbers and Units
	KindConcurrency             // Cap and Used are places
	KindQuota                   // Cap and Used are units of a period
	KindFallback                // Numbers of the route's fallback; nothing is known of levels
	kinds
)

// Source says whence the numbers in force were.
type Source byte

// Sources of numbers, the strongest last.
const (
	SourcePolicy Source = iota
	SourceOverride
	SourceBoost
	sources
)

// Receipt is what a refusal says of itself. It names neither a key, nor an address,
// nor anything else that a caller sent.
type Receipt struct {
	At      time.Time // by Redis' clock, in whole µs
	Version int64     // of the policy that was in force
	// Tenant is the tenant's id; "" when the route knows none, or when only
	// TenantDigest had room.
	Tenant string
	// TenantDigest is the first 6 bytes of the SHA-256 of a tenant's id that had no
	// room, in hexadecimal; "" when Tenant says it all.
	TenantDigest string
	Route        int    // place of the route in the version's document; -1: none
	Limit        uint64 // policy.LimitHash of the limit's id; 0 of a fallback
	Kind         Kind
	Source       Source
	// Reason is one of limiter's that refuse: limit, concurrency, quota, blocked,
	// cost-exceeds-burst, fallback.
	Reason limiter.Reason
	Cost   int64 // that the limit was asked for
	// Numbers are those in force, and Units the bucket's level, in 1/Numbers.Period
	// tokens; negative: a debt.
	Numbers   policy.Numbers
	Units     int64
	Cap, Used int64
	// WaitMicros is what the caller was told to wait; 0: nothing to wait for, or unknown.
	WaitMicros int64
	// Remembered says that the store was not asked again: the wait is enough, but may be
	// longer than it has to be.
	Remembered bool
}

// Sealed is a receipt as it was read, not believed yet.
type Sealed struct {
	Key       KeyID
	payload   []byte // the key's id included
	signature []byte
}

// Sign makes the text of a receipt. It fails with ErrValue when a value cannot be told,
// or when all of them together take more than MaxLength.
func Sign(r *Receipt, key ed25519.PrivateKey) (string, error) {
	if len(key) != ed25519.PrivateKeySize {
		return "", fmt.Errorf("sign receipt: %w: no Ed25519 key", ErrValue)
	}
	id := IDOf(ed25519.PublicKey(key[ed25519.SeedSize:]))
	payload, err := r.encode(append(make([]byte, 0, 160), id[:]...))
	if err != nil {
		return "", fmt.Errorf("sign receipt: %w", err)
	}
	sealed := append(payload, ed25519.Sign(key, signed(payload))...)
	out := make([]byte, len(Prefix)+base64.RawURLEncoding.EncodedLen(len(sealed)))
	copy(out, Prefix)
	base64.RawURLEncoding.Encode(out[len(Prefix):], sealed)
	return string(out), nil
}

// signed is what the signature is over.
func signed(payload []byte) []byte {
	return append(append(make([]byte, 0, len(domain)+len(payload)), domain...), payload...)
}

// Like reports whether a text means to be a receipt: for telling what was pasted.
func Like(text string) bool { return strings.HasPrefix(text, Prefix) }

// Parse reads the text of a receipt, in its one spelling. It fails with ErrFormat.
func Parse(text string) (Sealed, error) {
	rest, ok := strings.CutPrefix(text, Prefix)
	if !ok || len(text) > MaxLength || strings.ContainsAny(rest, "\r\n") {
		return Sealed{}, ErrFormat
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || len(raw) <= len(KeyID{})+ed25519.SignatureSize {
		return Sealed{}, fmt.Errorf("%w: it is cut short or has letters that do not belong there", ErrFormat)
	}
	at := len(raw) - ed25519.SignatureSize
	return Sealed{Key: KeyID(raw[:8]), payload: raw[:at], signature: raw[at:]}, nil
}

// Open checks the signature and tells what the receipt says. It fails with ErrSignature,
// or with ErrFormat when the holder of the key signed something else.
func (s Sealed) Open(key ed25519.PublicKey) (Receipt, error) {
	if len(key) != ed25519.PublicKeySize || IDOf(key) != s.Key || !ed25519.Verify(key, signed(s.payload), s.signature) {
		return Receipt{}, ErrSignature
	}
	return decode(s.payload[len(s.Key):])
}

// TenantIs reports whether the receipt speaks of the tenant with this id.
func (r *Receipt) TenantIs(id string) bool {
	if r.TenantDigest != "" {
		return digestOf(id) == r.TenantDigest
	}
	return r.Tenant == id
}

func digestOf(tenant string) string {
	sum := sha256.Sum256([]byte(tenant))
	return hex.EncodeToString(sum[:tenantDigestBytes])
}
