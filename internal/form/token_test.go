package form_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/internal/form"
)

func TestToken_EachIsNewAndFitsItsOwnPattern(t *testing.T) {
	t.Parallel()
	a, b := form.NewToken(), form.NewToken()
	if a == b || !form.IsToken(a) || !form.IsToken(b) {
		t.Fatalf("tokens %q and %q", a, b)
	}
	for _, s := range []string{"", "short", "ABCDEFGHIJKLMNO", "ABCDEFGHIJKLMNOP\n", "ABCDEFGH-JKLMNOPQ", string(make([]byte, 20))} {
		if form.IsToken(s) {
			t.Errorf("%q is taken for a token", s)
		}
	}
}

func TestClaim_ChangesWithScopePlaceAndFields(t *testing.T) {
	t.Parallel()
	claim := func(path, scope string, values map[string]string, fields ...string) string {
		t.Helper()
		values["token"] = "ABCDEFGHIJKLMNOPQRST"
		token, sum, ok := form.New(values).Claim(httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil), scope, fields...)
		if !ok || token != "ABCDEFGHIJKLMNOPQRST" || len(sum) != 64 {
			t.Fatalf("token %q, sum %q, %v", token, sum, ok)
		}
		return sum
	}
	first := claim("/a", "issue", map[string]string{"name": "x", "note": "1"}, "name")
	if again := claim("/a", "issue", map[string]string{"name": " x ", "note": "2"}, "name"); again != first {
		t.Error("what is not asked for changes the sum")
	}
	seen := map[string]bool{first: true}
	for _, sum := range []string{
		claim("/b", "issue", map[string]string{"name": "x"}, "name"), claim("/a", "rotate", map[string]string{"name": "x"}, "name"),
		claim("/a", "issue", map[string]string{"name": "y"}, "name"), claim("/a", "issue", map[string]string{"name": "x"}),
	} {
		if seen[sum] {
			t.Error("two things that are asked for have one sum")
		}
		seen[sum] = true
	}
}

func TestClaim_NeedsAToken(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/a", nil)
	for _, f := range []*form.Form{nil, form.New(nil), form.New(map[string]string{"token": "../../x"})} {
		if _, _, ok := f.Claim(r, "issue"); ok {
			t.Error("a form without a token is claimed")
		}
	}
}
