package envoy

import (
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate/gateway"
)

// answer is a RateLimitResponse that is being written, as far as this door fills one
// in. It is a gateway.FieldSink of what the caller is told.
type answer struct {
	b    []byte
	body []byte // scratch: its length stands before it
}

// begin writes the overall code.
func (a *answer) begin(code ratelimitv3.RateLimitResponse_Code) {
	a.b = appendNumber(a.b[:0], 1, uint64(code))
}

func (a *answer) status(st statusLine) { a.b = appendMessage(a.b, 2, st, appendStatus) }

// Set tells the caller a field. What the HTTP doors tell an upstream stays out: Envoy
// adds the fields of this service to those that a caller may have forged. Authorization
// replaces them, and is the service for that.
func (a *answer) Set(name, value string) {
	if !forUpstream(name) {
		a.b = appendMessage(a.b, 3, field{name, value}, appendField)
	}
}

// Add tells the caller one more line of a field.
func (a *answer) Add(name, value string) { a.Set(name, value) }

// lease tells the upstream what it may release and settle by.
func (a *answer) lease(token string) {
	a.b = appendMessage(a.b, 4, field{fieldLease, token}, appendField)
}

// refusal writes the body of a refusal.
func (a *answer) refusal(v *gateway.Verdict) {
	if a.body = v.AppendBody(a.body[:0]); len(a.body) > 0 {
		a.b = protowire.AppendBytes(protowire.AppendTag(a.b, 5, protowire.BytesType), a.body)
	}
}

func appendStatus(b []byte, st statusLine) []byte {
	b = appendNumber(b, 1, uint64(st.code))
	if st.limited {
		b = appendMessage(b, 2, st.limit, appendLimit)
	}
	b = appendNumber(b, 3, uint64(st.left))
	if st.reset > 0 {
		b = appendMessage(b, 4, uint64(st.reset), appendOne)
	}
	return b
}

func appendLimit(b []byte, l limitLine) []byte {
	b = appendNumber(b, 1, uint64(l.perUnit))
	b = appendNumber(b, 2, uint64(l.unit))
	b = appendText(b, 3, l.name)
	if l.units > 1 {
		b = appendMessage(b, 4, uint64(l.units), appendOne)
	}
	return b
}

type field struct{ name, value string }

func appendField(b []byte, f field) []byte { return appendText(appendText(b, 1, f.name), 2, f.value) }

// appendOne writes a message whose first field is a number.
func appendOne(b []byte, n uint64) []byte { return appendNumber(b, 1, n) }

// appendNumber and appendText leave the zero value out, as the format has it.
func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// appendMessage writes an embedded message. Its length stands before it: most are
// shorter than 128 bytes, so one byte is kept for it, and a longer one is moved.
func appendMessage[M any](b []byte, field protowire.Number, m M, write func([]byte, M) []byte) []byte {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	start := len(b)
	b = write(b, m)
	size := len(b) - start
	if size < 0x80 {
		b[start-1] = byte(size)
		return b
	}
	var length [10]byte
	extra := protowire.SizeVarint(uint64(size)) - 1
	b = append(b, length[:extra]...)
	copy(b[start+extra:], b[start:start+size])
	protowire.AppendVarint(b[:start-1], uint64(size))
	return b
}
