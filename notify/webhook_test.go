package notify_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/headgate/headgate/notify"
)

// TestWebhook_A22_NothingInsideIsEverReached tries addresses that lead to the loopback
// in all ways that are known, with a listener there that counts connections.
func TestWebhook_A22_NothingInsideIsEverReached(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	s := sender(t, notify.Config{Resolver: resolver(t, map[string][]string{
		"inside.example": {"127.0.0.1"}, "rebind.example": {"93.184.215.14", "127.0.0.1"}, "six.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"},
		"meta.example": {"169.254.169.254"}, "nat64.example": {"64:ff9b::7f00:1"}, "cgnat.example": {"100.64.0.1"}, "ula.example": {"fd00::1"}, "zero.example": {"0.0.0.0"},
	})})
	hosts := []string{
		"127.0.0.1", "127.0.0.2", "127.1", "127.0.1", "2130706433", "017700000001", "0x7f000001", "0x7f.0.0.1", "0x7f.1", "0177.0.0.1", "0177.1", "127.0.0.1.", "127.000.000.001",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fe80::1%25lo]", "[fd00::1]", "[ff02::1]",
		"0.0.0.0", "0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "169.254.169.254", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1",
		"localhost", "LOCALHOST", "localhost.", "localhost.localdomain", "ip6-localhost",
		"user@127.0.0.1", "example.com@127.0.0.1", "127.0.0.1#@example.com", `127.0.0.1\@example.com`, "example.com\\@127.0.0.1", "127。0。0。1", "127．0．0．1", "①②⑦.0.0.1", "１２７.0.0.1", "127%2e0.0.1", "127.0.0.1%00.example.com", "%31%32%37.0.0.1",
		"inside.example", "rebind.example", "six.example", "mapped.example", "meta.example", "nat64.example", "cgnat.example", "ula.example", "zero.example",
	}
	var targets []string
	for _, h := range hosts {
		targets = append(targets, "https://"+h+":"+c.port+"/", "http://"+h+":"+c.port+"/", "https://"+h+"/")
	}
	targets = append(targets, "//127.0.0.1:"+c.port+"/", "ftp://127.0.0.1:"+c.port, "gopher://127.0.0.1:"+c.port, "file:///etc/passwd", "https:127.0.0.1:"+c.port, "https:///127.0.0.1:"+c.port,
		"https://127.0.0.1:"+c.port+"\r\nHost: example.com", " https://127.0.0.1:"+c.port, "https://127.0.0.1:8443:"+c.port, "http+unix://127.0.0.1", "https://[::1]:"+c.port+"%20", "https://127.0.0.1:00"+c.port)
	if len(targets) < 60 {
		t.Fatalf("only %d addresses", len(targets))
	}
	texts := map[string]bool{}
	for _, target := range targets {
		status, _, err := call(t, s, target)
		if err == nil || status != 0 {
			t.Errorf("%q was called: %d", target, status)
			continue
		}
		texts[err.Error()] = true
	}
	if n := c.Reached.Load(); n != 0 {
		t.Errorf("%d connections were made to the loopback", n)
	}
	if len(texts) != 1 {
		t.Errorf("the texts tell addresses apart: %v", texts)
	}
}

func TestWebhook_A22_ANameThatComesToLeadInsideIsRefusedThen(t *testing.T) {
	t.Parallel()
	inside := newReceiver(t, false, nil)
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	// The network that is allowed is not the one that the name leads to the second time.
	s := sender(t, notify.Config{Allow: loopback()[:1], Resolver: resolver(t, map[string][]string{"rebind.example": {"127.0.0.1", "10.255.255.1"}})})
	if status, _, err := call(t, s, "http://rebind.example:"+port+"/"); err != nil || status != 200 {
		t.Fatalf("the allowed network: %d %v", status, err)
	}
	if _, _, err := call(t, s, "http://rebind.example:"+port+"/"); err == nil {
		t.Fatal("the name leads elsewhere now, and was called")
	}
}

func TestWebhook_A22_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	for _, code := range []int{301, 302, 303, 307, 308} {
		r := newReceiver(t, true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://127.0.0.1:"+c.port+"/")
			w.WriteHeader(code)
		})
		s := sender(t, notify.Config{Allow: loopback(), TLS: trusting(r.Server)})
		status, _, err := call(t, s, r.URL)
		if status != code || err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%d: %d %v", code, status, err)
		}
	}
	if c.Reached.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestWebhook_A22_AnOpenPortLooksLikeAClosedOne(t *testing.T) {
	t.Parallel()
	open := newCanary(t) // takes connections and says nothing of TLS
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	s := sender(t, notify.Config{Allow: loopback(), Resolver: resolver(t, nil)})
	var texts []string
	for _, target := range []string{"https://127.0.0.1:" + open.port, "https://" + closed, "http://127.0.0.1:" + open.port, "https://10.0.0.1/", "https://nowhere.example/"} {
		_, _, err := call(t, s, target)
		if err == nil {
			t.Fatalf("%s was reached", target)
		}
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("texts differ: %q", texts)
		}
	}
	_, _, err = call(t, s, "https://"+closed)
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(notify.Cause(err).Error(), "refused") {
		t.Errorf("the cause is not kept for the log: %v", notify.Cause(err))
	}
}

func TestCheckURL_SaysWhatIsWrongBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	s := sender(t, notify.Config{})
	for url, part := range map[string]string{
		"https://example.com/hooks": "", "https://example.com:8443/a?b=c": "", "https://93.184.215.14/": "", "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/": "", "https://xn--bcher-kva.example/": "", "https://a_b.example/": "",
		"http://example.com/": "https", "https://example.com:22/": "port", "https://example.com:/": "port", "https://example.com:99999/": "port", "https://a:b@example.com/": "user name", "https://example.com/#x": "#",
		"https://127.0.0.1/": "not sent", "https://10.1.2.3/": "not sent", "https://[::1]/": "not sent", "https://2130706433/": "host", "https://0x7f.1/": "host", "https://a..b/": "host", "https://-a.example/": "host",
		"ftp://example.com/": "address", "example.com": "address", "": "address", "https://bücher.example/": "ASCII", "https://example.com/\n": "ASCII", "https://" + strings.Repeat("a", 500): "500", "https://[fe80::1%25eth0]/": "interface",
	} {
		got := s.CheckURL(url)
		if (part == "") != (got == "") || !strings.Contains(got, part) {
			t.Errorf("%q: %q, want %q", url, got, part)
		}
	}
	inside := sender(t, notify.Config{Allow: loopback()})
	for _, url := range []string{"http://127.0.0.1:8080/", "https://127.0.0.1:9999/", "http://hooks.internal:8080/"} {
		if got := inside.CheckURL(url); got != "" {
			t.Errorf("%q with an allowed network: %q", url, got)
		}
	}
}

func TestWebhook_IsSignedAsStandardWebhooksSays(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	s := sender(t, notify.Config{Allow: loopback(), TLS: trusting(r.Server)})
	old := "whsec_" + "c2VjcmV0IG51bWJlciB0d28gb2YgMzIgYnl0ZXMhISE="
	body := []byte(`{"type":"alert.opened","data":{"text":"ü"}}`)
	status, _, err := s.Webhook(t.Context(), r.URL+"/hook?a=b", []string{secret, old}, "dlv_bbbbbbbbbbbbbbbb", time.Now(), body)
	if err != nil || status != http.StatusAccepted {
		t.Fatalf("%d %v", status, err)
	}
	headers, bodies := r.got()
	if len(bodies) != 1 || bodies[0] != string(body) || headers[0].Get("Webhook-Id") != "dlv_bbbbbbbbbbbbbbbb" || headers[0].Get("Content-Type") != "application/json" {
		t.Fatalf("%v %v", headers, bodies)
	}
	for _, known := range []string{secret, old} { // either is enough while it is being changed
		w, err := standardwebhooks.NewWebhook(known)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Verify([]byte(bodies[0]), headers[0]); err != nil {
			t.Errorf("the reference library refuses it: %v", err)
		}
		if w.Verify([]byte(bodies[0]+" "), headers[0]) == nil {
			t.Error("a changed body passes")
		}
	}
	other, _ := standardwebhooks.NewWebhook("whsec_" + "b3RoZXIgc2VjcmV0IG9mIHNvbWVib2R5IGVsc2UhISE=")
	if other.Verify([]byte(bodies[0]), headers[0]) == nil {
		t.Error("another secret passes")
	}
}

func TestWebhook_RetryAfterIsReadInBothForms(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][2]time.Duration{
		"7": {7 * time.Second, 7 * time.Second}, "0": {0, 0}, "-5": {0, 0}, "soon": {0, 0}, "999999999": {24 * time.Hour, 24 * time.Hour},
		time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat): {60 * time.Second, 90 * time.Second}, "Mon, 02 Jan 2006 15:04:05 GMT": {0, 0},
	} {
		r := newReceiver(t, true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		status, wait, err := call(t, sender(t, notify.Config{Allow: loopback(), TLS: trusting(r.Server)}), r.URL)
		if status != 503 || err == nil || wait < want[0] || wait > want[1] {
			t.Errorf("%q: %d, %v, %v", value, status, wait, err)
		}
	}
}

func TestWebhook_AnEndlessAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true, func(w http.ResponseWriter, req *http.Request) {
		block := []byte(strings.Repeat("x", 32<<10))
		for req.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	if status, _, err := call(t, sender(t, notify.Config{Allow: loopback(), TLS: trusting(r.Server)}), r.URL); err != nil || status != 200 {
		t.Errorf("%d %v", status, err)
	}
}

func TestWebhook_ASilentReceiverIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	status, _, err := call(t, sender(t, notify.Config{Allow: loopback(), TLS: trusting(r.Server)}), r.URL)
	if status != 0 || err == nil {
		t.Errorf("%d %v", status, err)
	}
}

func TestWebhook_WithoutASecretNothingIsSent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true, nil)
	s := sender(t, notify.Config{Allow: loopback(), TLS: trusting(r.Server)})
	for _, secrets := range [][]string{nil, {"whsec_%%%"}} {
		if _, _, err := s.Webhook(t.Context(), r.URL, secrets, "dlv_a", time.Now(), nil); err == nil {
			t.Errorf("%v was used", secrets)
		}
	}
	if _, bodies := r.got(); len(bodies) != 0 {
		t.Error("something was sent without a signature")
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{"https://example.com/", "https://127.0.0.1/", "https://[::ffff:7f00:1]:443/x", "http://0x7f.1:80", "https://a:b@c/", "https://[fe80::1%25a]/"} {
		f.Add(s)
	}
	s, err := notify.New(notify.Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if s.CheckURL(raw) != "" {
			return
		}
		if !strings.HasPrefix(strings.ToLower(raw), "https://") || strings.ContainsAny(raw, " \r\n\\#") || len(raw) > 500 {
			t.Errorf("%q may be called", raw)
		}
		if host := strings.ToLower(raw[len("https://"):]); strings.HasPrefix(host, "127.") || strings.HasPrefix(host, "10.") && strings.Count(host, ".") == 3 && net.ParseIP(host) != nil {
			t.Errorf("%q leads inside", raw)
		}
	})
}
