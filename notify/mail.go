package notify

import (
	"context"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"
)

// mailTimeout bounds one conversation with a mail server.
const mailTimeout = 20 * time.Second

// mailer is one way to send mail.
type mailer struct {
	host    string
	options []mail.Option
	from    *netmail.Address
	domain  string // of message ids
	now     func() time.Time
}

// newMailer reads where mail goes through.
func newMailer(c Config) (*mailer, error) {
	u, err := url.Parse(c.SMTP)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("notify: mail goes through smtp://[USER:PASSWORD@]HOST[:PORT] or smtps://…") // the URL holds a password
	}
	from, err := netmail.ParseAddress(c.From)
	if err != nil {
		return nil, errors.New("notify: the sender is an address such as Headgate <headgate@example.com>")
	}
	m := &mailer{host: u.Hostname(), from: from, now: c.Now}
	_, m.domain, _ = strings.Cut(from.Address, "@")
	m.options = []mail.Option{mail.WithTimeout(mailTimeout), mail.WithHELO(m.domain), mail.WithoutNoop()}
	port, tlsPolicy := 587, mail.TLSMandatory
	if u.Scheme == "smtps" {
		port = 465
		m.options = append(m.options, mail.WithSSL())
	} else if ip := net.ParseIP(m.host); m.host == "localhost" || ip != nil && ip.IsLoopback() {
		tlsPolicy = mail.TLSOpportunistic
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("notify: the mail server's port is a number from 1 to 65535")
		}
	}
	m.options = append(m.options, mail.WithPort(port), mail.WithTLSPolicy(tlsPolicy))
	if c.TLS != nil {
		conf := c.TLS.Clone()
		conf.ServerName = m.host
		m.options = append(m.options, mail.WithTLSConfig(conf))
	}
	if u.User != nil {
		password, _ := u.User.Password()
		m.options = append(m.options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(u.User.Username()), mail.WithPassword(password))
	}
	return m, nil
}

// Mail sends a plain text to one address. Id names the message for ever: it is the
// Message-ID at each repeat. The status is the mail server's code, 0 when there was
// none; from 500 on, trying again is of no use. The error's text is for the user.
func (s *Sender) Mail(ctx context.Context, to, subject, text, id string) (status int, err error) {
	if s.mail == nil {
		return 0, &failure{public: "This console sends no mail: no mail server is configured."}
	}
	return s.mail.send(ctx, to, subject, text, id)
}

func (m *mailer) send(ctx context.Context, to, subject, text, id string) (int, error) {
	addr, err := netmail.ParseAddress(to)
	if err != nil {
		return 553, &failure{public: "The address is not one that mail can be sent to.", cause: err}
	}
	msg := mail.NewMsg()
	msg.FromMailAddress(m.from)
	msg.ToMailAddress(&netmail.Address{Name: oneLine(addr.Name), Address: addr.Address})
	msg.Subject(oneLine(subject))
	msg.SetDateWithValue(m.now())
	msg.SetMessageIDWithValue(oneLine(id) + "@" + m.domain)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: nobody answers it by machine
	msg.SetBodyString(mail.TypeTextPlain, text)
	client, err := mail.NewClient(m.host, m.options...)
	if err != nil {
		return 0, &failure{public: "Mail cannot be sent: the mail server's configuration is not right.", cause: err}
	}
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	// Once the server has said that it has the mail, how the conversation ends is of no
	// account: to try again would send it twice.
	if err := client.DialAndSendWithContext(ctx, msg); err != nil && !msg.IsDelivered() {
		return mailFailure(err)
	}
	return 250, nil
}

// mailFailure tells a refusal by the server from everything else.
func mailFailure(err error) (int, error) {
	e, ok := errors.AsType[*mail.SendError](err)
	if !ok || e.ErrorCode() == 0 {
		return 0, &failure{public: "The mail server could not be used.", cause: err}
	}
	return e.ErrorCode(), &failure{public: fmt.Sprintf("The mail server refused it with %d.", e.ErrorCode()), cause: err}
}

// oneLine is a text without anything that could end a line of a header.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	return strings.Join(strings.Fields(s), " ")
}
