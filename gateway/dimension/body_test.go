package dimension

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

func TestBody_PutsBackEveryByte(t *testing.T) {
	t.Parallel()
	const most = 1000
	for _, size := range []int{0, 1, most - 1, most, most + 1, most + 2, 5 * most} {
		sent := bytes.Repeat([]byte("0123456789abcdef!"), size/17+1)[:size]
		for name, body := range map[string]io.Reader{
			"whole": bytes.NewReader(sent), "by bytes": iotest.OneByteReader(bytes.NewReader(sent)), "end with data": iotest.DataErrReader(bytes.NewReader(sent)),
		} {
			r := &http.Request{Body: io.NopCloser(body), ContentLength: int64(size)}
			peek, whole, err := Body(r, most)
			if err != nil || whole != (size <= most) || !bytes.Equal(peek, sent[:min(size, most)]) {
				t.Errorf("%d bytes, %s: peek of %d bytes, whole %t, %v", size, name, len(peek), whole, err)
			}
			if r.ContentLength != int64(size) {
				t.Errorf("%d bytes, %s: length became %d", size, name, r.ContentLength)
			}
			got, err := io.ReadAll(r.Body)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d bytes, %s: %d bytes afterwards, %v", size, name, len(got), err)
			}
		}
	}
}

func TestBody_GrowingThePeekDoesNotWriteIntoTheBody(t *testing.T) {
	t.Parallel()
	r := &http.Request{Body: io.NopCloser(strings.NewReader("abcdef"))}
	peek, _, err := Body(r, 3)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(peek, 'X', 'Y')
	if got, err := io.ReadAll(r.Body); string(got) != "abcdef" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBody_NoneIsWhole(t *testing.T) {
	t.Parallel()
	for _, b := range []io.ReadCloser{nil, http.NoBody} {
		r := &http.Request{Body: b}
		if peek, whole, err := Body(r, 10); len(peek) != 0 || !whole || err != nil || r.Body != b {
			t.Errorf("%v: %q, %t, %v; body %v", b, peek, whole, err, r.Body)
		}
	}
}

func TestBody_AnErrorStaysWhereItWas(t *testing.T) {
	t.Parallel()
	broken := errors.New("client went away")
	r := &http.Request{Body: io.NopCloser(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))}
	peek, whole, err := Body(r, 10)
	if string(peek) != "abc" || whole || !errors.Is(err, broken) {
		t.Errorf("%q, %t, %v", peek, whole, err)
	}
	if got, err := io.ReadAll(r.Body); string(got) != "abc" || !errors.Is(err, broken) {
		t.Errorf("afterwards %q, %v; want the same error at the same place", got, err)
	}
}

type closer struct {
	io.Reader
	closed int
}

func (c *closer) Close() error { c.closed++; return nil }

func TestBody_ClosingClosesTheRequest(t *testing.T) {
	t.Parallel()
	c := &closer{Reader: strings.NewReader("abc")}
	r := &http.Request{Body: c}
	if _, _, err := Body(r, 2); err != nil || c.closed != 0 {
		t.Fatalf("closed %d times, %v", c.closed, err)
	}
	if err := r.Body.Close(); err != nil || c.closed != 1 {
		t.Errorf("closed %d times, %v", c.closed, err)
	}
}

// echo is an upstream that tells what reached it.
func echo(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		told := fmt.Sprintf("%d %v %v %q|", r.ContentLength, r.TransferEncoding, r.Trailer, r.Header.Get("Expect"))
		if _, err := w.Write(append([]byte(told), body...)); err != nil {
			t.Log(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// proxied sends one request through a proxy that peeks, or does not.
func proxied(t *testing.T, upstream string, peeks bool, request string) string {
	t.Helper()
	target, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peeks {
			if _, _, err := Body(r, 1000); err != nil {
				t.Error(err)
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	res, continued := readAnswer(t, answer)
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if continued {
		return "continued " + string(body)
	}
	return string(body)
}

// readAnswer reads the final answer, and whether the client was told to go on.
func readAnswer(t *testing.T, answer []byte) (res *http.Response, continued bool) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(answer))
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %.200q: %v", answer, err)
		}
		if res.StatusCode != http.StatusContinue {
			return res, continued
		}
		continued = true
	}
}

func TestBody_UpstreamsSeeTheSameRequestAsWithoutIt(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	const host = "Host: x\r\nConnection: close\r\n"
	big := strings.Repeat("x", 70_000)
	for name, c := range map[string]struct{ request, want string }{
		"a length":       {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello", "5 [] map[]"},
		"a large body":   {"POST / HTTP/1.1\r\n" + host + "Content-Length: 70000\r\n\r\n" + big, "70000 [] map[]"},
		"chunked":        {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "-1 [chunked] map[]"},
		"chunked, none":  {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""},
		"a large chunk":  {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n11170\r\n" + big + "\r\n0\r\n\r\n", "-1 [chunked] map[]"},
		"a trailer":      {"POST / HTTP/1.1\r\n" + host + "Trailer: X-A\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A: b\r\n\r\n", "-1 [chunked] map[X-A:[b]]"},
		"an expectation": {"POST / HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", `continued 5 [] map[] "100-continue"`},
		"no body":        {"GET / HTTP/1.1\r\n" + host + "\r\n", "0 [] map[]"},
	} {
		with := proxied(t, upstream.URL, true, c.request)
		if !strings.HasPrefix(with, c.want) {
			t.Errorf("%s: upstream saw %.100q, want %q", name, with, c.want)
		}
		// A trailer is known earlier to a proxy that has read the body's end.
		if without := proxied(t, upstream.URL, false, c.request); with != without && name != "a trailer" {
			t.Errorf("%s: %.200q with, %.200q without", name, with, without)
		}
	}
}
