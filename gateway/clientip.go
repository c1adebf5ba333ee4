package gateway

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/policy"
)

// unknownAddress is the subject of callers whose address cannot be known. They
// share one bucket: a missing address must not be a way around a limit.
const unknownAddress = "unknown"

// clientAddress says who is calling: the TCP peer, unless the peer is a trusted
// proxy. Then the configured header is read. trusted also holds for a peer that
// the caller vouches for (a loopback peer at the decisions door).
func clientAddress(peer netip.Addr, header http.Header, rules policy.ClientIP, trusted bool) netip.Addr {
	peer = plain(peer)
	if !trusted && !trusts(rules, peer) {
		return peer
	}
	name := rules.Header
	if name == "" {
		name = "X-Forwarded-For"
	}
	lines := header.Values(name)
	if strings.EqualFold(name, "X-Forwarded-For") {
		return walkForwarded(peer, lines, rules)
	}
	// A CDN's header holds one verified address. Two lines mean that somebody
	// else wrote one of them, so neither is believed.
	if len(lines) != 1 {
		return peer
	}
	if addr, ok := parseHop(lines[0]); ok {
		return addr
	}
	return peer
}

// walkForwarded goes through X-Forwarded-For from the right, over all its lines
// as one list, and returns the first address that is no trusted proxy. An entry
// that is no address ends the walk: what stands left of it was not written by
// anyone trusted, so the last hop that is known for certain is the caller.
func walkForwarded(peer netip.Addr, lines []string, rules policy.ClientIP) netip.Addr {
	last := peer
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		for rest != "" {
			entry := rest
			if cut := strings.LastIndexByte(rest, ','); cut >= 0 {
				entry, rest = rest[cut+1:], rest[:cut]
			} else {
				rest = ""
			}
			addr, ok := parseHop(entry)
			if !ok {
				if strings.TrimSpace(entry) == "" {
					continue // an empty list element says nothing (RFC 9110, 5.6.1)
				}
				return last
			}
			if last = addr; !trusts(rules, addr) {
				return addr
			}
		}
	}
	return last
}

// parseHop reads one address, with or without port, brackets and zone.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.Trim(strings.TrimSpace(s), `"`)
	if len(s) > 80 {
		return netip.Addr{}, false
	}
	if addr, err := netip.ParseAddr(s); err == nil {
		return plain(addr), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return plain(ap.Addr()), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			if addr, err := netip.ParseAddr(inner); err == nil {
				return plain(addr), true
			}
		}
	}
	return netip.Addr{}, false
}

// peerAddress reads http.Request.RemoteAddr.
func peerAddress(remote string) netip.Addr {
	addr, _ := parseHop(remote)
	return addr
}

// plain removes what makes two spellings of one address: the IPv4-mapped form
// and the zone.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

func trusts(rules policy.ClientIP, addr netip.Addr) bool {
	for _, p := range rules.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// subjectOf is the name under which an address is counted: an IPv4 address
// itself, an IPv6 address by its first prefix bits, because a customer usually
// holds a whole /64.
func subjectOf(addr netip.Addr, prefix int) string {
	if !addr.IsValid() {
		return unknownAddress
	}
	addr = plain(addr)
	if addr.Is4() {
		return addr.String()
	}
	if prefix < 1 || prefix > 128 {
		prefix = 64
	}
	p, err := addr.Prefix(prefix)
	if err != nil {
		return unknownAddress
	}
	return p.String()
}
