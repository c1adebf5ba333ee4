package gateway

import (
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// refusedBodyTime is how long the rest of a body is waited for that nobody
	// will use.
	refusedBodyTime = 5 * time.Second
	// refusedBodyBytes is how much of it is read to keep the connection.
	refusedBodyBytes = 256 << 10
)

// canonicalMethod is the method in capitals: some upstreams take "get" for GET, so
// the other spelling must meet the same limits, and is not forwarded. False for
// what is no method, and for CONNECT, which asks for a tunnel.
func canonicalMethod(method string) (string, bool) {
	method = strings.ToUpper(method)
	if method == "" || len(method) > 64 || method == http.MethodConnect {
		return method, false
	}
	for i := range len(method) {
		c := method[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return method, false
		}
	}
	return method, true
}

// asksForTunnel reports whether a request wants to go on in HTTP/2 or TLS inside
// its connection, where we would see and count none of the requests that follow.
func asksForTunnel(h http.Header) bool {
	for _, line := range h.Values("Upgrade") {
		for token := range strings.SplitSeq(strings.ToLower(line), ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(token), "/")
			if name == "h2c" || name == "h2" || name == "http" || name == "tls" {
				return true
			}
		}
	}
	return false
}

// finishBody reads what is left of the body of a request that goes no further.
// net/http would wait for it before it sends the answer, and for ever. A body
// that does not come to its end in time costs the caller the connection: what is
// left of it would be read as the next request.
func finishBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	if r.Header.Get("Expect") != "" { // not asked to send it, and the server closes
		w.Header().Set("Connection", "close")
		return
	}
	control := http.NewResponseController(w)
	bounded := control.SetReadDeadline(time.Now().Add(refusedBodyTime)) == nil
	n, err := io.Copy(io.Discard, io.LimitReader(r.Body, refusedBodyBytes+1))
	if err != nil || n > refusedBodyBytes {
		w.Header().Set("Connection", "close")
		return
	}
	if bounded {
		_ = control.SetReadDeadline(time.Time{})
	}
}
