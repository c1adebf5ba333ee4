package dimension

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/headgate/headgate/policy"
)

// Errors of Users.Of. Their texts hold nothing that the caller sent.
var (
	// ErrUser: the request names a user that cannot be believed (401).
	ErrUser = errors.New("the user cannot be verified")
	// ErrKeys: no key to verify users with could be read yet (503).
	ErrKeys = errors.New("the keys of users cannot be read")
)

const (
	maxToken  = 8 << 10          // bytes of a token
	maxUser   = 1024             // bytes of a user's name
	maxTries  = 8                // keys that a token is tried by: one that names none must not cost more
	earlyness = 30 * time.Second // how far the issuer's clock may run ahead of ours
)

// Users tells which user a request comes from. It is safe for concurrent use.
type Users struct {
	header string
	jwt    policy.UserJWT
	keys   *keyFile
}

// NewUsers prepares what a policy says about users; nil: nobody is a user. It
// reads no file: Of does, so that a policy has the same verdict on each gateway.
func NewUsers(u *policy.User) (*Users, error) {
	switch {
	case u == nil:
		return &Users{}, nil
	case u.JWT == nil && u.Header == "":
		return nil, errors.New("user: is empty; a header or a jwt would be right")
	case u.JWT == nil:
		return &Users{header: u.Header}, nil
	case u.Header != "":
		return nil, errors.New("user: has a header and a jwt; give one of them")
	case u.JWT.JWKSFile == "":
		return nil, errors.New("user.jwt.jwks_file: is missing; the path of a file of public keys would be right")
	}
	out := &Users{jwt: *u.JWT, keys: &keyFile{path: u.JWT.JWKSFile}}
	if out.jwt.Claim == "" {
		out.jwt.Claim = "sub"
	}
	return out, nil
}

// Of is the user of a request. present is false without an error when the request
// names none: it has no such header or token, or the header came from a peer that
// is not trusted (peerTrusted). now is the time by which tokens are valid.
//
// A token is a signed one (RFC 7519) in Authorization with the scheme Bearer, by
// RS256, PS256, ES256 or EdDSA and a key of the file, with an expiry. What stands
// there in another shape, an API key for example, names no user.
func (u *Users) Of(h http.Header, peerTrusted bool, now time.Time) (id string, present bool, err error) {
	switch {
	case u.keys != nil:
		return u.ofToken(h, now)
	case u.header == "" || !peerTrusted:
		return "", false, nil
	}
	switch value, state := Header(h, u.header); {
	case state == Unreadable:
		return "", false, fmt.Errorf("%w: %s has several lines", ErrUser, u.header)
	case len(value) > maxUser:
		return "", false, fmt.Errorf("%w: %s is longer than %d bytes", ErrUser, u.header, maxUser)
	default:
		return value, state == Present, nil
	}
}

func (u *Users) ofToken(h http.Header, now time.Time) (string, bool, error) {
	token, err := bearer(h)
	if token == "" || err != nil {
		return "", false, err
	}
	keys, err := u.keys.current(now)
	if err != nil {
		return "", false, err
	}
	claims, err := verify(token, keys)
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrUser, err)
	}
	id, err := u.accept(claims, now)
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrUser, err)
	}
	return id, true, nil
}

// bearer is the token of a request, "" when it has none of the shape.
func bearer(h http.Header) (string, error) {
	lines := h.Values("Authorization")
	if len(lines) > 1 {
		return "", fmt.Errorf("%w: Authorization has several lines", ErrUser)
	}
	if len(lines) == 0 {
		return "", nil
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(lines[0]), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || strings.Count(token, ".") != 2 {
		return "", nil
	}
	if len(token) > maxToken {
		return "", fmt.Errorf("%w: the token is longer than %d bytes", ErrUser, maxToken)
	}
	return token, nil
}

// claims are those of a token whose signature is right.
type claims struct {
	standard jwt.Claims
	all      map[string]json.RawMessage
}

// algorithms are those by which a token may be signed: none that a public key
// alone could forge.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}
}

// verify checks a token's signature by the keys that its header allows.
func verify(token string, keys []jose.JSONWebKey) (*claims, error) {
	parsed, err := jwt.ParseSigned(token, algorithms())
	if err != nil || len(parsed.Headers) != 1 {
		return nil, errors.New("the token cannot be read, or is signed by an algorithm that is not taken")
	}
	header, tries := parsed.Headers[0], 0
	for i := range keys {
		key := &keys[i]
		if (header.KeyID != "" && header.KeyID != key.KeyID) || (key.Algorithm != "" && key.Algorithm != header.Algorithm) {
			continue
		}
		if tries++; tries > maxTries {
			break
		}
		var c claims
		if parsed.Claims(key.Key, &c.standard, &c.all) == nil {
			return &c, nil
		}
	}
	return nil, errors.New("no key of the file verifies the token")
}

// accept checks what a token says, and returns its user.
func (u *Users) accept(c *claims, now time.Time) (string, error) {
	s := &c.standard
	switch {
	case s.Expiry == nil:
		return "", errors.New("the token has no exp")
	case !now.Before(s.Expiry.Time()):
		return "", errors.New("the token has expired")
	case s.NotBefore != nil && now.Add(earlyness).Before(s.NotBefore.Time()):
		return "", errors.New("the token is not valid yet")
	case u.jwt.Issuer != "" && s.Issuer != u.jwt.Issuer:
		return "", errors.New("the token is of another issuer")
	case u.jwt.Audience != "" && !s.Audience.Contains(u.jwt.Audience):
		return "", errors.New("the token is for another audience")
	}
	id, err := claimText(c.all[u.jwt.Claim])
	if err != nil {
		return "", fmt.Errorf("claim %s %w", u.jwt.Claim, err)
	}
	return id, nil
}

// claimText is a claim that names a user: text or a whole number.
func claimText(raw json.RawMessage) (string, error) {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return "", errors.New("is missing")
	}
	switch v := value.(type) {
	case string:
		id := exact(v)
		if id == "" || len(id) > maxUser {
			return "", fmt.Errorf("is blank or longer than %d bytes", maxUser)
		}
		return id, nil
	case json.Number:
		if !strings.ContainsAny(string(v), ".eE") && len(v) <= 20 {
			return string(v), nil
		}
	}
	return "", errors.New("is neither text nor a whole number")
}
