package envoy

import (
	"testing"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/usage/spool"
)

// spooled gives the gateway a spool in a folder.
func spooled(t testing.TB, dir string) func(*setup) {
	return func(s *setup) {
		sp, err := spool.Open(spool.Options{Dir: dir, Replica: s.gateway.Identity.ID, Boot: "b1", Limit: 8 << 30})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sp.Close() })
		s.gateway.Spool = sp
	}
}

// TestLedger_I08_BothServicesNoteBeforeTheyAnswer looks at what the next boot would find
// if the gateway were killed right after an answer.
func TestLedger_I08_BothServicesNoteBeforeTheyAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newFixture(t, func(s *setup) { s.policy = openPolicy }, spooled(t, dir))
	f.ask(about("GET", "/v1/items/1"))
	f.askFor(3, about("GET", "/v1/items/1"))
	if res := f.authorize(checkRequest("192.0.2.1", "GET", "/v1/items/1", bearer(f.tenant("ten_b")))); res.GetStatus().GetCode() != 0 {
		t.Fatalf("answer %v", res)
	}
	next, err := spool.Open(spool.Options{Dir: dir, Replica: "gw_aaaaaaaaaaaaaaaa", Boot: "b2"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	got := map[string][2]int64{}
	for _, w := range next.Waiting() {
		body, err := next.Body(w)
		if err != nil {
			t.Fatal(err)
		}
		b, err := ledger.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			if e.Outcome != usage.OutcomeAdmitted || e.Route != "item" {
				t.Errorf("event %+v", e)
			}
			got[e.Tenant] = [2]int64{got[e.Tenant][0] + e.Requests, got[e.Tenant][1] + e.Cost}
		}
	}
	if len(got) != 2 || got["ten_a"] != [2]int64{2, 4} || got["ten_b"] != [2]int64{1, 1} {
		t.Fatalf("the disk says %v", got)
	}
}

// What a call costs with a note on the disk; compare BenchmarkRateLimit.
func BenchmarkRateLimitNoted(b *testing.B) {
	for name, path := range map[string]string{"admitted": "/v1/items/7", "refused": "/stopped"} {
		b.Run(name, func(b *testing.B) {
			round := rounds(b, newFixture(b, func(s *setup) { s.policy = openPolicy }, spooled(b, b.TempDir())), path)
			round()
			b.ReportAllocs()
			for b.Loop() {
				round()
			}
		})
	}
}
