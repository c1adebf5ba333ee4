package gateway

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
)

func usualHeaders() []policy.CredentialHeader {
	return []policy.CredentialHeader{{Name: "Authorization", Scheme: "Bearer"}, {Name: "X-API-Key"}}
}

func TestCredential_R064_DifferentKeysAreAmbiguous(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
		err    error
	}{
		{"bearer", http.Header{"Authorization": {"Bearer A"}}, "A", nil},
		{"scheme in any case", http.Header{"Authorization": {"bEARER \t A "}}, "A", nil},
		{"plain header", http.Header{"X-Api-Key": {"A"}}, "A", nil},
		{"twice the same", http.Header{"X-Api-Key": {"A", "A"}, "Authorization": {"Bearer A"}}, "A", nil},
		{"two lines", http.Header{"X-Api-Key": {"A", "B"}}, "", errAmbiguousCredential},
		{"two headers", http.Header{"X-Api-Key": {"A"}, "Authorization": {"Bearer B"}}, "", errAmbiguousCredential},
		{"none", http.Header{}, "", errNoCredential},
		{"another scheme", http.Header{"Authorization": {"Basic QQ=="}}, "", errNoCredential},
		{"scheme alone", http.Header{"Authorization": {"Bearer"}}, "", errNoCredential},
		{"scheme and blanks", http.Header{"Authorization": {"Bearer   "}}, "", errNoCredential},
		{"scheme run together", http.Header{"Authorization": {"BearerA"}}, "", errNoCredential},
		{"empty", http.Header{"X-Api-Key": {"", " "}}, "", errNoCredential},
		{"empty and one", http.Header{"X-Api-Key": {"", "A"}}, "A", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := credentialOf(c.header, usualHeaders())
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestChallenge_NamesTheScheme(t *testing.T) {
	t.Parallel()
	if got := challenge(usualHeaders()); got != `Bearer realm="headgate"` {
		t.Errorf("challenge %q", got)
	}
	if got := challenge([]policy.CredentialHeader{{Name: "X-API-Key"}}); got != `ApiKey realm="headgate"` {
		t.Errorf("challenge %q", got)
	}
}

func FuzzCredential(f *testing.F) {
	f.Add("Bearer hg_live_x", "hg_live_x")
	f.Add("bearer  \t", "")
	f.Add("Basic Zm9v", "\x00")
	f.Fuzz(func(t *testing.T, authorization, key string) {
		h := http.Header{"Authorization": {authorization}, "X-Api-Key": {key}}
		got, err := credentialOf(h, usualHeaders())
		if (got == "") != (err != nil) {
			t.Fatalf("%q with error %v", got, err)
		}
		if err == nil && !strings.Contains(authorization, got) && !strings.Contains(key, got) {
			t.Fatalf("%q stands in neither header", got)
		}
		stripped := h.Clone()
		stripCredentials(stripped, usualHeaders())
		if _, err := credentialOf(stripped, usualHeaders()); !errors.Is(err, errNoCredential) {
			t.Fatalf("a credential is left after stripping: %v", stripped)
		}
	})
}
