package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web"
)

func FuzzSection(f *testing.F) {
	f.Add("plan", "free", "limits=1&name=free&l0-name=a&l0-per=tenant&l0-counts=cost&l0-count=1&l0-unit=minute&l0-burst=", 0)
	f.Add("route", "1", "limits=0&name=x&match=%2F&cost=1&mode=open&fb-count=5&fb-unit=1h&fb-burst=5&uses[]=a&uses[]=b", -1)
	f.Add("general", "", "trusted-proxies=10.0.0.0%2F8%0A::1&headers=A+b%0AC&ipv6-prefix=64&inv-unit=unlimited", 3)
	f.Add("global", "", "limits=9999999999", 1<<40)
	f.Add("route", "99", "", 0)
	f.Fuzz(func(t *testing.T, kind, key, body string, drop int) {
		d, report := policy.Parse([]byte(document))
		if d == nil {
			t.Fatal(report)
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if r.ParseForm() != nil {
			return
		}
		if web.ApplySection(d, r, kind, key, drop) {
			if again, _ := policy.ParseLoose(d.YAML()); again != nil && string(again.Canonical()) != string(d.Canonical()) && policy.Validate(d).OK() {
				t.Errorf("a valid document is not read back as it was written:\n%s", d.YAML())
			}
		}
	})
}
