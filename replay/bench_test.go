package replay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/replay"
)

// BenchmarkTest runs a suite of 100 small tests against a policy of few and of many
// routes, as each save of a draft does.
func BenchmarkTest(b *testing.B) {
	for _, routes := range []int{1, 9_999} {
		b.Run(fmt.Sprint(routes, " routes"), func(b *testing.B) {
			var policy, tests strings.Builder
			policy.WriteString(one(60, 60))
			for i := range routes {
				fmt.Fprintf(&policy, `
  - name: extra-%d
    match: ["GET /extra-%d"]
    identity: ip
    motive: fairness
    limits: [{name: per-ip, per: ip, rate: 5/minute, burst: 5}]
    on_store_failure: {mode: closed}`, i, i)
			}
			tests.WriteString("tests:\n")
			for i := range 100 {
				fmt.Fprintf(&tests, "  - {name: %d-a, steps: [{send: 6, request: GET /extra-0, expect: {refused_by: 'route:extra-0.per-ip'}}]}\n", i)
			}
			d, s := documentOf(b, policy.String()), suiteOf(b, tests.String())
			for b.Loop() {
				if results, err := (replay.Engine{}).Test(b.Context(), d, s, nil); err != nil || !results[99].Passed {
					b.Fatal(results, err)
				}
			}
		})
	}
}
