package contend

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/internal/lab"
	"github.com/headgate/headgate/bench/internal/meas"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func start(t *testing.T) *lab.Redis {
	t.Helper()
	r, err := lab.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

func replica(t *testing.T, r *lab.Redis, deny int) *Replica {
	t.Helper()
	replica, err := NewReplica(r, deny)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(replica.Close)
	return replica
}

func TestContenders_AdmitWhatTheyAreMeasuredWith(t *testing.T) {
	t.Parallel()
	r := start(t)
	client, err := r.NewClient(4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	throttled, throttled4, err := Throttled(client)
	if err != nil {
		t.Fatal(err)
	}
	ulule, ulule4, err := Ulule(client)
	if err != nil {
		t.Fatal(err)
	}
	vargo, err := SethVargo()
	if err != nil {
		t.Fatal(err)
	}
	bare, err := BareScript(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	ours := replica(t, r, 0)
	recorded, err := r.Record(t.Context(), func() error { _, err := ours.Decide(OneLimit())(t.Context(), 0); return err })
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]Decide{
		"ping": Ping(client), "bare": bare, "replay": Replay(client, recorded),
		"ours": ours.Decide(OneLimit()), "ours, four": ours.Decide(FourLayers()),
		"leased": ours.Decide(Requests(Leased("plan.leased", Flood()))), "address": ours.Decide(Requests(PerAddress("route:x.ip", Plenty()))),
		"redis_rate": RedisRate(client), "redis_rate, four": RedisRateFour(client), "throttled": throttled, "throttled, four": throttled4,
		"ulule": ulule, "ulule, four": ulule4, "sethvargo": vargo,
	} {
		for subject := range 20 {
			if admitted, err := d(t.Context(), subject); err != nil || !admitted {
				t.Errorf("%s, subject %d: %t, %v", name, subject, admitted, err)
			}
		}
	}
	if ok, err := RedisRateByName(client)(t.Context(), "x"); err != nil || !ok {
		t.Errorf("redis_rate by name: %t, %v", ok, err)
	}
}

func TestContenders_RefuseWhatIsUsedUp(t *testing.T) {
	t.Parallel()
	r := start(t)
	client, err := r.NewClient(4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	for name, d := range map[string]Decide{
		"ours": replica(t, r, 0).Decide(Refused()), "redis_rate": RedisRateRefused(client),
	} {
		for i, want := range []bool{true, false, false} {
			if admitted, err := d(t.Context(), 7); err != nil || admitted != want {
				t.Errorf("%s, request %d: %t, %v", name, i, admitted, err)
			}
		}
	}
}

func TestReplica_RemembersRefusalsUnlessToldNotTo(t *testing.T) {
	t.Parallel()
	r := start(t)
	for deny, want := range map[int]int64{0: 1, -1: 10} { // the first one spends what there is
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		d := replica(t, r, deny).Decide(Refused())
		if _, err := d(t.Context(), 4); err != nil { // loads the script
			t.Fatal(err)
		}
		before, err := r.ScriptCalls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := d(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
		}
		if after, err := r.ScriptCalls(t.Context()); err != nil || after-before != want {
			t.Errorf("with %d: %d calls of Redis for 10 requests, want %d, %v", deny, after-before, want, err)
		}
	}
}

func TestReplica_ADecisionWithoutRedisIsAFailure(t *testing.T) {
	t.Parallel()
	r := start(t)
	d := replica(t, r, 0).Decide(OneLimit())
	r.Stop()
	for range 10 {
		if _, err := d(t.Context(), 0); err == nil {
			t.Fatal("a decision without Redis was counted")
		}
	}
}

func TestOps_CountEachDecision(t *testing.T) {
	t.Parallel()
	asked := map[int]int{}
	d := Decide(func(_ context.Context, subject int) (bool, error) {
		asked[subject]++
		return subject%2 == 0, nil
	})
	tally, err := d.Many(Subjects)(t.Context(), 0, 0)
	if err != nil || tally.Decisions != Subjects || tally.Admitted != Subjects/2 || len(asked) != Subjects {
		t.Errorf("%+v over %d subjects, %v", tally, len(asked), err)
	}
	if tally, _ := d.HotMany(5)(t.Context(), 3, 9); tally.Decisions != 5 || asked[0] != 6 {
		t.Errorf("%+v, the hot subject was asked about %d times", tally, asked[0])
	}
	if tally, _ := d.Op()(t.Context(), 1, 1); tally.Decisions != 1 {
		t.Errorf("%+v", tally)
	}
}

func TestBound_ATokenTooManyEndsTheRun(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	b := &Bound{Numbers: policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 10}, Burst: 10, Now: func(context.Context) (time.Time, error) { return now, nil }}
	admit := b.Op(func(context.Context, int, uint64) (meas.Tally, error) {
		return meas.Tally{Decisions: 1, Admitted: 1}, nil
	})
	stretch := func(n int, took time.Duration) error {
		if err := b.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := admit(t.Context(), 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(took)
		return b.End(t.Context(), nil)
	}
	if err := stretch(15, 5*time.Second); err != nil {
		t.Errorf("burst 10 and 5 seconds at 1/s allow 15: %v", err)
	}
	if err := stretch(16, 5*time.Second); err == nil || !strings.Contains(err.Error(), "15") {
		t.Errorf("16 were admitted: %v", err)
	}
	if err := stretch(5, 5*time.Second); err != nil {
		t.Errorf("5: %v", err)
	}
	if got := b.Share(); got <= 0 || got > 1 {
		t.Errorf("share is %v", got)
	}
}

func TestRequests_ArePlain(t *testing.T) {
	t.Parallel()
	for name, requests := range map[string][]limiter.Request{"one": OneLimit(), "four": FourLayers(), "refused": Refused()} {
		if len(requests) != Subjects {
			t.Errorf("%s: %d requests", name, len(requests))
		}
		for i := range requests {
			if err := limiter.CheckDraw(&requests[i].Draw); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
