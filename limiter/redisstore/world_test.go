package redisstore_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// closed admits nothing when the store fails, so that a failure shows in a test.
var closed = policy.StoreFailure{Mode: policy.FailClosed}

// limiterOn has a budget for a busy test machine.
func limiterOn(t testing.TB, store limiter.Store, now func() time.Time) *limiter.Limiter {
	t.Helper()
	l, err := limiter.New(limiter.Config{Store: store, Now: now, Budget: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// rate is tokens per period with a burst, as a policy says it.
func rate(t testing.TB, tokens int64, period time.Duration, burst int64) policy.Numbers {
	t.Helper()
	n, err := policy.NumbersOf(policy.Rate{Tokens: tokens, Period: period}, burst)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
