package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrAmbiguousPath means that two programs on a request's way could read its
// path differently, so that a limit could be walked around. The gateway
// answers 400 and forwards nothing.
var ErrAmbiguousPath = errors.New("ambiguous path")

// MaxPathBytes bounds a request's path.
const MaxPathBytes = 16 << 10

// CanonicalPath gives the one spelling of a request's path that is matched,
// charged, forwarded and logged. The input is the path as it stood on the wire,
// percent-encoded and without the query.
//
// Each segment is decoded once and encoded again in one way: unreserved
// characters, sub-delimiters (but ;), ":" and "@" (RFC 3986, section 3.3) stand
// bare, every other byte as %XX in capitals. Letter case is kept, and so is a
// trailing slash. It fails with ErrAmbiguousPath for what programs disagree on:
// no leading slash, empty segments, dot segments, encoded slash, backslash or
// NUL, control characters, path parameters (;), broken percent-encoding and
// invalid UTF-8.
func CanonicalPath(escapedPath string) (string, error) {
	if escapedPath == "" || escapedPath[0] != '/' {
		return "", fmt.Errorf("path must begin with a slash: %w", ErrAmbiguousPath)
	}
	if len(escapedPath) > MaxPathBytes {
		return "", fmt.Errorf("path of %d bytes, the longest allowed is %d: %w", len(escapedPath), MaxPathBytes, ErrAmbiguousPath)
	}
	if plainPath(escapedPath) {
		return escapedPath, nil
	}
	var out strings.Builder
	out.Grow(len(escapedPath) + 8)
	for rest := escapedPath; rest != ""; {
		var segment string
		segment, rest = cutSegment(rest)
		out.WriteByte('/')
		if segment == "" && rest == "" {
			break // the root or a trailing slash
		}
		text, err := decodeSegment(segment)
		if err != nil {
			return "", err
		}
		encodeSegment(&out, text)
	}
	return out.String(), nil
}

// plainPath reports whether a path is canonical at first sight: most are, and
// then nothing is allocated.
func plainPath(p string) bool {
	start := 0 // of the current segment, at its slash
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			if !bareInPath(p[i]) {
				return false
			}
			continue
		}
		segment := p[start+1 : i]
		if segment == "." || segment == ".." || (segment == "" && i < len(p)) {
			return false
		}
		start = i
	}
	return true
}

// cutSegment takes the first segment off a path that begins with a slash.
func cutSegment(path string) (segment, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// decodeSegment decodes a segment once and refuses what is ambiguous in it.
func decodeSegment(segment string) (string, error) {
	if strings.Contains(segment, ";") {
		return "", fmt.Errorf("path parameter in %q: %w", clip(segment), ErrAmbiguousPath)
	}
	text, ok := unescape(segment)
	switch {
	case !ok:
		return "", fmt.Errorf("broken percent-encoding in %q: %w", clip(segment), ErrAmbiguousPath)
	case text == "":
		return "", fmt.Errorf("empty segment: %w", ErrAmbiguousPath)
	case text == "." || text == "..":
		return "", fmt.Errorf("dot segment: %w", ErrAmbiguousPath)
	case strings.ContainsAny(text, `/\`):
		return "", fmt.Errorf("encoded slash or backslash in %q: %w", clip(segment), ErrAmbiguousPath)
	case !utf8.ValidString(text):
		return "", fmt.Errorf("invalid UTF-8 in %q: %w", clip(segment), ErrAmbiguousPath)
	}
	for _, r := range text {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) {
			return "", fmt.Errorf("control character in %q: %w", clip(segment), ErrAmbiguousPath)
		}
	}
	return text, nil
}

// unescape decodes %XX and nothing else ("+" is a plus sign in a path).
func unescape(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return string(out), true
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func encodeSegment(out *strings.Builder, text string) {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		c := text[i]
		if bareInPath(c) {
			out.WriteByte(c)
			continue
		}
		out.WriteByte('%')
		out.WriteByte(digits[c>>4])
		out.WriteByte(digits[c&15])
	}
}

// bareInPath reports whether a byte stands for itself in a canonical segment.
func bareInPath(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return strings.IndexByte("-._~!$&'()*+,=:@", c) >= 0
}
