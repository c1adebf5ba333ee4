package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/policy"
)

// asked is one request, told at each door in that door's way.
type asked struct {
	method, target, key, client, user, address, contentType, body string
	cost                                                          int64 // what the upstream says of it
}

func askedGen(keys []string) *rapid.Generator[asked] {
	return rapid.Custom(func(t *rapid.T) asked {
		pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
		a := asked{
			method: "GET", key: pick("key", append(keys, "", "hg_live_nonsense")...), client: pick("client", "", "a", "b"), user: pick("user", "", "ann", "bob"),
			address: pick("address", "198.51.100.1", "198.51.100.2", "2001:db8::1"), cost: rapid.Int64Range(0, 80).Draw(t, "cost"),
			target: pick("target", "/slots/x", "/llm", "/graphql", "/login", "/me/x", "/search/x", "/x", "/x", "/a/../b", "/search/x?X-Client=z"),
		}
		switch a.target {
		case "/llm":
			a.method = "POST"
		case "/login":
			a.method, a.contentType = "POST", "application/json"
			a.body = pick("account", `{"username": "ann"}`, `{"username": "bob"}`, `{}`, `not JSON`)
		case "/graphql":
			a.method, a.contentType = "POST", "application/json"
			a.body = query(pick("query", `{ me }`, `{ users(first: 5) { name } }`, `{ users { name } }`, `{ users(first: 999) { name } }`, `{`))
		}
		return a
	})
}

func (a *asked) headers() http.Header {
	h := http.Header{}
	for name, value := range map[string]string{"X-Client": a.client, "X-User-Id": a.user, "Content-Type": a.contentType} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if a.key != "" {
		h.Set("Authorization", "Bearer "+a.key)
	}
	return h
}

// saying is what a door said.
type saying struct {
	status int
	fields string // of the limits and for waiting
	body   string // of a refusal
}

func sayingOf(status int, h http.Header, body string) saying {
	var fields strings.Builder
	for _, name := range []string{
		"RateLimit-Policy", "RateLimit", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After", "Cache-Control", "WWW-Authenticate",
	} {
		fmt.Fprintf(&fields, "%s: %s\n", name, h.Get(name))
	}
	return saying{normal(status), fields.String(), body}
}

func (a *asked) atProxy(f *fixture) saying {
	r := httptest.NewRequest(a.method, a.target, strings.NewReader(a.body))
	r.Header, r.RemoteAddr = a.headers(), "10.0.0.1:1"
	r.Header.Set("X-Forwarded-For", a.address)
	r.Header.Set("Cost", strconv.FormatInt(a.cost, 10))
	r.Header.Set("X-Request-Id", "the-same-one")
	w := httptest.NewRecorder()
	f.g.ProxyHandler().ServeHTTP(w, r)
	if w.Code < 300 {
		w.Body.Reset() // the upstream's
	}
	return sayingOf(w.Code, w.Header(), w.Body.String())
}

func (a *asked) atCheck(f *fixture) saying {
	r := httptest.NewRequest("POST", "/v1/check", strings.NewReader(a.body))
	r.Header, r.RemoteAddr = a.headers(), "127.0.0.1:1"
	for name, value := range map[string]string{
		"X-Forwarded-For": a.address, "X-Forwarded-Method": a.method, "X-Forwarded-Uri": a.target, "X-Request-Id": "the-same-one",
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	f.g.DecideHandler().ServeHTTP(w, r)
	a.end(f, w.Header().Get(headerLease))
	return sayingOf(w.Code, w.Header(), w.Body.String())
}

func (a *asked) atDecide(f *fixture) saying {
	headers := map[string]string{}
	for name := range a.headers() {
		headers[name] = a.headers().Get(name)
	}
	question := map[string]any{"method": a.method, "path": a.target, "ip": a.address, "headers": headers, "body": a.body}
	raw, _ := json.Marshal(question)
	_, d, _ := f.ask(string(raw))
	a.end(f, d.Lease)
	h := http.Header{}
	for name, value := range d.Headers {
		h.Set(name, value)
	}
	return sayingOf(d.Status, h, "")
}

// end does what the proxy does by itself at the end of a request.
func (a *asked) end(f *fixture, token string) {
	if token == "" {
		return
	}
	if a.target == "/llm" {
		if status, p := f.after("/v1/settle", fmt.Sprintf(`{"lease": %q, "cost": %d}`, token, a.cost)); status != 204 {
			f.t.Errorf("settle: %d %+v", status, p)
		}
	}
	if status, p := f.after("/v1/release", lease(token)); status != 204 {
		f.t.Errorf("release: %d %+v", status, p)
	}
}

// onceEach is a sink that wants each name set once: others cannot replace what they
// have written.
type onceEach struct {
	t *testing.T
	h http.Header
}

func (o onceEach) Set(name, value string) {
	if o.h[name] != nil {
		o.t.Errorf("%s is set again", name)
	}
	o.h.Set(name, value)
}

func (o onceEach) Add(name, value string) { o.h.Add(name, value) }

// WriteFields and AppendBody are Answer, for refusals of every kind.
func TestDoors_FieldsAreThoseOfTheAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil, func(c *Config) { c.DebugHeader = true })
	f.key("ten_a", "capped")
	seen := map[int]bool{}
	for i := range 40 {
		for _, in := range []Inbound{
			{EscapedPath: "/x", Tenant: "ten_a"}, {EscapedPath: "/x", Tenant: "ten_b"}, {EscapedPath: "/login", Method: "POST"}, {EscapedPath: "/a/../b"},
			{EscapedPath: "/slots/x", Tenant: "ten_a"}, {EscapedPath: "/x", Tenant: "ten_a", Cost: 1 << 40}, {EscapedPath: "/graphql", Tenant: "ten_a"},
		} {
			if in.Header = (http.Header{}); in.Method == "" {
				in.Method = "GET"
			}
			v := f.g.Decide(t.Context(), &in)
			origin := []string{"", "https://app.example"}[i%2]
			answer, fields := f.g.Answer(&v, origin, i%3 == 0), onceEach{t, http.Header{}}
			f.g.WriteFields(fields, &v, origin, i%3 == 0)
			if fmt.Sprint(answer.Header) != fmt.Sprint(fields.h) || string(v.AppendBody(nil)) != string(answer.Body) {
				t.Fatalf("%+v:\n%v %s\n%v %s", in, answer.Header, answer.Body, fields.h, v.AppendBody(nil))
			}
			seen[answer.Status] = true
		}
	}
	for _, status := range []int{200, 400, 401, 422, 429} {
		if !seen[status] {
			t.Errorf("no answer was %d", status)
		}
	}
}

// I21: the doors differ in how they are asked and in nothing else: status, limits,
// waits, bodies and what a request has cost in the end.
func TestDoors_I21_AnyRequestsAreAnsweredAlike(t *testing.T) {
	t.Parallel()
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Cost", r.Header.Get("Cost"))
	})
	rapid.Check(t, func(rt *rapid.T) {
		proxy, check, decide := newFixture(t, widePolicy, upstream), newFixture(t, widePolicy, nil), newFixture(t, widePolicy, nil)
		all := []*fixture{proxy, check, decide}
		keys := []string{proxy.key("ten_a", "free"), proxy.key("ten_b", "capped"), proxy.key("ten_c", "billed")}
		proxy.directory.change(func(d *fakeDirectory) {
			r := d.tenants["ten_a"]
			r.Overrides = []policy.Override{{Limit: "route:llm.tokens", Rate: "200/minute", Reason: "test"}}
			d.tenants["ten_a"] = r
		})
		for _, f := range all {
			f.directory, f.g.cfg.Directory = proxy.directory, proxy.directory
		}
		gen := askedGen(keys)
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			a := gen.Draw(rt, "request")
			x, y, z := a.atProxy(proxy), a.atCheck(check), a.atDecide(decide)
			if x != y {
				rt.Fatalf("%+v\nproxy %+v\ncheck %+v", a, x, y)
			}
			if z.body = x.body; x != z {
				rt.Fatalf("%+v\nproxy  %+v\ndecide %+v", a, x, z)
			}
			step := time.Duration(rapid.Int64Range(0, 3000).Draw(rt, "ms")) * time.Millisecond
			for _, f := range all {
				f.advance(step)
			}
		}
	})
}
