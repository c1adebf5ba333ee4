package usage_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/usage"
)

const kid = "0123456789AB"

var home = netip.MustParseAddr("203.0.113.7")

func newKeyCounter() *usage.KeyCounter { return usage.NewKeyCounter("gw_a", "boot") }

// one is the only batch of a cut.
func one(t *testing.T, batches []usage.KeyBatch) usage.KeyBatch {
	t.Helper()
	if len(batches) != 1 {
		t.Fatalf("%d batches, want one", len(batches))
	}
	return batches[0]
}

func TestKeyCounter_TellsUsesAndRefusalsOfASourceApart(t *testing.T) {
	t.Parallel()
	c := newKeyCounter()
	c.Add(at(1), kid, home, "curl/8.1", usage.KeyAdmitted)
	c.Add(at(3), kid, netip.MustParseAddr("::ffff:203.0.113.200"), "curl/8.2", usage.KeyLimited)
	c.Add(at(2), kid, home, "curl/8.1", usage.KeyAdmitted)
	c.Add(at(5), kid, home, "curl/8.1", usage.KeyRefused)
	c.Add(at(4), kid, home, "curl/8.1", usage.KeyRefused)
	b := one(t, c.Cut(t0, at(9), false))
	want := usage.KeyRow{
		KID: kid, Network: "203.0.113.0/24", Agent: "curl/8", FirstUsed: at(1).Unix(), LastUsed: at(3).Unix(),
		FirstRefused: at(4).Unix(), LastRefused: at(5).Unix(), Requests: 5, Limited: 1, Refused: 2,
	}
	if len(b.Rows) != 1 || b.Rows[0] != want {
		t.Fatalf("rows are\n%+v, want\n%+v", b.Rows, want)
	}
	if b.Replica != "gw_a" || b.Boot != "boot" || b.Seq != 1 || b.From != t0.Unix() || b.Through != at(7).Unix() || b.Started != t0.Unix() {
		t.Fatalf("batch is %+v", b)
	}
	if b := one(t, c.Cut(t0, at(14), false)); len(b.Rows) != 0 || b.Seq != 2 || b.From != at(8).Unix() || b.Through != at(12).Unix() {
		t.Fatalf("an empty batch is %+v", b)
	}
	if b := one(t, c.Cut(t0, at(3), false)); b.Through != at(12).Unix() {
		t.Fatalf("a clock that steps back takes Through back to %d", b.Through)
	}
	c.Add(at(15), kid, home, "curl/8.1", usage.KeyAdmitted)
	if b := one(t, c.Cut(t0, at(16), true)); !b.Final || b.Through != at(16).Unix() || len(b.Rows) != 1 || b.Rows[0].Requests != 1 || b.Rows[0].FirstUsed != at(15).Unix() {
		t.Fatalf("the last batch is %+v", b)
	}
}

func TestKeyCounter_WhatIsNoKIDIsNotCounted(t *testing.T) {
	t.Parallel()
	c := newKeyCounter()
	c.Add(at(1), "", home, "curl/8", usage.KeyAdmitted)
	c.Add(at(1), kid+"x", home, "curl/8", usage.KeyAdmitted)
	if b := one(t, c.Cut(t0, at(2), false)); len(b.Rows) != 0 {
		t.Fatalf("rows are %+v", b.Rows)
	}
}

func sum(batches []usage.KeyBatch) (requests, lost int64) {
	for _, b := range batches {
		lost += b.Lost
		for _, r := range b.Rows {
			requests += r.Requests
		}
	}
	return requests, lost
}

// TestKeyCounter_AFloodOfAgentsOrNetworksEndsInTheRestOfItsKey, and takes no room from
// other keys.
func TestKeyCounter_AFloodOfAgentsOrNetworksEndsInTheRestOfItsKey(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(i int) (netip.Addr, string){
		"agents": func(i int) (netip.Addr, string) { return home, fmt.Sprintf("agent%d%c", i%10000, 'a'+i/10000) },
		"networks": func(i int) (netip.Addr, string) {
			return netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1}), "curl/8"
		},
		"versions": func(i int) (netip.Addr, string) { return home, fmt.Sprintf("curl/8.%d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newKeyCounter()
			const n = 60_000
			for i := range n {
				from, agent := source(i)
				c.Add(at(1), kid, from, agent, usage.KeyAdmitted)
			}
			c.Add(at(1), "zzzzzzzzzzzz", home, "curl/8", usage.KeyAdmitted)
			b := one(t, c.Cut(t0, at(9), false))
			if requests, lost := sum([]usage.KeyBatch{b}); requests != n+1 || lost != 0 {
				t.Fatalf("%d requests, %d lost, want %d and none", requests, lost, n+1)
			}
			if len(b.Rows) > usage.SourcesPerKey+2 {
				t.Fatalf("%d rows", len(b.Rows))
			}
			rest := b.Rows[0] // sorted: it has neither network nor agent
			if name == "versions" {
				if len(b.Rows) != 2 || rest.Agent != "curl/8" {
					t.Fatalf("rows are %+v", b.Rows)
				}
				return
			}
			if rest.Network != "" || rest.Agent != "" || rest.Requests < n-4*usage.SourcesPerKey*n/(n/10) && rest.Requests < n/2 {
				t.Fatalf("the rest is %+v", rest)
			}
		})
	}
}

// TestKeyCounter_MoreKeysThanThereIsRoomForAreSaidToBeLost: nothing is lost in silence.
func TestKeyCounter_MoreKeysThanThereIsRoomForAreSaidToBeLost(t *testing.T) {
	t.Parallel()
	c := newKeyCounter()
	const n = 120_000
	for i := range n {
		c.Add(at(1), fmt.Sprintf("%012d", i), home, "curl/8", usage.KeyAdmitted)
	}
	select {
	case <-c.Crowded():
	default:
		t.Error("a counter that is full does not ask for a cut")
	}
	batches := c.Cut(t0, at(9), false)
	requests, lost := sum(batches)
	if requests+lost != n || lost == 0 || requests > 16*4096 {
		t.Fatalf("%d counted and %d lost of %d", requests, lost, n)
	}
	for i, b := range batches {
		last := i == len(batches)-1
		if len(b.Rows) > usage.MaxKeyRows || b.Seq != int64(i+1) || last != (b.Through == at(7).Unix()) || b.From != t0.Unix() {
			t.Fatalf("batch %d has %d rows, seq %d, through %d", i, len(b.Rows), b.Seq, b.Through)
		}
		if _, err := usage.EncodeKeys(&b); err != nil {
			t.Fatal(err)
		}
	}
	if known, all := c.Totals(); known != 0 || all != lost {
		t.Fatalf("%d sources are known after a crowded cut, %d lost in all", known, all)
	}
	c.Add(at(10), kid, home, "curl/8", usage.KeyAdmitted)
	if requests, lost := sum(c.Cut(t0, at(12), false)); requests != 1 || lost != 0 {
		t.Fatalf("after it %d counted and %d lost", requests, lost)
	}
}

func TestKeyCounter_SilentSourcesAreForgotten(t *testing.T) {
	t.Parallel()
	c := newKeyCounter()
	for i := range usage.SourcesPerKey {
		c.Add(at(0), kid, netip.AddrFrom4([4]byte{10, 0, byte(i), 1}), "curl/8", usage.KeyAdmitted)
	}
	for i := range 14 {
		c.Cut(t0, at(5*i), false)
	}
	if known, _ := c.Totals(); known != 0 {
		t.Fatalf("%d sources are known after a minute of silence", known)
	}
	c.Add(at(99), kid, home, "curl/8", usage.KeyAdmitted)
	if b := one(t, c.Cut(t0, at(100), false)); len(b.Rows) != 1 || b.Rows[0].Network != "203.0.113.0/24" {
		t.Fatalf("a new source is %+v: the old ones keep its place", b.Rows)
	}
}

// TestKeyCounter_ConcurrentAddsAndCutsCountEachOnce also proves freedom from races
// when run with the race detector.
func TestKeyCounter_ConcurrentAddsAndCutsCountEachOnce(t *testing.T) {
	t.Parallel()
	c := newKeyCounter()
	const workers, each = 8, 3000
	var adding sync.WaitGroup
	for w := range workers {
		adding.Go(func() {
			for i := range each {
				c.Add(at(i%7), fmt.Sprintf("%012d", i%300), home, fmt.Sprintf("agent%c", 'a'+w), usage.KeyOutcome(i%3))
			}
		})
	}
	var total int64
	for i := range 50 {
		n, _ := sum(c.Cut(t0, at(i), false))
		total += n
	}
	adding.Wait()
	n, lost := sum(c.Cut(t0, at(100), true))
	if total+n != workers*each || lost != 0 {
		t.Fatalf("counted %d requests, want %d", total+n, workers*each)
	}
}

// TestKeyCounter_AKnownSourceCostsNoAllocation: it lies on the path of every request.
//
//nolint:paralleltest // it counts allocations
func TestKeyCounter_AKnownSourceCostsNoAllocation(t *testing.T) {
	c := newKeyCounter()
	c.Add(t0, kid, home, browser, usage.KeyAdmitted)
	if n := testing.AllocsPerRun(100, func() { c.Add(t0, kid, home, browser, usage.KeyAdmitted) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

const browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"

func BenchmarkKeyCounter_AddKnownSource(b *testing.B) {
	c := newKeyCounter()
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		c.Add(now, kid, home, browser, usage.KeyAdmitted)
	}
}

func BenchmarkKeyCounter_AddManyKeys(b *testing.B) {
	c := newKeyCounter()
	kids := make([]string, 4096)
	for i := range kids {
		kids[i] = fmt.Sprintf("%012d", i*7919)
	}
	now, i := time.Now(), 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		c.Add(now, kids[i&4095], home, browser, usage.KeyAdmitted)
	}
}

// BenchmarkKeyCounter_AddFlood is what a request with a User-Agent of its own costs.
func BenchmarkKeyCounter_AddFlood(b *testing.B) {
	c := newKeyCounter()
	agents := make([]string, 1<<15)
	for i := range agents {
		agents[i] = fmt.Sprintf("%s agent%d", browser, i)
	}
	now, i := time.Now(), 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		c.Add(now, kid, home, agents[i&(1<<15-1)], usage.KeyAdmitted)
	}
}
