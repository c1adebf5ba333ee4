package usage_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/usage"
)

func TestPack_ComesBackAndKeepsItsBounds(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("a", 998) // 1000 bytes of JSON
	body, err := usage.Pack(want, 1000, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := usage.Unpack(body, 1000, len(body), &got); err != nil || got != want {
		t.Errorf("%d bytes came back (%v)", len(got), err)
	}
	for name, err := range map[string]error{
		"text":            usage.Unpack(body, 999, len(body), &got),
		"body":            usage.Unpack(body, 1000, len(body)-1, &got),
		"cut off":         usage.Unpack(body[:len(body)-2], 1000, 100, &got),
		"of another kind": usage.Unpack(body, 1000, 100, new(int)),
	} {
		if err == nil {
			t.Errorf("%s: is read", name)
		}
	}
	if _, err := usage.Pack(want, 999, 100); err == nil {
		t.Error("too much text is written")
	}
	if _, err := usage.Pack(want, 1000, len(body)-1); err == nil {
		t.Error("too large a body is written")
	}
	if _, err := usage.Pack(func() {}, 1000, 100); err == nil {
		t.Error("what JSON cannot say is written")
	}
}
