package console

import (
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxName   = 120
	maxReason = 500
	maxNote   = 2000
)

var (
	planName  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	scopeName = regexp.MustCompile(`^[a-z0-9][a-z0-9:._-]{0,63}$`)
)

// text trims s and notes what is wrong with it: too long, missing, or holding
// characters that cannot be seen. A whole key in it is masked: people paste keys
// into reasons, too, and a text is kept.
func (p *problems) text(field, s string, most int, required bool) string {
	s = maskKeys(strings.TrimSpace(s))
	switch {
	case s == "" && required:
		p.add(field, "This must not be empty.")
	case !utf8.ValidString(s):
		p.add(field, "This is not valid UTF-8.")
	case utf8.RuneCountInString(s) > most:
		p.add(field, "At most %d characters.", most)
	case strings.ContainsFunc(s, hidden):
		p.add(field, "Control characters are not allowed.")
	}
	return s
}

// lastYear is the last year in which something may end: in any zone its times are
// written with four digits, which is all that RFC 3339 and JSON have.
const lastYear = 9998

// future notes what is wrong with an end that has to lie ahead.
func (p *problems) future(field string, at, now time.Time) {
	switch {
	case !at.After(now):
		p.add(field, "This must lie in the future.")
	case at.UTC().Year() > lastYear:
		p.add(field, "The year %d is the last that can be given.", lastYear)
	}
}

// hidden reports characters that would not show, or that would reorder what is
// shown around them.
func hidden(r rune) bool { return unicode.Is(unicode.C, r) && r != '\n' && r != '\t' }

func (p *problems) name(field, s string) string {
	s = p.text(field, s, maxName, true)
	if strings.ContainsAny(s, "\n\t") {
		p.add(field, "One line, please.")
	}
	return s
}

func (p *problems) plan(s string) string {
	s = strings.TrimSpace(s)
	if !planName.MatchString(s) {
		p.add("plan", "A plan's name has lower-case letters, digits and hyphens.")
	}
	return s
}

func (p *problems) timeZone(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return "UTC"
	}
	if _, err := time.LoadLocation(s); err != nil || s == "Local" {
		p.add("time_zone", "This is not the name of a time zone, such as Europe/Berlin.")
	}
	return s
}

// date reads YYYY-MM-DD; "" is none.
func (p *problems) date(field, s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	if at, err := time.Parse(time.DateOnly, s); err != nil || at.Year() < 1970 || at.Year() > 2200 {
		p.add(field, "This is not a date, such as 2026-01-31.")
	}
	return s
}

// maxContacts bounds the addresses of a tenant.
const maxContacts = 10

// contacts reads e-mail addresses, with names or without, and writes each one way.
func (p *problems) contacts(in []string) []string {
	var out []string
	for _, s := range in {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		a, err := mail.ParseAddress(s)
		if err != nil || len(s) > 254 || strings.ContainsFunc(s, hidden) || strings.ContainsAny(s, "\n\t") {
			p.add("contacts", "%q is not an e-mail address, such as Ann Lee <ann@example.com>.", excerptOf(s))
			continue
		}
		s = a.Address
		if a.Name != "" {
			s = a.Name + " <" + a.Address + ">"
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if len(out) > maxContacts {
		p.add("contacts", "At most %d addresses.", maxContacts)
	}
	return out
}

// excerptOf is the beginning of what somebody typed, for a message.
func excerptOf(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

func (p *problems) scopes(in []string) []string {
	out := make([]string, 0, len(in))
	seen := map[string]bool{}
	for _, s := range in {
		if s = strings.TrimSpace(s); s == "" || seen[s] {
			continue
		}
		if !scopeName.MatchString(s) {
			p.add("scopes", "%q is not a scope: lower-case letters, digits and :._- are.", s)
		}
		seen[s] = true
		out = append(out, s)
	}
	if len(out) > 32 {
		p.add("scopes", "At most 32 scopes.")
	}
	return out
}

// reason trims why something was done and asks for it when it is missing.
func (p *problems) reason(s string) string {
	s = p.text("reason", s, maxReason, false)
	if s == "" {
		p.add("reason", "Say why.")
	}
	return s
}

// requiredReason trims a reason and refuses an empty one.
func requiredReason(s string) (string, error) {
	var p problems
	s = p.reason(s)
	return s, p.err()
}

func optionalReason(s string) (string, error) {
	var p problems
	s = p.text("reason", s, maxReason, false)
	return s, p.err()
}
