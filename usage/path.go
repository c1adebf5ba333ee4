package usage

import "strings"

const (
	// MaxTemplate bounds a path template, in bytes.
	MaxTemplate = 128
	// maxTemplateSegments bounds its depth.
	maxTemplateSegments = 12
	// maxPlain is the longest segment that is told as it is.
	maxPlain = 40

	anySegment = "{id}"
	anyRest    = "/{rest...}"
)

// PathTemplate reduces a canonical path to what is the same for many callers:
// segments that look like ids, keys or persons become {id}, and what is too deep or
// too long {rest...}. Only letters, digits and ".", "_", "-", "~" are left of others,
// so that the template holds neither control characters nor anything encoded. A path
// can still hold a name that looks like a word. The result has at most MaxTemplate
// bytes and is a fixed point: the template of a template is itself.
func PathTemplate(path string) string {
	return string(appendTemplate(make([]byte, 0, MaxTemplate), path))
}

// appendTemplate appends the template of a path to dst, which has room for
// MaxTemplate bytes more.
func appendTemplate(dst []byte, path string) []byte {
	if path == "" || path[0] != '/' {
		return append(dst, "/"+anySegment...)
	}
	begin, before := len(dst), ""
	for n := 0; path != ""; n++ {
		segment, rest := path[1:], ""
		if i := strings.IndexByte(segment, '/'); i >= 0 {
			segment, rest = segment[:i], segment[i:]
		}
		told := segment
		switch {
		case segment == "" && rest != "", segment != "" && !plainSegment(segment), personal(before, segment):
			told = anySegment
		}
		if n == maxTemplateSegments || path == anyRest || len(dst)-begin+1+len(told) > MaxTemplate-len(anyRest) {
			return append(dst, anyRest...)
		}
		dst = append(append(dst, '/'), told...)
		path, before = rest, segment
	}
	return dst
}

// personal reports whether a segment most likely names a person or a secret because
// of the one before it: /users/alice, /reset/correct-horse.
func personal(before, segment string) bool {
	switch before {
	case "u", "user", "users", "account", "accounts", "customer", "customers", "member", "members", "people", "person", "profile", "profiles",
		"contact", "contacts", "email", "emails", "reset", "verify", "confirm", "activate", "invite", "invites", "invitation", "invitations",
		"unsubscribe", "token", "tokens", "session", "sessions", "secret", "secrets", "key", "keys", "apikey", "apikeys":
	default:
		return false
	}
	switch segment {
	case "", "me", "self", "new", "search", "list", "current", "count", "export", "import", "batch", "bulk", "login", "logout", "signup", "settings",
		"password", "reset", "verify", "confirm", "refresh", "revoke", "token", "tokens", "session", "sessions", "key", "keys", "email":
		return false
	}
	return true
}

// plainSegment reports whether a segment is a word of the API rather than a value.
func plainSegment(s string) bool {
	if len(s) > maxPlain {
		return false
	}
	letters, digits, inARow, hex := 0, 0, 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case isDigit(c):
			digits, hex = digits+1, hex+1
			if inARow++; inARow > 2 || digits > 4 {
				return false
			}
			continue
		case isLower(c) || isUpper(c):
			if letters++; c|0x20 <= 'f' {
				hex++
			}
		case c != '-' && c != '_' && c != '.' && c != '~':
			return false
		}
		inARow = 0
	}
	if digits > 0 && letters == 0 || hex == letters+digits && hex >= 16 {
		return false
	}
	for rest := s; rest != ""; {
		run := rest
		if i := strings.IndexAny(rest, "-_.~"); i >= 0 {
			run, rest = rest[:i], rest[i+1:]
		} else {
			rest = ""
		}
		if opaque(run) {
			return false
		}
	}
	return true
}

// opaque reports whether a run of letters and digits looks drawn at random.
func opaque(s string) bool {
	var lower, upper, digits, changes, consonants, most int
	for i := range len(s) {
		c := s[i]
		if i > 0 && isDigit(c) != isDigit(s[i-1]) {
			changes++
		}
		switch {
		case isDigit(c):
			digits++
		case isUpper(c):
			upper++
		default:
			lower++
		}
		if isDigit(c) || strings.IndexByte("aeiouyAEIOUY", c) >= 0 {
			consonants = 0
		} else if consonants++; consonants > most {
			most = consonants
		}
	}
	switch {
	case len(s) > 20 && (upper == 0 || lower == 0):
	case len(s) >= 16 && (digits > 1 || 3*upper > len(s)):
	case len(s) >= 12 && digits > 0 && upper > 0 && lower > 0:
	case len(s) >= 8 && (changes > 2 || most > 5):
	case len(s) >= 5 && digits > 0 && upper > 0 && lower == 0:
	default:
		return false
	}
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

// isTemplate reports whether s can have come from PathTemplate.
func isTemplate(s string) bool {
	if len(s) > MaxTemplate || s == "" {
		return false
	}
	var room [MaxTemplate]byte
	return string(appendTemplate(room[:0], s)) == s
}

// PathMethod is the method under which a path is counted: those of RFC 9110 and PATCH
// are told, any other is "".
func PathMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return method
	}
	return ""
}
