package policy

import "testing"

func TestTakes_IsWhereRequestsGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		by, from string
		takes    bool
	}{
		{"POST /login", "/", true},
		{"/", "POST /login", false},
		{"POST /login", "POST /login", true},
		{"GET /login", "POST /login", false},
		{"POST api.example/login", "POST /login", true},
		{"api.example/", "POST /login", true},
		{"POST /login", "POST api.example/login", false},
		{"POST www.example/login", "POST api.example/login", false},
		{"HEAD /x", "GET /x", true},
		{"GET /x", "HEAD /x", false},
		{"GET /v1/reports/7", "GET /v1/reports/{id}", true},
		{"GET /v1/reports/{id}", "GET /v1/reports/7", false},
		{"GET /v1/{kind}/7", "GET /v1/reports/{id}", true},
		{"no path", "/", false},
	} {
		if got := ClaimsOf([]string{"GET /elsewhere/{$}", c.from}).TakenBy(c.by); got != c.takes {
			t.Errorf("%q takes requests of %q: %v, want %v", c.by, c.from, got, c.takes)
		}
	}
	if c := ClaimsOf([]string{"not a pattern"}); c.Len() != 0 || c.TakenBy("/") {
		t.Error("what is no pattern claims requests")
	}
}
