package form

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"
)

var tokenPattern = regexp.MustCompile(`^[A-Za-z0-9]{16,64}$`)

// NewToken is the token of a form that makes something and is shown for the first
// time: the field "token" carries it, so that sending the form twice makes one thing.
func NewToken() string { return rand.Text() }

// IsToken reports whether a text can be a form's token.
func IsToken(s string) bool { return tokenPattern.MatchString(s) }

// Claim returns the form's token and, in hexadecimal, the SHA-256 of what the form
// asks for: in which scope, where, and in the named fields. It is false for a form
// without a token.
func (f *Form) Claim(r *http.Request, scope string, fields ...string) (token, sum string, ok bool) {
	if token = f.Get("token"); !IsToken(token) {
		return "", "", false
	}
	parts := []string{scope, r.URL.Path}
	for _, name := range fields {
		parts = append(parts, f.Get(name))
	}
	digest := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return token, hex.EncodeToString(digest[:]), true
}
