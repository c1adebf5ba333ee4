package notify

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// maxURL bounds a webhook's address.
const maxURL = 500

// errElsewhere refuses a connection; whoever asked is told that nothing was reached.
var errElsewhere = errors.New("the address is not one that webhooks may go to")

// guard knows where webhooks may go.
type guard struct {
	allow  []netip.Prefix
	public *ssrf.Guardian
}

// publicPorts are those that receivers on the internet may listen on.
func publicPorts() []uint16 { return []uint16{443, 8443} }

func newGuard(allow []netip.Prefix) guard {
	return guard{allow: slices.Clone(allow), public: ssrf.New(ssrf.WithPorts(publicPorts()...))}
}

// allowed reports whether an address lies in a network that was allowed by name.
func (g guard) allowed(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// parse reads an address as it was typed and says what is wrong with it. It asks
// nobody: what a name leads to is judged when a connection is made.
func (g guard) parse(raw string) (*url.URL, string) {
	if len(raw) > maxURL {
		return nil, "At most 500 characters."
	}
	for _, r := range raw {
		if r <= ' ' || r > '~' || r == '\\' {
			return nil, "An address has letters, digits and signs of ASCII alone; write other names as xn--…."
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, "This is not an address such as https://example.com/hooks."
	}
	switch {
	case u.User != nil:
		return nil, "An address must not hold a user name or password: calls are signed."
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, "An address must not have a part after #."
	}
	return u, g.host(u)
}

// host judges scheme, host and port of an address.
func (g guard) host(u *url.URL) string {
	name := u.Hostname()
	ip, err := netip.ParseAddr(name)
	switch {
	case err != nil && (numeric(name) || !hostName(name)):
		return "The host is not a name such as example.com, or an address written in full."
	case err == nil && ip.Zone() != "":
		return "An address must not name an interface."
	}
	inside := err == nil && g.allowed(ip)
	if u.Scheme == "http" && !inside && (err == nil || len(g.allow) == 0) {
		return "Use https: what is sent must not be read on the way."
	}
	port := portOf(u)
	if port == 0 {
		return "The port is a number from 1 to 65535."
	}
	if err == nil && !inside && g.public.SafeAddr(ip.Unmap()) != nil {
		return "Webhooks are not sent to this address."
	}
	if !inside && (err == nil || len(g.allow) == 0) && !slices.Contains(publicPorts(), port) {
		return "Use port 443 or 8443."
	}
	return ""
}

// numeric reports whether resolvers might read a host as an IPv4 address that is
// written in an odd way: its last label begins with a digit or is hexadecimal.
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return true
	}
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || last[0] >= '0' && last[0] <= '9'
}

// hostName reports whether a host has the form of a name.
func hostName(host string) bool {
	host = strings.TrimSuffix(host, ".")
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, r := range label {
			if r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
				return false
			}
		}
	}
	return len(host) <= 253
}

// portOf is the port that an address leads to; 0 when it is none.
func portOf(u *url.URL) uint16 {
	s := u.Port()
	if s == "" {
		if strings.HasSuffix(u.Host, ":") {
			return 0
		}
		if u.Scheme == "http" {
			return 80
		}
		return 443
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// control is asked before each connection, with the address that it would be made
// to: what stood in the URL, and what its name meant a moment ago, counts no more.
func (g guard) control(plain bool) func(network, address string, c syscall.RawConn) error {
	return func(network, address string, c syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return errElsewhere
		}
		if g.allowed(to.Addr()) {
			return nil
		}
		to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
		if plain || to.Addr().Zone() != "" || g.public.Safe(network, to.String(), c) != nil {
			return errElsewhere
		}
		return nil
	}
}
