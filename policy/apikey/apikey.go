package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
)

// Environments of a key.
const (
	Live = "live"
	Test = "test"
	Ops  = "ops" // operators' API tokens
)

// Lengths of the parts of a key, in characters.
const (
	KIDLength    = 12
	secretLength = 32
	crcLength    = 6
)

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// ErrMalformed means that a text is not a key: shape, alphabet or checksum. It
// never holds the text.
var ErrMalformed = errors.New("malformed API key")

// Secret is a whole key. However it is printed, logged or encoded it shows its
// masked form; only Reveal gives the key.
type Secret struct{ key string }

// Reveal gives the whole key, for the one page or answer that shows it.
func (s Secret) Reveal() string { return s.key }

// String is the masked form, hg_live_<kid>_….
func (s Secret) String() string { return Mask(s.key) }

// GoString is the masked form, so that %#v leaks nothing.
func (s Secret) GoString() string { return "apikey.Secret(" + Mask(s.key) + ")" }

// Format prints the masked form for every verb, also those that would
// otherwise reach the field.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, s.GoString())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalText is the masked form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue is the masked form.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Parsed is what a key says about itself.
type Parsed struct{ Environment, KID string }

// Generate makes a key for an environment (live, test, ops) from a source of
// randomness, which is crypto/rand.Reader outside tests. It fails on an unknown
// environment and when rand does.
func Generate(env string, rand io.Reader) (Secret, string, error) {
	if !knownEnvironment(env) {
		return Secret{}, "", fmt.Errorf("generate API key: unknown environment %q", env)
	}
	text, err := randomBase62(rand, KIDLength+secretLength)
	if err != nil {
		return Secret{}, "", fmt.Errorf("generate API key: %w", err)
	}
	kid := text[:KIDLength]
	body := "hg_" + env + "_" + kid + "_" + text[KIDLength:]
	return Secret{key: body + checksum(body)}, kid, nil
}

// randomBase62 draws n characters, each equally likely: bytes of 248 and above
// are thrown away because 256 is no multiple of 62.
func randomBase62(rand io.Reader, n int) (string, error) {
	out := make([]byte, 0, n)
	buf := make([]byte, n)
	for len(out) < n {
		if _, err := io.ReadFull(rand, buf); err != nil {
			return "", fmt.Errorf("read randomness: %w", err)
		}
		for _, b := range buf {
			if b < 248 && len(out) < n {
				out = append(out, alphabet[b%62])
			}
		}
	}
	return string(out), nil
}

// Parse checks the shape, alphabet and checksum of a key and gives its public
// parts. It fails with ErrMalformed.
func Parse(s string) (Parsed, error) {
	env, kid, rest, ok := split(s)
	if !ok || !base62(rest) {
		return Parsed{}, ErrMalformed
	}
	body := s[:len(s)-crcLength]
	if subtle.ConstantTimeCompare([]byte(checksum(body)), []byte(s[len(body):])) != 1 {
		return Parsed{}, ErrMalformed
	}
	return Parsed{Environment: env, KID: kid}, nil
}

// split takes a key apart. rest is secret and checksum, of the right length.
func split(s string) (env, kid, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, "hg_")
	if !ok {
		return "", "", "", false
	}
	env, s, ok = strings.Cut(s, "_")
	if !ok || !knownEnvironment(env) {
		return "", "", "", false
	}
	kid, rest, ok = strings.Cut(s, "_")
	ok = ok && len(kid) == KIDLength && base62(kid) && len(rest) == secretLength+crcLength
	return env, kid, rest, ok
}

func knownEnvironment(env string) bool { return env == Live || env == Test || env == Ops }

// ValidKID reports whether s has the shape of a kid.
func ValidKID(s string) bool { return len(s) == KIDLength && base62(s) }

func base62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// checksum is CRC-32/IEEE in base62, left-padded with 0 to 6 characters.
func checksum(body string) string {
	n := crc32.ChecksumIEEE([]byte(body))
	out := [crcLength]byte{}
	for i := crcLength - 1; i >= 0; i-- {
		out[i] = alphabet[n%62]
		n /= 62
	}
	return string(out[:])
}

// Digest is "sha256:" and the hex SHA-256 of the whole key, the only form in
// which a key is stored.
func Digest(s string) string {
	const scheme = "sha256:"
	sum := sha256.Sum256([]byte(s))
	var room [len(scheme) + 2*sha256.Size]byte
	return string(hex.AppendEncode(append(room[:0], scheme...), sum[:]))
}

// Equal reports in constant time whether a key hashes to the digest. For a kid
// that does not exist call it with DummyDigest, so that a miss costs the same.
func Equal(digest, key string) bool {
	return subtle.ConstantTimeCompare([]byte(digest), []byte(Digest(key))) == 1
}

// DummyDigest has the shape of a digest and no key hashes to it.
const DummyDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// Mask is the form of a key that may be shown: hg_live_<kid>_…. A text that is
// not shaped like a key is hidden whole.
func Mask(s string) string {
	env, kid, _, ok := split(s)
	if !ok {
		return "hg_…"
	}
	return "hg_" + env + "_" + kid + "_…"
}
