package feed

import (
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/usage"
)

// TestUsage_WhatAForgerLeavesHoldsNobodyUp: whoever has a gateway's rights may write
// anything to the streams of usage. The next batch gets through all the same, and
// the bounds hold.
func TestUsage_WhatAForgerLeavesHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	const stream = "hg:usage:keys"
	for name, harm := range map[string][]any{
		"no stream":          {"SET", stream, "x"},
		"a hash":             {"HSET", stream, "x", "y"},
		"no more numbers":    {"XADD", stream, "18446744073709551615-18446744073709551615", "batch", "x"},
		"numbers far ahead":  {"XADD", stream, "18446744073709551614-5", "batch", "x", "sum", "1"},
		"no sum":             {"XADD", stream, "*", "batch", "x"},
		"an infinite sum":    {"XADD", stream, "*", "batch", "x", "sum", "inf"},
		"no number as sum":   {"XADD", stream, "*", "batch", "x", "sum", "nan"},
		"a sum below zero":   {"XADD", stream, "*", "batch", "x", "sum", "-1e15"},
		"a huge sum":         {"XADD", stream, "*", "batch", "x", "sum", "1e308"},
		"a sum at the limit": {"XADD", stream, "*", "batch", "x", "sum", "9007199254740993"},
		"a long sum":         {"XADD", stream, "*", "batch", "x", "sum", strings.Repeat("9", 100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			rep := r.reporter()
			send := func(seq int64) {
				t.Helper()
				b, body := keyUse(t, seq)
				if err := rep.SendKeyUse(t.Context(), b, body); err != nil {
					t.Fatal(err)
				}
			}
			send(1)
			if harm[0] != "XADD" {
				r.do("DEL", stream)
			}
			r.do(harm...)
			send(2)
			send(3)
			seqs, place := readAnyKeyUse(t, r.pub)
			if n := len(seqs); n < 2 || seqs[n-2] != 2 || seqs[n-1] != 3 {
				t.Fatalf("batches are %v", seqs)
			}
			send(4)
			if seqs, _ := readKeyUse(t, r.pub, place); len(seqs) != 1 || seqs[0] != 4 {
				t.Fatalf("after the place come %v", seqs)
			}
			for i := range 40 { // the bound on bytes still holds
				err := usageScript.Run(t.Context(), r.client, []string{stream}, "gw", "b", strings.Repeat("x", 1000), 1000, 10_000, usageTTL.Milliseconds()).Err()
				if err != nil {
					t.Fatalf("entry %d: %v", i, err)
				}
			}
			if n := r.client.XLen(t.Context(), stream).Val(); n > 11 {
				t.Fatalf("%d entries of 1000 bytes are held, want at most 11", n)
			}
		})
	}
}

// readAnyKeyUse reads all that is held, and leaves out what is no batch.
func readAnyKeyUse(t *testing.T, p *Publisher) (seqs []int64, place string) {
	t.Helper()
	for {
		bodies, next, err := p.KeyUse(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range bodies {
			if b, err := usage.DecodeKeys(body); err == nil {
				seqs = append(seqs, b.Seq)
			}
		}
		if next == place {
			return seqs, place
		}
		place = next
	}
}

// TestUsage_AForgedEntryInTheMiddleEndsWithItsTurn: it is dropped like any other when
// it is the oldest.
func TestUsage_AForgedEntryInTheMiddleEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	add := func() {
		t.Helper()
		err := usageScript.Run(t.Context(), r.client, []string{"hg:usage:keys"}, "gw", "b", strings.Repeat("x", 1000), 1000, 10_000, usageTTL.Milliseconds()).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		add()
	}
	r.do("XADD", "hg:usage:keys", "*", "batch", "x", "sum", strconv.Itoa(1<<40))
	for range 30 {
		add()
		if n := r.client.XLen(t.Context(), "hg:usage:keys").Val(); n > 17 {
			t.Fatalf("%d entries of 1000 bytes are held", n)
		}
	}
	if n := r.client.XLen(t.Context(), "hg:usage:keys").Val(); n < 10 || n > 11 {
		t.Fatalf("%d entries of 1000 bytes are held, want 10 or 11", n)
	}
}
