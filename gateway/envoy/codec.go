package envoy

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers what getCodec finds
	"google.golang.org/grpc/mem"
)

// codec is the usual one, but for calls of the rate limit service. Those it reads and
// writes by itself, because text in them need not be UTF-8: Envoy passes header fields
// on as their callers sent them, and the usual codec would fail the call, which a caller
// could then do at will. Such text reaches the decision, which refuses it. It also
// spares the hot path what messages and reflection cost.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	into, ok := v.(*call)
	if !ok {
		return c.CodecV2.Unmarshal(data, v) //nolint:wrapcheck // its caller names the message
	}
	into.raw = into.raw[:0]
	for _, part := range data {
		into.raw = append(into.raw, part.ReadOnlyData()...)
	}
	return into.asked.read(into.raw)
}

// Marshal writes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	from, ok := v.(*call)
	if !ok {
		return c.CodecV2.Marshal(v) //nolint:wrapcheck // its caller names the message
	}
	out := mem.BufferSlice{mem.SliceBuffer(append([]byte(nil), from.answer.b...))}
	from.end()
	return out, nil
}
