package gateway

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
)

func rulesOf(header string, trusted ...string) policy.ClientIP {
	r := policy.ClientIP{Header: header, IPv6Prefix: 64}
	for _, p := range trusted {
		r.TrustedProxies = append(r.TrustedProxies, netip.MustParsePrefix(p))
	}
	return r
}

func TestClientAddress_R070_OnlyTrustedProxiesMoveIt(t *testing.T) {
	t.Parallel()
	rules := rulesOf("X-Forwarded-For", "10.0.0.0/8", "2001:db8:ffff::/48")
	for _, c := range []struct {
		name, peer string
		lines      []string
		want       string
	}{
		{"invented left entry", "10.0.0.5", []string{"1.2.3.4, 203.0.113.9"}, "203.0.113.9"},
		{"untrusted peer", "198.51.100.7", []string{"203.0.113.9"}, "198.51.100.7"},
		{"several proxies", "10.0.0.5", []string{"9.9.9.9, 203.0.113.9, 10.1.1.1, 10.2.2.2"}, "203.0.113.9"},
		{"several lines are one list", "10.0.0.5", []string{"1.1.1.1, 203.0.113.9", "10.1.1.1"}, "203.0.113.9"},
		{"last line wins", "10.0.0.5", []string{"1.1.1.1", "203.0.113.9"}, "203.0.113.9"},
		{"all trusted", "10.0.0.5", []string{"10.9.9.9, 10.8.8.8"}, "10.9.9.9"},
		{"no header", "10.0.0.5", nil, "10.0.0.5"},
		{"empty header", "10.0.0.5", []string{""}, "10.0.0.5"},
		{"empty elements", "10.0.0.5", []string{"203.0.113.9, ,,"}, "203.0.113.9"},
		{"garbage at the right", "10.0.0.5", []string{"203.0.113.9, garbage"}, "10.0.0.5"},
		{"garbage behind a proxy", "10.0.0.5", []string{"203.0.113.9, garbage, 10.1.1.1"}, "10.1.1.1"},
		{"port", "10.0.0.5", []string{"203.0.113.9:1234"}, "203.0.113.9"},
		{"IPv6 with port", "10.0.0.5", []string{"[2001:db8::7]:1234"}, "2001:db8::7"},
		{"IPv6 in brackets", "10.0.0.5", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"quoted", "10.0.0.5", []string{`"203.0.113.9"`}, "203.0.113.9"},
		{"mapped", "10.0.0.5", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"mapped peer", "::ffff:10.0.0.5", []string{"203.0.113.9"}, "203.0.113.9"},
		{"zone", "10.0.0.5", []string{"fe80::1%eth0"}, "fe80::1"},
		{"IPv6 proxy", "2001:db8:ffff::1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"very long entry", "10.0.0.5", []string{strings.Repeat("1", 5000)}, "10.0.0.5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"X-Forwarded-For": c.lines, "X-Real-Ip": {"6.6.6.6"}, "True-Client-Ip": {"6.6.6.6"}}
			if got := clientAddress(netip.MustParseAddr(c.peer), h, rules, false); got.String() != c.want {
				t.Errorf("client of %s via %v = %s, want %s", c.peer, c.lines, got, c.want)
			}
		})
	}
}

func TestClientAddress_NothingIsTrustedByDefault(t *testing.T) {
	t.Parallel()
	h := http.Header{"X-Forwarded-For": {"203.0.113.9"}}
	peer := netip.MustParseAddr("127.0.0.1")
	if got := clientAddress(peer, h, policy.ClientIP{}, false); got != peer {
		t.Errorf("client = %s, want the peer", got)
	}
	if got := clientAddress(peer, h, policy.ClientIP{}, true); got.String() != "203.0.113.9" {
		t.Errorf("client behind a peer that the door vouches for = %s", got)
	}
}

func TestClientAddress_VerifiedHeaderCountsFromTrustedPeersAlone(t *testing.T) {
	t.Parallel()
	rules := rulesOf("CF-Connecting-IP", "10.0.0.0/8")
	h := http.Header{"Cf-Connecting-Ip": {"203.0.113.9"}, "X-Forwarded-For": {"1.1.1.1"}}
	if got := clientAddress(netip.MustParseAddr("10.0.0.1"), h, rules, false); got.String() != "203.0.113.9" {
		t.Errorf("from the CDN: %s", got)
	}
	if got := clientAddress(netip.MustParseAddr("192.0.2.5"), h, rules, false); got.String() != "192.0.2.5" {
		t.Errorf("from elsewhere: %s", got)
	}
	h["Cf-Connecting-Ip"] = []string{"203.0.113.9", "203.0.113.10"}
	if got := clientAddress(netip.MustParseAddr("10.0.0.1"), h, rules, false); got.String() != "10.0.0.1" {
		t.Errorf("two lines: %s, want the peer", got)
	}
}

func TestSubject_R072_OneBucketPerIPv6Network(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b string }{
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"},
		{"2001:DB8:1:2::1", "2001:0db8:0001:0002:0000:0000:0000:0001"},
		{"::ffff:192.0.2.1", "192.0.2.1"},
		{"fe80::1%eth0", "fe80::1%eth1"},
	} {
		if a, b := subject(c.a, 64), subject(c.b, 64); a != b {
			t.Errorf("%s and %s are counted apart: %s, %s", c.a, c.b, a, b)
		}
	}
	for _, c := range []struct{ a, b string }{
		{"2001:db8:1:2::1", "2001:db8:1:3::1"},
		{"192.0.2.1", "192.0.2.2"},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.2"},
	} {
		if a, b := subject(c.a, 64), subject(c.b, 64); a == b {
			t.Errorf("%s and %s are counted together as %s", c.a, c.b, a)
		}
	}
	if subject("2001:db8:1:2::1", 48) != subject("2001:db8:1:3::1", 48) {
		t.Error("the prefix length is not heeded")
	}
	if got := subjectOf(netip.Addr{}, 64); got != unknownAddress {
		t.Errorf("no address is counted as %q", got)
	}
	if got := subject("2001:db8::1", 0); got != "2001:db8::/64" {
		t.Errorf("missing prefix length: %q", got)
	}
}

func subject(s string, prefix int) string { return subjectOf(netip.MustParseAddr(s), prefix) }

func FuzzForwardedFor(f *testing.F) {
	f.Add("203.0.113.9, 10.0.0.1", "")
	f.Add("[::1]:80,\"1.2.3.4\"", "garbage,")
	f.Add("fe80::1%25eth0", ",,,")
	f.Add("10.0.0.2, 10.0.0.3", "::ffff:10.0.0.4")
	rules := rulesOf("", "10.0.0.0/8")
	trusted, stranger := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("192.0.2.1")
	f.Fuzz(func(t *testing.T, first, second string) {
		h := http.Header{"X-Forwarded-For": {first, second}}
		if got := clientAddress(stranger, h, rules, false); got != stranger {
			t.Fatalf("a stranger became %s", got)
		}
		got := clientAddress(trusted, h, rules, false)
		if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Fatalf("client %q is not in its one spelling", got)
		}
		if s := subjectOf(got, 64); s == "" || len(s) > 64 {
			t.Fatalf("subject %q", s)
		}
	})
}
