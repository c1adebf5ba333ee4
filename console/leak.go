package console

import (
	"context"
	"strings"
	"time"

	"github.com/headgate/headgate/policy/apikey"
)

const (
	// MaxLeakText is the longest text in which keys are looked for, in bytes.
	MaxLeakText = 1 << 20
	// maxLeakFinds bounds the keys that are looked up from one text.
	maxLeakFinds = 100
)

// Leaks finds keys that got out, and contains them. A secret that is handed in
// stays in memory: it is neither stored nor logged.
type Leaks struct {
	d     Deps
	rules LeakRules
}

// LeakRules says what happens by itself to what others report.
type LeakRules struct {
	// Revoke revokes a reported key at once; otherwise a case is opened, and a person
	// decides. Operators' tokens are revoked in either case.
	Revoke bool
}

// NewLeaks returns the leaks service.
func NewLeaks(d Deps, rules LeakRules) *Leaks { return &Leaks{d: d.withDefaults(), rules: rules} }

// LeakFind is one key that was found in a text.
type LeakFind struct {
	KID         string
	Masked      string // what can be shown of it
	Environment string
	// Ours says that it is a key of this installation, secret and all. A kid that
	// exists with another secret is somebody's invention.
	Ours     bool
	Version  KeyVersion // when Ours, and not an operator's token
	Tenant   Tenant     // the same
	Operator string     // whose API token it is; "" for a tenant's key
	Revoked  bool       // the operator's token is refused already
	Cases    []LeakCase // that there are of it, the newest first
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
	Source     string // who found it: "console", or the name of an intake
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

// Find finds all keys in a text, each once, and says whose they are.
func (s *Leaks) Find(ctx context.Context, actor Actor, text string) ([]LeakFind, error) {
	if err := actor.need(PermView); err != nil {
		return nil, err
	}
	if len(text) > MaxLeakText {
		return nil, invalid(FieldError{Field: "text", Message: "At most 1 MiB. Paste the part that holds the keys."})
	}
	var out []LeakFind
	seen := map[string]bool{}
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		out = nil
		clear(seen)
		for _, found := range apikey.Scan(text, maxLeakFinds) {
			key := text[found.Start:found.End]
			if seen[key] {
				continue
			}
			seen[key] = true
			f, err := find(ctx, tx, key, found.Parsed)
			if err != nil {
				return err
			}
			out = append(out, f)
		}
		return nil
	})
	return out, err
}

// find says whose a key is. It looks up the kid, and compares what the key
// hashes to.
func find(ctx context.Context, tx Tx, key string, parsed apikey.Parsed) (LeakFind, error) {
	f := LeakFind{KID: parsed.KID, Masked: apikey.Mask(key), Environment: parsed.Environment}
	if parsed.Environment == apikey.Ops {
		t, o, err := tx.Token(ctx, parsed.KID)
		if err != nil || !apikey.Equal(t.Digest, key) {
			return f, ignoreNotFound(err)
		}
		f.Ours, f.Operator, f.Revoked = true, o.Name, t.RevokedAt != nil
		return f, nil
	}
	v, err := tx.Key(ctx, parsed.KID)
	if err != nil || v.Environment != parsed.Environment || !apikey.Equal(v.Digest, key) {
		return f, ignoreNotFound(err)
	}
	f.Ours, f.Version = true, v
	if f.Tenant, err = tx.Tenant(ctx, v.TenantID); err != nil {
		return f, err
	}
	f.Cases, err = tx.Leaks(ctx, LeakQuery{KID: v.KID}, Cursor{}, 10)
	return f, err
}

func ignoreNotFound(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}

// List lists leak cases, the newest first, and the cursor to the next page.
func (s *Leaks) List(ctx context.Context, q LeakQuery) (items []LeakCase, next string, err error) {
	return paged(ctx, s.d.Store, q.Page, func(tx Tx, after Cursor, limit int) ([]LeakCase, error) {
		return tx.Leaks(ctx, q, after, limit)
	}, func(c LeakCase) Cursor { return Cursor{At: c.FoundAt, ID: c.ID} })
}

// CountOpen counts cases that wait for somebody.
func (s *Leaks) CountOpen(ctx context.Context) (n int64, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		n, err = tx.CountOpenLeaks(ctx)
		return err
	})
	return n, err
}

// Dismiss closes a case without revoking the key. A reason is compulsory.
func (s *Leaks) Dismiss(ctx context.Context, actor Actor, id, reason string) error {
	if err := actor.need(PermManageKeys); err != nil {
		return err
	}
	reason, err := requiredReason(reason)
	if err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		c, err := tx.LockLeak(ctx, id)
		if err != nil {
			return err
		}
		if c.State != LeakOpen {
			return conflict("The case is " + string(c.State) + " already.")
		}
		before, now := viewLeak(c), s.d.now()
		c.State, c.Done, c.ClosedAt, c.ClosedBy = LeakDismissed, "dismissed", &now, actor.Name
		if err := tx.UpdateLeak(ctx, c); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, now, event{
			action: "leak.dismiss", object: "leak", objectID: c.ID, tenantID: c.TenantID, before: before, after: viewLeak(c), reason: reason,
		})
	})
}

// cleanURL keeps a place that was reported: one line of printable characters, as
// long as a row takes. What looks like a key in it is masked.
func cleanURL(s string) string {
	s = strings.Map(func(r rune) rune {
		if hidden(r) || r == '\n' || r == '\t' || r == '\uFFFD' {
			return -1
		}
		return r
	}, s)
	return cutRunes(maskKeys(s), 2000)
}

// maskKeys replaces each key in a text by what can be shown of it.
func maskKeys(s string) string {
	var b strings.Builder
	at := 0
	for _, f := range apikey.Scan(s, len(s)) {
		b.WriteString(s[at:f.Start])
		b.WriteString(apikey.Mask(s[f.Start:f.End]))
		at = f.End
	}
	b.WriteString(s[at:])
	return b.String()
}

func cutRunes(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i]
		}
	}
	return s
}
