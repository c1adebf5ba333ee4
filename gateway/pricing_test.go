package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/policy/graphql"
)

// post sends a body through the proxy door.
func (f *fixture) post(target, contentType, body string, headers ...string) *http.Response {
	f.t.Helper()
	r := httptest.NewRequest("POST", target, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.1:4711"
	r.Header.Set("Content-Type", contentType)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Peer" {
			r.RemoteAddr = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.g.ProxyHandler().ServeHTTP(w, r)
	return w.Result()
}

// bodies keeps what an upstream was sent.
type bodies struct {
	mu  sync.Mutex
	got []string
}

func (b *bodies) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, string(raw))
}

func query(text string) string {
	raw, _ := json.Marshal(map[string]string{"query": text})
	return string(raw)
}

func TestPrice_GraphQLQueriesPayForWhatTheyAsk(t *testing.T) {
	t.Parallel()
	upstream := &bodies{}
	f := newFixture(t, widePolicy, upstream)
	key := bearer(f.key("ten_a", "free"))
	small, large := query(`{ me { name } }`), query(`{ users(first: 20) { name } }`)
	left := func(res *http.Response) string {
		params, _ := fields(t, res.Header, "RateLimit")
		r, _ := params["route:graphql.points"].Get("r")
		raw, _ := json.Marshal(r)
		return string(raw)
	}
	if got := left(f.post("/graphql", "application/json", small, key...)); got != "98" {
		t.Errorf("after a query of two fields %s of 100 points are left", got)
	}
	if got := left(f.post("/graphql", "application/json", large, key...)); got != "77" {
		t.Errorf("after a query of a list of 20 and its field %s points are left", got)
	}
	if len(upstream.got) != 2 || upstream.got[0] != small || upstream.got[1] != large {
		t.Errorf("the upstream was sent %q", upstream.got)
	}
	res := f.do("GET", "/graphql?query=%7Bme%7D", key...)
	if got := left(res); res.StatusCode != 200 || got != "76" {
		t.Errorf("a query in the target: %d, %s points are left", res.StatusCode, got)
	}
}

func TestPrice_WhatCannotBePricedIsRefusedAndFree(t *testing.T) {
	t.Parallel()
	upstream := &bodies{}
	f := newFixture(t, widePolicy, upstream)
	key := bearer(f.key("ten_a", "free"))
	for name, c := range map[string]struct {
		contentType, body string
		status            int
		code              Code
	}{
		"syntax":         {"application/json", query(`{ me `), 400, CodeBadQuery},
		"no JSON":        {"application/json", `{"query": "{me}"`, 400, CodeBadQuery},
		"two queries":    {"application/json", `{"query": "{me}", "query": "{ users { name } }"}`, 400, CodeBadQuery},
		"no query":       {"application/json", ``, 400, CodeBadQuery},
		"form":           {"text/html", query(`{me}`), 400, CodeBadQuery},
		"above the max":  {"application/json", query(`{ users(first: 1000) { name } }`), 422, CodeQueryTooComplex},
		"too deep":       {"application/json", query(strings.Repeat("{a", 200) + strings.Repeat("}", 200)), 422, CodeQueryTooComplex},
		"too large":      {"application/json", query(`{me}` + strings.Repeat(" ", graphql.MaxBodyBytes)), 422, CodeQueryTooComplex},
		"compressed":     {"application/json", "\x1f\x8b", 400, CodeBadQuery},
		"bomb of spread": {"application/json", query(bomb()), 422, CodeQueryTooComplex},
	} {
		res := f.post("/graphql", c.contentType, c.body, key...)
		p := wantRefusal(t, res, c.status, c.code)
		if res.Header.Get("Retry-After") != "" || res.Header.Get("RateLimit") != "" || p.RetryAfterMS != 0 || p.Detail == "" {
			t.Errorf("%s: %v %+v", name, res.Header, p)
		}
	}
	if f.store.asked() != 0 || len(upstream.got) != 0 {
		t.Errorf("the store was asked %d times, the upstream %d", f.store.asked(), len(upstream.got))
	}
}

// A connection that goes on in another protocol carries queries that nobody prices,
// whatever the first one costs.
func TestPrice_ConnectionsOfQueriesAreNotUpgraded(t *testing.T) {
	t.Parallel()
	upstream := &bodies{}
	f := newFixture(t, widePolicy, upstream)
	key := append(bearer(f.key("ten_a", "free")), "Connection", "Upgrade", "Upgrade", "websocket")
	wantRefusal(t, f.do("GET", "/graphql?query=%7Bme%7D", key...), 400, CodeBadQuery)
	wantRefusal(t, f.post("/graphql", "application/json", query(`{ me }`), key...), 400, CodeBadQuery)
	if len(upstream.got) != 0 {
		t.Errorf("the upstream was sent %q", upstream.got)
	}
}

// bomb has 2^40 fields in a few lines.
func bomb() string {
	var b strings.Builder
	b.WriteString("{ ...f0 } ")
	for i := range 40 {
		b.WriteString("fragment f" + string(rune('0'+i/10)) + string(rune('0'+i%10)) + " on T { a: x { ...f" +
			string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10)) + " } b: x { ...f" + string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10)) + " } } ")
	}
	return strings.Replace(b.String(), "...f0 ", "...f00 ", 1) + "fragment f40 on T { x }"
}

// Half of a body that nobody sends to its end is no reason to wait for ever, and
// one that is longer than what is looked at reaches the upstream whole.
func TestPrice_BodiesReachTheUpstreamByteForByte(t *testing.T) {
	t.Parallel()
	upstream := &bodies{}
	f := newFixture(t, widePolicy, upstream)
	for _, body := range []string{
		`{"username": "ann", "password": "x"}`, `{"username": "bob", "filler": "` + strings.Repeat("x", 300<<10) + `"}`, "",
	} {
		if res := f.post("/login", "application/json", body); res.StatusCode != 200 {
			t.Errorf("%.20s: %d", body, res.StatusCode)
		}
		if got := upstream.got[len(upstream.got)-1]; got != body {
			t.Errorf("%d bytes became %d", len(body), len(got))
		}
	}
}

// What is looked at is handed on as it came: in chunks, with its trailers, also to
// callers that wait to be asked for it.
func TestPrice_ChunksTrailersAndExpectationsAreKept(t *testing.T) {
	t.Parallel()
	const body = `{"username": "ann"}`
	type seen struct {
		body, trailer string
		length        int64
	}
	got := make(chan seen, 1)
	f := newFixture(t, widePolicy, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got <- seen{string(raw), r.Trailer.Get("X-Sum"), r.ContentLength}
	}))
	s := f.live()
	text := raw(t, s, "POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"+
		"a\r\n"+body[:10]+"\r\n9\r\n"+body[10:]+"\r\n0\r\nX-Sum: 7\r\n\r\n")
	if x := <-got; x != (seen{body, "7", -1}) || !strings.Contains(text, "200 OK") {
		t.Errorf("the upstream saw %+v, the caller %q", x, text)
	}
	text = raw(t, s, "POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 19\r\nExpect: 100-continue\r\n\r\n"+body)
	if x := <-got; x != (seen{body, "", 19}) || !strings.HasPrefix(text, "HTTP/1.1 100 Continue") || !strings.Contains(text, "200 OK") {
		t.Errorf("the upstream saw %+v, the caller %q", x, text)
	}
	text = raw(t, s, "POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
	if !strings.HasPrefix(text, "HTTP/1.1 400") || !strings.Contains(text, "Connection: close") {
		t.Errorf("a broken body is answered with %q", text)
	}
	if v := f.store.asked(); v != 2 {
		t.Errorf("the store was asked %d times for two requests", v)
	}
}

func TestPrice_AccountsInBodiesAreLimitedFromAnyAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	login := func(i int, body string) int {
		return f.post("/login", "application/json", body, "Peer", "198.51.100."+string(rune('0'+i%8))+":1").StatusCode
	}
	for i := range 7 {
		want := 204
		if i >= 5 {
			want = 429
		}
		if got := login(i, `{"username": "ann"}`); got != want {
			t.Errorf("login %d: %d, want %d", i, got, want)
		}
	}
	if got := login(0, `{"username": "bob"}`); got != 204 {
		t.Errorf("another account: %d", got)
	}
	for name, body := range map[string]string{
		"in other letters": `{"username": "ANN"}`, "escaped": `{"username": "\u0061nn"}`, "with spaces": `{ "username" : "ann" , "x": [1, {}] }`,
	} {
		if got := login(1, body); got != 429 {
			t.Errorf("%s: %d", name, got)
		}
	}
	for i := range 6 { // which of two an upstream takes nobody knows: all such share one bucket
		want := 204
		if i == 5 {
			want = 429
		}
		res := f.post("/login?username=ann", "application/json", `{"username": "u`+string(rune('0'+i))+`"}`, "Peer", "198.51.101."+string(rune('0'+i))+":1")
		if res.StatusCode != want {
			t.Errorf("login %d with a second account in the target: %d, want %d", i, res.StatusCode, want)
		}
	}
}

// The other doors price alike: a check is shown the body by proxies that pass it
// on, a decision is told it.
func TestPrice_I21_DoorsPriceAlike(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "free")
	text := query(`{ users(first: 4) { name } }`)
	r := httptest.NewRequest("POST", "/v1/check", strings.NewReader(text))
	r.RemoteAddr = "127.0.0.1:1"
	for name, value := range map[string]string{
		"Authorization": "Bearer " + key, "Content-Type": "application/json", "X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/graphql",
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	f.g.DecideHandler().ServeHTTP(w, r)
	if got := w.Header().Get("RateLimit-Remaining"); w.Code != 200 || got != "95" {
		t.Errorf("check: %d, %s left", w.Code, got)
	}
	question, _ := json.Marshal(map[string]any{
		"key": key, "method": "POST", "path": "/graphql", "headers": map[string]string{"Content-Type": "application/json"}, "body": text,
	})
	if _, d, _ := f.ask(string(question)); !d.Allowed || d.Cost != 5 || d.Limits[len(d.Limits)-1].Remaining != 90 {
		t.Errorf("decide: %+v", d)
	}
	if _, d, _ := f.ask(`{"key": "` + key + `", "method": "POST", "path": "/graphql"}`); d.Status != 400 || d.Code != CodeBadQuery {
		t.Errorf("decide without a body: %+v", d)
	}
	if _, d, _ := f.ask(`{"key": "` + key + `", "method": "POST", "path": "/graphql", "cost": 7}`); !d.Allowed || d.Cost != 7 {
		t.Errorf("decide with a cost: %+v", d)
	}
}

// What a service says a request costs counts whatever the route says; 0 is not
// "no cost" and not "the route's".
func TestDecideDoor_R016_ACostOfZeroIsNoCost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "free")
	for _, cost := range []string{"0", "-1", "9223372036854775808", `"1 "`, `"0x10"`, "1e400", "true"} {
		status, _, p := f.ask(`{"key": "` + key + `", "method": "GET", "path": "/x", "cost": ` + cost + `}`)
		if status != 400 || p.Code != CodeBadCost && p.Code != CodeBadRequest || p.Detail == "" {
			t.Errorf("cost %s: %d %+v", cost, status, p)
		}
	}
	if f.store.asked() != 0 {
		t.Errorf("the store was asked %d times", f.store.asked())
	}
	if _, d, _ := f.ask(`{"key": "` + key + `", "method": "GET", "path": "/x"}`); d.Cost != 10 {
		t.Errorf("without a cost: %+v", d)
	}
}

// a cost above all that the limit can hold is told so, at once and for
// good, whoever computed it.
func TestDecideDoor_R009_ACostThatCanNeverPassSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, widePolicy, nil)
	key := f.key("ten_a", "capped")
	for name, question := range map[string]string{
		"over a burst": `"path": "/x", "cost": 601`, "over a quota": `"path": "/x", "cost": 101`,
	} {
		_, d, _ := f.ask(`{"key": "` + key + `", "method": "GET", ` + question + `}`)
		if d.Allowed || d.Status != 422 || d.Code != CodeCostExceedsBurst || d.RetryAfterMS != 0 || d.Headers["Retry-After"] != "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if f.store.asked() != 0 {
		t.Error("the store was asked")
	}
}
