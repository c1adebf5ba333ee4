package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
)

// month is a period that Redis is in.
func month(tenant string, units int64) policy.QuotaCounter {
	now := time.Now().UTC()
	start := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return policy.QuotaCounter{Tenant: tenant, Start: start, End: start.AddDate(0, 1, 0), Units: units}
}

// draw takes units of a recorded quota as a gateway does.
func draw(t *testing.T, store *redisstore.Store, c policy.QuotaCounter, cost int64) limiter.Outcome {
	t.Helper()
	q := limiter.Quota{
		Row: limiter.Row{Kind: limiter.RowTenant, Tenant: c.Tenant}, LimitID: policy.QuotaID, Hash: policy.LimitHash(policy.QuotaID),
		Start: c.Start.UnixMicro(), Cost: cost, Amount: 1000, Most: 1000, Recorded: true,
	}
	if !c.End.IsZero() {
		q.End = c.End.UnixMicro()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := store.Take(ctx, &limiter.Draw{Quotas: []limiter.Quota{q}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// marked leaves marks as a console does that has rebuilt lanes.
func marked(t *testing.T, pub *Publisher, lanes ...int) {
	t.Helper()
	if err := pub.BeginQuotas(t.Context(), lanes, "n"); err != nil {
		t.Fatal(err)
	}
	if lost, err := pub.MarkQuotas(t.Context(), lanes, "n", "now"); err != nil || len(lost) > 0 {
		t.Fatal(lost, err)
	}
}

// TestMarkQuotas_I12_ALossInTheMiddleOfARebuildingIsNoticed, and so is another console
// that rebuilds at the same time.
func TestMarkQuotas_I12_ALossInTheMiddleOfARebuildingIsNoticed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lanes := []int{1, 2, 3}
	begin := func(name string, lanes ...int) {
		t.Helper()
		if err := r.pub.BeginQuotas(t.Context(), lanes, name); err != nil {
			t.Fatal(err)
		}
	}
	mark := func(name string, want ...int) {
		t.Helper()
		lost, err := r.pub.MarkQuotas(t.Context(), lanes, name, "w")
		if err != nil || fmt.Sprint(lost) != fmt.Sprint(want) {
			t.Errorf("%s: lost %v, %v; want %v", name, lost, err, want)
		}
	}
	begin("first", lanes...)
	r.do("FLUSHALL")
	mark("first", 1, 2, 3)
	begin("first", lanes...)
	begin("second", 2)
	mark("first", 2)
	mark("second", 1, 3)
	marks, err := r.pub.QuotaMarks(t.Context())
	if err != nil || marks[0] != "" || marks[1] != "w" || marks[2] != "w" || marks[3] != "w" {
		t.Errorf("marks %v, %v", marks[:4], err)
	}
	r.do("PEXPIRE", r.pub.keys.quotaMark(1), "60000")
	if err := r.pub.KeepQuotas(t.Context(), []int{1, 200}); err != nil {
		t.Fatal(err)
	}
	if ttl := r.client.PTTL(t.Context(), r.pub.keys.quotaMark(1)).Val(); ttl < markTTL-time.Minute {
		t.Errorf("a mark that was kept up stays for %v", ttl)
	}
	if n := r.client.Exists(t.Context(), r.pub.keys.quotaMark(200)).Val(); n != 0 {
		t.Error("keeping up made a mark")
	}
}

// quotaWire holds on one kind of servers that console and gateways mean the same keys.
func quotaWire(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	pub, err := NewPublisher(Config{Client: client, Deployment: deployment})
	if err != nil {
		t.Fatal(err)
	}
	store := redisstore.New(client, redisstore.Options{Namespace: "hg", Deployment: deployment})
	life := policy.QuotaCounter{Tenant: "ten_life", Start: time.Unix(0, 0)}
	counters := []policy.QuotaCounter{month("ten_a", 0), month("ten_b", 0), life}
	for _, c := range counters {
		if out := draw(t, store, c, 1); out.Admitted || !out.Quotas[0].Lost {
			t.Errorf("%s before there is a mark: %+v", c.Tenant, out)
		}
	}
	lanes := make([]int, policy.TenantLanes)
	for i := range lanes {
		lanes[i] = i
	}
	marked(t, pub, lanes...)
	for i, c := range counters {
		if out := draw(t, store, c, int64(i)+1); !out.Admitted || out.Quotas[0].Used != int64(i)+1 {
			t.Errorf("%s: %+v", c.Tenant, out)
		}
		counters[i].Units = 100
	}
	units, err := pub.QuotaUnits(t.Context(), counters)
	if err != nil || fmt.Sprint(units) != "[1 2 3]" {
		t.Errorf("read %v, %v", units, err)
	}
	if units, err = pub.RaiseQuotas(t.Context(), counters); err != nil || fmt.Sprint(units) != "[100 100 100]" {
		t.Errorf("raised %v, %v", units, err)
	}
	for i := range counters {
		counters[i].Units = 10 * int64(i+1)
	}
	if units, err = pub.LowerQuotas(t.Context(), counters); err != nil || fmt.Sprint(units) != "[90 80 70]" {
		t.Errorf("lowered %v, %v", units, err)
	}
	if out := draw(t, store, counters[2], 5); out.Quotas[0].Used != 75 {
		t.Errorf("a gateway after it: %+v", out)
	}
	marks, err := pub.QuotaMarks(t.Context())
	if err != nil || len(marks) != policy.TenantLanes || marks[0] != "now" || marks[255] != "now" {
		t.Errorf("marks %v, %v", marks, err)
	}
}

func TestQuota_I12_ConsoleAndGatewaysMeanTheSameKeys(t *testing.T) {
	t.Parallel()
	quotaWire(t, newRig(t).client)
}

func TestQuota_I12_InAClusterToo(t *testing.T) {
	t.Parallel()
	quotaWire(t, clientFor(t, testkit.Cluster(t).URL()))
}

func TestRaiseQuotas_NeverLowersAndLowerQuotasNeverRaises(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := month("ten_a", 50)
	want := func(what string, got []int64, err error, units int64) {
		t.Helper()
		if err != nil || len(got) != 1 || got[0] != units {
			t.Errorf("%s: %v, %v; want %d", what, got, err, units)
		}
	}
	got, err := r.pub.LowerQuotas(t.Context(), []policy.QuotaCounter{c})
	want("lower what is not there", got, err, policy.AbsentUnits)
	if n := r.client.Exists(t.Context(), r.pub.keys.quotaCounter(c)).Val(); n != 0 {
		t.Error("lowering made a counter")
	}
	got, err = r.pub.RaiseQuotas(t.Context(), []policy.QuotaCounter{c})
	want("raise what is not there", got, err, 50)
	c.Units = 20
	got, err = r.pub.RaiseQuotas(t.Context(), []policy.QuotaCounter{c})
	want("raise to less", got, err, 50)
	c.Units = 80
	got, err = r.pub.LowerQuotas(t.Context(), []policy.QuotaCounter{c})
	want("lower by more than is there", got, err, 0)
	c.Units = policy.MaxAmount
	got, err = r.pub.RaiseQuotas(t.Context(), []policy.QuotaCounter{c})
	want("raise to the most", got, err, policy.MaxAmount)
	for _, units := range []int64{-1, policy.MaxUnits} {
		c.Units = units
		if _, err := r.pub.RaiseQuotas(t.Context(), []policy.QuotaCounter{c}); err == nil {
			t.Errorf("raised to %d", units)
		}
	}
}

// TestRaiseQuotas_R034_KeepsACounterAnHourBeyondItsPeriod, a lifetime's for 400 days.
func TestRaiseQuotas_R034_KeepsACounterAnHourBeyondItsPeriod(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	past := policy.QuotaCounter{Tenant: "ten_a", Start: time.Unix(1000, 0), End: time.Unix(2000, 0), Units: 1}
	current := month("ten_b", 1)
	life := policy.QuotaCounter{Tenant: "ten_c", Start: time.Unix(0, 0), Units: 1}
	if _, err := r.pub.RaiseQuotas(t.Context(), []policy.QuotaCounter{past, current, life}); err != nil {
		t.Fatal(err)
	}
	for c, want := range map[policy.QuotaCounter]time.Duration{
		past: time.Hour, current: time.Until(current.End) + time.Hour, life: 400 * 24 * time.Hour,
	} {
		got := r.client.PTTL(t.Context(), r.pub.keys.quotaCounter(c)).Val()
		if got < want-time.Minute || got > want+time.Minute {
			t.Errorf("%s is kept for %v, want %v", c.Tenant, got, want)
		}
	}
	marked(t, r.pub, 7)
	if ttl := r.client.PTTL(t.Context(), r.pub.keys.quotaMark(7)).Val(); ttl < markTTL-time.Minute || ttl > markTTL {
		t.Errorf("a mark is kept for %v", ttl)
	}
}

// TestRaiseQuotas_LoseNothingThatGatewaysCountMeanwhile.
func TestRaiseQuotas_LoseNothingThatGatewaysCountMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	store := redisstore.New(r.client, redisstore.Options{Namespace: "hg", Deployment: deployment})
	c := month("ten_a", 1)
	marked(t, r.pub, policy.TenantLane("ten_a"))
	const draws = 300
	var counting sync.WaitGroup
	counting.Go(func() {
		for range draws {
			draw(t, store, c, 1)
		}
	})
	for range 100 { // a raise to less than there is, and one back and forth
		if _, err := r.pub.RaiseQuotas(t.Context(), []policy.QuotaCounter{c}); err != nil {
			t.Error(err)
		}
	}
	counting.Wait()
	units, err := r.pub.QuotaUnits(t.Context(), []policy.QuotaCounter{c})
	if err != nil || units[0] < draws || units[0] > draws+1 {
		t.Errorf("%v, %v; want %d, or one more if the raise came first", units, err, draws)
	}
}

// TestQuotaUnits_WhatIsNoCountIsNone, whatever a stranger wrote, and it is written over.
func TestQuotaUnits_WhatIsNoCountIsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, text := range []string{"", "abc", "-5", "1.5", "9007199254740992", "1e3", "0x10", "inf", "nan", " 7"} {
		c := month(fmt.Sprint("ten_", i), 40)
		r.do("SET", r.pub.keys.quotaCounter(c), text)
		units, err := r.pub.QuotaUnits(t.Context(), []policy.QuotaCounter{c})
		if err != nil || units[0] != policy.AbsentUnits {
			t.Errorf("%q reads as %v, %v", text, units, err)
		}
	}
	c := month("ten_list", 40)
	r.do("LPUSH", r.pub.keys.quotaCounter(c), "1")
	if units, err := r.pub.QuotaUnits(t.Context(), []policy.QuotaCounter{c}); err != nil || units[0] != policy.AbsentUnits {
		t.Errorf("a list reads as %v, %v", units, err)
	}
	if units, err := r.pub.RaiseQuotas(t.Context(), []policy.QuotaCounter{c}); err != nil || units[0] != 40 {
		t.Errorf("a list is raised to %v, %v", units, err)
	}
}

func TestQuota_SaysWhenRedisIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := []policy.QuotaCounter{month("ten_a", 1)}
	_, errMarks := r.pub.QuotaMarks(ctx)
	_, errUnits := r.pub.QuotaUnits(ctx, c)
	_, errRaise := r.pub.RaiseQuotas(ctx, c)
	_, errMark := r.pub.MarkQuotas(ctx, []int{1}, "n", "x")
	for i, err := range []error{errMarks, errUnits, errRaise, errMark, r.pub.BeginQuotas(ctx, []int{1}, "n"), r.pub.KeepQuotas(ctx, []int{1})} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if err := r.pub.BeginQuotas(t.Context(), []int{256}, "n"); err == nil {
		t.Error("lane 256 was begun")
	}
	if _, err := r.pub.MarkQuotas(t.Context(), []int{-1}, "n", "x"); err == nil {
		t.Error("lane -1 was marked")
	}
}

func FuzzCountOf_ReadsWholeNumbersAlone(f *testing.F) {
	for _, seed := range []string{"0", "7", "9007199254740991", "9007199254740992", "-1", "+5", "007", "1e3", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := countOf(text)
		if n < policy.AbsentUnits || n >= policy.MaxUnits {
			t.Errorf("%q reads as %d", text, n)
		}
		if back, err := strconv.ParseInt(text, 10, 64); n >= 0 && (err != nil || back != n) {
			t.Errorf("%q reads as %d", text, n)
		}
	})
}
