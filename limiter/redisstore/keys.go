package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strconv"
	"sync"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// hashLanes is the number of lanes that tenants and addresses are spread over.
// After them come the lane of the dimensions that belong to no tenant, and that
// of the limits on everything together.
const (
	hashLanes  = policy.TenantLanes
	commonLane = hashLanes
	globalLane = hashLanes + 1
	laneCount  = hashLanes + 2
)

// hashBytes is the length of a keyed hash: 128 bits.
const hashBytes = 16

// keyspace names keys as docs/redis.md lays them out. User text never stands in
// one: all but tenants, whose ids are the product's own, appear as keyed hashes.
type keyspace struct {
	prefixes [laneCount]string // namespace:l:{lane}:
	macs     sync.Pool         // of *mac
}

// mac is what hashing one subject needs.
type mac struct {
	hash.Hash
	scratch []byte
}

func newKeyspace(namespace, deployment string) *keyspace {
	k := &keyspace{}
	for lane := range k.prefixes {
		name := strconv.Itoa(lane)
		switch lane {
		case commonLane:
			name = "x"
		case globalLane:
			name = "g"
		}
		k.prefixes[lane] = namespace + ":l:{" + name + "}:"
	}
	key := []byte(deployment)
	k.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, key)} }
	return k
}

// appendHash appends the keyed hash of a row's kind, tenant and subject.
func (k *keyspace) appendHash(b []byte, kind byte, tenant, subject string) []byte {
	m := k.macs.Get().(*mac)
	m.Reset()
	m.scratch = append(m.scratch[:0], kind)
	m.scratch = binary.AppendUvarint(m.scratch, uint64(len(tenant)))
	m.scratch = append(append(m.scratch, tenant...), subject...)
	m.Write(m.scratch)
	m.scratch = m.Sum(m.scratch[:0])
	b = append(b, m.scratch[:hashBytes]...)
	k.macs.Put(m)
	return b
}

// lane is the lane that a row lies in.
func (k *keyspace) lane(row limiter.Row) int {
	switch {
	case row.Kind == limiter.RowGlobal:
		return globalLane
	case row.Tenant != "" || row.Kind == limiter.RowTenant || row.Kind == limiter.RowCredential:
		return policy.TenantLane(row.Tenant)
	case row.Kind == limiter.RowIP:
		var room [hashBytes]byte
		return int(k.appendHash(room[:0], byte(row.Kind), "", row.Subject)[0])
	default:
		return commonLane
	}
}

// appendRow appends the key of a row: kind and subject in its lane. An address'
// lane is the first byte of its hash.
func (k *keyspace) appendRow(b []byte, row limiter.Row) []byte {
	switch row.Kind {
	case limiter.RowGlobal:
		return append(append(b, k.prefixes[globalLane]...), "g:all"...)
	case limiter.RowTenant:
		return append(append(append(b, k.prefixes[policy.TenantLane(row.Tenant)]...), "t:"...), row.Tenant...)
	default:
		var room [hashBytes]byte
		sum := k.appendHash(room[:0], byte(row.Kind), row.Tenant, row.Subject)
		lane := commonLane
		switch {
		case row.Tenant != "" || row.Kind == limiter.RowCredential:
			lane = policy.TenantLane(row.Tenant)
		case row.Kind == limiter.RowIP:
			lane = int(sum[0])
		}
		return append(append(append(b, k.prefixes[lane]...), byte(row.Kind), ':'), sum...)
	}
}

// appendOverflow appends the key of the row in which a row's limits count the
// subjects that are too many: the tenant's, or the lane's when there is none.
func (k *keyspace) appendOverflow(b []byte, row limiter.Row) []byte {
	return append(append(append(b, k.prefixes[k.lane(row)]...), "o:"...), row.Tenant...)
}

// appendPart appends the key of the leases ('z') or of a quota's counter ('q') of
// one limit of a row. More tells periods apart.
func (k *keyspace) appendPart(b []byte, kind byte, row limiter.Row, limit uint64, more int64) []byte {
	var room [8]byte
	binary.BigEndian.PutUint64(room[:], limit)
	b = append(append(b, k.prefixes[k.lane(row)]...), kind, ':')
	b = append(hex.AppendEncode(b, room[:]), ':')
	if kind == 'q' {
		b = append(strconv.AppendInt(b, more, 10), ':')
	}
	b = append(b, byte(row.Kind), ':')
	switch row.Kind {
	case limiter.RowGlobal:
		return b
	case limiter.RowTenant:
		return append(b, row.Tenant...)
	default:
		return k.appendHash(b, byte(row.Kind), row.Tenant, row.Subject)
	}
}

// appendMark appends the key that remembers the id of an amendment in a lane.
func (k *keyspace) appendMark(b []byte, lane int, id string) []byte {
	return k.appendHash(append(append(b, k.prefixes[lane]...), "m:"...), 'm', "", id)
}

// appendKept appends the key of the mark which says that a lane's counters of recorded
// quotas can be believed.
func (k *keyspace) appendKept(b []byte, lane int) []byte {
	return append(append(b, k.prefixes[lane]...), 'k')
}

// appendProbe appends the key of the row that a probe of the lane draws from.
func (k *keyspace) appendProbe(b []byte, lane int) []byte {
	return append(append(b, k.prefixes[lane]...), "g:~probe"...)
}

// RowKey is the Redis key of a row. It may hold any bytes.
func (s *Store) RowKey(row limiter.Row) string { return string(s.keys.appendRow(nil, row)) }
