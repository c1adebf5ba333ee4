package notify_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/headgate/headgate/notify"
)

// A receiver that takes the connection and never speaks TLS must not keep one of ours
// after the call has failed: else each message would leave one behind.
func TestWebhook_A22_ASilentReceiverKeepsNoConnection(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ended := make(chan struct{})
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.Copy(io.Discard, conn) // ends when the caller hangs up
		close(ended)
	}()
	s := sender(t, notify.Config{Allow: loopback()})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := s.Webhook(ctx, "https://"+l.Addr().String(), []string{secret}, "dlv_aaaaaaaaaaaaaaaa", time.Now(), []byte("{}")); err == nil {
		t.Fatal("a silent receiver answered")
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the connection is still open 20 s after the call failed")
	}
}

// What operators may reach is not what tenants may.
func TestWebhook_A22_OutwardForgetsWhatIsAllowed(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true, nil)
	s := sender(t, notify.Config{Allow: loopback(), TLS: trusting(r.Server)})
	if status, _, err := call(t, s, r.URL); err != nil || status != 200 {
		t.Fatalf("the operators' way: %d %v", status, err)
	}
	out := s.Outward()
	if problem := out.CheckURL(r.URL); problem == "" {
		t.Error("an address inside may be typed")
	}
	if status, _, err := call(t, out, r.URL); err == nil || status != 0 {
		t.Errorf("the tenants' way leads inside: %d", status)
	}
	if _, bodies := r.got(); len(bodies) != 1 {
		t.Errorf("%d calls", len(bodies))
	}
}
