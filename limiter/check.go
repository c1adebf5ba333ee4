package limiter

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/policy"
)

// Bounds of one request.
const (
	MaxCharges = 64   // limits
	MaxParts   = 16   // concurrency limits, and quotas
	MaxSlots   = 1e6  // leases of one concurrency limit
	MaxLeases  = 1024 // leases in one call of Renew or Release
	MaxAmends  = 1024 // corrections in one call of Amend
	minLeaseID = 16   // bytes
	maxLeaseID = 32   // bytes
	maxAmendID = 64   // bytes
	maxHold    = 86400 * 1_000_000
)

// maxField is what six bytes of a stored record hold.
const maxField = 1 << 48

// ErrCharges says that what a request asks for cannot be counted: the fault is the
// caller's, not the store's, so it does not count against the store.
var ErrCharges = errors.New("charges cannot be counted")

// CheckDraw refuses what no store can count exactly. Every Store calls it first in
// Take; its error wraps ErrCharges.
func CheckDraw(d *Draw) error {
	if err := CheckCharges(d.Charges); err != nil {
		return err
	}
	if err := checkSlots(d.Slots); err != nil {
		return err
	}
	return checkQuotas(d.Quotas)
}

// CheckCharges refuses charges that no store can count exactly. Its error wraps
// ErrCharges.
func CheckCharges(charges []Charge) error {
	if len(charges) > MaxCharges {
		return fmt.Errorf("%w: %d limits in one request, at most %d", ErrCharges, len(charges), MaxCharges)
	}
	for i := range charges {
		if why := charges[i].problem(); why != "" {
			return fmt.Errorf("%w: limit %q: %s", ErrCharges, charges[i].LimitID, why)
		}
		for j := range i {
			if charges[i].clashes(&charges[j]) {
				return fmt.Errorf("%w: limit %q: named twice", ErrCharges, charges[i].LimitID)
			}
		}
	}
	return nil
}

// clashes: one bucket cannot be charged twice in one draw, and neither can the
// hidden bucket of a limit that bounds its identifiers.
func (c *Charge) clashes(o *Charge) bool {
	return c.Hash == o.Hash && (c.Row == o.Row || c.Identifiers > 0 || o.Identifiers > 0)
}

func (c *Charge) problem() string {
	if why := numbersProblem(c.Numbers); why != "" {
		return why
	}
	switch {
	case c.Cost < 1 || c.Cost > c.Numbers.Burst:
		return "cost out of range: 1 to the burst"
	case c.Extra < 0 || c.Extra >= maxField:
		return "extra tokens out of range"
	case c.Identifiers < 0 || c.Identifiers >= maxField:
		return "bound of identifiers out of range"
	case c.Identifiers > 0 && c.Row.Kind != RowIP && c.Row.Kind != RowDimension:
		return "identifiers are bounded for addresses and other dimensions only"
	}
	return ""
}

func numbersProblem(n policy.Numbers) string {
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
	}
	return ""
}

func checkSlots(slots []Slot) error {
	if len(slots) > MaxParts {
		return fmt.Errorf("%w: %d concurrency limits in one request, at most %d", ErrCharges, len(slots), MaxParts)
	}
	for i := range slots {
		s := &slots[i]
		lease := s.Held()
		if why := lease.problem(); why != "" {
			return fmt.Errorf("%w: concurrency limit %q: %s", ErrCharges, s.LimitID, why)
		}
		for j := range i {
			if s.Hash == slots[j].Hash && s.Row == slots[j].Row {
				return fmt.Errorf("%w: concurrency limit %q: named twice", ErrCharges, s.LimitID)
			}
		}
	}
	return nil
}

func (l *Lease) problem() string {
	switch {
	case l.Max < 1 || l.Max > MaxSlots:
		return fmt.Sprintf("places out of range: 1 to %d", int64(MaxSlots))
	case len(l.ID) < minLeaseID || len(l.ID) > maxLeaseID:
		return fmt.Sprintf("lease name of %d bytes: %d to %d", len(l.ID), minLeaseID, maxLeaseID)
	case l.HoldMicros < 1 || l.HoldMicros > maxHold:
		return "hold out of range: 1 µs to 1 day"
	}
	return ""
}

func checkQuotas(quotas []Quota) error {
	if len(quotas) > MaxParts {
		return fmt.Errorf("%w: %d quotas in one request, at most %d", ErrCharges, len(quotas), MaxParts)
	}
	for i := range quotas {
		q := &quotas[i]
		if why := q.problem(); why != "" {
			return fmt.Errorf("%w: quota %q: %s", ErrCharges, q.LimitID, why)
		}
		for j := range i {
			if q.Hash == quotas[j].Hash && q.Row == quotas[j].Row && q.Start == quotas[j].Start {
				return fmt.Errorf("%w: quota %q: named twice", ErrCharges, q.LimitID)
			}
		}
	}
	return nil
}

func (q *Quota) problem() string {
	switch {
	case q.Cost < 1 || q.Cost >= policy.MaxUnits:
		return "cost out of range: 1 to 2^53-1"
	case q.Amount < 0 || q.Amount >= policy.MaxUnits:
		return "amount out of range: 0 to 2^53-1"
	case q.Most < 0 || q.Most >= policy.MaxUnits:
		return "maximum out of range: 0 to 2^53-1"
	}
	return periodProblem(q.Start, q.End)
}

func periodProblem(start, end int64) string {
	switch {
	case start < 0 || start >= policy.MaxUnits:
		return "start of the period out of range"
	case end != 0 && (end <= start || end >= policy.MaxUnits):
		return "end of the period out of range: after its start, or 0"
	}
	return ""
}

// CheckAmendments refuses corrections that no store can count exactly. Every Store
// calls it first in Amend; its error wraps ErrCharges.
func CheckAmendments(id string, corrections []Amendment) error {
	if len(id) > maxAmendID {
		return fmt.Errorf("%w: id of a correction of %d bytes, at most %d", ErrCharges, len(id), maxAmendID)
	}
	if len(corrections) > MaxAmends {
		return fmt.Errorf("%w: %d corrections in one call, at most %d", ErrCharges, len(corrections), MaxAmends)
	}
	for i := range corrections {
		if why := corrections[i].problem(); why != "" {
			return fmt.Errorf("%w: correction %d: %s", ErrCharges, i, why)
		}
	}
	return nil
}

func (a *Amendment) problem() string {
	if a.Tokens <= -policy.MaxUnits || a.Tokens >= policy.MaxUnits {
		return "tokens out of range: below 2^53 either way"
	}
	if a.Quota {
		return periodProblem(a.Start, a.End)
	}
	return numbersProblem(a.Numbers)
}

// CheckLeases refuses leases that no store can keep. Every Store calls it first in
// Renew and Release; its error wraps ErrCharges.
func CheckLeases(leases []Lease) error {
	if len(leases) > MaxLeases {
		return fmt.Errorf("%w: %d leases in one call, at most %d", ErrCharges, len(leases), MaxLeases)
	}
	for i := range leases {
		if why := leases[i].problem(); why != "" {
			return fmt.Errorf("%w: lease %d: %s", ErrCharges, i, why)
		}
	}
	return nil
}
