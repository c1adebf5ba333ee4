package suite

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/internal/meas"
	"github.com/headgate/headgate/limiter"
)

// short is a run of every case that takes a few seconds and says nothing about speed.
func short() Options {
	return Options{Rounds: 1, Warm: 5 * time.Millisecond, Length: 30 * time.Millisecond, Identifiers: 2000, Sizes: []int{1000, 2000}, Progress: io.Discard}
}

func TestRun_MeasuresEveryCaseAndJudgesEveryTarget(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), short())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Cases {
		if c.PerSecond() == 0 {
			t.Errorf("%s made no decision", c.Case.Name)
		}
		if n, first := c.Failed(); n > 0 && c.Case.Name != throttledFour {
			t.Errorf("%s: %d failed: %v", c.Case.Name, n, first)
		}
	}
	var ids []string
	for _, target := range report.Targets {
		if !slices.Contains(ids, target.ID) {
			ids = append(ids, target.ID)
		}
	}
	if got := strings.Join(ids, " "); got != "T1 T2 T3 T4 T5 T8 T9" {
		t.Errorf("judged are %s", got)
	}
	checkTables(t, report)
}

// checkTables holds that whatever was measured is told, in both forms.
func checkTables(t *testing.T, report *Report) {
	t.Helper()
	var text strings.Builder
	if err := report.Text(&text); err != nil {
		t.Fatal(err)
	}
	markdown := report.Markdown()
	for _, c := range report.Cases {
		if !strings.Contains(text.String(), c.Case.Name) || !strings.Contains(markdown, "| "+c.Case.Name+" |") {
			t.Errorf("%s is missing from a table", c.Case.Name)
		}
	}
	for _, target := range report.Targets {
		if !strings.Contains(markdown, target.What) || !strings.Contains(text.String(), target.Figure) {
			t.Errorf("%s is missing from a table", target.What)
		}
	}
	for _, want := range []string{"redis_rate/v10 v", "Redis " + report.Redis, "rounds of"} {
		if !strings.Contains(markdown, want) {
			t.Errorf("the document does not say %q", want)
		}
	}
}

func TestRun_StopsWhenToldTo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, short()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOnly_KeepsCasesByPartsOfTheirNames(t *testing.T) {
	t.Parallel()
	all := []meas.Case{{Name: "a, one"}, {Name: "a, two"}, {Name: "b, one"}}
	for parts, want := range map[string]int{"": 3, "a, ": 2, "one": 2, "two;b": 2, "none": 0} {
		if got := len(only(all, parts)); got != want {
			t.Errorf("%q keeps %d, want %d", parts, got, want)
		}
	}
}

func TestFull_FitsInTenMinutesAndQuickInOneAndAHalf(t *testing.T) {
	t.Parallel()
	const cases = 40 // a few more than there are
	for _, c := range []struct {
		name  string
		o     Options
		wants time.Duration
	}{{"full", Full(), 6 * time.Minute}, {"quick", Quick(), 75 * time.Second}} {
		if took := time.Duration(c.o.Rounds) * cases * (c.o.Warm + c.o.Length); took > c.wants {
			t.Errorf("%s: rounds take %v, want %v to leave time for memory", c.name, took, c.wants)
		}
	}
}

func TestHeaps_AreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]limiter.Store{"refusing": refusing{}, "away": away{}} {
		used, err := heaps(t.Context(), store, []int{100, 300})
		if err != nil || len(used) != 2 {
			t.Errorf("%s: %v, %v", name, used, err)
		}
	}
}

func TestEach_AsksForEveryNumberOnceAndTellsAProblem(t *testing.T) {
	t.Parallel()
	seen := make(chan int, 1000)
	err := each(t.Context(), 1000, func(_ context.Context, i int) (bool, error) {
		seen <- i
		return true, nil
	})
	close(seen)
	all := map[int]bool{}
	for i := range seen {
		all[i] = true
	}
	if err != nil || len(all) != 1000 {
		t.Errorf("%d of 1000, %v", len(all), err)
	}
	if err := each(t.Context(), 10, func(_ context.Context, i int) (bool, error) { return i != 7, nil }); !errors.Is(err, errRefused) {
		t.Errorf("a refusal: %v", err)
	}
}
