package limiter

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/policy"
)

// MaxCharges bounds the limits that one request may draw from.
const MaxCharges = 64

// maxField is what six bytes of a stored record hold.
const maxField = 1 << 48

// ErrCharges says that a request's charges cannot be counted: the fault is the
// caller's, not the store's, so it does not count against the store.
var ErrCharges = errors.New("charges cannot be counted")

// CheckDraw refuses what no store can count exactly. Every Store calls it first;
// its error wraps ErrCharges.
func CheckDraw(d *Draw) error { return CheckCharges(d.Charges) }

// CheckCharges refuses what no store can count exactly. Every Store calls it
// first; its error wraps ErrCharges.
func CheckCharges(charges []Charge) error {
	if len(charges) > MaxCharges {
		return fmt.Errorf("%w: %d limits in one request, at most %d", ErrCharges, len(charges), MaxCharges)
	}
	for i := range charges {
		if why := charges[i].problem(); why != "" {
			return fmt.Errorf("%w: limit %q: %s", ErrCharges, charges[i].LimitID, why)
		}
		for j := range i {
			if charges[i].Hash == charges[j].Hash && charges[i].Row == charges[j].Row {
				return fmt.Errorf("%w: limit %q: named twice", ErrCharges, charges[i].LimitID)
			}
		}
	}
	return nil
}

func (c *Charge) problem() string {
	n := c.Numbers
	switch {
	case n.Blocked():
		return "admits nothing"
	case n.Tokens < 0 || n.Tokens >= maxField:
		return "tokens out of range"
	case n.Burst < 0 || n.Burst >= maxField:
		return "burst out of range"
	case n.Period < 1 || n.Period > policy.MaxPeriod.Microseconds():
		return "period out of range"
	case n.Burst > (policy.MaxUnits-1-n.Tokens)/n.Period:
		return "numbers too large to count exactly"
	case c.Cost < 1 || c.Cost > n.Burst:
		return "cost out of range"
	}
	return ""
}
