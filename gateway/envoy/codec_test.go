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

// pack is a message as the usual codec writes it, but that text need not be UTF-8.
func pack(r *ratelimitv3.RateLimitRequest) []byte {
	b := appendNumber(appendText(nil, 1, r.GetDomain()), 3, uint64(r.GetHitsAddend()))
	for _, d := range r.GetDescriptors() {
		b = appendMessage(b, 2, d, func(b []byte, d *commonv3.RateLimitDescriptor) []byte {
			for _, e := range d.GetEntries() {
				b = appendMessage(b, 1, field{e.GetKey(), e.GetValue()}, appendField)
			}
			if d.GetLimit() != nil {
				b = appendMessage(b, 2, 0, appendOne)
			}
			if own := d.GetHitsAddend(); own != nil {
				b = appendMessage(b, 3, own.GetValue(), appendOne)
			}
			return appendNumber(b, 4, protowire.EncodeBool(d.GetIsNegativeHits()))
		})
	}
	return b
}

// asProto is what was read, in the messages of the API.
func (m *message) asProto() *ratelimitv3.RateLimitRequest {
	r := &ratelimitv3.RateLimitRequest{Domain: string(m.domain), HitsAddend: m.hits}
	for i := range m.descriptors {
		d := &m.descriptors[i]
		to := &commonv3.RateLimitDescriptor{IsNegativeHits: d.negative}
		for _, e := range m.of(d) {
			to.Entries = append(to.Entries, &commonv3.RateLimitDescriptor_Entry{Key: string(e.key), Value: string(e.value)})
		}
		if d.limit {
			to.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{}
		}
		if d.hitsGiven {
			to.HitsAddend = wrapperspb.UInt64(d.hits)
		}
		r.Descriptors = append(r.Descriptors, to)
	}
	return r
}

// message is the line in the messages of the API.
func (l limitLine) message() *ratelimitv3.RateLimitResponse_RateLimit {
	out := &ratelimitv3.RateLimitResponse_RateLimit{Name: l.name, RequestsPerUnit: l.perUnit, Unit: l.unit}
	if l.units > 1 {
		out.UnitMultiplier = wrapperspb.UInt32(l.units)
	}
	return out
}

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
	var into call // for one after the other
	rapid.Check(t, func(t *rapid.T) {
		want := drawRequest(t)
		raw, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		// In several buffers, as the transport may have it.
		cut := rapid.IntRange(0, len(raw)).Draw(t, "cut")
		data := mem.BufferSlice{mem.SliceBuffer(raw[:cut]), mem.SliceBuffer(raw[cut:])}
		if err := newCodec().Unmarshal(data, &into); err != nil {
			t.Fatal(err)
		}
		if got := into.asked.asProto(); !proto.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// What is not answered takes no room, however much of it there is.
func TestCodec_MoreThanIsAnsweredIsOnlyCounted(t *testing.T) {
	t.Parallel()
	r := &ratelimitv3.RateLimitRequest{}
	for range maxDescriptors + 3 {
		d := &commonv3.RateLimitDescriptor{}
		for range maxEntries + 5 {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: "k"})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	var m message
	if err := m.read(pack(r)); err != nil || m.count != maxDescriptors+3 || len(m.descriptors) != maxDescriptors || len(m.entries) != maxDescriptors*maxEntries {
		t.Fatalf("%d descriptors, %d kept with %d entries, %v", m.count, len(m.descriptors), len(m.entries), err)
	}
	for i := range m.descriptors {
		if d := &m.descriptors[i]; d.count != maxEntries+5 || len(m.of(d)) != maxEntries {
			t.Errorf("%d: %d entries, %d kept", i, d.count, len(m.of(d)))
		}
	}
}

func TestCodec_B4_TextThatIsNotUTF8ReachesTheDecision(t *testing.T) {
	t.Parallel()
	raw := pack(request(about("GET", "/a\xff\xfe")))
	if proto.Unmarshal(raw, &ratelimitv3.RateLimitRequest{}) == nil {
		t.Fatal("the usual codec takes it: there is no need for another")
	}
	var got call
	err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, &got)
	if last := len(got.asked.entries) - 1; err != nil || string(got.asked.entries[last].value) != "/a\xff\xfe" {
		t.Errorf("%v, %v", got.asked, err)
	}
}

func TestCodec_BrokenMessagesAreErrors(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"cut tag": "\x80", "cut text": "\x0a\x05ab", "cut number": "\x18\x80", "cut in a descriptor": "\x12\x02\x0a\x05",
		"cut in an entry": "\x12\x04\x0a\x02\x0a\x05", "field 0": "\x00\x00", "cut in hits": "\x12\x03\x1a\x01\x08", "open group": "\x2b",
	} {
		if err := new(message).read([]byte(raw)); !errors.Is(err, errWire) {
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

// drawLine is any status of a descriptor.
func drawLine(t *rapid.T) statusLine {
	st := statusLine{
		code: ratelimitv3.RateLimitResponse_Code(rapid.Int32Range(0, 2).Draw(t, "code")),
		left: rapid.Uint32().Draw(t, "left"), reset: rapid.Int64Range(0, 1<<48).Draw(t, "seconds"),
	}
	if st.limited = rapid.Bool().Draw(t, "limited"); st.limited {
		st.limit = describe(&gateway.LimitState{
			ID: rapid.String().Draw(t, "id"), Quota: rapid.Int64().Draw(t, "quota"), Window: rapid.Int64Range(0, 1<<40).Draw(t, "window"),
		})
	}
	return st
}

// message is the line in the messages of the API.
func (st statusLine) message() *ratelimitv3.RateLimitResponse_DescriptorStatus {
	out := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: st.code, LimitRemaining: st.left}
	if st.limited {
		out.CurrentLimit = st.limit.message()
	}
	if st.reset > 0 {
		out.DurationUntilReset = &durationpb.Duration{Seconds: st.reset}
	}
	return out
}

func TestCodec_WritesWhatTheUsualCodecReads(t *testing.T) {
	t.Parallel()
	var c call // for one after the other
	c.home = &calls{}
	rapid.Check(t, func(t *rapid.T) {
		want := &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_Code(rapid.Int32Range(0, 2).Draw(t, "overall"))}
		c.answer.begin(want.GetOverallCode())
		for range rapid.IntRange(0, 3).Draw(t, "statuses") {
			st := drawLine(t)
			c.answer.status(st)
			want.Statuses = append(want.Statuses, st.message())
		}
		text := rapid.OneOf(rapid.String(), rapid.StringN(100, 20_000, -1))
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			name, value := rapid.SampledFrom([]string{"Ratelimit", "X-Request-Id", "X-Headgate-Tenant", "X-Headgate-Policy"}).Draw(t, "name"), text.Draw(t, "value")
			if c.answer.Set(name, value); !forUpstream(name) {
				want.ResponseHeadersToAdd = append(want.ResponseHeadersToAdd, &corev3.HeaderValue{Key: name, Value: value})
			}
		}
		if token := text.Draw(t, "token"); token != "" {
			c.answer.lease(token)
			want.RequestHeadersToAdd = []*corev3.HeaderValue{{Key: fieldLease, Value: token}}
		}
		v := gateway.Verdict{Code: gateway.CodeBadRequest, RequestID: text.Draw(t, "id"), Allowed: rapid.Bool().Draw(t, "allowed"), Bare: rapid.Bool().Draw(t, "bare")}
		c.answer.refusal(&v)
		want.RawBody = v.AppendBody(nil)
		out, err := newCodec().Marshal(&c)
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
	for _, r := range []*ratelimitv3.RateLimitRequest{{}, request(about("GET", "/ten")), {Domain: "d", HitsAddend: 7, Descriptors: []*commonv3.RateLimitDescriptor{{HitsAddend: wrapperspb.UInt64(0)}}}} {
		raw, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want ratelimitv3.RateLimitRequest
		var read message
		usual, ours := proto.Unmarshal(raw, &want), read.read(raw)
		if usual != nil {
			return // ours may read it: text need not be UTF-8, and what it passes over is not looked at
		}
		if ours != nil {
			t.Fatalf("only the usual codec reads it: %v", ours)
		}
		plain(&want)
		if got := read.asProto(); !proto.Equal(got, &want) {
			t.Fatalf("got %v, want %v", got, &want)
		}
	})
}

// plain drops what our codec passes over on purpose.
func plain(r *ratelimitv3.RateLimitRequest) {
	r.ProtoReflect().SetUnknown(nil)
	r.Descriptors = r.GetDescriptors()[:min(len(r.GetDescriptors()), maxDescriptors)]
	for _, d := range r.GetDescriptors() {
		d.Entries = d.GetEntries()[:min(len(d.GetEntries()), maxEntries)]
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
