package usage

import (
	"errors"
	"fmt"
	"net/netip"
)

const (
	// MaxKeyRows bounds the rows of one KeyBatch.
	MaxKeyRows = 4096
	// MaxKeyBody bounds an encoded KeyBatch, in bytes.
	MaxKeyBody = 1 << 20
	// maxKeyText bounds the same before it is compressed.
	maxKeyText = 2 << 20
	// maxCount bounds numbers and the seconds that a batch names.
	maxCount = 1 << 53
	// maxRowCount bounds what one row can count, far above what a replica serves
	// while Redis is away, and so low that all rows of a batch can be added up.
	maxRowCount = 1 << 40
)

// ErrKeyBatch says that bytes are no batch of key uses.
var ErrKeyBatch = errors.New("no batch of key uses")

// KeyBatch is what one replica saw of the use of keys. Replica, Boot and Seq name
// it: a reader takes it once. Seconds are Unix, by Redis' clock.
type KeyBatch struct {
	Replica string `json:"replica"`
	Boot    string `json:"boot"`
	Seq     int64  `json:"seq"`     // from 1, without gaps
	From    int64  `json:"from"`    // first second that is told of here
	Through int64  `json:"through"` // everything up to this second is told, here or before
	Started int64  `json:"started"` // when the replica started
	// Final says that the replica ends and has told everything.
	Final bool     `json:"final,omitempty"`
	Lost  int64    `json:"lost,omitempty"` // requests that there was no room for
	Rows  []KeyRow `json:"rows,omitempty"`
}

// KeyRow counts what one source did with one key version. It names the key by its
// kid alone.
type KeyRow struct {
	KID     string `json:"k"`
	Network string `json:"n,omitempty"` // /24 or /48; "" where it is not known, and for the rest
	Agent   string `json:"a,omitempty"` // as AgentOf gives it
	// The first and the last second with a request that the key was accepted for; 0: none.
	FirstUsed int64 `json:"uf,omitempty"`
	LastUsed  int64 `json:"ul,omitempty"`
	// The same where it was not accepted.
	FirstRefused int64 `json:"rf,omitempty"`
	LastRefused  int64 `json:"rl,omitempty"`
	Requests     int64 `json:"q"`           // with the key's right secret
	Limited      int64 `json:"m,omitempty"` // of them: the key was accepted, the request refused
	Refused      int64 `json:"r,omitempty"` // of them: the key was not accepted
}

// EncodeKeys writes a batch as it travels.
func EncodeKeys(b *KeyBatch) ([]byte, error) {
	if len(b.Rows) > MaxKeyRows {
		return nil, fmt.Errorf("encode key uses: %d rows are too many", len(b.Rows))
	}
	out, err := Pack(b, maxKeyText, MaxKeyBody)
	if err != nil {
		return nil, fmt.Errorf("encode key uses of %d rows: %w", len(b.Rows), err)
	}
	return out, nil
}

// DecodeKeys reads what EncodeKeys wrote. Nothing in it is believed: every error
// wraps ErrKeyBatch, and a batch that is returned has only rows that can be.
func DecodeKeys(body []byte) (*KeyBatch, error) {
	var b KeyBatch
	if err := Unpack(body, maxKeyText, MaxKeyBody, &b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyBatch, err)
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyBatch, err)
	}
	return &b, nil
}

func (b *KeyBatch) check() error {
	for _, name := range []string{b.Replica, b.Boot} {
		if !plainText(name, 64) || name == "" {
			return fmt.Errorf("%.70q names neither a replica nor a boot", name)
		}
	}
	for _, n := range []int64{b.Seq, b.Through, b.From, b.Started, b.Lost} {
		if n < 0 || n > maxCount {
			return fmt.Errorf("number %d is out of range", n)
		}
	}
	if b.Seq == 0 {
		return errors.New("it has no number")
	}
	if len(b.Rows) > MaxKeyRows {
		return fmt.Errorf("%d rows, at most %d", len(b.Rows), MaxKeyRows)
	}
	for i := range b.Rows {
		if err := b.Rows[i].check(); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

func (r *KeyRow) check() error {
	switch {
	case !validKID(r.KID):
		return fmt.Errorf("%.20q is no kid", r.KID)
	case !validNetwork(r.Network):
		return fmt.Errorf("%.50q is no network", r.Network)
	case !plainText(r.Agent, MaxAgent):
		return fmt.Errorf("%.70q is no user agent", r.Agent)
	}
	for _, n := range []int64{r.FirstUsed, r.LastUsed, r.FirstRefused, r.LastRefused} {
		if n < 0 || n > maxCount {
			return fmt.Errorf("second %d is out of range", n)
		}
	}
	for _, n := range []int64{r.Requests, r.Limited, r.Refused} {
		if n < 0 || n > maxRowCount {
			return fmt.Errorf("count %d is out of range", n)
		}
	}
	used := r.Requests - r.Refused
	switch {
	case r.Requests == 0, used < r.Limited, r.FirstUsed > r.LastUsed, r.FirstRefused > r.LastRefused:
		return errors.New("its numbers contradict each other")
	case used > 0 != (r.FirstUsed > 0), r.Refused > 0 != (r.FirstRefused > 0):
		return errors.New("it counts what it gives no time for, or the other way round")
	}
	return nil
}

// validKID reports whether kid is 12 characters of base62.
func validKID(kid string) bool {
	if len(kid) != kidBytes {
		return false
	}
	for i := range len(kid) {
		if !alphanumeric(kid[i]) {
			return false
		}
	}
	return true
}

// validNetwork accepts "" and what networkText writes.
func validNetwork(s string) bool {
	if s == "" {
		return true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p != p.Masked() || p.String() != s {
		return false
	}
	return p.Addr().Is4() && p.Bits() == 24 || p.Addr().Is6() && !p.Addr().Is4In6() && p.Bits() == 48
}

// plainText reports whether s is printable ASCII of at most so many bytes.
func plainText(s string, most int) bool {
	if len(s) > most {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
