package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// ask puts a question to POST /v1/decide.
func (f *fixture) ask(question string) (int, decision, problem) {
	f.t.Helper()
	r := httptest.NewRequest("POST", "/v1/decide", strings.NewReader(question))
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	f.g.DecideHandler().ServeHTTP(w, r)
	var d decision
	var p problem
	into := any(&d)
	if w.Code != http.StatusOK {
		into = &p
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		f.t.Fatalf("answer %q: %v", w.Body, err)
	}
	return w.Code, d, p
}

func TestDecideDoor_AnswersWithTheDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	question := fmt.Sprintf(`{"key": %q, "method": "GET", "host": "x", "path": "/v1/reports/1?x=1", "ip": "203.0.113.1"}`, f.key("ten_a", "free"))
	status, d, _ := f.ask(question)
	if status != 200 || !d.Allowed || d.Status != 200 || d.Tenant != "ten_a" || d.Route != "report" || d.Version != 42 || d.Reason != "admitted" {
		t.Fatalf("%d %+v", status, d)
	}
	last := d.Limits[len(d.Limits)-1]
	if len(d.Limits) != 3 || last != (limitAnswer{ID: "route:report.reports", Kind: LimitRate, Limit: 10, Remaining: 5, ResetMS: 6000, Source: "route report"}) {
		t.Errorf("limits %+v", d.Limits)
	}
	if d.Headers["Ratelimit"] == "" {
		t.Errorf("headers %v", d.Headers)
	}
	f.ask(question)
	status, d, _ = f.ask(question)
	if status != 200 || d.Allowed || d.Status != 429 || d.Code != CodeQuotaExceeded || d.Reason != "limit" || d.RetryAfterMS != 30_000 || d.Headers["Retry-After"] != "30" {
		t.Errorf("%d %+v", status, d)
	}
}

func TestDecideDoor_TenantKeyAndHeadersNameTheCaller(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "free")
	for name, c := range map[string]struct {
		question string
		status   int
		code     Code
	}{
		"tenant":         {`{"tenant": "ten_a", "method": "GET", "path": "/api/x"}`, 200, ""},
		"unknown tenant": {`{"tenant": "ten_zzz", "method": "GET", "path": "/api/x"}`, 401, CodeInvalidCredential},
		"headers":        {`{"headers": {"authorization": "Bearer ` + key + `"}, "method": "GET", "path": "/api/x"}`, 200, ""},
		"nobody":         {`{"method": "GET", "path": "/api/x"}`, 401, CodeMissingCredential},
		"unknown key":    {`{"key": "` + unknownKey(t) + `", "method": "GET", "path": "/api/x"}`, 401, CodeInvalidCredential},
		"cost":           {`{"tenant": "ten_a", "method": "GET", "path": "/v1/reports/1", "cost": 11}`, 422, CodeCostExceedsBurst},
		"no address":     {`{"method": "POST", "path": "/login"}`, 200, ""},
		"no route":       {`{"method": "GET", "path": "/"}`, 404, CodeNoRoute},
	} {
		if status, d, _ := f.ask(c.question); status != 200 || d.Status != c.status || d.Code != c.code || d.Allowed != (c.code == "") {
			t.Errorf("%s: %d %+v", name, status, d)
		}
	}
}

func TestDecideDoor_CostIsCharged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	f.key("ten_a", "free")
	_, d, _ := f.ask(`{"tenant": "ten_a", "method": "GET", "path": "/v1/reports/1", "cost": 8}`)
	if !d.Allowed || d.Limits[2].Remaining != 2 || d.Limits[1].Remaining != 59 {
		t.Errorf("after a cost of 8: %+v", d.Limits)
	}
}

func TestDecideDoor_WhatIsNotUnderstoodIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	for question, want := range map[string]string{
		`{"tenant": "ten_a", "method": "GET", "path": "/api/x", "bogus": 1}`:    "bogus",
		`{"tenant": "ten_a", "key": "k", "method": "GET", "path": "/api/x"}`:    "key and tenant",
		`{"tenant": "ten a{}", "method": "GET", "path": "/api/x"}`:              "tenant",
		`{"tenant": "ten_a", "path": "/api/x"}`:                                 "method",
		`{"tenant": "ten_a", "method": "GET"}`:                                  "path",
		`{"tenant": "ten_a", "method": "GET", "path": "api"}`:                   "path",
		`{"tenant": "ten_a", "method": "GET", "path": "/api/x", "ip": "1.2.3"}`: "ip",
		`{"tenant": "ten_a", "method": 7}`:                                      "method",
		`{"Tenant": "ten_a", "method": "GET", "path": "/api/x"}`:                "Tenant",
		`{"tenant": "ten_a", "method": "GET", "path": "/x", "path": "/y"}`:      "\"path\" stands twice",
		`{"method": "GET", "path": "/x", "headers": {"A": "1", "A": "2"}}`:      "\"A\" stands twice",
		`{"method": "GET", "path": "/x", "headers": {"A": 1}}`:                  "A: ",
		"{\"method\": \"GET\", \"path\": \"/\xff\"}":                            "UTF-8",
		`[]`: "not a JSON object",
		`{"tenant": "ten_a", "method": "GET", "path": "/x"} {}`: "more than one",
		`not JSON`: "invalid character",
		``:         "EOF",
		`{"headers": {"a": "` + strings.Repeat("x", maxDecideBody) + `"}}`: "too large",
	} {
		status, _, p := f.ask(question)
		if status != 400 || p.Code != CodeBadRequest || !strings.Contains(p.Detail, want) {
			t.Errorf("%.80s: %d %+v", question, status, p)
		}
	}
	for _, cost := range []string{"0", "-1", "1.5", `"7"`, "1e3", "99999999999999999999", "[]"} {
		status, _, p := f.ask(`{"tenant": "ten_a", "method": "GET", "path": "/api/x", "cost": ` + cost + `}`)
		if status != 400 || p.Code != CodeBadCost {
			t.Errorf("cost %s: %d %+v", cost, status, p)
		}
	}
}

func TestDecideDoor_ServesDecisionsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	if res := serve(f.g.DecideHandler(), "GET", "/metrics", "Peer", "127.0.0.1:1"); res.StatusCode != 404 {
		t.Errorf("metrics at the decisions door: %d", res.StatusCode)
	}
}

// The doors differ in how they ask and in nothing else.
func TestDoors_I21_AnswerAlike(t *testing.T) {
	t.Parallel()
	proxy, check, decide := newFixture(t, testPolicy, nil), newFixture(t, testPolicy, nil), newFixture(t, testPolicy, nil)
	key := proxy.key("ten_a", "free")
	for _, f := range []*fixture{check, decide} {
		f.directory = proxy.directory
		f.g.cfg.Directory = proxy.directory
	}
	paths := []string{"/v1/reports/1", "/api/x", "/nowhere", "/a/../b", "/v1/reports/2", "/public/x"}
	for i := range 60 {
		path := paths[i%len(paths)]
		a := proxy.do("GET", path, append(bearer(key), "Peer", "127.0.0.1:1")...)
		b := check.check("", append(bearer(key), "X-Forwarded-Method", "GET", "X-Forwarded-Uri", path)...)
		_, c, _ := decide.ask(fmt.Sprintf(`{"key": %q, "method": "GET", "path": %q, "ip": "127.0.0.1"}`, key, path))
		if sa, sb := normal(a.StatusCode), normal(b.StatusCode); sa != sb || sa != c.Status {
			t.Fatalf("%s: proxy %d, check %d, decide %d", path, sa, sb, c.Status)
		}
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Remaining", "Retry-After", "Www-Authenticate"} {
			if x, y, z := a.Header.Get(name), b.Header.Get(name), c.Headers[http.CanonicalHeaderKey(name)]; x != y || x != z {
				t.Fatalf("%s of %s: proxy %q, check %q, decide %q", name, path, x, y, z)
			}
		}
		for _, f := range []*fixture{proxy, check, decide} {
			f.advance(250e6)
		}
	}
}

// normal makes one status of an upstream's 204 and a check's 200.
func normal(status int) int {
	if status == http.StatusNoContent {
		return http.StatusOK
	}
	return status
}

func FuzzQuestion(f *testing.F) {
	f.Add(`{"key": "k", "method": "GET", "path": "/", "cost": 1}`)
	f.Add(`{"tenant": "ten_a", "headers": {"a": "b"}, "ip": "::1"}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, question string) {
		r := httptest.NewRequest("POST", "/v1/decide", strings.NewReader(question))
		in, err := readQuestion(httptest.NewRecorder(), r)
		if err != nil {
			return
		}
		if in.Method == "" || !strings.HasPrefix(in.EscapedPath, "/") || in.Cost < 0 || in.Key != "" && in.Tenant != "" {
			t.Fatalf("%q was understood as %+v", question, in)
		}
	})
}
