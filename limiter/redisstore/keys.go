package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash/fnv"
	"strconv"

	"github.com/headgate/headgate/limiter"
)

// lanes is the number of hash tags that subjects are spread over.
const lanes = 256

// hashBytes is the length of a keyed hash: 128 bits.
const hashBytes = 16

// RowKey is the Redis key of a row, as docs/redis.md lays it out. User text
// never stands in it: credentials and addresses appear as keyed hashes, and
// tenant ids are the product's own.
func (s *Store) RowKey(row limiter.Row) string {
	switch row.Kind {
	case limiter.RowTenant:
		return s.key(lane(row.Tenant), 't', row.Tenant)
	case limiter.RowCredential:
		return s.key(lane(row.Tenant), 'c', row.Tenant+":"+s.keyedHash(row.Subject))
	case limiter.RowIP:
		subject := s.keyedHash(row.Subject)
		return s.key(lane(subject), 'i', subject)
	default: // RowGlobal
		return s.key("g", 'g', "all")
	}
}

// probeKey is a row that only Ping draws from.
func (s *Store) probeKey() string { return s.key("g", 'g', "~probe") }

func (s *Store) key(tag string, kind byte, subject string) string {
	return s.opts.Namespace + ":l:{" + tag + "}:" + string(kind) + ":" + subject
}

func (s *Store) keyedHash(text string) string {
	mac := hmac.New(sha256.New, []byte(s.opts.Deployment))
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:hashBytes])
}

func lane(text string) string {
	h := fnv.New32a()
	h.Write([]byte(text))
	return strconv.Itoa(int(h.Sum32() % lanes))
}
