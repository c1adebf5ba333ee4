package usage

import (
	"net/netip"
	"strings"
)

const (
	// MaxAgent bounds the product names of a user agent, in bytes.
	MaxAgent = 60
	// maxProduct bounds one of them. Keys and other secrets that somebody put where
	// a product's name belongs are longer.
	maxProduct = 24
	// maxWord bounds one with its version.
	maxWord = 40
	// maxRead bounds how much of a User-Agent is looked at.
	maxRead = 512
	// maxDigits bounds the digits of a name: more of them number a person or a device.
	maxDigits = 4
)

// network is where a request came from, as far as it is kept: the family and the
// first 24 bits of an IPv4 address, or 48 of IPv6. The zero value is not known.
type network [7]byte

const (
	family4 = 4
	family6 = 6
)

func networkOf(addr netip.Addr) (n network) {
	addr = addr.Unmap()
	switch {
	case addr.Is4():
		b := addr.As4()
		n[0] = family4
		copy(n[1:4], b[:])
	case addr.Is6():
		b := addr.As16()
		n[0] = family6
		copy(n[1:], b[:])
	}
	return n
}

// String is the network in CIDR notation, "" when it is not known.
func (n network) String() string {
	switch n[0] {
	case family4:
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{n[1], n[2], n[3]}), 24).String()
	case family6:
		var b [16]byte
		copy(b[:], n[1:])
		return netip.PrefixFrom(netip.AddrFrom16(b), 48).String()
	}
	return ""
}

// NetworkOf is the network of an address as sources are told apart by it: /24 of
// IPv4, also when it is mapped into IPv6, and /48 of IPv6; "" when there is none.
func NetworkOf(addr netip.Addr) string { return networkOf(addr).String() }

// AgentOf reduces a User-Agent to the names of its products with their major
// versions, such as "Mozilla/5 AppleWebKit/537 Chrome/126", at most MaxAgent bytes of
// printable ASCII. Comments go, and so does what could name a person or be a
// secret: long words, long numbers, words with characters that no product has.
func AgentOf(header string) string {
	if len(header) > maxRead {
		header = header[:maxRead]
		header = header[:strings.LastIndexAny(header, " \t")+1] // no part of a word
	}
	var out [MaxAgent]byte
	n := 0
	for header != "" {
		var word string
		if word, header = nextWord(header); word == "" {
			continue
		}
		name, major, ok := product(word)
		if !ok {
			continue
		}
		size := len(name)
		if major != "" {
			size += 1 + len(major)
		}
		if n > 0 {
			size++
		}
		if n+size > MaxAgent {
			break
		}
		if n > 0 {
			n += copy(out[n:], " ")
		}
		n += copy(out[n:], name)
		if major != "" {
			n += copy(out[n:], "/")
			n += copy(out[n:], major)
		}
	}
	return string(out[:n])
}

// nextWord cuts a word off, "" for a comment or a blank. What follows a comment that
// is not closed belongs to it.
func nextWord(s string) (word, rest string) {
	switch s[0] {
	case '(':
		depth := 0
		for i := 0; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 {
					return "", s[i+1:]
				}
			}
		}
		return "", ""
	case ' ', '\t', ',', ';':
		return "", s[1:]
	}
	end := strings.IndexAny(s, " \t,;(")
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

// product splits a word into the name of a product and its major version.
func product(word string) (name, major string, ok bool) {
	name, version, _ := strings.Cut(word, "/")
	if name == "" || len(word) > maxWord || len(name) > maxProduct || !letter(name[0]) {
		return "", "", false
	}
	digits := 0
	for i := range len(name) {
		c := name[i]
		if c >= '0' && c <= '9' {
			digits++
		} else if !letter(c) && c != '-' && c != '_' && c != '.' && c != '+' {
			return "", "", false
		}
	}
	if digits > maxDigits || strings.HasPrefix(name, "hg_") {
		return "", "", false
	}
	version = strings.TrimPrefix(version, "v")
	end := 0
	for end < len(version) && version[end] >= '0' && version[end] <= '9' {
		end++
	}
	if end > maxDigits || end < len(version) && alphanumeric(version[end]) {
		end = 0 // no version, or one that could be anything
	}
	return name, version[:end], true
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func alphanumeric(c byte) bool { return letter(c) || c >= '0' && c <= '9' }
