package policy_test

import (
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/headgate/headgate/policy"
)

func TestGrants_R111_AGrantIsOnTopOfItsOwnPeriodAlone(t *testing.T) {
	t.Parallel()
	november, december := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	g, err := policy.CompileGrants([]policy.Grant{{november, 50}, {november, 7}, {time.Unix(0, 0), 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what                       string
		start                      time.Time
		amount, most, wantA, wantM int64
		granted                    int64
	}{
		{"of its period, twice", november, 500, 0, 557, 0, 57},
		{"the next period", december, 500, 900, 500, 900, 0},
		{"the room for overage stays", november, 500, 900, 557, 957, 57},
		{"a lifetime", time.Unix(0, 0), 5, 0, 8, 0, 3},
		{"an amount of 0", november, 0, 0, 57, 0, 57},
		{"no further than can be counted", november, policy.MaxAmount - 1, policy.MaxAmount, policy.MaxAmount, policy.MaxAmount, 57},
	} {
		amount, most, from := g.Add(c.start.UnixMicro(), c.amount, c.most, policy.Provenance{Source: "plan pro"})
		if amount != c.wantA || most != c.wantM || from.Granted != c.granted || from.Source != "plan pro" {
			t.Errorf("%s: %d, %d, %+v; want %d, %d, %d granted", c.what, amount, most, from, c.wantA, c.wantM, c.granted)
		}
	}
	if a, m, p := g.Add(november.UnixMicro(), 0, 0, policy.Provenance{Unlimited: true}); a != 0 || m != 0 || p.Granted != 0 {
		t.Errorf("unlimited: %d, %d, %+v", a, m, p)
	}
	var none policy.Grants
	if a, m, _ := none.Add(0, 5, 6, policy.Provenance{}); a != 5 || m != 6 || none.Of(0) != 0 {
		t.Errorf("none: %d, %d", a, m)
	}
}

// TestGrants_R111_NeverReduce whatever the numbers are.
func TestGrants_R111_NeverReduce(t *testing.T) {
	t.Parallel()
	never := func(granted, amount, most uint32) bool {
		g, err := policy.CompileGrants([]policy.Grant{{time.Unix(0, 0), int64(granted) + 1}})
		if err != nil {
			return false
		}
		a, m, _ := g.Add(0, int64(amount), int64(most), policy.Provenance{})
		return a >= int64(amount) && m >= int64(most) && (most == 0) == (m == 0)
	}
	if err := quick.Check(never, nil); err != nil {
		t.Error(err)
	}
}

func TestCompileGrants_NamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := policy.CompileGrants([]policy.Grant{{time.Unix(1, 0), 0}, {time.Unix(1, 0), -5}, {time.Unix(-1, 0), 1}, {time.Unix(1, 0), policy.MaxAmount + 1}})
	for _, want := range []string{"grants[0].amount: 0", "grants[1].amount: -5", "grants[2].start", "grants[3].amount"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := policy.CompileGrants(make([]policy.Grant, policy.MaxGrants+1)); err == nil || !strings.Contains(err.Error(), "at most 50") {
		t.Errorf("too many: %v", err)
	}
	if g, err := policy.CompileGrants(nil); g != nil || err != nil {
		t.Errorf("none: %v, %v", g, err)
	}
}
