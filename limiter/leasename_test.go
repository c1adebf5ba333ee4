package limiter

import (
	"crypto/rand"
	"testing"
)

func TestLeaseName_TellsReplicaAndSecondAndPassesAsAName(t *testing.T) {
	t.Parallel()
	for _, second := range []int64{0, 1, 1_796_082_592, 1<<35 - 1} {
		name := LeaseName(LeaseTag("gw_a"), second, rand.Text())
		tag, at, ok := ReadLeaseName(name)
		if !ok || tag != LeaseTag("gw_a") || at != second {
			t.Errorf("%q: %s, %d, %t", name, tag, at, ok)
		}
		lease := Lease{Max: 1, ID: name, HoldMicros: 1}
		if why := lease.problem(); why != "" {
			t.Errorf("%q: %s", name, why)
		}
	}
	if LeaseTag("gw_a") == LeaseTag("gw_b") || len(LeaseTag("")) != leaseTag {
		t.Error("tags do not tell replicas apart")
	}
}

func TestLeaseName_NoTwoAreTheSame(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 10_000 {
		name := LeaseName(LeaseTag("gw_a"), 1, rand.Text())
		if seen[name] {
			t.Fatal("twice")
		}
		seen[name] = true
	}
}

func FuzzReadLeaseName(f *testing.F) {
	f.Add(LeaseName(LeaseTag("gw_a"), 1_796_082_592, rand.Text()))
	f.Add("")
	f.Add("AAAAAAAAAAAAAAAAAAAAAAAAA1")
	f.Fuzz(func(t *testing.T, name string) {
		tag, second, ok := ReadLeaseName(name)
		if !ok {
			return
		}
		if again := LeaseName(tag, second, name[leaseTag+leaseSecond:]); again != name || second < 0 || second >= 1<<35 {
			t.Errorf("%q read as %s, %d, which is %q", name, tag, second, again)
		}
	})
}
