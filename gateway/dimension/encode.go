package dimension

import "github.com/headgate/headgate/policy"

// State says what is known of a value.
type State byte

// States of a value.
const (
	// Missing: the request has no such value; it is counted with its scope (the
	// tenant's or the address' other requests without one).
	Missing State = iota
	// Present: the value is known.
	Present
	// Unreadable: the request may hold a value that an upstream would read, but it
	// cannot be told for certain which. All such requests are counted together.
	Unreadable
)

// Part is one dimension of a limit with its value in a request.
type Part struct {
	Dimension policy.Dimension
	State     State
	Value     string // "" unless Present
}

// Encode spells parts as one text for limiter.Row.Subject. Different lists of
// parts have different texts.
func Encode(parts []Part) string { return "" }

// Subject is Encode with the scope (the client's address, or nothing more within
// a tenant) added when a part is Missing.
func Subject(parts []Part, scope Part) string { return Encode(parts) }
