package feed

import (
	"context"
	"fmt"
	"testing"

	"github.com/headgate/headgate/internal/testkit"
)

// readBatches reads from a place until it stays, and returns the batches' numbers.
func readBatches(t testing.TB, read func(context.Context, string) ([][]byte, string, error), number func([]byte) (int64, error), after string) (seqs []int64, next string) {
	t.Helper()
	for {
		bodies, next, err := read(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range bodies {
			seq, err := number(body)
			if err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, seq)
		}
		if next == after {
			return seqs, next
		}
		after = next
	}
}

// comesInOrderFromEachPlace holds that batches are read once and in order, over
// several requests and from where somebody stopped, on every topology.
func comesInOrderFromEachPlace(t *testing.T, many int64, send func(*Reporter, int64) error, readAll func(testing.TB, *Publisher, string) ([]int64, string)) {
	t.Helper()
	for name, url := range map[string]func(*testing.T) string{
		"one server": func(t *testing.T) string { return testkit.Redis(t).URL },
		"Sentinel":   func(t *testing.T) string { return testkit.Sentinel(t).URL() },
		"Cluster":    func(t *testing.T) string { return testkit.Cluster(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWideRig(t, url(t), "hg")
			rep, err := NewReporter(w.wire)
			if err != nil {
				t.Fatal(err)
			}
			all := func(from, to int64) {
				for seq := from; seq <= to; seq++ {
					w.patiently("send a batch", func() error { return send(rep, seq) })
				}
			}
			all(1, many)
			seqs, place := readAll(t, w.pub, "")
			if int64(len(seqs)) != many || seqs[0] != 1 || seqs[len(seqs)-1] != many {
				t.Fatalf("batches are %v", seqs)
			}
			all(900, 902)
			if seqs, _ := readAll(t, w.pub, place); fmt.Sprint(seqs) != "[900 901 902]" {
				t.Fatalf("after the place come %v", seqs)
			}
		})
	}
}
