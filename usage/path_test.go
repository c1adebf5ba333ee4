package usage_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/usage"
)

func TestPathTemplate_WordsStayAndValuesGo(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/":                                 "/",
		"/v1/reports":                       "/v1/reports",
		"/v1/reports/":                      "/v1/reports/",
		"/v1/reports/7":                     "/v1/reports/{id}",
		"/v1/reports/2026-11-30/pdf":        "/v1/reports/{id}/pdf",
		"/wp-login.php":                     "/wp-login.php",
		"/.env":                             "/.env",
		"/api/v2beta1/internationalization": "/api/v2beta1/internationalization",
		"/twirp/acme.Billing/GetCustomerInvoiceDetails": "/twirp/acme.Billing/GetCustomerInvoiceDetails",
		"/oauth2/token": "/oauth2/token",
		"/x/0f8fad5b-d9cb-469f-a165-70867728950e":             "/x/{id}",
		"/x/deadbeefdeadbeef":                                 "/x/{id}",
		"/x/ORDER-1234":                                       "/x/{id}",
		"/x/dQw4w9WgXcQ":                                      "/x/{id}",
		"/x/cus_NffrFeUfNV2Hib":                               "/x/{id}",
		"/x/sk_live_4eC39HqLyjWDarjtT1zdp7dc":                 "/x/{id}",
		"/x/hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz":  "/x/{id}",
		"/x/AKIAIOSFODNN7EXAMPLE":                             "/x/{id}",
		"/x/QWxhZGRpbjpvcGVuU2VzYW1l":                         "/x/{id}",
		"/x/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J": "/x/{id}",
		"/x/jane@example.com/mail":                            "/x/{id}/mail",
		"/x/jane%40example.com":                               "/x/{id}",
		"/x/J%C3%BCrgen":                                      "/x/{id}",
		"/x/a+b":                                              "/x/{id}",
		"/x/a=b":                                              "/x/{id}",
		"/users/alice/orders":                                 "/users/{id}/orders",
		"/users/me/orders":                                    "/users/me/orders",
		"/password/reset/correct-horse":                       "/password/reset/{id}",
		"/x/" + strings.Repeat("a-", 25):                      "/x/{id}",
		"/a/b/c/d/e/f/g/h/i/j/k/l/m/n":                        "/a/b/c/d/e/f/g/h/i/j/k/l/{rest...}",
		"":                                                    "/{id}",
		"no-slash":                                            "/{id}",
		"/a//b":                                               "/a/{id}/b",
		"/x/\x00\x1b[31m":                                     "/x/{id}",
		"/x/{id}":                                             "/x/{id}",
		"/x/%7Bid%7D":                                         "/x/{id}",
	} {
		if got := usage.PathTemplate(path); got != want {
			t.Errorf("%q is told as %q, want %q", path, got, want)
		}
	}
}

func TestPathTemplate_IsNeverLong(t *testing.T) {
	t.Parallel()
	for n := range 300 {
		got := usage.PathTemplate(strings.Repeat("/some-words", n) + "/" + strings.Repeat("x", n%41))
		if len(got) > usage.MaxTemplate {
			t.Fatalf("%d bytes: %q", len(got), got)
		}
	}
}

func TestPathMethod_OnlyKnownOnesAreTold(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{"GET": "GET", "PATCH": "PATCH", "BREW": "", "get": "", "": "", "SECRET-hunter2": ""} {
		if got := usage.PathMethod(method); got != want {
			t.Errorf("%q is told as %q", method, got)
		}
	}
}

// FuzzPathTemplate holds to what the template promises of any bytes.
func FuzzPathTemplate(f *testing.F) {
	for _, s := range []string{"/", "/v1/x/7", "/users/jane@example.com", "/a//b", "/%00", "/{rest...}", "/x/{id}/", "//", "/" + strings.Repeat("a/", 40), "/\xff\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := usage.PathTemplate(path)
		if len(got) > usage.MaxTemplate || got == "" || got[0] != '/' {
			t.Fatalf("%q gives %q", path, got)
		}
		if again := usage.PathTemplate(got); again != got {
			t.Fatalf("%q gives %q, and that %q", path, got, again)
		}
		for _, segment := range strings.Split(got[1:], "/") {
			if segment == "{id}" || segment == "{rest...}" {
				continue
			}
			if !strings.Contains(path, segment) || len(segment) > 40 {
				t.Fatalf("%q gives segment %q", path, segment)
			}
			if i := strings.IndexFunc(segment, func(c rune) bool {
				return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.~", c)
			}); i >= 0 {
				t.Fatalf("%q gives segment %q", path, segment)
			}
		}
	})
}
