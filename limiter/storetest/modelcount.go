package storetest

import (
	"maps"
	"math/big"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func slotLimit(row limiter.Row, hash uint64) modelLimit { return modelLimit{row: row, hash: hash} }

func quotaLimit(row limiter.Row, hash uint64, start int64) modelLimit {
	return modelLimit{row: row, hash: hash, start: start}
}

// active is the number of leases that are held.
func (m *Model) active(now int64, l modelLimit) int64 {
	held := int64(0)
	for _, expiry := range m.slots[l] {
		if expiry > now {
			held++
		}
	}
	return held
}

// hold makes a lease or gives it a new expiry, drops the ended ones of its set, and
// returns how many are held.
func (m *Model) hold(now int64, lease limiter.Lease) int64 {
	l := slotLimit(lease.Row, lease.Hash)
	if m.slots[l] == nil {
		m.slots[l] = map[string]int64{}
	}
	maps.DeleteFunc(m.slots[l], func(_ string, expiry int64) bool { return expiry <= now })
	m.slots[l][lease.ID] = now + lease.HoldMicros
	return m.active(now, l)
}

// Renew lets leases last and says which are held.
func (m *Model) Renew(now int64, leases []limiter.Lease) []bool {
	held := make([]bool, len(leases))
	for i, lease := range leases {
		l := slotLimit(lease.Row, lease.Hash)
		if m.slots[l][lease.ID] > now || m.active(now, l) < lease.Max {
			m.hold(now, lease)
			held[i] = true
		}
	}
	return held
}

// Release ends leases.
func (m *Model) Release(leases []limiter.Lease) {
	for _, lease := range leases {
		delete(m.slots[slotLimit(lease.Row, lease.Hash)], lease.ID)
	}
}

// quota judges a quota.
func (m *Model) quota(q limiter.Quota) limiter.QuotaLevel {
	used := m.used(quotaLimit(q.Row, q.Hash, q.Start))
	top := q.Amount
	switch {
	case q.Bill && q.Most > 0:
		top = q.Most
	case q.Bill:
		top = policy.MaxUnits - 1
	}
	after := new(big.Int).Add(used, big.NewInt(q.Cost))
	lost := q.Recorded && !m.marked
	return limiter.QuotaLevel{Used: used.Int64(), Refused: after.Cmp(big.NewInt(top)) > 0 || lost && !q.Bill, Lost: lost}
}

func (m *Model) used(l modelLimit) *big.Int {
	if used := m.quotas[l]; used != nil {
		return used
	}
	return new(big.Int)
}

// count adds units to a counter, within what it can hold.
func (m *Model) count(l modelLimit, units int64) int64 {
	used := new(big.Int).Add(m.used(l), big.NewInt(units))
	if used.Sign() < 0 {
		used.SetInt64(0)
	}
	m.quotas[l] = least(used, big.NewInt(policy.MaxUnits-1))
	return m.quotas[l].Int64()
}

// Amend makes corrections, unless the id is known.
func (m *Model) Amend(now int64, id string, corrections []limiter.Amendment) {
	if id != "" {
		if m.marks[id] {
			return
		}
		m.marks[id] = true
	}
	for _, a := range corrections {
		if a.Quota {
			m.count(quotaLimit(a.Row, a.Hash, a.Start), -a.Tokens)
		} else {
			m.correct(now, a)
		}
	}
}

// correct corrects a bucket. It keeps its own numbers; one that is not there is
// full, which only a charge changes.
func (m *Model) correct(now int64, a limiter.Amendment) {
	row := m.row(a.Row)
	row.mend(now)
	b := row[a.Hash]
	switch {
	case b != nil:
		b = b.at(now)
	case a.Tokens < 0:
		b = fullModelBucket(now, a.Numbers)
	default:
		return
	}
	if a.Tokens > 0 && a.Since != 0 {
		b.giveBack(a.Tokens, now-a.Since)
	} else {
		b.add(a.Tokens)
	}
	row[a.Hash] = b
}
