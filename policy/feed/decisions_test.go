package feed

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/decisionlog"
)

// decisions is a batch of one decision with its body.
func decisions(t testing.TB, seq int64) (*decisionlog.Batch, []byte) {
	t.Helper()
	b := &decisionlog.Batch{
		Replica: "gw_a", Boot: "b", Seq: seq, From: seq, To: seq, Sample: decisionlog.Whole,
		Entries: []decisionlog.Entry{{Kind: decisionlog.KindDecision, At: seq, Seq: seq, Tenant: "ten_a"}},
	}
	body, err := decisionlog.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, body
}

// readAll reads from a place until it stays, and returns the batches' numbers.
func readAll(t testing.TB, p *Publisher, after string) (seqs []int64, next string) {
	t.Helper()
	return readBatches(t, p.Decisions, func(body []byte) (int64, error) {
		b, err := decisionlog.Decode(body)
		if err != nil {
			return 0, err
		}
		return b.Seq, nil
	}, after)
}

// TestDecisions_ComeOnceInOrderFromEachPlace, on every topology.
func TestDecisions_ComeOnceInOrderFromEachPlace(t *testing.T) {
	t.Parallel()
	comesInOrderFromEachPlace(t, 3*decisionsPerRequest+5, func(rep *Reporter, seq int64) error {
		b, body := decisions(t, seq)
		return rep.SendDecisions(t.Context(), b, body)
	}, readAll)
}

func TestDecisions_BeginAnewWhenTheStreamWasReplacedByAnOlderClocks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b, body := decisions(t, 1)
	if err := r.reporter().SendDecisions(t.Context(), b, body); err != nil {
		t.Fatal(err)
	}
	future := fmt.Sprintf("%d-0", time.Now().Add(time.Hour).UnixMilli())
	if got, next, err := r.pub.Decisions(t.Context(), future); err != nil || len(got) != 0 || next != "" {
		t.Fatalf("%d batches, %q, %v; want to begin anew", len(got), next, err)
	}
	if _, _, err := r.pub.Decisions(t.Context(), "nowhere"); err == nil {
		t.Fatal("a place that is none is taken")
	}
}

func TestDecisions_UnreadableEntriesArePassedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("XADD", "hg:usage:decisions", "*", "something", "else")
	r.do("XADD", "hg:usage:decisions", "*", "batch", strings.Repeat("x", decisionlog.MaxCompressed+1))
	b, body := decisions(t, 7)
	rep := r.reporter()
	if err := rep.SendDecisions(t.Context(), b, body); err != nil {
		t.Fatal(err)
	}
	if seqs, _ := readAll(t, r.pub, ""); fmt.Sprint(seqs) != "[7]" {
		t.Fatalf("batches are %v", seqs)
	}
	for _, bad := range [][]byte{nil, make([]byte, decisionlog.MaxCompressed+1)} {
		if err := rep.SendDecisions(t.Context(), b, bad); err == nil {
			t.Errorf("a body of %d bytes is sent", len(bad))
		}
	}
}

// TestDecisions_AConsoleThatIsAwayDoesNotFillRedis: what gateways go on sending is held
// within 64 MiB, the newest is kept, and all of it ends by itself.
func TestDecisions_AConsoleThatIsAwayDoesNotFillRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rep := r.reporter()
	body := bytes.Repeat([]byte{7}, decisionlog.MaxCompressed)
	for i := range 80 {
		if err := rep.SendDecisions(t.Context(), &decisionlog.Batch{Replica: "gw_a", Boot: "b", Seq: int64(i + 1)}, body); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.client.XLen(t.Context(), "hg:usage:decisions").Val(); n < 60 || n > 64 {
		t.Errorf("%d batches of 1 MiB are held, want at most 64", n)
	}
	if used := r.client.MemoryUsage(t.Context(), "hg:usage:decisions", 0).Val(); used > 85<<20 { // allocators round 1 MiB and a little up to 1.25
		t.Errorf("the stream takes %d bytes", used)
	}
	if ttl := r.client.TTL(t.Context(), "hg:usage:decisions").Val(); ttl <= 24*time.Hour-time.Minute || ttl > 24*time.Hour {
		t.Errorf("it ends in %v", ttl)
	}
}

// TestDecisions_AllReplicasHashWithTheSameSalt, which a gateway's own rights suffice for.
func TestDecisions_AllReplicasHashWithTheSameSalt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ask := func(c redis.UniversalClient) []byte {
		t.Helper()
		rep, err := NewReporter(Config{Client: c, Deployment: deployment})
		if err != nil {
			t.Fatal(err)
		}
		salt, err := rep.DecisionSalt(t.Context())
		if err != nil || len(salt) != saltBytes {
			t.Fatalf("%d bytes, %v", len(salt), err)
		}
		b, body := decisions(t, 1)
		if err := rep.SendDecisions(t.Context(), b, body); err != nil {
			t.Fatal(err)
		}
		return salt
	}
	gateway := r.asGateway()
	first := ask(gateway)
	r.do("EXPIRE", "hg:usage:salt", 60)
	if !bytes.Equal(first, ask(r.newClient())) || !bytes.Equal(first, ask(gateway)) {
		t.Fatal("two replicas have different salts")
	}
	if ttl := r.client.TTL(t.Context(), "hg:usage:salt").Val(); ttl < saltTTL-time.Minute {
		t.Errorf("the salt in use ends in %v", ttl)
	}
	r.do("SET", "hg:usage:salt", "short")
	if _, err := r.reporter().DecisionSalt(t.Context()); err == nil {
		t.Error("a salt of five bytes is taken")
	}
}
