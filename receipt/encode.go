package receipt

import (
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// How the tenant is spelled at the end of a payload: in whatever way has room.
const (
	tenantNone   = iota
	tenantPacked // the 10 bytes behind an id of ours
	tenantText   // as it is, to the end
	tenantDigest
)

const (
	tenantPackedBytes = 10
	tenantDigestBytes = 6
	tenantPrefix      = "ten_"
)

// timeBytes hold µs since 1970 until the year 4253.
const timeBytes = 7

// Bits of the first byte: the reason and what is remembered.
const (
	reasonMask    = 0x07
	rememberedBit = 0x08
	kindShift     = 4
	kindMask      = 0x03
)

// Bits of the second byte.
const (
	sourceMask  = 0x03
	tenantShift = 2
	tenantMask  = 0x03
	exactBit    = 0x10 // the wait follows from the level, so it is not told
)

// reasons in the order of their numbers on the wire.
func reasons() [6]limiter.Reason {
	return [...]limiter.Reason{
		limiter.ReasonLimit, limiter.ReasonConcurrency, limiter.ReasonQuota, limiter.ReasonBlocked, limiter.ReasonCostExceedsBurst, limiter.ReasonFallback,
	}
}

func packedID() *base32.Encoding {
	return base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
}

// encode appends the payload to b.
func (r *Receipt) encode(b []byte) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	reason := byte(0)
	for i, known := range reasons() {
		if known == r.Reason {
			reason = byte(i)
		}
	}
	first := reason | byte(r.Kind)<<kindShift
	if r.Remembered {
		first |= rememberedBit
	}
	second := byte(r.Source)
	exact := r.waitFollows()
	if exact {
		second |= exactBit
	}
	var micros [8]byte
	binary.BigEndian.PutUint64(micros[:], uint64(r.At.UnixMicro())) //nolint:gosec // checked
	at := len(b) + 1
	b = append(append(b, first, second), micros[8-timeBytes:]...)
	b = putNumber(putNumber(b, r.Version), int64(r.Route)+1)
	if r.Kind != KindFallback {
		b = binary.BigEndian.AppendUint64(b, r.Limit)
	}
	b = r.appendLevel(putNumber(b, r.Cost))
	if !exact {
		b = putNumber(b, r.WaitMicros)
	}
	b, how := r.appendTenant(b)
	b[at] |= how << tenantShift
	if len(b) > maxPayload {
		return nil, fmt.Errorf("%w: %d bytes are too many", ErrValue, len(b))
	}
	return b, nil
}

// appendLevel appends what the limit was and held.
func (r *Receipt) appendLevel(b []byte) []byte {
	switch r.Kind {
	case KindRate:
		n := r.Numbers
		return binary.AppendVarint(putNumber(putNumber(putNumber(b, n.Tokens), n.Period), n.Burst), r.Units)
	case KindFallback:
		n := r.Numbers
		return putNumber(putNumber(putNumber(b, n.Tokens), n.Period), n.Burst)
	default:
		return putNumber(putNumber(b, r.Cap), r.Used)
	}
}

// appendTenant appends the tenant in the best way that has room.
func (r *Receipt) appendTenant(b []byte) ([]byte, byte) {
	room := maxPayload - len(b)
	if r.Tenant == "" {
		return b, tenantNone
	}
	if raw, ok := packTenant(r.Tenant); ok && room >= len(raw) {
		return append(b, raw...), tenantPacked
	}
	if room >= len(r.Tenant) {
		return append(b, r.Tenant...), tenantText
	}
	digest, _ := hex.DecodeString(digestOf(r.Tenant)) // made by us
	return append(b, digest...), tenantDigest
}

// packTenant gives the random bytes of an id that is spelled as ours are.
func packTenant(id string) ([]byte, bool) {
	rest, ok := strings.CutPrefix(id, tenantPrefix)
	if !ok {
		return nil, false
	}
	raw, err := packedID().DecodeString(rest)
	return raw, err == nil && len(raw) == tenantPackedBytes && packedID().EncodeToString(raw) == rest
}

// check refuses what cannot be told.
func (r *Receipt) check() error {
	micros := r.At.UnixMicro()
	counts := []int64{r.Version, r.Cost, r.Cap, r.Used, r.WaitMicros, r.Numbers.Tokens, r.Numbers.Period, r.Numbers.Burst, micros}
	for _, n := range counts {
		if n < 0 || n > policy.MaxUnits && n != micros {
			return fmt.Errorf("%w: %d", ErrValue, n)
		}
	}
	known := false
	for _, reason := range reasons() {
		known = known || reason == r.Reason
	}
	switch {
	case !known:
		return fmt.Errorf("%w: reason %q refuses nothing that a receipt tells of", ErrValue, r.Reason)
	case r.Kind >= kinds || r.Source >= sources:
		return fmt.Errorf("%w: kind %d, source %d", ErrValue, r.Kind, r.Source)
	case micros >= 1<<(8*timeBytes) || r.Route < -1 || r.Units >= policy.MaxUnits || r.Units <= -policy.MaxUnits:
		return fmt.Errorf("%w: time, route or level", ErrValue)
	case r.Tenant != "" && !policy.ValidID(r.Tenant) || r.TenantDigest != "":
		return fmt.Errorf("%w: tenant", ErrValue)
	}
	return nil
}

// waitFollows reports whether the wait is what the level says.
func (r *Receipt) waitFollows() bool { return r.WaitMicros == r.wait() }

// wait is what the level says of the wait: 0 where it says nothing.
func (r *Receipt) wait() int64 {
	n := r.Numbers
	if r.Kind != KindRate || r.Reason != limiter.ReasonLimit || n.Tokens < 1 || n.Period < 1 || r.Cost > policy.MaxUnits/n.Period {
		return 0
	}
	return limiter.Wait(r.Units, r.Cost, n)
}

func putNumber(b []byte, n int64) []byte { return binary.AppendUvarint(b, uint64(n)) } //nolint:gosec // checked

// reader takes a payload apart; after the first fault all it gives is nothing.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// number reads a number in its shortest spelling: each receipt has one text.
func (r *reader) number() int64 {
	n, size := binary.Uvarint(r.b)
	if r.bad || size <= 0 || n > policy.MaxUnits || size > 1 && r.b[size-1] == 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return int64(n) //nolint:gosec // bounded
}

func (r *reader) signed() int64 {
	n, size := binary.Varint(r.b)
	if r.bad || size <= 0 || size > 1 && r.b[size-1] == 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// decode reads a payload behind the key's id.
func decode(b []byte) (Receipt, error) {
	in := reader{b: b}
	flags := in.take(2)
	first, second := flags[0], flags[1]
	r := Receipt{
		Kind: Kind(first >> kindShift & kindMask), Remembered: first&rememberedBit != 0, Source: Source(second & sourceMask),
	}
	if i := int(first & reasonMask); i < len(reasons()) {
		r.Reason = reasons()[i]
	}
	var micros [8]byte
	copy(micros[8-timeBytes:], in.take(timeBytes))
	r.At = time.UnixMicro(int64(binary.BigEndian.Uint64(micros[:]))).UTC() //nolint:gosec // seven bytes
	r.Version = in.number()
	r.Route = int(in.number()) - 1
	if r.Kind != KindFallback {
		r.Limit = binary.BigEndian.Uint64(in.take(8))
	}
	r.Cost = in.number()
	in.level(&r)
	if second&exactBit != 0 {
		r.WaitMicros = r.wait()
	} else {
		r.WaitMicros = in.number()
	}
	in.tenant(&r, second>>tenantShift&tenantMask)
	if in.bad || len(in.b) > 0 || first>>(kindShift+2) != 0 || second>>5 != 0 || r.recheck() != nil {
		return Receipt{}, fmt.Errorf("%w: signed, but not in the form of this build", ErrFormat)
	}
	return r, nil
}

// recheck is check of what was read.
func (r Receipt) recheck() error {
	r.TenantDigest = ""
	return r.check()
}

func (r *reader) level(to *Receipt) {
	switch to.Kind {
	case KindRate, KindFallback:
		to.Numbers = policy.Numbers{Tokens: r.number(), Period: r.number(), Burst: r.number()}
		if to.Kind == KindRate {
			to.Units = r.signed()
		}
	default:
		to.Cap, to.Used = r.number(), r.number()
	}
}

func (r *reader) tenant(to *Receipt, how byte) {
	switch how {
	case tenantPacked:
		to.Tenant = tenantPrefix + packedID().EncodeToString(r.take(tenantPackedBytes))
	case tenantText:
		to.Tenant = string(r.take(len(r.b)))
		r.bad = r.bad || to.Tenant == ""
	case tenantDigest:
		to.TenantDigest = hex.EncodeToString(r.take(tenantDigestBytes))
	default:
	}
}
