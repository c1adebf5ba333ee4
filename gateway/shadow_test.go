package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// shadowPolicy has a limit, places and a quota in a mode, or none of them.
func shadowPolicy(mode string) string {
	const source = `
apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 6000/minute, burst: 6000}]
    QUOTA
routes:
  - name: all
    match: ["/"]
    identity: api_key
    motive: fairness
    limits: [LIMIT{name: wide, per: tenant, rate: 60000/minute, burst: 60000}]
    PLACES
    on_store_failure: {mode: closed}
`
	limit, quota, places := "", "", ""
	if mode != "" {
		limit = "{name: few, per: tenant, rate: 60/minute, burst: 20, mode: " + mode + "}, "
		quota = "quota: {amount: 60, counts: cost, period: day, over: block, mode: " + mode + "}"
		places = "concurrency: {per: tenant, max: 3, lease: 5s, mode: " + mode + "}"
	}
	return strings.NewReplacer("LIMIT", limit, "QUOTA", quota, "PLACES", places).Replace(source)
}

func TestShadow_I22_IsCountedAsEnforcedAndChangesNoByte(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		with := func(mode string) *fixture {
			return newFixture(t, shadowPolicy(mode), nil, func(c *Config) { c.DebugHeader = true })
		}
		none, shadow, enforced := with(""), with("shadow"), with("enforce")
		all := []*fixture{none, shadow, enforced}
		for _, f := range all {
			f.key("ten_a", "free")
		}
		ask := func(f *fixture, cost int64) Verdict {
			return f.g.Decide(t.Context(), &Inbound{Method: "GET", EscapedPath: "/x", Tenant: "ten_a", Header: http.Header{}, Cost: cost, RequestID: "the-same-one"})
		}
		for range rapid.IntRange(1, 40).Draw(rt, "requests") {
			cost := rapid.Int64Range(1, 15).Draw(rt, "cost")
			for _, f := range all {
				f.g.limiter.ForgetAll() // what is remembered knows less than what is asked
			}
			a, b, c := ask(none, cost), ask(shadow, cost), ask(enforced, cost)
			b.Lease = "" // of the shadow's place, at a door that would have to release it
			x, y := none.g.Answer(&a, "", false), shadow.g.Answer(&b, "", false)
			if x.Status != y.Status || fmt.Sprint(x.Header) != fmt.Sprint(y.Header) || !bytes.Equal(x.Body, y.Body) {
				rt.Fatalf("without and with a shadow:\n%v\n%v", x, y)
			}
			would := map[string]bool{}
			for i := range b.Shadows {
				would[b.Shadows[i].ID] = b.Shadows[i].violated()
			}
			for i := range c.Limits {
				if l := &c.Limits[i]; l.violated() != would[l.ID] {
					rt.Fatalf("%s: enforced %+v, shadows %+v", l.ID, l, b.Shadows)
				}
			}
			if len(would) != 3 || c.Allowed == (would["route:all.few"] || would["route:all.concurrency"] || would["plan.quota"]) {
				rt.Fatalf("enforced admits: %t, shadows %+v", c.Allowed, b.Shadows)
			}
			step := time.Duration(rapid.Int64Range(0, 4000).Draw(rt, "ms")) * time.Millisecond
			for _, f := range all {
				f.advance(step)
			}
		}
	})
}

// What a shadow would have done is told to who may ask, and counted.
func TestShadow_IsToldToWhoAsksAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, shadowPolicy("shadow"), nil, func(c *Config) { c.DebugHeader = true })
	key := f.key("ten_a", "free")
	for range 25 {
		f.do("GET", "/", bearer(key)...)
	}
	if res := f.do("GET", "/", bearer(key)...); res.StatusCode != 204 || res.Header.Get(headerShadow) != "" || strings.Contains(fmt.Sprint(res.Header), "few") {
		t.Errorf("not asked: %d %v", res.StatusCode, res.Header)
	}
	res := f.do("GET", "/", append(bearer(key), headerDebug, "1")...)
	if res.StatusCode != 204 || res.Header.Get(headerShadow) != "route:all.few" {
		t.Errorf("asked: %d %v", res.StatusCode, res.Header)
	}
	question := fmt.Sprintf(`{"key": %q, "method": "GET", "path": "/"}`, key)
	_, d, _ := f.ask(question)
	if len(d.Shadows) != 0 {
		t.Errorf("decide, not asked: %+v", d.Shadows)
	}
	if n := counter(t, f.g, "headgate_shadow_refusals_total", "all", "rate"); n < 6 {
		t.Errorf("%v shadow refusals are counted", n)
	}
	quiet := newFixture(t, shadowPolicy("shadow"), nil)
	key = quiet.key("ten_a", "free")
	for range 25 {
		if res := quiet.do("GET", "/", append(bearer(key), headerDebug, "1")...); res.Header.Get(headerShadow) != "" {
			t.Fatalf("told although debugging is off: %v", res.Header)
		}
	}
}
