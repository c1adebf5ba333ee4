package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// appendResponse writes an answer of the rate limit service, as far as this door
// fills one in: on the hot path reflection costs as much as the decision.
func appendResponse(b []byte, r *ratelimitv3.RateLimitResponse) []byte {
	b = appendNumber(b, 1, uint64(r.GetOverallCode()))
	for _, st := range r.GetStatuses() {
		b = appendMessage(b, 2, st, appendStatus)
	}
	for _, h := range r.GetResponseHeadersToAdd() {
		b = appendMessage(b, 3, h, appendField)
	}
	for _, h := range r.GetRequestHeadersToAdd() {
		b = appendMessage(b, 4, h, appendField)
	}
	if body := r.GetRawBody(); len(body) > 0 {
		b = protowire.AppendBytes(protowire.AppendTag(b, 5, protowire.BytesType), body)
	}
	return b
}

func appendStatus(b []byte, st *ratelimitv3.RateLimitResponse_DescriptorStatus) []byte {
	b = appendNumber(b, 1, uint64(st.GetCode()))
	if l := st.GetCurrentLimit(); l != nil {
		b = appendMessage(b, 2, l, appendLimit)
	}
	b = appendNumber(b, 3, uint64(st.GetLimitRemaining()))
	if d := st.GetDurationUntilReset(); d != nil {
		b = appendMessage(b, 4, uint64(d.GetSeconds()), appendOne)
	}
	return b
}

func appendLimit(b []byte, l *ratelimitv3.RateLimitResponse_RateLimit) []byte {
	b = appendNumber(b, 1, uint64(l.GetRequestsPerUnit()))
	b = appendNumber(b, 2, uint64(l.GetUnit()))
	b = appendText(b, 3, l.GetName())
	if m := l.GetUnitMultiplier(); m != nil {
		b = appendMessage(b, 4, uint64(m.GetValue()), appendOne)
	}
	return b
}

func appendField(b []byte, h *corev3.HeaderValue) []byte {
	return appendText(appendText(b, 1, h.GetKey()), 2, h.GetValue())
}

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
	extra := protowire.SizeVarint(uint64(size)) - 1
	b = append(b, make([]byte, extra)...)
	copy(b[start+extra:], b[start:start+size])
	protowire.AppendVarint(b[:start-1], uint64(size))
	return b
}
