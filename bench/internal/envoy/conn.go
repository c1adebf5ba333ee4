// Package envoy loads Envoy rate-limit services over gRPC, and starts those that
// are measured beside each other.
//
// It imports internal/child, policy, policy/apikey and policy/feed of headgate.
package envoy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// method is what is called.
const method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// patience bounds the wait for any one answer.
const patience = 10 * time.Second

var (
	errNoMessage = errors.New("an answer without a message: the call failed")
	errWindow    = errors.New("the service lets nothing more be sent")
)

// conn keeps a number of calls in flight on one HTTP/2 connection. It does no more
// than the measurement needs, so that the service gets the processor: no goroutine
// a call, header fields encoded once, replies read as far as their verdict. It is
// not for concurrent use.
type conn struct {
	net     net.Conn
	out     *bufio.Writer
	in      *bufio.Reader
	writer  *http2.Framer
	reader  *http2.Framer
	headers []byte
	prefix  []byte
	calls   map[uint32]*flight
	next    uint32 // stream id
	unacked uint32 // bytes received since the last word about it
	window  int64  // bytes that may be sent
}

// flight is one call.
type flight struct {
	began    time.Time
	message  bool
	admitted bool
}

// dial opens a connection for calls of the service at the address.
func dial(ctx context.Context, address string) (*conn, error) {
	var d net.Dialer
	n, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to the service: %w", err)
	}
	c := &conn{net: n, out: bufio.NewWriterSize(n, 1<<16), in: bufio.NewReaderSize(n, 1<<16), calls: map[uint32]*flight{}, next: 1, window: 65_535}
	c.writer, c.reader = http2.NewFramer(c.out, nil), http2.NewFramer(io.Discard, c.in)
	c.reader.SetReuseFrames()
	c.headers = encodeHeaders(address)
	if err := c.hello(); err != nil {
		_ = n.Close()
		return nil, fmt.Errorf("greet the service: %w", err)
	}
	return c, nil
}

// hello asks the service to use no dynamic table, so that its header fields need
// not be decoded.
func (c *conn) hello() error {
	if _, err := c.out.WriteString(http2.ClientPreface); err != nil {
		return err
	}
	return c.writer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}, http2.Setting{ID: http2.SettingEnablePush, Val: 0})
}

func encodeHeaders(authority string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", authority},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
	}
	return b.Bytes()
}

// send begins a call with an encoded message.
func (c *conn) send(message []byte) error {
	c.prefix = append(c.prefix[:0], 0)
	c.prefix = binary.BigEndian.AppendUint32(c.prefix, uint32(len(message)))
	c.prefix = append(c.prefix, message...)
	if c.window -= int64(len(c.prefix)); c.window < 0 {
		return errWindow
	}
	id := c.next
	c.next += 2
	c.calls[id] = &flight{began: time.Now()}
	err := c.writer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers, EndHeaders: true})
	if err != nil {
		return err
	}
	return c.writer.WriteData(id, true, c.prefix)
}

// receive returns the next call that ends, whichever it is.
func (c *conn) receive() (admitted bool, took time.Duration, err error) {
	for {
		if c.in.Buffered() == 0 { // before waiting, and not for each call
			if err := c.flush(); err != nil {
				return false, 0, err
			}
		}
		frame, err := c.reader.ReadFrame()
		if err != nil {
			return false, 0, fmt.Errorf("read an answer: %w", err)
		}
		call, err := c.take(frame)
		if err != nil {
			return false, 0, err
		}
		if call != nil {
			return call.admitted, time.Since(call.began), nil
		}
	}
}

func (c *conn) flush() error {
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("send calls: %w", err)
	}
	return c.net.SetReadDeadline(time.Now().Add(patience))
}

// take handles one frame and returns the call that it ends, if any.
func (c *conn) take(frame http2.Frame) (*flight, error) {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return nil, c.writer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return nil, c.writer.WritePing(true, f.Data)
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.window += int64(f.Increment)
		}
	case *http2.DataFrame:
		return c.data(f)
	case *http2.HeadersFrame:
		if f.StreamEnded() {
			return c.end(f.StreamID, f.HeaderBlockFragment())
		}
	case *http2.RSTStreamFrame:
		return nil, fmt.Errorf("the service gave up a call: %v", f.ErrCode)
	case *http2.GoAwayFrame:
		return nil, fmt.Errorf("the service closes the connection: %v", f.ErrCode)
	}
	return nil, nil
}

func (c *conn) data(f *http2.DataFrame) (*flight, error) {
	if call := c.calls[f.StreamID]; call != nil {
		call.message, call.admitted = true, admits(f.Data())
	}
	if c.unacked += f.Length; c.unacked > 1<<14 {
		if err := c.writer.WriteWindowUpdate(0, c.unacked); err != nil {
			return nil, err
		}
		c.unacked = 0
	}
	if f.StreamEnded() {
		return c.end(f.StreamID, nil)
	}
	return nil, nil
}

func (c *conn) end(id uint32, trailers []byte) (*flight, error) {
	call := c.calls[id]
	delete(c.calls, id)
	if call == nil || !call.message {
		return nil, fmt.Errorf("%w: %s", errNoMessage, statusOf(trailers))
	}
	return call, nil
}

// statusOf reads why a call failed. Nothing stands in a dynamic table, so any field
// can be read by itself.
func statusOf(trailers []byte) string {
	fields, err := hpack.NewDecoder(0, nil).DecodeFull(trailers)
	if err != nil {
		return "its trailers cannot be read"
	}
	var words []string
	for _, f := range fields {
		if strings.HasPrefix(f.Name, "grpc-") || f.Name == ":status" {
			words = append(words, f.Name+" "+f.Value)
		}
	}
	return strings.Join(words, ", ")
}

// admits reads the overall code of a RateLimitResponse behind the five bytes of
// gRPC: field 1, OK is 1.
func admits(data []byte) bool { return len(data) >= 7 && data[5] == 0x08 && data[6] == 1 }

func (c *conn) close() error { return c.net.Close() }
