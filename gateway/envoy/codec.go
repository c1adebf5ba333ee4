package envoy

import (
	"errors"
	"fmt"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers what getCodec finds
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// codec is the usual one, but for rate limit requests. Those it reads by itself,
// because text in them need not be UTF-8: Envoy passes header fields on as their
// callers sent them, and the usual codec would fail the call, which a caller could
// then do at will. Such text reaches the decision, which refuses it. It also
// spares the hot path what reflection costs, both ways.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	request, ok := v.(*ratelimitv3.RateLimitRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v) //nolint:wrapcheck // its caller names the message
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return readRequest(buf.ReadOnlyData(), request)
}

// Marshal writes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	response, ok := v.(*ratelimitv3.RateLimitResponse)
	if !ok {
		return c.CodecV2.Marshal(v) //nolint:wrapcheck // its caller names the message
	}
	return mem.BufferSlice{mem.SliceBuffer(appendResponse(make([]byte, 0, usualAnswer), response))}, nil
}

// usualAnswer is as long as most answers of the rate limit service are, in bytes.
const usualAnswer = 512

var errWire = errors.New("not in protobuf's wire format")

// readRequest reads a RateLimitRequest. It keeps nothing of b.
func readRequest(b []byte, to *ratelimitv3.RateLimitRequest) error {
	return fields(b, func(n protowire.Number, text []byte, number uint64) error {
		switch {
		case n == 1 && text != nil:
			to.Domain = string(text)
		case n == 2 && text != nil:
			d := &readInto{}
			to.Descriptors = append(to.Descriptors, &d.descriptor)
			return d.read(text)
		case n == 3 && text == nil:
			to.HitsAddend = uint32(number)
		}
		return nil
	})
}

// usualEntries is how many entries most descriptors have at most.
const usualEntries = 4

// readInto is a descriptor with room for its entries: one allocation and not ten.
type readInto struct {
	descriptor commonv3.RateLimitDescriptor
	entries    [usualEntries]commonv3.RateLimitDescriptor_Entry
	list       [usualEntries]*commonv3.RateLimitDescriptor_Entry
}

// entry is a new entry of the descriptor.
func (r *readInto) entry() *commonv3.RateLimitDescriptor_Entry {
	to := &r.descriptor
	if to.Entries == nil {
		to.Entries = r.list[:0]
	}
	var e *commonv3.RateLimitDescriptor_Entry
	if n := len(to.GetEntries()); n < usualEntries {
		e = &r.entries[n]
	} else {
		e = &commonv3.RateLimitDescriptor_Entry{}
	}
	to.Entries = append(to.Entries, e)
	return e
}

func (r *readInto) read(b []byte) error {
	to := &r.descriptor
	return fields(b, func(n protowire.Number, text []byte, number uint64) error {
		switch {
		case n == 1 && text != nil:
			return readEntry(text, r.entry())
		case n == 2 && text != nil:
			to.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{} // that it is there is all that is asked
		case n == 3 && text != nil:
			if to.HitsAddend == nil { // an embedded message that stands twice is merged
				to.HitsAddend = &wrapperspb.UInt64Value{}
			}
			return fields(text, func(n protowire.Number, text []byte, number uint64) error {
				if n == 1 && text == nil {
					to.HitsAddend.Value = number
				}
				return nil
			})
		case n == 4 && text == nil:
			to.IsNegativeHits = protowire.DecodeBool(number)
		}
		return nil
	})
}

func readEntry(b []byte, to *commonv3.RateLimitDescriptor_Entry) error {
	return fields(b, func(n protowire.Number, text []byte, _ uint64) error {
		switch {
		case n == 1 && text != nil:
			to.Key = keyText(text)
		case n == 2 && text != nil:
			to.Value = string(text)
		}
		return nil
	})
}

// keyText is the text of a key, without a copy where it is a usual one.
func keyText(b []byte) string {
	switch string(b) {
	case keyTenant:
		return keyTenant
	case keyMethod:
		return keyMethod
	case keyHost:
		return keyHost
	case keyPath:
		return keyPath
	case keyAddress:
		return keyAddress
	case keyAPIKey:
		return keyAPIKey
	case keyRoute:
		return keyRoute
	}
	return string(b)
}

// fields tells each field of a message: text for those of bytes (never nil), a
// number for varints. Fields of other types are passed over, as unknown ones are.
func fields(b []byte, each func(n protowire.Number, text []byte, number uint64) error) error {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(size))
		}
		b = b[size:]
		var text []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			if text, size = protowire.ConsumeBytes(b); text == nil {
				text = []byte{}
			}
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(b)
		default:
			n, size = 0, protowire.ConsumeFieldValue(n, kind, b)
		}
		if size < 0 {
			return fmt.Errorf("%w: %w", errWire, protowire.ParseError(size))
		}
		b = b[size:]
		if err := each(n, text, number); err != nil {
			return err
		}
	}
	return nil
}
