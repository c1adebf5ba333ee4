package dimension

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxKeyFile  = 1 << 20 // bytes
	maxKeys     = 64
	minRSABits  = 2048
	rereadAfter = 5 * time.Second
)

// keyFile is a file of public keys (RFC 7517). It is read again at most every 5 s,
// by a request that finds it due; the others go on with the keys that are known.
// Keys that could be read once are kept until newer ones can.
type keyFile struct {
	path string

	mu      sync.Mutex // held while reading
	content []byte
	known   atomic.Pointer[knownKeys]
}

// knownKeys is the outcome of one reading.
type knownKeys struct {
	keys []jose.JSONWebKey // the last good ones; nil: none yet
	err  error             // of the last reading
	at   time.Time
}

func (k *knownKeys) due(now time.Time) bool {
	return k == nil || now.Before(k.at) || now.Sub(k.at) >= rereadAfter
}

// current are the keys to verify with.
func (f *keyFile) current(now time.Time) ([]jose.JSONWebKey, error) {
	known := f.known.Load()
	switch {
	case known == nil: // nobody can go on without
		f.mu.Lock()
		known = f.read(now)
		f.mu.Unlock()
	case known.due(now) && f.mu.TryLock():
		known = f.read(now)
		f.mu.Unlock()
	}
	if known.keys == nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, known.err)
	}
	return known.keys, nil
}

// read reads the file if that is still due. The caller holds mu.
func (f *keyFile) read(now time.Time) *knownKeys {
	before := f.known.Load()
	if !before.due(now) {
		return before
	}
	next := &knownKeys{at: now}
	if before != nil {
		next.keys = before.keys
	}
	content, err := readBounded(f.path)
	switch {
	case err != nil:
		next.err = err
	case before != nil && before.err == nil && bytes.Equal(content, f.content):
	default:
		var keys []jose.JSONWebKey
		if keys, next.err = parseKeys(content); next.err == nil {
			next.keys, f.content = keys, content
		}
	}
	f.known.Store(next)
	return next
}

// Problem tells why the file of keys could not be read when it was read last; nil
// when it could, or nothing needed it yet. Until it can, known keys go on to hold.
func (u *Users) Problem() error {
	if u.keys == nil {
		return nil
	}
	if known := u.keys.known.Load(); known != nil {
		return known.err
	}
	return nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open keys of users: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("read keys of users: %w", err)
	}
	if len(content) > maxKeyFile {
		return nil, fmt.Errorf("%s has more than %d bytes, the most allowed", path, maxKeyFile)
	}
	return content, nil
}

// parseKeys takes the keys of a set that may verify a token; a set of all kinds of
// keys is usual, so others are passed over. Private and shared keys have no place
// on a gateway and spoil the file.
func parseKeys(content []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, errors.New("the keys of users are no JSON Web Key Set")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the keys of users are more than %d, the most allowed", maxKeys)
	}
	var out []jose.JSONWebKey
	for i, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) != nil {
			continue // of a kind that is not known here
		}
		if !key.IsPublic() {
			return nil, fmt.Errorf("keys[%d] of users is no public key", i)
		}
		if (key.Use == "" || key.Use == "sig") && usable(key.Key) {
			out = append(out, key)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the keys of users hold none for RS256 or PS256 (%d bits or more), ES256 or EdDSA", minRSABits)
	}
	return out, nil
}

func usable(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return true
	}
	return false
}
