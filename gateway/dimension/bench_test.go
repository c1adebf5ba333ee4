package dimension

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// BenchmarkField reads a login's name from bodies of usual and of the largest size.
func BenchmarkField(b *testing.B) {
	password := strings.Repeat("p", 20)
	large := strings.Repeat("x", MaxBody-200)
	for name, c := range map[string]struct{ contentType, body string }{
		"JSON":        {jsonType, `{"username":"Alice@example.com","password":"` + password + `"}`},
		"form":        {formType, "username=" + url.QueryEscape("Alice@example.com") + "&password=" + password},
		"large JSON":  {jsonType, `{"padding":"` + large + `","username":"alice"}`},
		"many values": {jsonType, `{"padding":[` + strings.Repeat("0,", MaxBody/2-100) + `0],"username":"alice"}`},
		"many pairs":  {formType, strings.Repeat("a&", maxPairs-1) + "username=alice"},
		"accents":     {jsonType, `{"username":"` + strings.Repeat("é", maxPlain/2) + `"}`},
		"ligatures":   {jsonType, `{"username":"` + strings.Repeat("ﷺ", maxPlain/3) + `"}`},
		"marks":       {jsonType, `{"username":"a` + strings.Repeat("\u0301\u0323", maxPlain/4-1) + `"}`},
	} {
		b.Run(name, func(b *testing.B) {
			body := []byte(c.body)
			b.ReportAllocs()
			for b.Loop() {
				if _, state := Field(c.contentType, body, true, "username"); state != Present {
					b.Fatal(state)
				}
			}
		})
	}
}

// BenchmarkUsers verifies a token.
func BenchmarkUsers(b *testing.B) {
	for name, alg := range map[string]jose.SignatureAlgorithm{"EdDSA": jose.EdDSA, "RS256": jose.RS256} {
		b.Run(name, func(b *testing.B) {
			p := pair{jose.EdDSA, edKey(b), "k"}
			if alg == jose.RS256 {
				p = pair{alg, rsaKey(b, 2048), "k"}
			}
			u, _ := usersOf(b, p.public())
			h := with(p.token(b, valid(nil)))
			b.ReportAllocs()
			for b.Loop() {
				if _, present, err := u.Of(h, false, wall()); !present {
					b.Fatal(err)
				}
			}
		})
	}
}
