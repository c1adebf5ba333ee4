package gateway

import (
	"net/http"
	"slices"
	"testing"
)

// A field that is set leaves the upstream's out, and no value runs into the next one's
// room when somebody appends to it.
func TestFieldSet_KeepsFieldsApart(t *testing.T) {
	t.Parallel()
	upstream := http.Header{headerRequestID: {"theirs"}, "X-Kept": {"theirs"}}
	h := http.Header{"Vary": {"Accept"}}
	f := fieldSet{h: h, over: upstream}
	for i := range 25 {
		f.Set("X-Field-"+string(rune('A'+i)), string(rune('a'+i)))
	}
	f.Set("x-request-id", "ours")
	f.Add("Vary", "Origin")
	f.Add("X-Headgate-Shadow", "one")
	f.Add("X-Headgate-Shadow", "two")
	h.Add("X-Field-A", "more")
	for i := range 25 {
		want := []string{string(rune('a' + i))}
		if i == 0 {
			want = append(want, "more")
		}
		if got := h.Values("X-Field-" + string(rune('A'+i))); !slices.Equal(got, want) {
			t.Errorf("field %d is %q", i, got)
		}
	}
	for name, want := range map[string][]string{
		headerRequestID: {"ours"}, "Vary": {"Accept", "Origin"}, headerShadow: {"one", "two"},
	} {
		if !slices.Equal(h[name], want) {
			t.Errorf("%s is %q", name, h[name])
		}
	}
	if len(upstream) != 1 || upstream.Get("X-Kept") != "theirs" {
		t.Errorf("left of the upstream's is %v", upstream)
	}
}

func TestPlainName_IsInLowerCaseWithHyphens(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"X_Forwarded-FOR": "x-forwarded-for", "": "", "é@[`{Z": "é@[`{z"} {
		if got := string(plainName(nil, name)); got != want {
			t.Errorf("%q is %q", name, got)
		}
	}
	if !begins("RATELIMIT-x", "ratelimit") || begins("ratelimi", "ratelimit") || begins("x-ratelimit", "ratelimit") {
		t.Error("beginnings are not told")
	}
}
