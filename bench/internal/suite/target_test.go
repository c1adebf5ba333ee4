package suite

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/internal/envoy"
	"github.com/headgate/headgate/bench/internal/meas"
)

// result is a case of one round: so many decisions in a second, each with so much
// processor time, latency, allocations and calls.
func result(name string, decisions uint64, cpu, latency time.Duration, allocations, calls int) *meas.Result {
	r := meas.Round{Decisions: decisions, Admitted: decisions, Elapsed: time.Second, Allocations: decisions * uint64(allocations), Counted: int64(decisions) * int64(calls)}
	r.CPU = map[string]time.Duration{server: cpu * time.Duration(decisions), service: cpu * time.Duration(decisions), meas.Self: cpu * time.Duration(decisions)}
	for range 100 {
		r.Latency.Record(latency)
	}
	return &meas.Result{Case: meas.Case{Name: name}, Rounds: []meas.Round{r}}
}

func verdicts(targets []Target) string {
	var all []string
	for _, t := range targets {
		all = append(all, t.ID+" "+verdict(t.Met)+" "+t.Figure)
	}
	return strings.Join(all, "\n")
}

func TestTargets_JudgeRatios(t *testing.T) {
	t.Parallel()
	r := results{}
	add := func(name string, decisions uint64, cpu time.Duration) {
		r[name] = result(name, decisions, cpu, time.Millisecond, 1, 0)
	}
	add(oursOne, 100_000, 4*time.Microsecond)
	add(redisRateOne, 40_000, 10*time.Microsecond)
	add(oursFour, 49_000, 13*time.Microsecond)
	add(redisRateFour, 10_000, 60*time.Microsecond)
	add(hotExact, 200_000, time.Microsecond)
	add(hotUncombined, 50_000, time.Microsecond)
	add(hotLeased, 740_000, time.Microsecond)
	add(hotReplicas, 159_000, time.Microsecond)
	add(hotReplicasEach, 160_000, time.Microsecond)
	add(refusedAlone, 2_000_000, 500*time.Nanosecond)
	got := verdicts(r.targets(&pair{ratios: []float64{1.2}, firstMedian: []float64{30_000}, secondMedian: []float64{25_000}},
		map[string]float64{overExact: 1, overLeased: .99}))
	want := strings.Join([]string{
		"T1 met 100.0 k/s : 40.0 k/s = 2.50 ×", "T1 met 4.0 µs : 10.0 µs = 0.40 ×",
		"T2 NOT MET 49.0 k/s : 10.0 k/s = 4.90 ×", "T2 NOT MET 13.0 µs : 60.0 µs = 0.22 ×",
		"T3 met 30.0 µs : 25.0 µs = 1.20 ×",
		"T4 met 200.0 k/s : 50.0 k/s = 4.00 ×", "T4 NOT MET 740.0 k/s : 50.0 k/s = 14.80 ×", "T4 NOT MET 0.9900",
		"T5 met 0", "T5 met 0.50 µs", "T5 met 1.0",
		"T8 met 160.0 k/s : 200.0 k/s = 0.80 ×", "T8 NOT MET 159.0 k/s : 200.0 k/s = 0.80 ×", "T8 met 1.0000",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTargets_WhatWasNotMeasuredIsNotJudged(t *testing.T) {
	t.Parallel()
	if got := (results{}).targets(&pair{}, nil); got != nil {
		t.Errorf("judged %v", got)
	}
	if got := (results{}).doors(); got != nil {
		t.Errorf("judged %v", got)
	}
	var none *Memory
	if got := none.targets(); got != nil {
		t.Errorf("judged %v", got)
	}
}

func TestDoors_JudgeSpeedProcessorTimeAndLateness(t *testing.T) {
	t.Parallel()
	r := results{}
	for _, kind := range []envoy.Kind{envoy.One, envoy.Four, envoy.Refused} {
		for door, decisions := range map[string]uint64{oursDoor: 40_000, theirDoor: 20_000} {
			name := doorName(door, kind)
			cpu := time.Duration(1_000_000_000_000 / decisions / 1000)
			r[name] = result(name, decisions, cpu*time.Nanosecond, 10*time.Millisecond, 1, 0)
		}
	}
	got := r.doors()
	if len(got) != 7 {
		t.Fatalf("%d judged:\n%s", len(got), verdicts(got))
	}
	for i, met := range []bool{true, true, false, true, true, false, true} {
		if got[i].Met != met {
			t.Errorf("%s: %s is %s", got[i].What, got[i].Figure, verdict(got[i].Met))
		}
	}
	peerless := results{doorName(oursDoor, envoy.One): r[doorName(oursDoor, envoy.One)]}
	if got := peerless.doors(); got != nil {
		t.Errorf("judged without a peer: %v", got)
	}
}

func TestMemory_JudgesBytesAndFlatness(t *testing.T) {
	t.Parallel()
	m := &Memory{
		Identifiers: 1000, Redis: map[string]float64{memoryAddress: 160, memoryTenant: 161, memoryRedisRate: 170},
		Sizes: []int{1, 10, 100}, Denied: []uint64{1 << 20, 10 << 20, 10<<20 + 1<<18}, Fallback: []uint64{10 << 20, 10 << 20, 11 << 20},
	}
	want := "T9 met 160.0 bytes\nT9 NOT MET 161.0 bytes\nT9 met 1.0 → 10.0 → 10.2 MiB\nT9 NOT MET 10.0 → 10.0 → 11.0 MiB"
	if got := verdicts(m.targets()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReport_SaysWhenTheMachineWasNotQuiet(t *testing.T) {
	t.Parallel()
	quiet, loud := result("a", 10, time.Microsecond, time.Millisecond, 1, 1), result("b", 10, time.Microsecond, time.Millisecond, 1, 1)
	loud.Rounds[0].Foreign = .5
	if got := (&Report{Cases: []*meas.Result{quiet}}).remarks(); strings.Contains(got, "not quiet") {
		t.Error(got)
	}
	if got := (&Report{Doors: []*meas.Result{loud}}).remarks(); !strings.Contains(got, "not quiet") {
		t.Error(got)
	}
}

func TestReport_TellsFailures(t *testing.T) {
	t.Parallel()
	failed := result("bad case", 10, time.Microsecond, time.Millisecond, 1, 1)
	failed.Rounds[0].Failed, failed.Rounds[0].FirstError = 3, os.ErrDeadlineExceeded
	r := &Report{Doors: []*meas.Result{failed}}
	if got := r.Markdown(); !strings.Contains(got, "bad case: 3 operations failed") {
		t.Errorf("the document does not tell:\n%s", got)
	}
}

func TestUnits_AreReadable(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0/s", 999: "999/s", 12_345: "12.3 k/s", 9_360_000: "9.36 M/s"} {
		if got := perSecond(v); got != want {
			t.Errorf("%v is %q", v, got)
		}
	}
	for d, want := range map[time.Duration]string{90: "0.09 µs", 1500: "1.5 µs", 123_456: "123 µs", 4_900_000: "4.90 ms"} {
		if got := micros(d); got != want {
			t.Errorf("%v is %q", d, got)
		}
	}
}
