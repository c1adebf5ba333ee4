package gateway

import (
	"net/http"
	"strings"

	"github.com/headgate/headgate/policy"
)

// scrub removes from an outbound request every field by which a caller could
// speak as a proxy, as us, or make the upstream see another path or method than
// the one that was charged. Underscores count as hyphens, because many upstreams
// (CGI, WSGI) cannot tell the two apart.
func scrub(h http.Header, clientIPHeader string) {
	for name := range h {
		var room [64]byte
		plain := string(plainName(room[:0], name))
		if ownName(plain) || strings.HasPrefix(plain, "x-forwarded") || spoofable(plain) || strings.EqualFold(plain, clientIPHeader) {
			delete(h, name)
		}
	}
}

// plainName appends the lower case of a name to b, with hyphens for underscores.
func plainName(b []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			c = '-'
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// ownName reports whether a field belongs to us alone.
func ownName(name string) bool {
	return begins(strings.ReplaceAll(name, "_", "-"), "x-headgate-")
}

// begins reports whether a name begins so, in whatever case.
func begins(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

func spoofable(name string) bool {
	switch name {
	case "forwarded", "x-real-ip", "true-client-ip", "cf-connecting-ip", "cf-connecting-ipv6", "fastly-client-ip",
		"x-client-ip", "x-cluster-client-ip", "client-ip", "x-azure-clientip", "x-appengine-user-ip", "x-envoy-external-address",
		"x-original-url", "x-original-uri", "x-original-host", "x-original-method", "x-rewrite-url",
		"x-http-method-override", "x-http-method", "x-method-override", "x-request-id":
		return true
	}
	return false
}

// stripCredentials removes the keys that the policy's headers carry, and leaves
// other schemes of the same header alone.
func stripCredentials(h http.Header, headers []policy.CredentialHeader) {
	for _, c := range headers {
		lines, kept := h.Values(c.Name), []string(nil)
		for _, line := range lines {
			if _, ours := keyIn(line, c.Scheme); !ours {
				kept = append(kept, line)
			}
		}
		h.Del(c.Name)
		for _, line := range kept {
			h.Add(c.Name, line)
		}
	}
}

// scrubTwins removes fields that an upstream which cannot tell underscores from
// hyphens would take for the key's, and in which nobody has looked for a key.
func scrubTwins(h http.Header, headers []policy.CredentialHeader) {
	for name := range h {
		if !strings.Contains(name, "_") {
			continue
		}
		for _, c := range headers {
			if !strings.EqualFold(name, c.Name) && strings.EqualFold(strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(c.Name, "_", "-")) {
				delete(h, name)
			}
		}
	}
}

// scrubName removes a field and the spellings of it that an upstream may take for
// it.
func scrubName(h http.Header, name string) {
	for other := range h {
		if strings.EqualFold(strings.ReplaceAll(other, "_", "-"), strings.ReplaceAll(name, "_", "-")) {
			delete(h, other)
		}
	}
}

// forwardedProto is the scheme that the caller used. A trusted proxy may say.
func forwardedProto(r *http.Request, rules policy.ClientIP) string {
	if trusts(rules, peerAddress(r.RemoteAddr)) {
		if p := strings.ToLower(r.Header.Get("X-Forwarded-Proto")); p == "http" || p == "https" {
			return p
		}
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}
