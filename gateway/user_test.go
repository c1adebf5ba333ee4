package gateway

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// issuer signs users' tokens.
type issuer struct {
	key  ed25519.PrivateKey
	file string // of its public keys
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: private, file: filepath.Join(t.TempDir(), "keys.json")}
	keys := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","alg":"EdDSA","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public))
	if err := os.WriteFile(i.file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *issuer) token(user string, until time.Time) string {
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(`{"alg":"EdDSA","kid":"k1","typ":"JWT"}`)) + "." +
		enc.EncodeToString(fmt.Appendf(nil, `{"sub":%q,"exp":%d}`, user, until.Unix()))
	return text + "." + enc.EncodeToString(ed25519.Sign(i.key, []byte(text)))
}

func (i *issuer) policy() string {
	return strings.Replace(widePolicy, "user: {header: X-User-Id}", fmt.Sprintf("user: {jwt: {jwks_file: %q, claim: sub}}", i.file), 1)
}

func TestUser_TokensAreVerifiedAndCountedByUser(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	f := newFixture(t, i.policy(), nil)
	until := f.clock().Add(time.Hour)
	for user, wants := range map[string][]int{"ann": {204, 204, 429}, "bob": {204, 204, 429}} {
		for n, want := range wants {
			if res := f.do("GET", "/me/x", bearer(i.token(user, until))...); res.StatusCode != want {
				t.Errorf("request %d of %s: %d, want %d", n, user, res.StatusCode, want)
			}
		}
	}
	stranger := newIssuer(t)
	for name, token := range map[string]string{
		"another signer": stranger.token("ann", until), "expired": i.token("ann", f.clock().Add(-time.Hour)), "no token": "x.y.z",
		"unsigned": "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"ann"}`)) + ".",
	} {
		res := f.do("GET", "/me/x", bearer(token)...)
		wantRefusal(t, res, 401, CodeInvalidCredential)
		if res.Header.Get("WWW-Authenticate") == "" || res.Header.Get("RateLimit") != "" {
			t.Errorf("%s: %v", name, res.Header)
		}
	}
	wantRefusal(t, f.do("GET", "/me/x"), 401, CodeMissingCredential)
	wantRefusal(t, f.do("GET", "/me/x", "X-User-Id", "ann", "Peer", "10.0.0.1:1"), 401, CodeMissingCredential)
	f.advance(2 * time.Hour)
	wantRefusal(t, f.do("GET", "/me/x", bearer(i.token("ann", until))...), 401, CodeInvalidCredential)
}

// Guessing tokens is bounded by address as guessing keys is.
func TestUser_R062_RefusedTokensAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	f := newFixture(t, i.policy(), nil)
	told := 0
	for range 40 {
		if res := f.do("GET", "/me/x", bearer("x.y.z")...); res.StatusCode == 401 {
			told++
		}
	}
	if told != 30 {
		t.Errorf("%d of 40 bad tokens were told apart, want 30", told)
	}
	if res := f.do("GET", "/me/x", bearer(i.token("ann", f.clock().Add(time.Hour)))...); res.StatusCode != 204 {
		t.Errorf("a good token from there: %d", res.StatusCode)
	}
}

// Keys that cannot be read say nothing against a user.
func TestUser_R060_UnverifiableTokensAre503(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	if err := os.Remove(i.file); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, i.policy(), nil)
	for range 40 {
		wantRefusal(t, f.do("GET", "/me/x", bearer(i.token("ann", f.clock().Add(time.Hour)))...), 503, CodeIdentityUnavailable)
	}
	if r := f.g.readiness(); !slices.Contains(r.Warnings, "user-keys-unreadable") {
		t.Errorf("readiness warns of %v", r.Warnings)
	}
}

// The keys stay loaded over a publish that says nothing new of users.
func TestUser_KeysSurviveAPublish(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	f := newFixture(t, i.policy(), nil)
	token := bearer(i.token("ann", f.clock().Add(time.Hour)))
	if res := f.do("GET", "/me/x", token...); res.StatusCode != 204 {
		t.Fatalf("first: %d", res.StatusCode)
	}
	if err := os.Remove(i.file); err != nil {
		t.Fatal(err)
	}
	f.policies.set(snapshot(t, 43, i.policy()))
	if res := f.do("GET", "/me/x", token...); res.StatusCode != 204 {
		t.Errorf("after a publish: %d", res.StatusCode)
	}
}

func TestUser_OddNamesReachNoHeader(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"ann": true, "ann@example.org": true, "": false, "a\r\nb": false, " ann": false, "ännchen": false, strings.Repeat("x", 257): false, "a\x00": false,
	} {
		if got := fieldText(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
