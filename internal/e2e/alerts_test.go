package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// alertPolicy has a quota that bills, so that nobody is refused.
const alertPolicy = `apiVersion: headgate/v1
plans:
  free: {limits: [], quota: {amount: 50, counts: requests, period: month, over: bill, max: 1000}}
  pro: {limits: []}
routes:
  - name: all
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 100/second, burst: 100}}
`

// hookSink is a receiver of webhooks. It keeps all calls, and holds the first one of an
// alert until it is told to answer.
type hookSink struct {
	*httptest.Server
	mu    sync.Mutex
	calls []hookCall
	begun chan struct{} // closed when the first message of an alert arrives
	hold  chan struct{}
	once  sync.Once
}

type hookCall struct {
	header http.Header
	body   string
}

func newHookSink(t *testing.T) *hookSink {
	t.Helper()
	s := &hookSink{begun: make(chan struct{}), hold: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.calls = append(s.calls, hookCall{r.Header.Clone(), string(b)})
		s.mu.Unlock()
		if strings.Contains(string(b), `"alert.opened"`) {
			s.once.Do(func() {
				close(s.begun)
				select {
				case <-s.hold:
				case <-r.Context().Done():
				}
			})
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// of are the calls that tell of an event.
func (s *hookSink) of(event string) (out []hookCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if strings.Contains(c.body, `"`+event+`"`) {
			out = append(out, c)
		}
	}
	return out
}

// mailSink is a mail server that keeps what it is given.
type mailSink struct {
	addr  string
	mu    sync.Mutex
	mails []string
}

func newMailSink(t *testing.T) *mailSink {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailSink{addr: l.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { m.talk(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	return m
}

func (m *mailSink) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(conn)
	_, _ = io.WriteString(conn, "220 sink\r\n")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if !strings.HasPrefix(strings.ToUpper(line), "DATA") {
			_, _ = io.WriteString(conn, "250 ok\r\n")
			continue
		}
		_, _ = io.WriteString(conn, "354 go on\r\n")
		var b strings.Builder
		for {
			l, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if l == ".\r\n" {
				break
			}
			b.WriteString(l)
		}
		m.mu.Lock()
		m.mails = append(m.mails, b.String())
		m.mu.Unlock()
		_, _ = io.WriteString(conn, "250 taken\r\n")
	}
}

// ids are the Message-IDs of mails whose subject has a text.
func (m *mailSink) ids(t *testing.T, text string) (out []string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, raw := range m.mails {
		msg, err := mail.ReadMessage(strings.NewReader(raw))
		if err != nil {
			t.Fatalf("a mail that cannot be read: %v\n%s", err, raw)
		}
		if strings.Contains(msg.Header.Get("Subject"), text) {
			out = append(out, msg.Header.Get("Message-Id"))
		}
	}
	return out
}

// withAlerts starts the console again with a mail server and receivers on the loopback.
func (d *Demo) withAlerts(m *mailSink) {
	d.t.Helper()
	p := d.Processes.Console
	d.Kill(p)
	p.Argv = append(slices.Clone(p.Argv), "--smtp-url=smtp://"+m.addr, "--mail-from=Headgate <headgate@example.com>", "--webhook-allow=127.0.0.0/8")
	d.Restart(p)
	d.waitConsole()
}

func (d *Demo) waitConsole() {
	d.t.Helper()
	eventually(d.t, time.Minute, "the console answers", func() error {
		res, err := d.client.Get(d.Console + "/healthz")
		if err != nil {
			return err
		}
		return res.Body.Close()
	})
}

// TestAlerts_AQuotaThatCrossesItsMarkIsToldOnceEvenIfTheConsoleDiesMeanwhile uses a quota up
// to 80 % and more, kills the console while the receiver has the message and has not
// answered, and finds one mail and one message by id, signed so that the reference library
// takes it.
func TestAlerts_AQuotaThatCrossesItsMarkIsToldOnceEvenIfTheConsoleDiesMeanwhile(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=1", exact)
	mails, hooks := newMailSink(t), newHookSink(t)
	d.withAlerts(mails)
	d.Publish(alertPolicy)
	ten, _ := d.NewTenant("Acme", "free")

	hook := d.MustAPI(http.StatusCreated, "POST", "/api/v1/alert-channels", map[string]any{"name": "Ops", "kind": "webhook", "target": hooks.URL + "/hook", "enabled": true})
	post := d.MustAPI(http.StatusCreated, "POST", "/api/v1/alert-channels", map[string]any{"name": "Mail", "kind": "mail", "target": "ann@example.com", "enabled": true})
	d.MustAPI(http.StatusOK, "POST", "/api/v1/alert-channels/"+str(hook, "channel", "id")+"/test", nil)
	eventually(t, 20*time.Second, "the test arrives", func() error {
		if len(hooks.of("alert.test")) == 0 {
			return errors.New("nothing came")
		}
		return nil
	})
	d.MustAPI(http.StatusCreated, "POST", "/api/v1/alert-rules", map[string]any{
		"name": "Quota", "kind": "quota-used", "threshold": 80, "enabled": true, "channels": []string{str(hook, "channel", "id"), str(post, "channel", "id")},
	})
	eventually(t, time.Minute, "the key is accepted", func() error {
		if a := d.Hit(0, ten.Key, "/warm"); a.Status != http.StatusOK {
			return fmt.Errorf("status %d: %s", a.Status, a.Body)
		}
		return nil
	})
	for range 44 {
		if a := d.Hit(0, ten.Key, "/x"); a.Status != http.StatusOK {
			t.Fatalf("status %d: %s", a.Status, a.Body)
		}
	}
	select {
	case <-hooks.begun:
	case <-time.After(2 * time.Minute):
		t.Fatalf("nothing was told: %s", d.API("GET", "/api/v1/alerts", nil).Body)
	}
	d.Kill(d.Processes.Console)
	close(hooks.hold)
	d.Restart(d.Processes.Console)
	d.waitConsole()
	eventually(t, 3*time.Minute, "the message is sent again", func() error {
		if n := len(hooks.of("alert.opened")); n < 2 {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
	eventually(t, 3*time.Minute, "every message is delivered", func() error {
		if a := d.API("GET", "/api/v1/alert-deliveries?state=waiting", nil); strings.Contains(string(a.Body), "dlv_") {
			return fmt.Errorf("%s", a.Body)
		}
		return nil
	})
	toldOnce(t, d, hooks, mails, str(hook, "secret"), ten.ID)
}

// toldOnce checks that an alert was told under one id by webhook, signed, and by mail.
func toldOnce(t *testing.T, d *Demo, hooks *hookSink, mails *mailSink, secret, tenantID string) {
	t.Helper()
	ids := map[string]bool{}
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range hooks.of("alert.opened") {
		ids[c.header.Get("Webhook-Id")] = true
		if err := w.Verify([]byte(c.body), c.header); err != nil {
			t.Errorf("the reference library refuses it: %v", err)
		}
		if !strings.Contains(c.body, tenantID) {
			t.Errorf("it does not name the tenant: %s", c.body)
		}
	}
	if len(ids) != 1 {
		t.Errorf("the alert was told under %d ids", len(ids))
	}
	sent := mails.ids(t, "the quota of Acme")
	slices.Sort(sent)
	if sent = slices.Compact(sent); len(sent) != 1 {
		t.Errorf("mails by id: %v", sent)
	}
	open := d.MustAPI(http.StatusOK, "GET", "/api/v1/alerts?open=true", nil)
	if items, _ := open["items"].([]any); len(items) != 1 {
		t.Errorf("open alerts: %v", open)
	}
}
