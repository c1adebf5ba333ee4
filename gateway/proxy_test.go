package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// live serves the proxy door on a real listener.
func (f *fixture) live() *httptest.Server {
	f.t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config = f.g.httpServer(f.g.ProxyHandler())
	s.Start()
	f.t.Cleanup(s.Close)
	return s
}

// raw sends bytes as they are and returns what comes back until the end.
func raw(t *testing.T, s *httptest.Server, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("after %q: %v", answer, err)
	}
	return string(answer)
}

// recorded keeps the requests that reach the upstream.
func recorded(seen chan<- *http.Request) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Clone(context.WithoutCancel(r.Context()))
		w.Header().Set("X-Upstream", "yes")
	})
}

func TestProxy_R082_CallerCannotForgeOrStripWhatTheUpstreamTrusts(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	f := newFixture(t, testPolicy, recorded(seen))
	s := f.live()
	key := f.key("ten_a", "free")
	raw(t, s, "GET /api/x?a=1;b=%zz HTTP/1.1\r\nHost: api.example\r\nAuthorization: Bearer "+key+"\r\n"+
		"Connection:\r\nConnection: X-Headgate-Tenant, X-Forwarded-For, X-Request-Id, close\r\n"+
		"X-Headgate-Tenant: evil\r\nX_Headgate_Tenant: evil\r\nX-Headgate-Anything: evil\r\nX-Forwarded-For: 6.6.6.6\r\n"+
		"X-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n"+
		"True-Client-IP: 6.6.6.6\r\nCF-Connecting-IP: 6.6.6.6\r\nX-Original-URL: /login\r\nX-HTTP-Method-Override: DELETE\r\n"+
		"X-Request-Id: forged-request-id\r\nTE: trailers\r\nX-Kept: yes\r\n\r\n")
	r := <-seen
	for name, want := range map[string]string{
		"X-Headgate-Tenant": "ten_a", "X-Headgate-Credential": "crd_ten_a", "X-Headgate-Anything": "", "X_headgate_tenant": "",
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "api.example", "X-Forwarded-Proto": "http", "Forwarded": "",
		"X-Real-Ip": "", "True-Client-Ip": "", "Cf-Connecting-Ip": "", "X-Original-Url": "", "X-Http-Method-Override": "",
		"X-Kept": "yes", "Authorization": "Bearer " + key, "Connection": "",
	} {
		if got := strings.Join(r.Header.Values(name), "|"); got != want {
			t.Errorf("upstream sees %s: %q, want %q", name, got, want)
		}
	}
	for name := range r.Header {
		if ownName(name) && name != headerTenant && name != headerCredential {
			t.Errorf("upstream sees %s", name)
		}
	}
	if id := r.Header.Get(headerRequestID); id == "" || id == "forged-request-id" {
		t.Errorf("request id %q", id)
	}
	if r.Host != "api.example" || r.URL.RawQuery != "a=1;b=%zz" {
		t.Errorf("host %q, query %q", r.Host, r.URL.RawQuery)
	}
}

func TestProxy_RequestIDIsKeptFromTrustedProxiesAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	for _, c := range []struct {
		peer, sent string
		kept       bool
	}{
		{"10.0.0.1:1", "abcdefgh-12345_Z", true},
		{"10.0.0.1:1", "short", false},
		{"10.0.0.1:1", "with blanks in it", false},
		{"10.0.0.1:1", strings.Repeat("x", 65), false},
		{"192.0.2.1:1", "abcdefgh-12345_Z", false},
	} {
		res := f.do("GET", "/public/x", "Peer", c.peer, headerRequestID, c.sent)
		got := res.Header.Get(headerRequestID)
		if (got == c.sent) != c.kept || !ValidRequestID(got) {
			t.Errorf("%q from %s became %q", c.sent, c.peer, got)
		}
	}
}

func TestProxy_R073_TheForwardedPathIsTheChargedOne(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 100)
	f := newFixture(t, testPolicy, recorded(seen))
	s := f.live()
	variants := []string{
		"/login", "/login/", "//login", "/./login", "/x/../login", "/%6Cogin", "/%6cogin", "/login?x=1", "/LOGIN", "/login%2f", "/login%00",
		"/login;v=1", `/\login`, "/%2e/login", "/public/../login", "/public/%2e%2e/login", "/login%20", "/%C0%AElogin", "/login%", "http://other/login",
	}
	for range 5 {
		for _, path := range variants {
			raw(t, s, "POST "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}
	}
	close(seen)
	forwarded := 0
	for r := range seen {
		forwarded++
		if p := r.URL.EscapedPath(); p != "/login" && p != "/login/" { // the same route, the same bucket
			t.Errorf("forwarded %q", r.URL.EscapedPath())
		}
	}
	if forwarded != 5 {
		t.Errorf("%d spellings reached the upstream, want 5 (the limit)", forwarded)
	}
}

func TestProxy_A13_MalformedRequestsReachNobody(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 100)
	f := newFixture(t, testPolicy, recorded(seen))
	s := f.live()
	for name, request := range map[string]string{
		"two lengths":         "POST /public/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"unknown coding":      "POST /public/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"blank in a name":     "GET /public/x HTTP/1.1\r\nHost: x\r\nX-A : b\r\n\r\n",
		"folded line":         "GET /public/x HTTP/1.1\r\nHost: x\r\n folded: b\r\n\r\n",
		"two hosts":           "GET /public/x HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"no host":             "GET /public/x HTTP/1.1\r\n\r\n",
		"connect":             "CONNECT public:443 HTTP/1.1\r\nHost: public:443\r\nConnection: close\r\n\r\n",
		"asterisk":            "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"headers over 64 KiB": "GET /public/x HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 80<<10) + "\r\n\r\n",
	} {
		if answer := raw(t, s, request); !strings.HasPrefix(answer, "HTTP/1.1 4") && !strings.HasPrefix(answer, "HTTP/1.1 501") {
			t.Errorf("%s: %q", name, strings.SplitN(answer, "\r\n", 2)[0])
		}
	}
	if len(seen) != 0 {
		t.Errorf("%d requests reached the upstream", len(seen))
	}
}

func TestProxy_BadBodyIsTheCallersFault(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
	}))
	s := f.live()
	answer := raw(t, s, "POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 400") || !strings.Contains(answer, `"code":"bad-request"`) {
		t.Errorf("answer %q", answer)
	}
}

func TestProxy_UpstreamsOwnFieldsAreReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("RateLimit", `"theirs";r=1`)
		h.Set("RateLimit-Policy", `"theirs";q=1`)
		h.Set("RateLimit-Limit", "1")
		h.Set("X-RateLimit-Remaining", "0")
		h.Set("X-Headgate-Tenant", "forged")
		h.Set(headerRequestID, "theirs-theirs")
		h.Set("Trailer", "RateLimit, X-Sum")
		if r.URL.Query().Has("redirect") {
			w.WriteHeader(http.StatusFound)
		}
		_, _ = io.WriteString(w, "body")
		h.Set("RateLimit", `"theirs";r=2`)
		h.Set("X-Sum", "1")
	}))
	s := f.live()
	res, err := http.Get(s.URL + "/public/x")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.ReadAll(res.Body)
	checkFields(t, res.Header)
	if got := res.Header.Values("RateLimit"); len(got) != 1 || strings.Contains(got[0], "theirs") {
		t.Errorf("RateLimit %q", got)
	}
	if res.Header.Get("RateLimit-Limit") != "5" || res.Header.Get("X-RateLimit-Remaining") != "" || res.Header.Get(headerTenant) != "" {
		t.Errorf("answer %v", res.Header)
	}
	if ids := res.Header.Values(headerRequestID); len(ids) != 1 || ids[0] == "theirs-theirs" {
		t.Errorf("request ids %v", ids)
	}
	if res.Trailer.Get("X-Sum") != "1" || res.Trailer.Get("RateLimit") != "" {
		t.Errorf("trailers %v", res.Trailer)
	}
	redirect := f.do("GET", "/public/x?redirect")
	wantNoQuota(t, redirect)
}

func TestProxy_G08_UpstreamThatFailsIs502Or504(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	f := newFixture(t, testPolicy, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("hang") {
			<-hang
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}), func(c *Config) { c.UpstreamTimeout = 50 * time.Millisecond })
	defer close(hang)
	res := f.do("POST", "/login", "Origin", "https://app.example")
	wantRefusal(t, res, 502, CodeUpstreamUnavailable)
	if res.Header.Get("Access-Control-Allow-Origin") == "" {
		t.Error("a browser cannot read the 502")
	}
	wantRefusal(t, f.do("GET", "/public/x?hang"), 504, CodeUpstreamTimeout)
	f.upstream.CloseClientConnections()
	f.upstream.Listener.Close()
	wantRefusal(t, f.do("POST", "/login"), 502, CodeUpstreamUnavailable)
	if _, classes := counted(t, f.g); classes["admitted"] != 3 {
		t.Errorf("classes %v", classes)
	}
}

func TestProxy_R084_StreamsPassAsTheyCome(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	f := newFixture(t, testPolicy, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for line := range next {
			_, _ = io.WriteString(w, line+"\n")
			_ = http.NewResponseController(w).Flush()
		}
	}))
	s := f.live()
	res, err := http.Get(s.URL + "/public/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for i := range 3 {
		next <- fmt.Sprint("event ", i)
		got, err := lines.ReadString('\n') // blocks for ever if anything is held back
		if err != nil || got != fmt.Sprintf("event %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, got, err)
		}
	}
	close(next)
}

func TestProxy_R084_UpgradesPass(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			t.Errorf("upgrade %q", r.Header.Get("Upgrade"))
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, "echo "+line)
	}))
	s := f.live()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /public/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", res, err)
	}
	checkFields(t, res.Header)
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := reader.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("over the connection: %q, %v", line, err)
	}
}

func TestProxy_CredentialCanBeStripped(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 2)
	f := newFixture(t, testPolicy, recorded(seen), func(c *Config) { c.StripCredential = true })
	key := f.key("ten_a", "free")
	f.do("GET", "/api/x", "X-API-Key", key, "Authorization", "Basic Zm9v")
	r := <-seen
	if r.Header.Get("X-Api-Key") != "" || r.Header.Get("Authorization") != "Basic Zm9v" || r.Header.Get(headerTenant) != "ten_a" {
		t.Errorf("upstream sees %v", r.Header)
	}
}

func TestProxy_UpstreamWithAPathKeepsIt(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	f := newFixture(t, testPolicy, recorded(seen), func(c *Config) { c.Upstream.Path = "/base/" })
	f.do("GET", "/public/a%20b?q=%2F")
	if r := <-seen; r.URL.EscapedPath() != "/base/public/a%20b" || r.URL.RawQuery != "q=%2F" {
		t.Errorf("upstream sees %s", r.URL)
	}
}

func TestProxy_PolicyVersionIsToldOnRequestWhereAllowed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, func(c *Config) { c.DebugHeader = true })
	if got := f.do("GET", "/nowhere", headerDebug, "1").Header.Get(headerPolicy); got != "v42" {
		t.Errorf("on a refusal: %q", got)
	}
	if got := f.do("GET", "/public/x", headerDebug, "1").Header.Get(headerPolicy); got != "v42" {
		t.Errorf("on an answer: %q", got)
	}
	if got := f.do("GET", "/public/x").Header.Get(headerPolicy); got != "" {
		t.Errorf("without asking: %q", got)
	}
	if got := newFixture(t, testPolicy, nil).do("GET", "/nowhere", headerDebug, "1").Header.Get(headerPolicy); got != "" {
		t.Errorf("where it is off: %q", got)
	}
}

func TestProxy_B7_NothingOfTheAdminDoorIsPublic(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/pprof/", "/v1/decide", "/v1/check"} {
		wantRefusal(t, f.do("GET", path), 404, CodeNoRoute)
	}
}
