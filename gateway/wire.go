package gateway

import (
	"io"
	"net/http"
	"net/netip"
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

// plainHost reports whether all programs find the same name in a Host header: a
// name or an address, with a port or without. Of "a:80:80" some read a, and some no
// host at all, so that routes of a host could be gone past.
func plainHost(host string) bool {
	name, port, _ := strings.Cut(host, ":")
	if strings.HasPrefix(host, "[") {
		inner, after, closed := strings.Cut(host[1:], "]")
		if addr, err := netip.ParseAddr(inner); !closed || err != nil || !addr.Is6() || after != "" && after[0] != ':' {
			return false
		}
		name, port = "", strings.TrimPrefix(after, ":")
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	for i := range len(name) {
		c := name[i] | 0x20
		if (c < 'a' || c > 'z') && (name[i] < '0' || name[i] > '9') && strings.IndexByte("-_.", name[i]) < 0 {
			return false
		}
	}
	return !strings.HasPrefix(name, ".") && !strings.Contains(name, "..")
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
