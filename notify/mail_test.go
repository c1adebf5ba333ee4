package notify_test

import (
	"bufio"
	"io"
	"mime"
	"net/textproto"
	"strings"
	"testing"

	"github.com/headgate/headgate/notify"
)

// headersOf are a mail's headers as a receiver reads them, and its body.
func headersOf(t *testing.T, mail string) (textproto.MIMEHeader, string) {
	t.Helper()
	r := bufio.NewReader(strings.NewReader(mail))
	h, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("headers of %q: %v", mail, err)
	}
	body, _ := io.ReadAll(r)
	return h, string(body)
}

func TestMail_ArrivesWithItsIDAsMessageID(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	s := sender(t, notify.Config{SMTP: m.url, From: "Headgate <headgate@example.com>"})
	for range 2 { // a repeat has the same id
		if status, err := s.Mail(t.Context(), "ann@example.com", "Acme: 82 % of the quota", "82 % is used.\n", "dlv_aaaaaaaaaaaaaaaa"); err != nil || status != 250 {
			t.Fatalf("%d %v", status, err)
		}
	}
	mails, rcpts := m.got()
	if len(mails) != 2 || len(rcpts) != 2 {
		t.Fatalf("%d mails to %v", len(mails), rcpts)
	}
	for _, mail := range mails {
		h, body := headersOf(t, mail)
		if h.Get("Message-Id") != "<dlv_aaaaaaaaaaaaaaaa@example.com>" || h.Get("Auto-Submitted") != "auto-generated" || !strings.Contains(h.Get("From"), "headgate@example.com") {
			t.Errorf("%v", h)
		}
		if !strings.Contains(body, "is used.") {
			t.Errorf("body %q", body)
		}
	}
}

func TestMail_NoTextBecomesAHeader(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	s := sender(t, notify.Config{SMTP: m.url, From: "headgate@example.com"})
	hostile := []string{
		"a\r\nBcc: eve@example.com", "a\nBcc: eve@example.com", "a\rBcc: eve@example.com", "a\r\n\r\nBody: mine", "a\u2028Bcc: eve@example.com", "a\u0085Bcc: eve@example.com",
		"=?utf-8?q?a=0D=0ABcc:_eve@example.com?=", "a\x00\r\n Bcc: eve@example.com", strings.Repeat("x", 2000) + "\r\nBcc: eve@example.com", "ü\r\nBcc: eve@example.com", "\xff\r\nBcc: eve@example.com", "a\r\n.\r\nMAIL FROM:<eve@example.com>",
	}
	for _, text := range hostile {
		if _, err := s.Mail(t.Context(), "ann@example.com", text, text+"\r\n.\r\nRCPT TO:<eve@example.com>\r\n", "dlv_a\r\nBcc: eve@example.com"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	mails, rcpts := m.got()
	if len(mails) != len(hostile) {
		t.Fatalf("%d mails for %d", len(mails), len(hostile))
	}
	for _, r := range rcpts {
		if !strings.Contains(r, "<ann@example.com>") {
			t.Errorf("a mail went elsewhere: %q", r)
		}
	}
	for i, mail := range mails {
		h, _ := headersOf(t, mail)
		for name := range h {
			switch name {
			case "From", "To", "Subject", "Date", "Message-Id", "Auto-Submitted", "Mime-Version", "Content-Type", "Content-Transfer-Encoding", "User-Agent", "X-Mailer":
			default:
				t.Errorf("%q made the header %s: %v", hostile[i], name, h[name])
			}
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
		if err != nil || len(h["Subject"]) != 1 || strings.ContainsAny(subject, "\r\n") && !strings.HasPrefix(hostile[i], "=?") {
			t.Errorf("subject %q: %v", subject, err)
		}
	}
}

func TestMail_RefusalsForGoodAreToldFromOthers(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	s := sender(t, notify.Config{SMTP: m.url, From: "headgate@example.com"})
	for answer, want := range map[string]int{"550 5.1.1 no such user": 550, "451 4.3.0 later": 451} {
		m.mu.Lock()
		m.refuse = answer
		m.mu.Unlock()
		status, err := s.Mail(t.Context(), "nobody@example.com", "a", "b", "dlv_a")
		if status != want || err == nil || strings.Contains(err.Error(), "user") {
			t.Errorf("%s: %d %v", answer, status, err)
		}
	}
	if _, err := s.Mail(t.Context(), "not an address", "a", "b", "dlv_a"); err == nil {
		t.Error("nonsense was mailed to")
	}
	closed := sender(t, notify.Config{SMTP: "smtp://127.0.0.1:1", From: "headgate@example.com"})
	if status, err := closed.Mail(t.Context(), "ann@example.com", "a", "b", "dlv_a"); status != 0 || err == nil {
		t.Errorf("a closed port: %d %v", status, err)
	}
	if _, err := sender(t, notify.Config{}).Mail(t.Context(), "ann@example.com", "a", "b", "dlv_a"); err == nil {
		t.Error("mail without a mail server")
	}
}

// A server that has taken a mail and says good-bye in an odd way has it all the same.
func TestMail_WhatWasTakenIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for _, rude := range []string{"250 ok", "500 what", "-"} {
		m := newMailbox(t)
		m.rude = rude
		s := sender(t, notify.Config{SMTP: m.url, From: "headgate@example.com"})
		status, err := s.Mail(t.Context(), "ann@example.com", "a", "b", "dlv_a")
		if mails, _ := m.got(); status != 250 || err != nil || len(mails) != 1 {
			t.Errorf("%q: %d %v, %d mails", rude, status, err, len(mails))
		}
	}
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for _, c := range []notify.Config{
		{SMTP: "http://mail.example.com", From: "a@example.com"}, {SMTP: "smtp://", From: "a@example.com"}, {SMTP: "smtp://mail.example.com", From: "nobody"}, {SMTP: "smtp://mail.example.com"},
		{SMTP: "smtp://mail.example.com:0", From: "a@example.com"}, {SMTP: "smtp://mail.example.com/x", From: "a@example.com"}, {SMTP: "smtp://u:hunter2@mail.example.com:x", From: "a@example.com"},
	} {
		s, err := notify.New(c)
		if err == nil {
			t.Errorf("%+v is taken: %v", c, s)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is told: %v", err)
		}
	}
	if !sender(t, notify.Config{SMTP: "smtps://u:p@mail.example.com", From: "a@example.com"}).CanMail() || sender(t, notify.Config{}).CanMail() {
		t.Error("CanMail is wrong")
	}
}
