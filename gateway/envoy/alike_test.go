package envoy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// told is an answer as the caller of the API sees it.
type told struct {
	Status int
	Header http.Header
	Body   string
}

// ask is one request of a trace.
type ask struct {
	method, path, from, key string
	fields                  http.Header
	pause                   time.Duration
}

// drawAsk is any request of a small world, so that limits are met.
func drawAsk(t *rapid.T, keys []string) ask {
	a := ask{
		method: rapid.SampledFrom([]string{"GET", "GET", "GET", "POST", "get", "OPTIONS"}).Draw(t, "method"),
		path: rapid.SampledFrom([]string{
			"/v1/reports/1", "/v1/reports/2?x=1", "/ten", "/ten/", "/%74en", "/jobs", "/mine", "/login", "/public/x", "/stopped", "/nowhere", "/a/../b", "//",
		}).Draw(t, "path"),
		from:  rapid.SampledFrom([]string{"127.0.0.1", "127.0.0.2"}).Draw(t, "from"),
		key:   rapid.SampledFrom(keys).Draw(t, "key"),
		pause: time.Duration(rapid.Int64Range(0, 3_000_000).Draw(t, "pause")) * time.Microsecond,
	}
	a.fields = http.Header{"X-Request-Id": {"request-1"}}
	for name, values := range map[string][]string{
		"Origin": {"https://a.example"}, "X-User-Id": {"u1", "u2"}, "X-Headgate-Debug": {"1"}, "Access-Control-Request-Method": {"GET"},
	} {
		if rapid.IntRange(0, 3).Draw(t, name) == 0 {
			a.fields.Set(name, rapid.SampledFrom(values).Draw(t, "value"))
		}
	}
	if a.key != "" {
		a.fields.Set("Authorization", "Bearer "+a.key)
	}
	return a
}

// overHTTP asks forward authentication.
func (f *fixture) overHTTP(a ask) told {
	res := f.check(a.from, a.method, a.path, a.fields)
	body, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	h := res.Header
	for name := range h {
		if forUpstream(name) || name == "X-Headgate-Status" {
			h.Del(name)
		}
	}
	return told{res.StatusCode, h, string(body)}
}

// overAuthz asks Envoy's external authorization.
func (f *fixture) overAuthz(a ask) told {
	fields := map[string]string{}
	for name := range a.fields {
		fields[name] = a.fields.Get(name)
	}
	r := f.authorize(checkRequest(a.from, a.method, a.path, fields))
	if ok := r.GetOkResponse(); ok != nil {
		return told{http.StatusOK, valuesOf(ok.GetResponseHeadersToAdd()), ""}
	}
	status, h, body := denial(f.t.(*testing.T), r)
	return told{status, h, body}
}

// overRateLimits asks Envoy's rate limit service. It knows no status but one for
// all refusals.
func (f *fixture) overRateLimits(a ask) told {
	pairs := []string{keyMethod, a.method, keyPath, a.path, keyAddress, a.from}
	for name := range a.fields {
		pairs = append(pairs, keyHeader+name, a.fields.Get(name))
	}
	r := f.ask(descriptor(pairs...))
	out := told{http.StatusOK, headers(r), string(r.GetRawBody())}
	if r.GetOverallCode() != okay {
		out.Status = http.StatusTooManyRequests
	}
	return out
}

// counts are a gateway's accounts of its decisions.
func (f *fixture) counts() []string {
	f.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	f.g.AdminHandler().ServeHTTP(w, r)
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		for _, name := range []string{"headgate_received_total", "headgate_decisions_total", "headgate_cached_refusals_total"} {
			if strings.HasPrefix(line, name) {
				out = append(out, line)
			}
		}
	}
	return out
}

// The doors differ in how they ask and in nothing else: the same trace gets the
// same decisions, fields and bodies, byte for byte, and is counted the same.
func TestDoors_I21_R069_EnvoysServicesAnswerAsTheHTTPDoors(t *testing.T) {
	t.Parallel()
	check, authz, limits := newFixture(t), newFixture(t), newFixture(t)
	keys := []string{"", "no key at all", check.tenant("ten_a"), check.tenant("ten_b")}
	for _, f := range []*fixture{authz, limits} {
		f.directory.keys, f.directory.tenants = check.directory.keys, check.directory.tenants
	}
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			a := drawAsk(t, keys)
			want, one, two := check.overHTTP(a), authz.overAuthz(a), limits.overRateLimits(a)
			if !reflect.DeepEqual(one, want) {
				t.Fatalf("%+v: authorization says %+v, /v1/check %+v", a, one, want)
			}
			if want.Status != http.StatusOK {
				want.Status = http.StatusTooManyRequests
			}
			if !reflect.DeepEqual(two, want) {
				t.Fatalf("%+v: rate limits say %+v, /v1/check %+v", a, two, want)
			}
			for _, f := range []*fixture{check, authz, limits} {
				f.advance(a.pause)
			}
		}
	})
	want := check.counts()
	if len(want) < 5 {
		t.Errorf("little is counted: %q", want)
	}
	for name, f := range map[string]*fixture{"authorization": authz, "rate limits": limits} {
		if got := f.counts(); !slices.Equal(got, want) {
			t.Errorf("%s counted %q, /v1/check %q", name, got, want)
		}
	}
}
