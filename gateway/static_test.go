package gateway

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// traced is what a caller sees of one decision.
type traced struct {
	status              int
	retry, limit, state string
}

// TestGateway_I11_DecidesTheSameForADayWithoutAConsole puts the same requests,
// over a day, to two gateways: one whose console is there, and one that hears
// nothing of console, database and feed any more. Redis' counters are there for
// both. What callers see is the same to the last header.
func TestGateway_I11_DecidesTheSameForADayWithoutAConsole(t *testing.T) {
	t.Parallel()
	control, cut := newFixture(t, staticPolicy, nil), newFixture(t, staticPolicy, nil)
	keys := [2][]string{}
	for i, f := range []*fixture{control, cut} {
		for n := range 4 {
			keys[i] = append(keys[i], f.key(fmt.Sprintf("ten_%d", n), "free"))
		}
	}
	rng := rand.New(rand.NewPCG(11, 24))
	refused := 0
	for at := time.Duration(0); at < 24*time.Hour; {
		step := time.Duration(rng.IntN(60)) * time.Second
		at += step
		control.advance(step)
		cut.advance(step)
		cutOff(cut, at)
		who, path := rng.IntN(4), []string{"/a", "/login", "/b/c"}[rng.IntN(3)]
		for range 1 + rng.IntN(6) {
			a, b := trace(control, keys[0][who], path), trace(cut, keys[1][who], path)
			if a != b {
				t.Fatalf("after %v %s of tenant %d: %+v with a console, %+v without", at, path, who, a, b)
			}
			if a.status == http.StatusTooManyRequests {
				refused++
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d requests were refused: the run says little", refused)
	}
}

const staticPolicy = `
apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 6/minute, burst: 8}]
    quota: {amount: 20000, counts: requests, period: month, alignment: calendar, time_zone: UTC, over: block}
routes:
  - {name: login, match: [/login], identity: ip, motive: abuse, limits: [{name: per-ip, per: ip, rate: 3/minute, burst: 4}], on_store_failure: {mode: closed}}
  - {name: rest, match: ["/"], identity: api_key, motive: fairness, on_store_failure: {mode: open, fallback: {rate: 1/minute, burst: 1}}}
`

// cutOff is a replica as it stands some time after its last word from anyone.
func cutOff(f *fixture, since time.Duration) {
	f.policies.mu.Lock()
	defer f.policies.mu.Unlock()
	f.policies.status.StampAge, f.policies.status.Reachable = since, false
	f.policies.status.NACK = &policy.NACK{Version: 43, Code: policy.NACKMissingBody, Detail: "there is no body of version 43"}
	f.reporter.mu.Lock()
	defer f.reporter.mu.Unlock()
	f.reporter.err = errors.New("refused")
}

func trace(f *fixture, key, path string) traced {
	r := f.do(http.MethodGet, path, bearer(key)...)
	defer func() { _ = r.Body.Close() }()
	return traced{r.StatusCode, r.Header.Get("Retry-After"), r.Header.Get("RateLimit-Policy"), r.Header.Get("RateLimit")}
}
