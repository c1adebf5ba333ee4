package web_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

func TestWeb_A10_OnlyPolicyFormsMayBeLarge(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	const kind = "application/x-www-form-urlencoded"
	for _, size := range []int{100 << 10, 8 << 20} {
		body := "email=a%40b.example&password=x&next=" + strings.Repeat("a", size)
		if a := w.Anonymous(t).Do("POST", "/signin", kind, strings.NewReader(body)); a.StatusCode != 413 {
			t.Errorf("sign-in with %d bytes: %d", size, a.StatusCode)
		}
		body = "name=x&reason=" + strings.Repeat("a", size)
		if a := w.As(t, console.RoleOwner).Do("POST", "/tenants", kind, strings.NewReader(body)); a.StatusCode != 413 {
			t.Errorf("tenant with %d bytes: %d", size, a.StatusCode)
		}
	}
	body := "name=large&source=" + strings.Repeat("%23%0A", 50<<10) // comments
	if a := w.As(t, console.RoleOwner).Do("POST", "/policy/drafts", kind, strings.NewReader(body)); a.StatusCode == 413 {
		t.Errorf("a draft of %d bytes: %d", len(body), a.StatusCode)
	}
}

func TestWeb_B8_ParameterGivenTwiceIsRefused(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	owner := w.As(t, console.RoleOwner)
	for _, path := range []string{"/tenants?plan=free&plan=pro", "/audit?actor=a&actor=b", "/signin?next=/a&next=/b", "/api/v1/tenants?q=a&q=b"} {
		if a := owner.Get(path); a.StatusCode != 400 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
	if a := owner.Get("/tenants?plan=free&status=active"); a.StatusCode != 200 {
		t.Errorf("two parameters: %d", a.StatusCode)
	}
}
