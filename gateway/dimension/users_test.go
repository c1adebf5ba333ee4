package dimension

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/headgate/headgate/policy"
)

// wall is the time of the tests.
func wall() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// pair is a key and the algorithm that it signs by.
type pair struct {
	alg jose.SignatureAlgorithm
	key crypto.Signer
	kid string
}

func (p pair) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: p.key.Public(), KeyID: p.kid, Use: "sig", Algorithm: string(p.alg)}
}

func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ecKey(t testing.TB, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func edKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sign makes a token; key is whatever go-jose signs with.
func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, claims any) string {
	t.Helper()
	options := &jose.SignerOptions{}
	if kid != "" {
		options = options.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (p pair) token(t testing.TB, claims map[string]any) string {
	t.Helper()
	return sign(t, p.alg, p.key, p.kid, claims)
}

// valid are the claims of a good token, changed by more.
func valid(more map[string]any) map[string]any {
	c := map[string]any{"sub": "alice", "exp": wall().Add(time.Minute).Unix(), "iss": "https://issuer.example", "aud": "api"}
	for name, v := range more {
		if v == nil {
			delete(c, name)
		} else {
			c[name] = v
		}
	}
	return c
}

func writeKeys(t testing.TB, path string, keys ...jose.JSONWebKey) {
	t.Helper()
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// usersOf are users by tokens of the given keys.
func usersOf(t testing.TB, keys ...jose.JSONWebKey) (u *Users, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "jwks.json")
	writeKeys(t, path, keys...)
	u, err := NewUsers(&policy.User{JWT: &policy.UserJWT{JWKSFile: path, Issuer: "https://issuer.example", Audience: "api"}})
	if err != nil {
		t.Fatal(err)
	}
	return u, path
}

func with(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func TestUsers_EachAlgorithmVerifies(t *testing.T) {
	t.Parallel()
	shared := rsaKey(t, 2048)
	pairs := []pair{
		{jose.RS256, shared, "rs"}, {jose.PS256, shared, "ps"}, {jose.ES256, ecKey(t, elliptic.P256()), "es"}, {jose.EdDSA, edKey(t), "ed"},
	}
	keys := make([]jose.JSONWebKey, len(pairs))
	for i, p := range pairs {
		keys[i] = p.public()
	}
	u, _ := usersOf(t, keys...)
	for _, p := range pairs {
		for _, kid := range []string{p.kid, ""} {
			id, present, err := u.Of(with(sign(t, p.alg, p.key, kid, valid(nil))), false, wall())
			if id != "alice" || !present || err != nil {
				t.Errorf("%s, kid %q: %q, %t, %v", p.alg, kid, id, present, err)
			}
		}
	}
}

func TestUsers_ForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	good := pair{jose.RS256, rsaKey(t, 2048), "k1"}
	u, _ := usersOf(t, good.public())
	der, err := x509.MarshalPKIXPublicKey(good.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	shared := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	token := good.token(t, valid(nil))
	parts := strings.Split(token, ".")
	none := "eyJhbGciOiJub25lIn0" // {"alg":"none"}
	for name, forged := range map[string]string{
		"no algorithm":                   none + "." + parts[1] + ".",
		"no algorithm, a signature":      none + "." + parts[1] + "." + parts[2],
		"the public key as shared key":   sign(t, jose.HS256, shared, "k1", valid(nil)),
		"the public key's DER":           sign(t, jose.HS256, der, "k1", valid(nil)),
		"an algorithm that is not taken": sign(t, jose.RS512, good.key, "k1", valid(nil)),
		"another algorithm of the key":   sign(t, jose.PS256, good.key, "k1", valid(nil)),
		"another key":                    sign(t, jose.RS256, rsaKey(t, 2048), "k1", valid(nil)),
		"another kind of key":            sign(t, jose.ES256, ecKey(t, elliptic.P256()), "k1", valid(nil)),
		"an unknown kid":                 sign(t, jose.RS256, good.key, "k2", valid(nil)),
		"another payload":                parts[0] + "." + strings.Split(good.token(t, valid(map[string]any{"sub": "bob"})), ".")[1] + "." + parts[2],
		"a cut signature":                token[:len(token)-4],
		"no signature":                   parts[0] + "." + parts[1] + ".",
		"nothing":                        "..",
		"no base64":                      "a.b!.c",
		"a long one":                     parts[0] + "." + strings.Repeat("A", maxToken) + "." + parts[2],
	} {
		if id, present, err := u.Of(with(forged), true, wall()); !errors.Is(err, ErrUser) || present || id != "" {
			t.Errorf("%s: %q, %t, %v; want ErrUser", name, id, present, err)
		} else if strings.Contains(err.Error(), parts[1][:20]) {
			t.Errorf("%s: the error %q quotes the token", name, err)
		}
	}
}

func TestUsers_ClaimsAreChecked(t *testing.T) {
	t.Parallel()
	p := pair{jose.EdDSA, edKey(t), "k"}
	u, _ := usersOf(t, p.public())
	now := wall().Unix()
	for _, c := range []struct {
		name string
		more map[string]any
		want string // "" refused
	}{
		{"good", nil, "alice"},
		{"no expiry", map[string]any{"exp": nil}, ""},
		{"expires now", map[string]any{"exp": now}, ""},
		{"expires in a second", map[string]any{"exp": now + 1}, "alice"},
		{"expired", map[string]any{"exp": now - 1}, ""},
		{"expiry is text", map[string]any{"exp": "never"}, ""},
		{"not yet", map[string]any{"nbf": now + 31}, ""},
		{"an issuer's clock ahead", map[string]any{"nbf": now + 30}, "alice"},
		{"another issuer", map[string]any{"iss": "https://issuer.example.evil"}, ""},
		{"no issuer", map[string]any{"iss": nil}, ""},
		{"another audience", map[string]any{"aud": "web"}, ""},
		{"no audience", map[string]any{"aud": nil}, ""},
		{"several audiences", map[string]any{"aud": []string{"web", "api"}}, "alice"},
		{"no user", map[string]any{"sub": nil}, ""},
		{"blank user", map[string]any{"sub": " "}, ""},
		{"a number", map[string]any{"sub": 42}, ""}, // RFC 7519: sub is text
		{"a list", map[string]any{"sub": []string{"alice"}}, ""},
		{"spaces around", map[string]any{"sub": " alice "}, "alice"},
		{"decomposed", map[string]any{"sub": "e\u0301"}, "\u00e9"},
		{"letter case is kept", map[string]any{"sub": "Alice"}, "Alice"},
		{"a long one", map[string]any{"sub": strings.Repeat("x", maxUser+1)}, ""},
	} {
		id, present, err := u.Of(with(p.token(t, valid(c.more))), false, wall())
		if id != c.want || present != (c.want != "") || (c.want == "") != errors.Is(err, ErrUser) {
			t.Errorf("%s: %q, %t, %v; want %q", c.name, id, present, err, c.want)
		}
	}
}

func TestUsers_AnotherClaimNamesTheUser(t *testing.T) {
	t.Parallel()
	p := pair{jose.EdDSA, edKey(t), "k"}
	_, path := usersOf(t, p.public())
	u, err := NewUsers(&policy.User{JWT: &policy.UserJWT{JWKSFile: path, Claim: "https://example.com/id"}})
	if err != nil {
		t.Fatal(err)
	}
	for want, value := range map[string]any{"42": 42, "x": "x", "12345678901234567890": json.Number("12345678901234567890"), "": 4.5, "-": true} {
		id, _, err := u.Of(with(p.token(t, valid(map[string]any{"https://example.com/id": value, "iss": nil, "aud": nil}))), false, wall())
		if refused := want == "" || want == "-"; refused != errors.Is(err, ErrUser) || (!refused && id != want) {
			t.Errorf("%v: %q, %v; want %q", value, id, err, want)
		}
	}
}

func TestUsers_R064_WhatIsNoTokenNamesNoUser(t *testing.T) {
	t.Parallel()
	p := pair{jose.EdDSA, edKey(t), "k"}
	u, _ := usersOf(t, p.public())
	token := p.token(t, valid(nil))
	for _, lines := range [][]string{nil, {""}, {"Bearer"}, {"Bearer "}, {"Basic " + token}, {"Bearer hg_live_0123456789AB_x"}, {token}} {
		if id, present, err := u.Of(http.Header{"Authorization": lines}, true, wall()); present || err != nil {
			t.Errorf("%.40q: %q, %t, %v; want no user", lines, id, present, err)
		}
	}
	if _, _, err := u.Of(http.Header{"Authorization": {"Bearer " + token, "Bearer hg_x"}}, true, wall()); !errors.Is(err, ErrUser) {
		t.Errorf("two lines: %v, want ErrUser", err)
	}
	if id, present, err := u.Of(http.Header{"Authorization": {" bEARER  " + token + " "}}, true, wall()); id != "alice" || !present || err != nil {
		t.Errorf("another spelling of the scheme: %q, %t, %v", id, present, err)
	}
}

func TestUsers_AHeaderIsBelievedFromTrustedPeersOnly(t *testing.T) {
	t.Parallel()
	u, err := NewUsers(&policy.User{Header: "X-User-Id"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		lines   []string
		trusted bool
		want    string
		err     bool
	}{
		{[]string{"alice"}, true, "alice", false},
		{[]string{"alice"}, false, "", false},
		{nil, true, "", false},
		{[]string{" "}, true, "", false},
		{[]string{"alice", "bob"}, true, "", true},
		{[]string{"alice", "bob"}, false, "", false},
		{[]string{strings.Repeat("x", maxUser)}, true, strings.Repeat("x", maxUser), false},
		{[]string{strings.Repeat("x", maxUser+1)}, true, "", true},
	} {
		id, present, err := u.Of(http.Header{"X-User-Id": c.lines}, c.trusted, wall())
		if id != c.want || present != (c.want != "") || errors.Is(err, ErrUser) != c.err {
			t.Errorf("%.40q, trusted %t: %.20q, %t, %v", c.lines, c.trusted, id, present, err)
		}
	}
}

func TestUsers_ATokenWithoutKidIsTriedByFewKeys(t *testing.T) {
	t.Parallel()
	var keys []jose.JSONWebKey
	var last pair
	for range maxTries + 1 {
		last = pair{jose.EdDSA, edKey(t), ""}
		keys = append(keys, last.public())
	}
	u, _ := usersOf(t, keys...)
	if _, _, err := u.Of(with(last.token(t, valid(nil))), false, wall()); !errors.Is(err, ErrUser) {
		t.Errorf("tried by more than %d keys: %v", maxTries, err)
	}
	u, _ = usersOf(t, keys[1:]...)
	if _, present, err := u.Of(with(last.token(t, valid(nil))), false, wall()); !present || err != nil {
		t.Errorf("by %d keys: %t, %v", maxTries, present, err)
	}
}

func TestNewUsers_NamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	for want, u := range map[string]*policy.User{
		"user:":              {},
		"user: has a header": {Header: "X", JWT: &policy.UserJWT{JWKSFile: "x"}},
		"user.jwt.jwks_file": {JWT: &policy.UserJWT{}},
	} {
		if got, err := NewUsers(u); err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want it to name %q", u, err, want)
		}
	}
	u, err := NewUsers(nil)
	if err != nil || u.Problem() != nil {
		t.Fatal(err, u.Problem())
	}
	if _, present, err := u.Of(http.Header{"X-User-Id": {"x"}}, true, wall()); present || err != nil {
		t.Errorf("nobody is a user: %t, %v", present, err)
	}
}

func TestUsers_ManyAtOnce(t *testing.T) {
	t.Parallel()
	p := pair{jose.EdDSA, edKey(t), "k"}
	u, path := usersOf(t, p.public())
	h := with(p.token(t, valid(nil)))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				if id, _, err := u.Of(h, false, wall().Add(time.Duration(n%10)*rereadAfter/5)); id != "alice" || err != nil {
					t.Errorf("%q, %v", id, err)
				}
				if i == 0 && n == 25 {
					if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

func FuzzUsers(f *testing.F) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(f.TempDir(), "jwks.json")
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public}}})
	if err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		f.Fatal(err)
	}
	u, err := NewUsers(&policy.User{JWT: &policy.UserJWT{JWKSFile: path}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer a.b.c", []byte(`{"sub":"alice","exp":2000000000}`))
	f.Add("Bearer eyJhbGciOiJub25lIn0.e30.", []byte(`{"sub":1,"exp":1e300}`))
	f.Add("", []byte(`{"exp":-1,"aud":[1]}`))
	f.Fuzz(func(t *testing.T, line string, payload []byte) {
		if _, present, _ := u.Of(http.Header{"Authorization": {line}}, true, wall()); present {
			t.Errorf("a token that nobody signed is believed: %q", line)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: private}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(payload)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		id, present, err := u.Of(with(token), true, wall())
		if present != (id != "") || present == (err != nil && !errors.Is(err, ErrKeys)) && len(token) <= maxToken {
			t.Errorf("%q: %q, %t, %v", payload, id, present, err)
		}
	})
}
