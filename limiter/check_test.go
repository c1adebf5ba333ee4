package limiter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func TestCheckCharges_BoundsTheLimitsOfOneRequest(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	var charges []limiter.Charge
	for i := range limiter.MaxCharges {
		charges = append(charges, charge(tenant("ten_a"), fmt.Sprint(i), n, 1))
	}
	if err := limiter.CheckCharges(charges); err != nil {
		t.Errorf("%d limits: %v", len(charges), err)
	}
	charges = append(charges, charge(tenant("ten_a"), "more", n, 1))
	if err := limiter.CheckCharges(charges); !errors.Is(err, limiter.ErrCharges) {
		t.Errorf("%d limits: %v, want ErrCharges", len(charges), err)
	}
}

func TestCheckCharges_NamesTheLimitAndItsFault(t *testing.T) {
	t.Parallel()
	row := tenant("ten_a")
	good := policy.Numbers{Tokens: 1, Period: 1000, Burst: 5}
	for _, c := range []struct {
		word    string
		charges []limiter.Charge
	}{
		{"nothing", []limiter.Charge{charge(row, "l", policy.Numbers{Period: 1, Burst: 1}, 1)}},
		{"tokens", []limiter.Charge{charge(row, "l", policy.Numbers{Tokens: 1 << 48, Period: 1, Burst: 1}, 1)}},
		{"burst", []limiter.Charge{charge(row, "l", policy.Numbers{Tokens: 1, Period: 1, Burst: 1 << 48}, 1)}},
		{"period", []limiter.Charge{charge(row, "l", policy.Numbers{Tokens: 1, Burst: 1}, 1)}},
		{"too large", []limiter.Charge{charge(row, "l", policy.Numbers{Tokens: 1, Period: 1 << 41, Burst: 1 << 12}, 1)}},
		{"cost", []limiter.Charge{charge(row, "l", good, 6)}},
		{"twice", []limiter.Charge{charge(row, "l", good, 1), charge(row, "l", good, 1)}},
	} {
		err := limiter.CheckCharges(c.charges)
		if !errors.Is(err, limiter.ErrCharges) || !strings.Contains(err.Error(), c.word) || !strings.Contains(err.Error(), `"l"`) {
			t.Errorf("want a word on %q of limit l: %v", c.word, err)
		}
	}
	same := []limiter.Charge{charge(row, "l", good, 1), charge(tenant("ten_b"), "l", good, 1)}
	if err := limiter.CheckCharges(same); err != nil {
		t.Errorf("one limit for two subjects: %v", err)
	}
}

// TestCheckCharges_AcceptsWhatPolicyCounts: numbers that a valid policy compiles
// to are never an error here.
func TestCheckCharges_AcceptsWhatPolicyCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := numbers(t, "any")
		charge := charge(tenant("ten_a"), "l", n, rapid.Int64Range(1, n.Burst).Draw(t, "cost"))
		if err := limiter.CheckCharges([]limiter.Charge{charge}); err != nil {
			t.Fatalf("%+v: %v", charge, err)
		}
		if n.Full()+n.Tokens >= policy.MaxUnits {
			t.Fatalf("%+v cannot be counted exactly and was accepted", n)
		}
	})
}
