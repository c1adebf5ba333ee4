package envoy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func TestServer_B4_HugeMessagesAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fails(codes.ResourceExhausted, request(descriptor(keyTenant, "ten_a", keyMethod, "GET", keyPath, "/"+strings.Repeat("a", 10<<20))))
	// As much as Envoy takes in header fields by default is decided.
	r := f.ask(descriptor(keyTenant, "ten_a", keyMethod, "GET", keyPath, "/ten", "header:a", strings.Repeat("a", 60<<10), "header:b", strings.Repeat("a", 60<<10)))
	if r.GetOverallCode() != okay {
		t.Errorf("%v", r)
	}
}

// rawCall sends one call with the given fields and returns what the server does
// first: the fields of its answer, or the reset of the stream.
func rawCall(t *testing.T, addr string, fields ...string) (http.Header, bool) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(
		framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}),
		framer.WriteData(1, true, []byte{0, 0, 0, 0, 0}),
	); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return nil, true
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			h := http.Header{}
			for _, field := range frame.Fields {
				h.Add(field.Name, field.Value)
			}
			if h.Get("grpc-status") != "" || h.Get(":status") != "200" {
				return h, false
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return nil, true
		}
	}
}

func TestServer_B4_MissingAuthorityIsNoPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	usual := []string{":method", "POST", ":scheme", "http", ":path", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "content-type", "application/grpc", "te", "trailers"}
	h, reset := rawCall(t, f.addr, usual...)
	if !reset && h.Get("grpc-status") == "0" {
		t.Errorf("a call without an authority was answered: %v", h)
	}
	h, reset = rawCall(t, f.addr, append([]string{":authority", "x"}, usual...)...)
	if reset || h.Get("grpc-status") != "3" { // the empty request is understood, and has no domain
		t.Errorf("the same with one: %v, %v", h, reset)
	}
	if r := f.ask(about("GET", "/ten")); r.GetOverallCode() != okay {
		t.Errorf("afterwards: %v", r)
	}
}

// bytesCodec sends and receives bytes as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// A caller that puts bytes of no UTF-8 into a field must not make the call fail.
func TestServer_B4_TextThatIsNotUTF8IsDecided(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, c := range map[string]struct {
		d    *commonv3.RateLimitDescriptor
		want ratelimitv3.RateLimitResponse_Code
	}{
		"path":   {about("GET", "/ten/@"), over},
		"method": {about("GE@T", "/ten"), over},
		"tenant": {descriptor(keyTenant, "ten_a@", keyMethod, "GET", keyPath, "/ten"), over},
		"key":    {descriptor(keyAPIKey, "@", keyMethod, "GET", keyPath, "/ten"), over},
		"field":  {descriptor(keyTenant, "ten_a", keyMethod, "GET", keyPath, "/ten", "header:user-agent", "@"), okay},
	} {
		raw, err := proto.Marshal(request(c.d))
		if err != nil {
			t.Fatal(err)
		}
		raw, out := bytes.ReplaceAll(raw, []byte("@"), []byte{0xff}), []byte{}
		err = f.conn.Invoke(t.Context(), "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &raw, &out, grpc.ForceCodecV2(bytesCodec{}))
		var answer ratelimitv3.RateLimitResponse
		if err := errors.Join(err, proto.Unmarshal(out, &answer)); err != nil || answer.GetOverallCode() != c.want {
			t.Errorf("%s: %v, %v", name, &answer, err)
		}
	}
}
