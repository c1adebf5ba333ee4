package feed

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

// Config is what every end of the wire needs.
//
// Client should have ContextTimeoutEnabled, MaxRetries -1 and a ReadTimeout of
// some seconds (a policy is up to 8 MiB): deadlines are set by this package.
type Config struct {
	Client     redis.UniversalClient
	Namespace  string           // first part of every key; default "hg"
	Deployment string           // [a-z0-9-]{1,40}; part of every signature
	Now        func() time.Time // default time.Now
	Log        *slog.Logger     // default: discard
}

var namespacePattern = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,40}$`)

// withDefaults fills in what may be left out and lists everything that is wrong.
func (c Config) withDefaults() (Config, error) {
	if c.Namespace == "" {
		c.Namespace = "hg"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var bad []error
	if c.Client == nil {
		bad = append(bad, errors.New("no Redis client"))
	}
	if !namespacePattern.MatchString(c.Namespace) {
		bad = append(bad, fmt.Errorf("namespace %q: 1 to 40 of A-Z a-z 0-9 _ . : -", c.Namespace))
	}
	if !policy.ValidDeployment(c.Deployment) {
		bad = append(bad, fmt.Errorf("deployment %q: 1 to 40 of a-z 0-9 -", c.Deployment))
	}
	return c, errors.Join(bad...)
}

// checkPublicKeys holds the rule that a gateway trusts one key, or two while
// the key is being rotated.
func checkPublicKeys(keys []ed25519.PublicKey) error {
	if len(keys) < 1 || len(keys) > 2 {
		return fmt.Errorf("%d public keys: 1 or 2 are needed", len(keys))
	}
	for i, k := range keys {
		if len(k) != ed25519.PublicKeySize {
			return fmt.Errorf("public key %d has %d bytes, not %d", i+1, len(k), ed25519.PublicKeySize)
		}
	}
	return nil
}
