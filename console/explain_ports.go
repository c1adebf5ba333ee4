package console

import (
	"context"
	"crypto/ed25519"
	"net/netip"
	"time"
)

// ReceiptKey is a public key that a replica signs receipts with.
type ReceiptKey struct {
	ID                  string // receipt.KeyID in hexadecimal
	Public              ed25519.PublicKey
	Replica, Host       string
	FirstSeen, LastSeen time.Time
}

// ReceiptRows keeps keys of receipts; none is ever forgotten, as receipts are kept by
// others for as long as they like.
type ReceiptRows interface {
	PutReceiptKeys(ctx context.Context, keys []ReceiptKey, now time.Time) error
	// ReceiptKeys returns the keys with an id: one, or none.
	ReceiptKeys(ctx context.Context, id string) ([]ReceiptKey, error)
}

// Probe asks the gateways' own engine what it would answer now, without a charge.
type Probe interface {
	// Ask answers in order; with an error, those that it came to.
	Ask(ctx context.Context, questions []ProbeQuestion) ([]ProbeAnswer, error)
	// Version is the version by which it answers, as Redis has it; 0: none.
	Version() int64
}

// ProbeQuestion is a request that nobody makes.
type ProbeQuestion struct {
	Tenant, Credential string
	Key                string // the whole key; kept nowhere
	Route              string // name; or Method, Host and Path say which it is
	Method, Host, Path string
	Client             netip.Addr
	User               string
	Fields             map[string]string // of the body
	Recorded           bool              // the gateways write a ledger
	Cost               int64             // 0: the route's, or 1 where it is computed
}

// ProbeAnswer is what a gateway would say.
type ProbeAnswer struct {
	Version     int64
	Allowed     bool
	Degraded    bool // the store could not be asked: nothing is known of any level
	Bare        bool // callers are told nothing of the cause
	Status      int
	Code        string // of the problem; "" when allowed
	Detail      string
	Reason      string // limiter.Reason; "" when no limit was asked
	Cause       string // of Degraded, in one word
	Route       string
	Tenant      string
	Cost        int64
	CostAssumed bool
	Limits      []ProbeLimit // in the order in which they are asked, shadows behind them
	Deciding    int          // place in Limits; -1: none
	RetryAfter  time.Duration
	RetryKnown  bool // false of a refusal: nobody knows, or waiting does not help
	At          time.Time
}

// ProbeLimit is one limit as it stands.
type ProbeLimit struct {
	ID, Kind     string // Kind is rate, concurrency or quota
	Limit        int64  // tokens a window, places, or units a period
	Window       time.Duration
	Burst        int64
	Left         int64
	Next         time.Duration // until there is more; 0: full, never, or not known
	Wait         time.Duration // until it can pay for the request
	Cost         int64
	Violated     bool
	Blocked      bool // admits nothing ever
	Overage      bool
	Overflow     bool // counted together with others
	Unknown      bool // nobody asked
	Shadow       bool
	Unlimited    bool
	Source       string
	ExpiresMicro int64 // of the numbers; 0: no end
}
