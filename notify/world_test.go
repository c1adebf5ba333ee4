package notify_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/headgate/headgate/notify"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func sender(t *testing.T, c notify.Config) *notify.Sender {
	t.Helper()
	s, err := notify.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// trusting is TLS that trusts a test server.
func trusting(srv *httptest.Server) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// canary is a listener that nobody may reach; Reached counts who did.
type canary struct {
	port    string
	Reached atomic.Int64
}

// newCanary listens on all of the loopback's addresses of one port.
func newCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, c.port, _ = net.SplitHostPort(l.Addr().String())
	listeners := []net.Listener{l}
	for _, host := range []string{"::1", "127.0.0.2"} {
		if more, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(host, c.port)); err == nil {
			listeners = append(listeners, more)
		}
	}
	var running sync.WaitGroup
	for _, l := range listeners {
		running.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				c.Reached.Add(1)
				_ = conn.Close()
			}
		})
	}
	t.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		running.Wait()
	})
	return c
}

// resolver answers names from a table, the next answer at each question.
func resolver(t *testing.T, names map[string][]string) *net.Resolver {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		asked := map[string]int{}
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := answer(buf[:n], names, asked); out != nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer is the reply to a DNS question.
func answer(question []byte, names map[string][]string, asked map[string]int) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	answers := names[name]
	if answers == nil {
		m.RCode = dnsmessage.RCodeNameError
	} else if q.Type == dnsmessage.TypeA {
		ip := netip.MustParseAddr(answers[min(asked[name], len(answers)-1)])
		asked[name]++
		if ip.Is4() {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: ip.As4()}}}
		}
	} else if q.Type == dnsmessage.TypeAAAA {
		if ip := netip.MustParseAddr(answers[0]); ip.Is6() {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeAAAA, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}}}
		}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// call posts a small body once.
func call(t *testing.T, s *notify.Sender, url string) (int, time.Duration, error) {
	t.Helper()
	return s.Webhook(t.Context(), url, []string{secret}, "dlv_aaaaaaaaaaaaaaaa", time.Now(), []byte(`{"type":"alert.test"}`))
}

// receiver is a server that keeps what it was sent.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	header []http.Header
	body   []string
}

func newReceiver(t *testing.T, secure bool, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.header, r.body = append(r.header, req.Header.Clone()), append(r.body, string(b))
		r.mu.Unlock()
		if answer != nil {
			answer(w, req)
		}
	})
	if secure {
		r.Server = httptest.NewTLSServer(h)
	} else {
		r.Server = httptest.NewServer(h)
	}
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() ([]http.Header, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.header, r.body
}

// mailbox is a mail server that keeps what it was sent, as it came over the wire.
type mailbox struct {
	url    string
	mu     sync.Mutex
	mails  []string
	rcpts  []string
	refuse string // answer to RCPT; "" takes it
	rude   string // answer to QUIT; "" is polite, "-" closes the connection without one
}

func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{url: "smtp://" + l.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { defer func() { _ = conn.Close() }(); m.talk(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	return m
}

func (m *mailbox) talk(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(conn)
	say := func(s string) { _, _ = io.WriteString(conn, s+"\r\n") }
	say("220 sink")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(strings.TrimSpace(line)); {
		case strings.HasPrefix(verb, "DATA"):
			say("354 go on")
			var b strings.Builder
			for {
				l, err := r.ReadString('\n')
				if err != nil || l == ".\r\n" {
					break
				}
				b.WriteString(l)
			}
			m.mu.Lock()
			m.mails = append(m.mails, b.String())
			m.mu.Unlock()
			say("250 taken")
		case strings.HasPrefix(verb, "RCPT"):
			m.mu.Lock()
			m.rcpts = append(m.rcpts, strings.TrimSpace(line))
			refuse := m.refuse
			m.mu.Unlock()
			if refuse != "" {
				say(refuse)
				continue
			}
			say("250 ok")
		case strings.HasPrefix(verb, "QUIT"):
			m.mu.Lock()
			rude := m.rude
			m.mu.Unlock()
			switch rude {
			case "":
				say("221 bye")
			case "-":
			default:
				say(rude)
			}
			return
		default:
			say("250 ok")
		}
	}
}

func (m *mailbox) got() (mails, rcpts []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mails, m.rcpts
}
