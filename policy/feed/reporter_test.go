package feed

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

func (r *rig) reporter() *Reporter {
	r.t.Helper()
	rep, err := NewReporter(Config{Client: r.newClient(), Deployment: deployment})
	if err != nil {
		r.t.Fatal(err)
	}
	return rep
}

func TestBeat_TellsLiveReplicasAndRedisTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rep := r.reporter()
	for i := range 3 {
		live, now, err := rep.Beat(t.Context(), policy.Heartbeat{ID: fmt.Sprintf("gw_%d", i), Version: 42})
		if err != nil || live != i+1 {
			t.Fatalf("beat %d: %d live, %v", i, live, err)
		}
		if d := time.Since(now); d < -time.Minute || d > time.Minute {
			t.Fatalf("Redis' time is %v", now)
		}
	}
	if live, _, err := rep.Beat(t.Context(), policy.Heartbeat{ID: "gw_0"}); err != nil || live != 3 {
		t.Fatalf("a second beat of the same replica: %d live, %v", live, err)
	}
	// One that was last heard of 61 s ago is gone, one of 59 s ago is not.
	ms := time.Now().UnixMilli()
	r.do("ZADD", "hg:replica:index", ms-61_000, "gw_1", ms-55_000, "gw_2")
	if live, _, err := rep.Beat(t.Context(), policy.Heartbeat{ID: "gw_0"}); err != nil || live != 2 {
		t.Fatalf("%d live, %v; want 2", live, err)
	}
	for _, id := range []string{"", "index"} {
		if _, _, err := rep.Beat(t.Context(), policy.Heartbeat{ID: id}); err == nil {
			t.Errorf("replica id %q is accepted", id)
		}
	}
}

func TestReplicas_GivesHeartbeatsWithTheirTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if got, err := r.pub.Replicas(t.Context()); err != nil || len(got) != 0 {
		t.Fatalf("%v, %v before there are any", got, err)
	}
	rep := r.reporter()
	h := policy.Heartbeat{
		ID: "gw_a", Boot: "b1", Zone: "z1", Version: 42, Digest: "sha256:ab", Mode: policy.ModeNormal,
		NACK: &policy.NACK{Version: 43, Code: policy.NACKTooNew}, Directory: policy.Place{Epoch: "e1", Seq: 7}, DecisionsPerS: 1.5,
	}
	before, err := r.pub.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := rep.Beat(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	r.do("ZADD", "hg:replica:index", 1, "gw_lost") // its heartbeat has expired
	r.do("ZADD", "hg:replica:index", 2, "gw_bad")
	r.do("SET", "hg:replica:gw_bad", "{")
	r.do("ZADD", "hg:replica:index", 3, "gw_liar")
	r.do("SET", "hg:replica:gw_liar", `{"id":"gw_a"}`)
	r.do("ZADD", "hg:replica:index", 4, "gw_list")
	r.do("RPUSH", "hg:replica:gw_list", "x")
	got, err := r.pub.Replicas(t.Context())
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v; want one", got, err)
	}
	if at := got[0].At; at.Before(before.Truncate(time.Millisecond)) || at.After(before.Add(time.Minute)) {
		t.Errorf("heartbeat is of %v, want about %v", at, before)
	}
	if got[0].Version != 42 || got[0].NACK == nil || got[0].NACK.Code != policy.NACKTooNew || got[0].Directory != h.Directory || got[0].DecisionsPerS != 1.5 {
		t.Errorf("heartbeat is %+v", got[0])
	}
	for k, most := range map[string]time.Duration{"hg:replica:gw_a": heartbeatTTL, "hg:replica:index": heartbeatTTL} {
		if ttl := r.client.PTTL(t.Context(), k).Val(); ttl <= 0 || ttl > most {
			t.Errorf("%s lives for %v", k, ttl)
		}
	}
}

func TestUsage_BatchesArriveInOrderFromAPosition(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rep := r.reporter()
	const batches = usagePerRequest + 20
	for i := range int64(batches) {
		b := usage.Batch{Replica: "gw_a", Boot: "b", Seq: i + 1, Through: i, Rows: []usage.Row{{Second: i, Tenant: "ten_a", Outcome: usage.OutcomeAdmitted, Requests: 1}}}
		if err := rep.SendUsage(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	var got []usage.Batch
	after := ""
	for {
		batch, next, err := r.pub.Usage(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			if next != after {
				t.Fatalf("position moved from %q to %q without batches", after, next)
			}
			break
		}
		got, after = append(got, batch...), next
	}
	if len(got) != batches {
		t.Fatalf("%d batches, want %d", len(got), batches)
	}
	for i, b := range got {
		if b.Seq != int64(i+1) || b.Replica != "gw_a" || len(b.Rows) != 1 {
			t.Fatalf("batch %d is %+v", i, b)
		}
	}
}

func TestUsage_UnreadableEntriesArePassedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("XADD", "hg:usage:live", "*", "batch", "{")
	r.do("XADD", "hg:usage:live", "*", "something", "else")
	r.do("XADD", "hg:usage:live", "*", "batch", `{"rows":[`+strings.Repeat(`{},`, usage.MaxRows)+`{}]}`)
	if err := r.reporter().SendUsage(t.Context(), usage.Batch{Replica: "gw_a", Boot: "b", Seq: 1}); err != nil {
		t.Fatal(err)
	}
	got, next, err := r.pub.Usage(t.Context(), "")
	if err != nil || len(got) != 1 || got[0].Replica != "gw_a" {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, _, err := r.pub.Usage(t.Context(), next); err != nil || len(again) != 0 {
		t.Fatalf("%+v, %v after the end", again, err)
	}
	for _, position := range []string{"x", "1", "1-", "-1", "+", "1-1)"} {
		if _, _, err := r.pub.Usage(t.Context(), position); err == nil {
			t.Errorf("position %q is accepted", position)
		}
	}
}

func TestUsage_BeginsAnewWhenTheStreamWasReplacedByAnOlderClocks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.reporter().SendUsage(t.Context(), usage.Batch{Replica: "gw_a", Boot: "b", Seq: 1}); err != nil {
		t.Fatal(err)
	}
	future := fmt.Sprintf("%d-0", time.Now().Add(time.Hour).UnixMilli())
	got, next, err := r.pub.Usage(t.Context(), future)
	if err != nil || len(got) != 0 || next != "" {
		t.Fatalf("%+v, %q, %v; want to begin anew", got, next, err)
	}
	r.do("DEL", "hg:usage:live")
	if _, next, err := r.pub.Usage(t.Context(), future); err != nil || next != future {
		t.Fatalf("%q, %v; an empty stream says nothing", next, err)
	}
}

func TestUsage_TheStreamIsBoundedInBytesEntriesAndAge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	add := func(bytes, mostEntries, mostBytes int) {
		t.Helper()
		err := usageScript.Run(t.Context(), r.client, []string{"hg:usage:live"}, "gw", "b", strings.Repeat("x", bytes), mostEntries, mostBytes, usageTTL.Milliseconds()).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	held := func() (entries, bytes int) {
		for _, e := range r.client.XRange(t.Context(), "hg:usage:live", "-", "+").Val() {
			entries++
			bytes += len(e.Values["batch"].(string)) // written above
		}
		return entries, bytes
	}
	for i := range 300 {
		add(100+i*13%500, 1000, 20_000)
	}
	if n, b := held(); b > 20_000+600 || b < 15_000 {
		t.Errorf("%d entries of %d bytes, want at most 20 000 and one entry", n, b)
	}
	add(50_000, 1000, 20_000)
	if n, _ := held(); n != 1 {
		t.Errorf("%d entries after one that is too large", n)
	}
	for range 50 {
		add(10, 30, 20_000)
	}
	if n, _ := held(); n != 30 {
		t.Errorf("%d entries, want 30", n)
	}
	if ttl := r.client.PTTL(t.Context(), "hg:usage:live").Val(); ttl <= 0 || ttl > usageTTL {
		t.Errorf("stream lives for %v", ttl)
	}
	r.do("DEL", "hg:usage:live")
	r.do("XADD", "hg:usage:live", time.Now().Add(-2*time.Hour).UnixMilli(), "batch", "old", "sum", "9")
	add(10, 1000, 20_000)
	if n, _ := held(); n != 1 {
		t.Errorf("%d entries: one older than an hour stays", n)
	}
}

func TestUsage_ReachesTheLiveViewOnceAfterARestartOfTheConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rep := r.reporter()
	counter := usage.NewCounter("gw_a", "b")
	begin := time.Now().Truncate(time.Second).Add(-10 * time.Second)
	for i := range 5 {
		counter.Add(begin.Add(time.Duration(i)*time.Second), "ten_a", "report", usage.OutcomeLimited, "plan.requests", 1)
		b := counter.Cut(begin.Add(time.Duration(i+1) * time.Second))
		for range 2 { // the answer was lost, and it is sent again
			if err := rep.SendUsage(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	for console := range 2 {
		live := usage.NewLive(usage.LiveConfig{})
		batches, _, err := r.pub.Usage(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			live.Apply(b)
		}
		top := live.TopRefused(begin.Add(-time.Minute), 5)
		if len(top) != 1 || top[0].Refused != 5 || top[0].Limit != "plan.requests" {
			t.Fatalf("console %d shows %+v, want 5 refusals", console+1, top)
		}
	}
}

func TestReporter_FailsWithoutRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rep := r.reporter()
	r.redis.Kill()
	if _, _, err := rep.Beat(t.Context(), policy.Heartbeat{ID: "gw_a"}); err == nil {
		t.Error("a heartbeat went nowhere without an error")
	}
	if err := rep.SendUsage(t.Context(), usage.Batch{}); err == nil {
		t.Error("a batch went nowhere without an error")
	}
}
