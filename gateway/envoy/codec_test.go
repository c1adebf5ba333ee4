package envoy

import (
	"errors"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/gateway"
)

// drawRequest is any request, with text of all kinds.
func drawRequest(t *rapid.T) *ratelimitv3.RateLimitRequest {
	r := &ratelimitv3.RateLimitRequest{Domain: rapid.String().Draw(t, "domain"), HitsAddend: rapid.Uint32().Draw(t, "hits")}
	for range rapid.IntRange(0, 4).Draw(t, "descriptors") {
		d := &commonv3.RateLimitDescriptor{IsNegativeHits: rapid.Bool().Draw(t, "negative")}
		for range rapid.IntRange(0, 4).Draw(t, "entries") {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{
				Key:   rapid.OneOf(rapid.SampledFrom([]string{keyTenant, keyPath, keyMethod, keyHost, keyAddress, keyAPIKey, keyRoute, ""}), rapid.String()).Draw(t, "key"),
				Value: rapid.String().Draw(t, "value"),
			})
		}
		if rapid.Bool().Draw(t, "own hits") {
			d.HitsAddend = wrapperspb.UInt64(rapid.Uint64().Draw(t, "own"))
		}
		if rapid.Bool().Draw(t, "limit") {
			d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{}
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

func TestCodec_ReadsWhatTheUsualCodecReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawRequest(t)
		raw, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got ratelimitv3.RateLimitRequest
		// In several buffers, as the transport may have it.
		cut := rapid.IntRange(0, len(raw)).Draw(t, "cut")
		data := mem.BufferSlice{mem.SliceBuffer(raw[:cut]), mem.SliceBuffer(raw[cut:])}
		if err := newCodec().Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(&got, want) {
			t.Fatalf("got %v, want %v", &got, want)
		}
	})
}

func TestCodec_B4_TextThatIsNotUTF8ReachesTheDecision(t *testing.T) {
	t.Parallel()
	entry := protowire.AppendBytes([]byte{0x0a}, []byte(keyPath))
	entry = protowire.AppendBytes(append(entry, 0x12), []byte("/a\xff\xfe"))
	descriptor := protowire.AppendBytes([]byte{0x0a}, entry)
	raw := protowire.AppendBytes([]byte{0x12}, descriptor)
	if proto.Unmarshal(raw, &ratelimitv3.RateLimitRequest{}) == nil {
		t.Fatal("the usual codec takes it: there is no need for another")
	}
	var got ratelimitv3.RateLimitRequest
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, &got); err != nil || got.GetDescriptors()[0].GetEntries()[0].GetValue() != "/a\xff\xfe" {
		t.Errorf("%v, %v", &got, err)
	}
}

func TestCodec_BrokenMessagesAreErrors(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"cut tag": "\x80", "cut text": "\x0a\x05ab", "cut number": "\x18\x80", "cut in a descriptor": "\x12\x02\x0a\x05",
		"cut in an entry": "\x12\x04\x0a\x02\x0a\x05", "field 0": "\x00\x00", "cut in hits": "\x12\x03\x1a\x01\x08", "open group": "\x2b",
	} {
		if err := readRequest([]byte(raw), &ratelimitv3.RateLimitRequest{}); !errors.Is(err, errWire) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCodec_OtherMessagesAreRead(t *testing.T) {
	t.Parallel()
	raw, err := newCodec().Marshal(wrapperspb.String("x"))
	if err != nil {
		t.Fatal(err)
	}
	var got wrapperspb.StringValue
	if err := newCodec().Unmarshal(raw, &got); err != nil || got.GetValue() != "x" || newCodec().Name() != "proto" {
		t.Errorf("%v %v", &got, err)
	}
}

// drawAnswer is any answer as far as this door fills one in.
func drawAnswer(t *rapid.T) *ratelimitv3.RateLimitResponse {
	text := rapid.OneOf(rapid.String(), rapid.StringN(100, 20_000, -1))
	fields := func(label string) (out []*corev3.HeaderValue) {
		for range rapid.IntRange(0, 3).Draw(t, label) {
			out = append(out, &corev3.HeaderValue{Key: rapid.String().Draw(t, "name"), Value: text.Draw(t, "value")})
		}
		return out
	}
	r := &ratelimitv3.RateLimitResponse{
		OverallCode:          ratelimitv3.RateLimitResponse_Code(rapid.Int32Range(0, 2).Draw(t, "code")),
		ResponseHeadersToAdd: fields("response"), RequestHeadersToAdd: fields("request"),
		RawBody: []byte(text.Draw(t, "body")),
	}
	for range rapid.IntRange(0, 3).Draw(t, "statuses") {
		st := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: r.GetOverallCode(), LimitRemaining: rapid.Uint32().Draw(t, "left")}
		if rapid.Bool().Draw(t, "reset") {
			st.DurationUntilReset = &durationpb.Duration{Seconds: rapid.Int64Range(0, 1<<48).Draw(t, "seconds")}
		}
		if rapid.Bool().Draw(t, "limit") {
			st.CurrentLimit = &ratelimitv3.RateLimitResponse_RateLimit{}
			describe(st.GetCurrentLimit(), &gateway.LimitState{
				ID: text.Draw(t, "id"), Quota: rapid.Int64().Draw(t, "quota"), Window: rapid.Int64Range(0, 1<<40).Draw(t, "window"),
			})
		}
		r.Statuses = append(r.Statuses, st)
	}
	return r
}

func TestCodec_WritesWhatTheUsualCodecReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawAnswer(t)
		out, err := newCodec().Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got ratelimitv3.RateLimitResponse
		if err := proto.Unmarshal(out.Materialize(), &got); err != nil || !proto.Equal(&got, want) {
			t.Fatalf("got %v, want %v, %v", &got, want, err)
		}
	})
}

// What the usual codec takes, ours takes and reads the same.
func FuzzCodec(f *testing.F) {
	for _, r := range []*ratelimitv3.RateLimitRequest{{}, call(about("GET", "/ten")), {Domain: "d", HitsAddend: 7, Descriptors: []*commonv3.RateLimitDescriptor{{HitsAddend: wrapperspb.UInt64(0)}}}} {
		raw, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want, got ratelimitv3.RateLimitRequest
		usual, ours := proto.Unmarshal(raw, &want), readRequest(raw, &got)
		if usual != nil {
			return // ours may read it: text need not be UTF-8, and what it passes over is not looked at
		}
		if ours != nil {
			t.Fatalf("only the usual codec reads it: %v", ours)
		}
		plain(&want)
		if !proto.Equal(&got, &want) {
			t.Fatalf("got %v, want %v", &got, &want)
		}
	})
}

// plain drops what our codec passes over on purpose.
func plain(r *ratelimitv3.RateLimitRequest) {
	r.ProtoReflect().SetUnknown(nil)
	for _, d := range r.GetDescriptors() {
		d.ProtoReflect().SetUnknown(nil)
		if d.GetLimit() != nil {
			d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{}
		}
		if d.GetHitsAddend() != nil {
			d.HitsAddend.ProtoReflect().SetUnknown(nil)
		}
		for _, e := range d.GetEntries() {
			e.ProtoReflect().SetUnknown(nil)
		}
	}
}
