package limiter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

// A service that limits one thing itself, without a gateway: two a minute for
// each tenant.
func ExampleLimiter() {
	noon := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	l, err := limiter.New(limiter.Config{Store: memstore.New(func() time.Time { return noon })})
	if err != nil {
		panic(err)
	}
	numbers, err := policy.NumbersOf(policy.Rate{Tokens: 2, Period: time.Minute}, 2)
	if err != nil {
		panic(err)
	}
	request := limiter.Request{
		Route: "report",
		Draw: limiter.Draw{Charges: []limiter.Charge{{
			Row:     limiter.Row{Kind: limiter.RowTenant, Tenant: "ten_a"},
			LimitID: "plan.requests", Hash: policy.LimitHash("plan.requests"),
			Numbers: numbers, Cost: 1,
		}}},
		Fail: policy.StoreFailure{Mode: policy.FailClosed},
	}
	for range 3 {
		d := l.Decide(context.Background(), request)
		fmt.Println(d.Reason, d.Levels[0].Remaining(numbers), d.RetryAfterSeconds())
	}
	// Output:
	// admitted 1 0
	// admitted 0 0
	// limit 0 30
}
