package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy/apikey"
)

// Leaks finds keys that got out, and contains them. A secret that is handed in
// stays in memory: it is neither stored nor logged.
type Leaks struct{ d Deps }

// NewLeaks returns the leaks service.
func NewLeaks(d Deps) *Leaks { return &Leaks{d: d.withDefaults()} }

// LeakFind is one key that was found in a text.
type LeakFind struct {
	KID         string
	Masked      string // what can be shown of it
	Environment string
	// Ours says that it is a key of this installation, secret and all. A kid that
	// exists with another secret is somebody's invention.
	Ours    bool
	Version KeyVersion // when Ours
	Tenant  Tenant     // when Ours
	Cases   []LeakCase // that there are of it, the newest first
}

// LeakState is the state of a leak case.
type LeakState string

// States of a leak case.
const (
	LeakOpen      LeakState = "open"
	LeakContained LeakState = "contained" // the key is refused
	LeakDismissed LeakState = "dismissed" // by a person, with a reason
)

// LeakCase is one key that was found where it should not be.
type LeakCase struct {
	ID         string // lek_…
	KID        string
	TenantID   string
	TenantName string
	State      LeakState
	Source     string // who found it: "console", "github", "scanner"
	Kind       string // what the finder calls it
	URL        string // where it was; "" when not told
	Note       string
	Done       string // what was done: "revoked", "revoked and replaced", "had ended before"
	FoundAt    time.Time
	ClosedAt   *time.Time
	ClosedBy   string
	Reports    int64 // how often it was reported
}

// LeakQuery filters leak cases; the zero State is all of them.
type LeakQuery struct {
	State LeakState
	KID   string
	Page  Page
}

// Containment says what to do about a key that got out.
type Containment struct {
	KID     string
	Replace bool // issue a new version at once
	Source  string
	URL     string
	Note    string // compulsory; kept in the audit trail
}

// Contained is what was done. Secret is there when a new version was issued,
// and exists nowhere else.
type Contained struct {
	Case       LeakCase
	Change     Change
	Replaced   bool
	KeyVersion KeyVersion // the new one, when Replaced
	Secret     apikey.Secret
	// Working is the kid of the version that works on; "" when the tenant has none
	// of this credential.
	Working string
}

// Find finds all keys in a text.
func (s *Leaks) Find(_ context.Context, _ Actor, _ string) ([]LeakFind, error) { return nil, nil }

// Contain revokes a key, and replaces it when asked to, in one step.
func (s *Leaks) Contain(_ context.Context, _ Actor, _ Containment) (Contained, error) {
	return Contained{}, notFound("key")
}

// List lists leak cases: open ones first, then the newest.
func (s *Leaks) List(_ context.Context, _ LeakQuery) (items []LeakCase, next string, err error) {
	return nil, "", nil
}

// Dismiss closes a case without revoking the key.
func (s *Leaks) Dismiss(_ context.Context, _ Actor, _, _ string) error { return notFound("case") }
