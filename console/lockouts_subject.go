package console

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// subjectText names the subject of a row in words: an address, or each dimension with
// its value.
func subjectText(r usage.RefusedRow) string {
	switch limiter.RowKind(r.Kind[0]) {
	case limiter.RowGlobal:
		return "everything together"
	case limiter.RowTenant:
		return r.Tenant
	case limiter.RowCredential, limiter.RowIP:
		return showable(string(r.Subject))
	default:
	}
	parts, ok := readSubject(string(r.Subject))
	if !ok {
		return "digest " + showable(string(r.Subject))
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.text(p.value)
	}
	return strings.Join(texts, ", ")
}

// subjectPart is one dimension of a subject, as package dimension of the gateway encodes
// it: length of the name, name, a state, and then length and value, or a SHA-256.
type subjectPart struct {
	name  string
	state byte // 0 missing, 1 present, 2 unreadable, 3 a hash
	value string
}

// text tells the part with a value in place of its own.
func (p subjectPart) text(value string) string {
	switch p.state {
	case 0:
		return p.name + " missing"
	case 2:
		return p.name + " unreadable"
	}
	if p.secret() {
		return p.name + "=hidden"
	}
	return p.name + "=" + showable(maskKeys(value))
}

// secret reports whether the value is a credential: not even its hash is shown, as it
// would tell whether a guess is right.
func (p subjectPart) secret() bool {
	for _, d := range policy.Per(p.name).Dimensions() {
		if d.Secret() {
			return true
		}
	}
	return false
}

// readSubject reads an encoded subject; false for what is none, such as the digest of a
// long one.
func readSubject(s string) (parts []subjectPart, ok bool) {
	rest := []byte(s)
	if len(rest) > 0 && rest[0] == 0 { // a scope comes first
		rest = rest[1:]
	}
	for len(rest) > 0 {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n == 0 || n >= uint64(len(rest)-used) {
			return nil, false
		}
		p := subjectPart{name: string(rest[used : used+int(n)])}
		rest = rest[used+int(n):]
		p.state, rest = rest[0], rest[1:]
		switch p.state {
		case 0, 2:
		case 1:
			n, used := binary.Uvarint(rest)
			if used <= 0 || n > uint64(len(rest)-used) {
				return nil, false
			}
			p.value, rest = string(rest[used:used+int(n)]), rest[used+int(n):]
		case 3:
			if len(rest) < 32 {
				return nil, false
			}
			p.value, rest = "SHA-256 "+hex.EncodeToString(rest[:6])+"…", rest[32:]
		default:
			return nil, false
		}
		if strings.ContainsFunc(p.name, unicode.IsControl) || !utf8.ValidString(p.name) {
			return nil, false
		}
		parts = append(parts, p)
	}
	return parts, len(parts) > 0
}

// showable is text that can be shown: what cannot be is in base64.
func showable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, hidden) {
		return "base64 " + base64.RawURLEncoding.EncodeToString([]byte(s))
	}
	return s
}

// shownTo is the lockout as the actor may see it.
func (l Lockout) shownTo(actor Actor) Lockout {
	if actor.Via != ViaSystem && !actor.Role.Can(PermSeeSubjects) {
		l.Subject, l.Masked = maskSubject(l.row)
	}
	return l
}

// maskSubject names a subject so that it can be told apart by whoever knows it, and not
// be found by others. Tenants, credentials and everything together are the product's
// own names, and stay.
func maskSubject(r usage.RefusedRow) (text string, masked bool) {
	if len(r.Kind) == 0 {
		return "", false
	}
	switch limiter.RowKind(r.Kind[0]) {
	case limiter.RowGlobal, limiter.RowTenant, limiter.RowCredential:
		return subjectText(r), false
	case limiter.RowIP:
		return maskAddress(string(r.Subject)), true
	default:
	}
	parts, ok := readSubject(string(r.Subject))
	if !ok {
		return "digest …", true
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		switch {
		case p.name == "tenant" || p.name == "credential":
			texts[i] = p.text(p.value)
		case p.name == "ip":
			texts[i] = p.text(maskAddress(p.value))
		default:
			texts[i] = p.text(maskWord(p.value))
		}
	}
	return strings.Join(texts, ", "), true
}

// maskAddress keeps the network: 24 bits of IPv4, 32 of IPv6.
func maskAddress(s string) string {
	if prefix, err := netip.ParsePrefix(s); err == nil {
		s = prefix.Addr().String()
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return "…"
	}
	addr = addr.Unmap()
	bits := 32
	if addr.Is4() {
		bits = 24
	}
	network, err := addr.WithZone("").Prefix(bits)
	if err != nil {
		return "…"
	}
	return network.String()
}

// maskWord keeps the first character.
func maskWord(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 || r == utf8.RuneError || hidden(r) {
		return "…"
	}
	return string(r) + "…"
}
