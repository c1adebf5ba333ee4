package feed

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/usage"
)

// keyUse is a batch of one use with its body.
func keyUse(t testing.TB, seq int64) (*usage.KeyBatch, []byte) {
	t.Helper()
	b := &usage.KeyBatch{
		Replica: "gw_a", Boot: "b", Seq: seq, From: seq, Through: seq, Started: 1,
		Rows: []usage.KeyRow{{KID: "0123456789AB", Network: "192.0.2.0/24", Agent: "curl/8", FirstUsed: seq, LastUsed: seq, Requests: 1}},
	}
	body, err := usage.EncodeKeys(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, body
}

// readKeyUse reads from a place until it stays, and returns the batches' numbers.
func readKeyUse(t testing.TB, p *Publisher, after string) (seqs []int64, next string) {
	t.Helper()
	return readBatches(t, p.KeyUse, func(body []byte) (int64, error) {
		b, err := usage.DecodeKeys(body)
		if err != nil {
			return 0, err
		}
		return b.Seq, nil
	}, after)
}

// TestKeyUse_ComesInOrderFromEachPlace, on every topology, with a gateway's own rights
// on the first.
func TestKeyUse_ComesInOrderFromEachPlace(t *testing.T) {
	t.Parallel()
	comesInOrderFromEachPlace(t, 2*keyUsePerRequest+5, func(rep *Reporter, seq int64) error {
		b, body := keyUse(t, seq)
		return rep.SendKeyUse(t.Context(), b, body)
	}, readKeyUse)
}

func TestKeyUse_AGatewaysOwnRightsSuffice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rep, err := NewReporter(Config{Client: r.asGateway(), Deployment: deployment})
	if err != nil {
		t.Fatal(err)
	}
	b, body := keyUse(t, 3)
	if err := rep.SendKeyUse(t.Context(), b, body); err != nil {
		t.Fatal(err)
	}
	if seqs, _ := readKeyUse(t, r.pub, ""); fmt.Sprint(seqs) != "[3]" {
		t.Fatalf("batches are %v", seqs)
	}
}

func TestKeyUse_BeginsAnewWhenTheStreamWasLostOrReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b, body := keyUse(t, 1)
	if err := r.reporter().SendKeyUse(t.Context(), b, body); err != nil {
		t.Fatal(err)
	}
	_, place := readKeyUse(t, r.pub, "")
	r.do("FLUSHALL")
	b, body = keyUse(t, 2)
	if err := r.reporter().SendKeyUse(t.Context(), b, body); err != nil {
		t.Fatal(err)
	}
	if seqs, _ := readKeyUse(t, r.pub, place); fmt.Sprint(seqs) != "[2]" {
		t.Fatalf("after a flush come %v", seqs)
	}
	future := fmt.Sprintf("%d-0", time.Now().Add(time.Hour).UnixMilli())
	if got, next, err := r.pub.KeyUse(t.Context(), future); err != nil || len(got) != 0 || next != "" {
		t.Fatalf("%d batches, %q, %v; want to begin anew", len(got), next, err)
	}
	if _, _, err := r.pub.KeyUse(t.Context(), "nowhere"); err == nil {
		t.Fatal("a place that is none is taken")
	}
}

func TestKeyUse_UnreadableEntriesArePassedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("XADD", "hg:usage:keys", "*", "something", "else")
	r.do("XADD", "hg:usage:keys", "*", "batch", strings.Repeat("x", usage.MaxKeyBody+1))
	b, body := keyUse(t, 7)
	rep := r.reporter()
	if err := rep.SendKeyUse(t.Context(), b, body); err != nil {
		t.Fatal(err)
	}
	if seqs, _ := readKeyUse(t, r.pub, ""); fmt.Sprint(seqs) != "[7]" {
		t.Fatalf("batches are %v", seqs)
	}
	for _, bad := range [][]byte{nil, make([]byte, usage.MaxKeyBody+1)} {
		if err := rep.SendKeyUse(t.Context(), b, bad); err == nil {
			t.Errorf("a body of %d bytes is sent", len(bad))
		}
	}
}

// TestKeyUse_AConsoleThatIsAwayDoesNotFillRedis: what gateways go on sending is held
// within 64 MiB, the newest is kept, and all of it ends by itself.
func TestKeyUse_AConsoleThatIsAwayDoesNotFillRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rep := r.reporter()
	body := bytes.Repeat([]byte{7}, usage.MaxKeyBody)
	for i := range 70 {
		if err := rep.SendKeyUse(t.Context(), &usage.KeyBatch{Replica: "gw_a", Boot: "b", Seq: int64(i + 1)}, body); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.client.XLen(t.Context(), "hg:usage:keys").Val(); n < 60 || n > 64 {
		t.Errorf("%d batches of 1 MiB are held, want at most 64", n)
	}
	if ttl := r.client.TTL(t.Context(), "hg:usage:keys").Val(); ttl <= 24*time.Hour-time.Minute || ttl > 24*time.Hour {
		t.Errorf("it ends in %v", ttl)
	}
}
