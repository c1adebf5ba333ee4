package limiter

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/headgate/headgate/policy"
)

// Bounds on how long a refusal is remembered. The shorter one is for limits whose
// tokens may come back (slices, settling, draws over several shards) and quotas.
const (
	denyMicros      = 60_000_000
	denyShortMicros = 1_000_000
)

const (
	denyWays   = 4    // places that one key may be kept in
	denyGroups = 1024 // tenants and other subjects are forgotten by groups of hashes
)

// denied remembers refusals, and buckets that would refuse the same request again.
// What it keeps of a bucket is the level of an answer, as of the time when the call
// was sent: since then the level can only have been lower than that plus the refill,
// so whatever costs more would be refused by the store too. Reads take no lock. It is
// bounded: a newcomer takes the place of whichever entry of its group ends first.
type denied struct {
	seed   maphash.Seed
	places []atomic.Pointer[denial]  // a power of two of them; empty: remembers nothing
	marks  atomic.Uint64             // grows whenever something is forgotten
	all    atomic.Uint64             // the mark at which all was forgotten last
	groups [denyGroups]atomic.Uint64 // the same for the tenants and other subjects of a group
}

// denyKey names a bucket or a quota's counter.
type denyKey struct {
	row   Row
	hash  uint64
	start int64 // of the quota's period
	quota bool
}

// denial is immutable once it was put.
type denial struct {
	key      denyKey
	group    uint16 // of its row; filled in by put
	mark     uint64 // taken before the store was asked, so that answers under way are forgotten too
	sent     int64  // local µs before the store was asked
	received int64  // local µs after it answered
	store    int64  // the store's µs when it answered
	until    int64  // local µs after which the entry says nothing
	numbers  policy.Numbers
	units    int64 // level of the bucket when it refused
	used     int64 // of a quota
	most     int64 // of a quota
}

func newDenied(entries int) *denied {
	d := &denied{seed: maphash.MakeSeed()}
	if entries > 0 {
		d.places = make([]atomic.Pointer[denial], 1<<bits.Len(uint(max(denyWays, entries)-1)))
	}
	return d
}

// hash spreads keys over the places. Only texts need a seeded hash: a limit's own is
// one already.
func (d *denied) hash(key *denyKey) uint64 {
	h := maphash.String(d.seed, key.row.Tenant)
	if key.row.Subject != "" {
		h = bits.RotateLeft64(h, 21) ^ maphash.String(d.seed, key.row.Subject)
	}
	h ^= key.hash + uint64(key.row.Kind)<<56 + uint64(key.start)
	if key.quota {
		h = ^h
	}
	h *= 0x9e3779b97f4a7c15 // 2^64 by the golden ratio, odd: neighbours come to lie far apart
	return h ^ h>>32
}

// mark is what an entry is told by that is made of a call which begins now.
func (d *denied) mark() uint64 { return d.marks.Load() }

// DenyGroup is the group that a row belongs to in every limiter's memory of refusals,
// from 0 to DenyGroups-1: its tenant's, if it has one. It tells ten bits of the subject,
// so that it may travel where the subject may not.
func DenyGroup(row *Row) int {
	text := row.Tenant
	if text == "" {
		text = row.Subject
	}
	h := uint32(2166136261) // FNV-1a
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return int((h ^ h>>16) % denyGroups)
}

// DenyGroups is the number of groups.
const DenyGroups = denyGroups

// forget drops what is known of the row's tenant, or of the row when it has none.
func (d *denied) forget(row *Row) { d.forgetGroup(DenyGroup(row)) }

func (d *denied) forgetGroup(group int) { d.groups[group].Store(d.marks.Add(1)) }

func (d *denied) forgotten(e *denial) bool {
	return e.mark < d.all.Load() || e.mark < d.groups[e.group].Load()
}

// set is the places that a key may be in.
func (d *denied) set(key *denyKey) []atomic.Pointer[denial] {
	at := d.hash(key) & uint64(len(d.places)-1) &^ (denyWays - 1)
	return d.places[at : at+denyWays]
}

// find is the entry of the key that still holds, or nil.
func (d *denied) find(key *denyKey, now int64) *denial {
	if len(d.places) == 0 {
		return nil
	}
	set := d.set(key)
	for i := range set {
		if e := set[i].Load(); e != nil && e.key == *key {
			if now < e.until && !d.forgotten(e) {
				return e
			}
			return nil
		}
	}
	return nil
}

// put remembers e instead of what is known of its key, else instead of the entry
// that ends first.
func (d *denied) put(e *denial) {
	if len(d.places) == 0 {
		return
	}
	e.group = uint16(DenyGroup(&e.key.row))
	set := d.set(&e.key)
	at, first := 0, int64(1<<62)
	for i := range set {
		old := set[i].Load()
		if old == nil || old.key == e.key {
			at = i
			if old != nil {
				break
			}
			first = 0
			continue
		}
		if old.until < first {
			at, first = i, old.until
		}
	}
	set[at].Store(e)
}

// known reports whether something is kept of the key, true or not.
func (d *denied) known(key *denyKey) bool {
	set := d.set(key)
	for i := range set {
		if e := set[i].Load(); e != nil && e.key == *key {
			return true
		}
	}
	return false
}

// drop forgets what is kept of the key.
func (d *denied) drop(key *denyKey) {
	set := d.set(key)
	for i := range set {
		if e := set[i].Load(); e != nil && e.key == *key {
			set[i].CompareAndSwap(e, nil)
		}
	}
}

// wait is how long a request of that cost is refused for, and how long it has
// to wait so that it is certainly enough: both from now, in µs; 0 when the
// entry does not refuse it.
func (e *denial) wait(now, cost int64, n policy.Numbers) int64 {
	if e.numbers != n {
		return 0
	}
	full := Wait(e.units, cost, n)
	if now >= e.sent+full {
		return 0
	}
	return max(1, e.received+full-now)
}

// level is the bucket's level as of now, if nobody drew from it since.
func (e *denial) level(now, cost, wait int64) Level {
	units := min(e.units+max(0, now-e.received)*e.numbers.Tokens, cost*e.numbers.Period-1)
	return Level{Units: units, WaitMicros: wait}
}

// storeAt is the store's clock at a local time, or a little less: the answer was on
// its way for a while.
func (e *denial) storeAt(now int64) int64 { return e.store + max(0, now-e.received) }

// refuses reports whether the quota's counter has no room for the cost.
func (e *denial) refuses(q *Quota) bool { return e.most == q.Cap() && q.Cost > e.most-e.used }

// Forget drops what is remembered of refusals of a tenant: call it when its
// record, its overrides or its state in the store changed.
func (l *Limiter) Forget(tenant string) { l.denied.forget(&Row{Tenant: tenant}) }

// ForgetGroup drops what is remembered of refusals of all rows of a group (DenyGroup):
// call it when the state of one of them in the store was changed by somebody else. A
// number that is no group drops everything.
func (l *Limiter) ForgetGroup(group int) {
	if group < 0 || group >= denyGroups {
		l.ForgetAll()
		return
	}
	l.denied.forgetGroup(group)
}

// ForgetAll drops what is remembered of refusals.
func (l *Limiter) ForgetAll() { l.denied.all.Store(l.denied.marks.Add(1)) }
