package console_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/receipt"
)

// receiptOf is a receipt of a replica whose heartbeat this console has seen.
func (e *explaining) receiptOf(t *testing.T, key ed25519.PrivateKey, r receipt.Receipt) string {
	t.Helper()
	text, err := receipt.Sign(&r, key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestExplain_ReceiptsAreCheckedAndRecomputed(t *testing.T) {
	t.Parallel()
	e := newExplaining(t)
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	beat := e.feed.beat("gw_aaaaaaaaaaaaaaaa", 1, "", 0)
	beat.ReceiptKey = base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey))
	e.feed.set(func() { e.feed.beats = []policy.Heartbeat{beat} })
	e.clock.add(10 * time.Second)
	run(t, e.ask.Run)
	said := receipt.Receipt{At: e.clock.now().Add(-time.Minute), Version: 1, Tenant: e.acme.ID, Route: 0, Limit: policy.LimitHash("plan.requests"), Kind: receipt.KindRate,
		Reason: limiter.ReasonLimit, Cost: 1, Numbers: policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 60}, Units: 250_000, WaitMicros: 750_000}
	text := e.receiptOf(t, key, said)
	out := e.explain(t, console.ExplainQuestion{Receipt: text})
	if r := out.Receipt; r == nil || !r.Valid || !r.Recomputed || !r.Found.Agrees() || r.Found.LimitID != "plan.requests" || r.Replica != beat.ID || out.Tenant == nil || out.Tenant.ID != e.acme.ID {
		t.Fatalf("%+v", out.Receipt)
	}
	says(t, "now", out, console.OutcomeAdmitted, "", "Acme is not refused")
	for name, want := range map[string]struct{ text, says string }{
		"changed":       {text[:40] + flipped(text[40]) + text[41:], "signature does not fit"},
		"cut":           {text[:50], "not all of one"},
		"no receipt":    {"hgr1_nonsense", "no receipt"},
		"another key's": {e.receiptOf(t, ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", 32))), said), "No gateway of ours"},
	} {
		out := e.explain(t, console.ExplainQuestion{Receipt: want.text})
		if out.Receipt.Valid || out.Outcome != console.OutcomeUnknown || !strings.Contains(out.Sentence+out.Receipt.Problem, want.says) {
			t.Errorf("%s: %+v, %q", name, out.Receipt, out.Sentence)
		}
	}
	wrong := said
	wrong.Numbers.Burst = 61
	if r := e.explain(t, console.ExplainQuestion{Receipt: e.receiptOf(t, key, wrong)}).Receipt; !r.Valid || !r.Recomputed || r.Found.Agrees() {
		t.Errorf("numbers that the version lacks: %+v", r)
	}
	unknown := said
	unknown.Version = 99
	if r := e.explain(t, console.ExplainQuestion{Receipt: e.receiptOf(t, key, unknown)}).Receipt; !r.Valid || r.Recomputed {
		t.Errorf("a version that is not here: %+v", r)
	}
	e.stored(t, key)
	e.feed.set(func() { e.feed.beats = nil })
	e.clock.add(24 * time.Hour)
	if r := e.explain(t, console.ExplainQuestion{Receipt: text}).Receipt; !r.Valid {
		t.Errorf("after the replica has gone: %+v", r)
	}
}

// stored waits until the key is kept.
func (e *explaining) stored(t *testing.T, key ed25519.PrivateKey) {
	t.Helper()
	id := receipt.IDOf(key.Public().(ed25519.PublicKey)).String()
	deadline := time.Now().Add(20 * time.Second)
	for ; time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var keys []console.ReceiptKey
		err := e.store.Read(e.ctx, func(tx console.Tx) (err error) { keys, err = tx.ReceiptKeys(e.ctx, id); return err })
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 1 && keys[0].Host == e.feed.beats[0].Host && !keys[0].FirstSeen.IsZero() {
			return
		}
	}
	t.Fatal("the key was never kept")
}
