package webtest

import (
	"context"
	"strings"
	"sync"
	"time"
)

// Note is a message that a console would have sent.
type Note struct {
	Kind    string // mail or webhook
	To      string
	Subject string
	Body    string
	ID      string
	Secrets []string
}

// Notes is a console.Notifier that keeps what it is given.
type Notes struct {
	mu   sync.Mutex
	sent []Note
	fail error
}

// Fail has every message refused from now on; nil ends that.
func (n *Notes) Fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = err
}

// Sent is what was sent so far.
func (n *Notes) Sent() []Note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Note(nil), n.sent...)
}

func (n *Notes) take(note Note) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail == nil {
		n.sent = append(n.sent, note)
	}
	return n.fail
}

// Mail implements console.Notifier.
func (n *Notes) Mail(_ context.Context, to, subject, text, id string) (int, error) {
	return 250, n.take(Note{Kind: "mail", To: to, Subject: subject, Body: text, ID: id})
}

// Webhook implements console.Notifier.
func (n *Notes) Webhook(_ context.Context, url string, secrets []string, id string, _ time.Time, body []byte) (int, time.Duration, error) {
	return 200, 0, n.take(Note{Kind: "webhook", To: url, Body: string(body), ID: id, Secrets: secrets})
}

// CheckURL implements console.Notifier: https alone.
func (*Notes) CheckURL(url string) string {
	if !strings.HasPrefix(url, "https://") {
		return "This is not an address such as https://example.com/hooks."
	}
	return ""
}

// CanMail implements console.Notifier.
func (*Notes) CanMail() bool { return true }
