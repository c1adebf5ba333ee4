package limiter

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// A lease's name tells who made it and when: 6 characters for the replica, 7 for the
// second and 13 at random, of the base32 alphabet (RFC 4648).
const (
	leaseTag    = 6
	leaseSecond = 7
	leaseRandom = 13
	leaseDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// LeaseTag is what stands for a replica in the names of its leases: 30 bits of a
// hash of its id.
func LeaseTag(replica string) string {
	sum := sha256.Sum256([]byte(replica))
	return base32.StdEncoding.EncodeToString(sum[:5])[:leaseTag]
}

// LeaseName makes the name of a lease that a replica takes at a Unix second. Random is
// at least 13 characters of base32, such as rand.Text's.
func LeaseName(tag string, second int64, random string) string {
	var b strings.Builder
	b.Grow(leaseTag + leaseSecond + leaseRandom)
	b.WriteString(tag[:leaseTag])
	for shift := 5 * (leaseSecond - 1); shift >= 0; shift -= 5 {
		b.WriteByte(leaseDigits[second>>shift&31])
	}
	b.WriteString(random[:leaseRandom])
	return b.String()
}

// ReadLeaseName is the replica's tag and the Unix second in a name that LeaseName
// made; ok is false for any other.
func ReadLeaseName(name string) (tag string, second int64, ok bool) {
	if len(name) != leaseTag+leaseSecond+leaseRandom {
		return "", 0, false
	}
	for i := range len(name) {
		digit := strings.IndexByte(leaseDigits, name[i])
		if digit < 0 {
			return "", 0, false
		}
		if i >= leaseTag && i < leaseTag+leaseSecond {
			second = second<<5 | int64(digit)
		}
	}
	return name[:leaseTag], second, true
}
