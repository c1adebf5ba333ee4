package policy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// variants spells a path in every way that some server somewhere takes for it.
func variants(path string) []string {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	var out []string
	add := func(s string) { out = append(out, s) }
	add(path)
	add(path + "/")
	for _, tail := range []string{"//", "/.", "/..", "/x/..", "%2f", "%5c", `\`, "%00", ";", ";x=1", "%20", ".", "%2e", "#", "%23", "%3f", "?x=1", "%0a", "%09", "/%2e", "%252f"} {
		add(path + tail)
	}
	for _, head := range []string{"/", "/.", "/x/..", "/%2e", "/x/%2e%2e", "/x/.%2e", `/\`, "/%5c", "/;", "/;x", "/%2f", "/..", "/../.."} {
		add(head + path)
	}
	for i, seg := range segments {
		with := func(s string) string {
			parts := append([]string(nil), segments...)
			parts[i] = s
			return "/" + strings.Join(parts, "/")
		}
		for j := range len(seg) {
			add(with(seg[:j] + fmt.Sprintf("%%%02x", seg[j]) + seg[j+1:]))
			add(with(seg[:j] + fmt.Sprintf("%%%02X", seg[j]) + seg[j+1:]))
			add(with(seg[:j] + fmt.Sprintf("%%25%02x", seg[j]) + seg[j+1:]))
			add(with(seg[:j] + strings.ToUpper(seg[j:j+1]) + seg[j+1:]))
			add(with(seg[:j] + "%c1%a" + fmt.Sprint(j%10) + seg[j+1:])) // overlong
		}
		for _, s := range []string{"/" + seg, "./" + seg, "x/../" + seg, "%2e/" + seg, "x/%2e%2e/" + seg, seg + ";v=1", seg + "%00", `x\..\` + seg, seg + "%2f.", " " + seg, seg + " "} {
			add(with(s))
		}
	}
	add(strings.ReplaceAll(path, "/", "%2f"))
	add("/" + strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "%2F"))
	add("/" + strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", `\`))
	for _, s := range append([]string(nil), out...) { // each of them with a slash at the end, too
		add(s + "/")
	}
	all := ""
	for i := range len(path) {
		if path[i] == '/' {
			all += "/"
			continue
		}
		all += fmt.Sprintf("%%%02x", path[i])
	}
	for _, s := range []string{all, all + "/", strings.ToUpper(all), strings.Replace(all, "/", "%2f", 1), strings.ToUpper(path), path + "/" + path, path + path} {
		add(s)
	}
	return out
}

// tolerant is an upstream that forgives: it cleans paths as a file server does
// and takes the resource with and without a slash, as many frameworks do.
func tolerant(limited string, served chan<- string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		if path == limited {
			served <- r.URL.EscapedPath()
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// forward sends a path on the wire as it is, whatever a client library thinks of it.
func forward(t *testing.T, addr, path string) int {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("answer to %q: %v", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

// For every spelling for which a forgiving upstream serves the limited
// resource, the request was matched with the limited route.
func TestCanonicalPath_WhatTheUpstreamServesWasCharged(t *testing.T) {
	t.Parallel()
	const limited = "/v1/login"
	served := make(chan string, 1)
	upstream := httptest.NewServer(tolerant(limited, served))
	t.Cleanup(upstream.Close)
	r := routerOf(t, "/", "POST "+limited)
	spellings := variants(limited)
	if len(spellings) < 195 {
		t.Fatalf("only %d spellings", len(spellings))
	}
	refused, charged := 0, 0
	for _, s := range spellings {
		wire, _, _ := strings.Cut(s, "?") // the gateway cuts the query off
		wire, _, _ = strings.Cut(wire, "#")
		path, err := CanonicalPath(wire)
		if err != nil {
			refused++
			continue
		}
		route := matched(r, "POST", "", path)
		if status := forward(t, upstream.Listener.Addr().String(), path); status != http.StatusNoContent {
			t.Errorf("%q was forwarded as %q and answered with %d", s, path, status)
			continue
		}
		select {
		case got := <-served:
			charged++
			if route != "POST "+limited {
				t.Errorf("%q was forwarded as %q, served as %q and charged to %q", s, path, got, route)
			}
		default:
		}
	}
	if refused < 50 || charged < 15 {
		t.Errorf("%d of %d spellings refused, %d charged: the list does not test what it should", refused, len(spellings), charged)
	}
}
