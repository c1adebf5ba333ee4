package console

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// Deps is what the services need. Store, Feed, Signer and Deployment are
// compulsory; the rest has defaults.
type Deps struct {
	Store      Store
	Feed       Feed
	Signer     ed25519.PrivateKey
	Deployment string // [a-z0-9-]{1,40}
	Now        func() time.Time
	Rand       io.Reader
	Log        *slog.Logger
	// Nudge wakes the relay after a commit; set it to Relay.Nudge. May be nil.
	Nudge func()
	// Prover runs tests and simulations; without one they are unavailable.
	Prover Prover
	// Decisions is the log that simulations replay; without one they are unavailable.
	Decisions DecisionSource
	// Traffic is the live traffic of the last hour; without it nobody knows whom
	// a change concerns.
	Traffic Traffic
	// Passwords checks an actor's password again for break-glass; nil means the
	// services' own, which then counts wrong ones apart from sign-in's.
	Passwords PasswordChecker
	// KeyUse tells who uses keys; without it nobody knows, and pages say so.
	KeyUse KeyUseSource
	// MinQuiet is the least time for which an old key version has to be silent
	// before its rotation is ready; 0 is DefaultMinQuiet.
	MinQuiet time.Duration
}

// DecisionSource gives parts of the decision log.
type DecisionSource interface {
	Range(ctx context.Context, from, to time.Time) (Log, error)
}

// Traffic is what live counts say of the last hour; *usage.Live is one.
type Traffic interface {
	LastHour() usage.Hour
}

// PasswordChecker checks passwords of operators who are signed in.
type PasswordChecker interface {
	// CheckPassword is CodeInvalid for a wrong password and CodeRateLimited after
	// too many.
	CheckPassword(ctx context.Context, actor Actor, password string) error
}

func (d Deps) withDefaults() Deps {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Rand == nil {
		d.Rand = rand.Reader
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.MinQuiet <= 0 {
		d.MinQuiet = DefaultMinQuiet
	}
	if d.Nudge == nil {
		d.Nudge = func() {}
	}
	return d
}

// now is the current time in UTC at the precision that PostgreSQL stores.
func (d Deps) now() time.Time { return d.Now().UTC().Truncate(time.Microsecond) }

// Check lists every problem of the dependencies.
func (d Deps) Check() error {
	var bad []string
	if d.Store == nil {
		bad = append(bad, "no store")
	}
	if d.Feed == nil {
		bad = append(bad, "no feed")
	}
	if len(d.Signer) != ed25519.PrivateKeySize {
		bad = append(bad, "no Ed25519 signing key")
	}
	if !policy.ValidDeployment(d.Deployment) {
		bad = append(bad, "the deployment's name must match [a-z0-9-]{1,40}")
	}
	if len(bad) > 0 {
		return fmt.Errorf("console: %s", strings.Join(bad, "; "))
	}
	return nil
}

// newID is a prefix and 16 lower-case base32 characters (80 random bits).
func (d Deps) newID(prefix string) (string, error) {
	var b [10]byte
	if _, err := io.ReadFull(d.Rand, b[:]); err != nil {
		return "", fmt.Errorf("read random id: %w", err)
	}
	return prefix + "_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])), nil
}
