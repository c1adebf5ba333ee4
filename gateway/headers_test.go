package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// fields reads a rate-limit field with a parser of RFC 9651: name → parameters,
// and the names in order.
func fields(t fataler, h http.Header, name string) (map[string]*httpsfv.Params, []string) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(name))
	if err != nil {
		t.Fatalf("%s: %q: %v", name, h.Values(name), err)
	}
	params, order := map[string]*httpsfv.Params{}, []string(nil)
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			t.Fatalf("%s: %q has a member that is no item", name, h.Values(name))
		}
		text, ok := item.Value.(string)
		if !ok || params[text] != nil {
			t.Fatalf("%s: %v is no string or stands twice", name, item.Value)
		}
		params[text] = item.Params
		order = append(order, text)
	}
	return params, order
}

func number(t fataler, p *httpsfv.Params, key string) (int64, bool) {
	t.Helper()
	v, ok := p.Get(key)
	if !ok {
		return 0, false
	}
	n, ok := v.(int64)
	if !ok || n < 0 {
		t.Fatalf("%s is %v", key, v)
	}
	return n, true
}

// checkFields holds an answer to the rules of the RateLimit fields.
func checkFields(t fataler, h http.Header) {
	t.Helper()
	policies, order := fields(t, h, "RateLimit-Policy")
	limits, limitOrder := fields(t, h, "RateLimit")
	if len(limitOrder) != len(order) {
		t.Fatalf("policies %v, limits %v", order, limitOrder)
	}
	retry, _ := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
	for i, name := range limitOrder {
		if order[i] != name {
			t.Errorf("order of policies %v, of limits %v", order, limitOrder)
		}
		q, hasQ := number(t, policies[name], "q")
		w, hasW := number(t, policies[name], "w")
		r, hasR := number(t, limits[name], "r")
		if !hasQ || !hasW || !hasR || w == 0 || r > q {
			t.Errorf("%s: q %d, w %d, r %d", name, q, w, r)
		}
		if wait, ok := number(t, limits[name], "t"); ok && retry > 0 && r == 0 && wait > retry {
			t.Errorf("%s: t %d is after Retry-After %d", name, wait, retry)
		}
	}
}

func TestHeaders_H01_EveryAnswerParsesAsStructuredFields(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, func(c *Config) { c.DenyEntries = -1 })
	key := f.key("ten_a", "free")
	var res *http.Response
	for range 3 {
		res = f.do("GET", "/v1/reports/1", bearer(key)...)
		checkFields(t, res.Header)
		_, order := fields(t, res.Header, "RateLimit-Policy")
		if len(order) != 3 || order[0] != "global.all" || order[1] != "plan.requests" || order[2] != "route:report.reports" {
			t.Errorf("policies %v", order)
		}
	}
	if got := res.Header.Get("RateLimit-Policy"); got != `"global.all";q=50000;w=1, "plan.requests";q=60;w=60, "route:report.reports";q=10;w=60` {
		t.Errorf("RateLimit-Policy: %s", got)
	}
	if got := res.Header.Get("RateLimit"); got != `"global.all";r=49990;t=1, "plan.requests";r=58;t=1, "route:report.reports";r=0;t=6` {
		t.Errorf("RateLimit: %s", got)
	}
	if res.Header.Get("RateLimit-Limit") != "10" || res.Header.Get("RateLimit-Remaining") != "0" || res.Header.Get("RateLimit-Reset") != "30" {
		t.Errorf("older fields of the deciding limit: %v", res.Header)
	}
	if res.Header.Get("Retry-After") != "30" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Retry-After %q, Cache-Control %q", res.Header.Get("Retry-After"), res.Header.Get("Cache-Control"))
	}
}

// A refusal that is remembered knows the limit that refuses; the others are not
// told, rather than invented.
func TestHeaders_H07_ARememberedRefusalTellsWhatItKnows(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	key := f.key("ten_a", "free")
	for range 3 {
		f.do("GET", "/v1/reports/1", bearer(key)...)
	}
	asked := f.store.asked()
	res := f.do("GET", "/v1/reports/1", bearer(key)...)
	checkFields(t, res.Header)
	p := wantRefusal(t, res, 429, CodeQuotaExceeded)
	if f.store.asked() != asked {
		t.Error("the store was asked again")
	}
	if got := res.Header.Get("RateLimit"); got != `"route:report.reports";r=0;t=6` || res.Header.Get("Retry-After") != "30" || p.RetryAfterMS != 30_000 {
		t.Errorf("RateLimit %q, Retry-After %q, %d ms", got, res.Header.Get("Retry-After"), p.RetryAfterMS)
	}
	if res.Header.Get("RateLimit-Limit") != "10" || res.Header.Get("RateLimit-Reset") != "30" {
		t.Errorf("older fields %v", res.Header)
	}
}

func TestHeaders_H10_OlderFieldsCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil, func(c *Config) { c.LegacyHeaders = false })
	res := f.do("GET", "/public/x")
	if res.Header.Get("RateLimit") == "" || res.Header.Get("RateLimit-Limit") != "" || res.Header.Get("RateLimit-Reset") != "" {
		t.Errorf("fields %v", res.Header)
	}
}

func TestHeaders_QuotaIsToldInWholeSeconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate policy.Rate
		q, w int64
	}{
		{policy.Rate{Tokens: 60, Period: time.Minute}, 60, 60},
		{policy.Rate{Tokens: 5, Period: 100 * time.Millisecond}, 50, 1},
		{policy.Rate{Tokens: 1, Period: 1500 * time.Millisecond}, 2, 3},
		{policy.Rate{Tokens: 1, Period: time.Millisecond}, 1000, 1},
		{policy.Rate{Tokens: 3, Period: 31 * 24 * time.Hour}, 3, 2_678_400},
		{policy.Rate{Tokens: 0, Period: time.Minute}, 0, 60},
		{policy.Rate{}, 0, 1},
		{policy.Rate{Tokens: 1 << 60, Period: time.Millisecond}, maxInteger, 1},
	} {
		if q, w := quotaOf(c.rate); q != c.q || w != c.w {
			t.Errorf("%+v: q=%d w=%d, want q=%d w=%d", c.rate, q, w, c.q, c.w)
		}
	}
}

func TestHeaders_AnyLevelsMakeValidFields(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "limits")
		v := &Verdict{Allowed: true, Status: 200, Deciding: -1, RequestID: "x"}
		for i := range n {
			rate := policy.Rate{
				Tokens: rapid.Int64Range(1, 1<<40).Draw(rt, "tokens"),
				Period: time.Duration(rapid.Int64Range(1, int64(policy.MaxPeriod/time.Millisecond)).Draw(rt, "period")) * time.Millisecond,
			}
			burst := rapid.Int64Range(1, 1<<20).Draw(rt, "burst")
			numbers := policy.Numbers{Tokens: rate.Tokens, Period: rate.Period.Microseconds(), Burst: burst}
			units := rapid.Int64Range(0, numbers.Full()).Draw(rt, "units")
			level := limiter.Level{Units: units}
			l := &policy.CompiledLimit{ID: "route:r." + strconv.Itoa(i), Rate: rate, Burst: burst, Numbers: numbers}
			state := rateState(l, numbers, policy.Provenance{}, 1)
			state.charged(level, numbers)
			v.Limits = append(v.Limits, state)
		}
		h := http.Header{}
		f.g.writeHeaders(h, v)
		checkFields(rt, h)
		left, err := strconv.ParseInt(h.Get("RateLimit-Remaining"), 10, 64)
		limit, err2 := strconv.ParseInt(h.Get("RateLimit-Limit"), 10, 64)
		if err != nil || err2 != nil || left < 0 || left > limit {
			rt.Fatalf("%d left of %d", left, limit)
		}
	})
}

// The problem is the JSON that encoding/json makes of it, byte for byte.
func TestProblem_IsSpelledAsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[a-z .:"\\<>&é]{0,12}`), rapid.String())
		p := problem{
			Type: text.Draw(rt, "type"), Title: text.Draw(rt, "title"), Status: rapid.IntRange(0, 599).Draw(rt, "status"), Detail: text.Draw(rt, "detail"),
			Code: Code(text.Draw(rt, "code")), RequestID: text.Draw(rt, "id"), Violated: rapid.SliceOfN(text, 0, 3).Draw(rt, "violated"),
			Reason: text.Draw(rt, "reason"), RetryAfterMS: rapid.Int64().Draw(rt, "ms"),
		}
		want, err := json.Marshal(p)
		if err != nil {
			rt.Fatal(err)
		}
		if got := p.appendTo(nil); string(got) != string(want) {
			rt.Fatalf("%s\n%s", got, want)
		}
	})
}

func TestHeaders_TightestIsTheOneMetFirst(t *testing.T) {
	t.Parallel()
	v := Verdict{Deciding: -1, Limits: []LimitState{{Remaining: 50, Cost: 1}, {Remaining: 40, Cost: 20}, {Remaining: 3, Cost: 1}}}
	if got := v.tightest(); got != 1 {
		t.Errorf("tightest %d: 40 tokens pay for two more requests of 20", got)
	}
	v.Deciding = 2
	if got := v.tightest(); got != 2 {
		t.Errorf("tightest of a refusal %d", got)
	}
	if got := (&Verdict{Deciding: -1}).tightest(); got != -1 {
		t.Errorf("tightest of none %d", got)
	}
}

// fataler is what checks need of a test or of a property.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}
