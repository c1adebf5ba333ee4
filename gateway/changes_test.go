package gateway

import (
	"strings"
	"testing"
	"time"
)

// TestPolicy_I14_APublishDropsWhatIsRememberedOfRefusals: a version that allowed more
// has come and gone, and the replica has not been asked meanwhile.
func TestPolicy_I14_APublishDropsWhatIsRememberedOfRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testPolicy, nil)
	other := f.second(func(c *Config) { c.Policies = &fakePolicies{} })
	wide := &fakePolicies{}
	wide.set(snapshot(t, 43, strings.ReplaceAll(testPolicy, "per: ip, rate: 5/minute, burst: 5", "per: ip, rate: 5/second, burst: 5")))
	other.g.cfg.Policies = wide
	ask := func(f *fixture) bool { return f.do("GET", "/public/x").StatusCode < 300 }
	for ask(f) {
	}
	if ask(f) || ask(other) {
		t.Fatal("admitted beyond the burst")
	}
	f.advance(time.Second)
	if !ask(other) {
		t.Fatal("refused within what the wide version allows")
	}
	if ask(f) {
		t.Fatal("the first replica asks the store: it has forgotten already")
	}
	f.policies.set(snapshot(t, 44, testPolicy))
	if !ask(f) {
		t.Error("refused by memory, although the bucket has refilled under the version between")
	}
}
