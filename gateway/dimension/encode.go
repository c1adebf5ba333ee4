package dimension

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/headgate/headgate/policy"
)

// State says what is known of a value.
type State byte

// States of a value.
const (
	// Missing: the request has no such value.
	Missing State = iota
	// Present: the value is known, and not empty.
	Present
	// Unreadable: the request may hold a value that an upstream would read, but
	// it cannot be told for certain which.
	Unreadable
)

// Part is one dimension of a limit with its value in a request.
type Part struct {
	Dimension policy.Dimension
	State     State
	Value     string // "" unless Present
}

// maxPlain is the longest value that is encoded as it stands, in bytes; of
// longer ones, and of those that are credentials, the SHA-256 is.
const maxPlain = 1024

// hashed stands for Present in an encoding whose value is a hash, so that a
// value that looks like a hash is not mistaken for one.
const hashed byte = 3

// Encode spells parts as one text for limiter.Row.Subject. Different lists of
// parts have different texts, whatever their values hold. The text is bytes, not
// words: at most about 1.1 KiB a part.
func Encode(parts []Part) string {
	var out []byte
	for i := range parts {
		out = parts[i].appendTo(out)
	}
	return string(out)
}

// Subject is Encode with a scope added when a part is Missing: leaving a value
// out is then neither a way around a limit nor a bucket shared with strangers.
// Give the client's address as scope, or Part{} where the row is a tenant's
// anyway. Requests with an Unreadable part and none Missing share one bucket
// without a scope: there an upstream may read the very value that is being
// guarded, and spreading such requests over addresses would be a way around.
func Subject(parts []Part, scope Part) string {
	if scope == (Part{}) || !slices.ContainsFunc(parts, func(p Part) bool { return p.State == Missing }) {
		return Encode(parts)
	}
	out := []byte{0} // no name of a dimension is empty, so no list of parts begins like this
	out = scope.appendTo(out)
	for i := range parts {
		out = parts[i].appendTo(out)
	}
	return string(out)
}

// secret reports whether the value is a credential, which must not get into anything
// that is told or kept: the SHA-256 counts as well.
func (p *Part) secret() bool {
	if p.Dimension.Secret() {
		return true
	}
	for _, begin := range [...]string{"hg_live_", "hg_test_", "hg_ops_"} {
		if strings.Contains(p.Value, begin) {
			return true
		}
	}
	return false
}

// appendTo writes the part so that its end is known from its beginning.
func (p *Part) appendTo(out []byte) []byte {
	name := p.Dimension.String()
	out = binary.AppendUvarint(out, uint64(len(name)))
	out = append(out, name...)
	switch {
	case p.State != Present:
		return append(out, byte(p.State))
	case len(p.Value) > maxPlain || p.secret():
		sum := sha256.Sum256([]byte(p.Value))
		return append(append(out, hashed), sum[:]...)
	}
	out = append(out, byte(Present))
	out = binary.AppendUvarint(out, uint64(len(p.Value)))
	return append(out, p.Value...)
}
