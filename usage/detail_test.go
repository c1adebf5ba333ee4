package usage_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/usage"
)

func TestCounter_PathsAreToldEveryTenSecondsAndAtTheEnd(t *testing.T) {
	t.Parallel()
	c := usage.NewCounter("gw_a", "boot")
	if b := c.Cut(at(1)); b.Detail != nil {
		t.Fatal("a detail at the start")
	}
	c.AddPath(at(2), "GET", "/v1/x/7", "")
	c.AddPath(at(5), "GET", "/v1/x/8", "")
	c.AddPath(at(3), "BREW", "/tea", "everything-else")
	for s := 2; s < 11; s++ {
		if b := c.Cut(at(s)); b.Detail != nil {
			t.Fatalf("a detail after %d s", s)
		}
	}
	d := c.Cut(at(11)).Detail
	want := []usage.PathRow{{Method: "GET", Path: "/v1/x/{id}", Requests: 2, Last: at(5).Unix()}, {Path: "/tea", Route: "everything-else", Requests: 1, Last: at(3).Unix()}}
	if d == nil || fmt.Sprint(d.Paths) != fmt.Sprint(want) || d.From != at(0).Unix() || d.Rest != 0 {
		t.Fatalf("detail is %+v, want %+v", d, want)
	}
	c.AddPath(at(12), "GET", "/v1/x/9", "")
	if d := c.CutLast(at(13)).Detail; d == nil || len(d.Paths) != 1 || d.Paths[0].Requests != 1 {
		t.Fatalf("the last detail is %+v", d)
	}
}

func TestCounter_PathsAreBoundedAndTheOthersAreTheRest(t *testing.T) {
	t.Parallel()
	c := usage.NewCounter("gw_a", "boot")
	for i := range 9 {
		c.AddPath(at(1), "GET", "/steady", "")
		c.AddPath(at(1), "GET", fmt.Sprintf("/steady/number/%d", i), "")
	}
	for i := range 1000 {
		c.AddPath(at(1), "GET", fmt.Sprintf("/scan-%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676), "")
	}
	b := c.CutLast(at(2))
	d := b.Detail
	n := d.Rest
	for _, r := range d.Paths {
		n += r.Requests
	}
	if len(d.Paths) != usage.MaxPaths || n != 1018 || d.Paths[0].Path != "/steady" || d.Paths[1].Requests != 9 {
		t.Fatalf("%d paths, %d requests, first %+v", len(d.Paths), n, d.Paths[:2])
	}
	raw, err := json.Marshal(b)
	if err != nil || len(raw) > 20<<10 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	// Scans make room again; what goes on stays.
	c.AddPath(at(3), "GET", "/steady", "")
	c.AddPath(at(3), "GET", "/later", "")
	if d := c.CutLast(at(4)).Detail; len(d.Paths) != 2 || d.Rest != 0 {
		t.Fatalf("after a pause: %+v", d)
	}
}

//nolint:paralleltest // it counts allocations
func TestCounter_KnownPathCostsNoAllocation(t *testing.T) {
	c := usage.NewCounter("gw_a", "boot")
	c.AddPath(at(1), "GET", "/v1/things/12345/parts", "everything-else")
	if n := testing.AllocsPerRun(100, func() { c.AddPath(at(1), "GET", "/v1/things/12345/parts", "everything-else") }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
	c.AddDecision(at(1), "ten_a", "report", usage.OutcomeAdmitted, "", 1, time.Millisecond)
	if n := testing.AllocsPerRun(100, func() {
		c.AddDecision(at(1), "ten_a", "report", usage.OutcomeAdmitted, "", 1, time.Millisecond)
	}); n != 0 {
		t.Fatalf("%v allocations for a decision", n)
	}
}

func TestCounter_ConcurrentPathsAndTimesAreAllCounted(t *testing.T) {
	t.Parallel()
	c := usage.NewCounter("gw_a", "boot")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 500 {
				c.AddPath(at(1), "GET", "/lost", "")
				c.AddDecision(at(1), fmt.Sprintf("ten_%d", i), "report", usage.OutcomeAdmitted, "", 1, time.Millisecond)
			}
		})
	}
	var n, timed int64
	count := func(d *usage.Detail) {
		for _, r := range d.Paths {
			n += r.Requests
		}
		for _, r := range d.Times {
			for _, v := range r.Buckets {
				timed += v
			}
		}
	}
	for range 20 {
		count(c.CutLast(at(1)).Detail)
	}
	wg.Wait()
	if count(c.CutLast(at(2)).Detail); n != 4000 || timed != 4000 {
		t.Fatalf("%d paths and %d times, want 4000 each", n, timed)
	}
}

func TestCounter_TimesFallIntoTheirBuckets(t *testing.T) {
	t.Parallel()
	c := usage.NewCounter("gw_a", "boot")
	for _, took := range []time.Duration{-time.Second, 0, 50 * time.Microsecond, 51 * time.Microsecond, 100 * time.Millisecond, time.Hour} {
		c.AddDecision(at(1), "ten_a", "report", usage.OutcomeAdmitted, "", 1, took)
	}
	c.AddDecision(at(1), "ten_a", "", usage.OutcomeNoRoute, "", 1, time.Second)
	c.Add(at(1), "ten_a", "untimed", usage.OutcomeAdmitted, "", 1)
	d := c.CutLast(at(2)).Detail
	if want := "[{report [3 1 0 0 0 0 0 0 0 0 0 0 0 1 1]}]"; fmt.Sprint(d.Times) != want {
		t.Fatalf("times are %v, want %s", d.Times, want)
	}
	for i := range 300 {
		c.AddDecision(at(3), "ten_a", fmt.Sprintf("r%d", i), usage.OutcomeAdmitted, "", 1, 0)
	}
	if d := c.CutLast(at(4)).Detail; len(d.Times) != usage.MaxTimes {
		t.Fatalf("%d routes", len(d.Times))
	}
}

// told sends a detail through JSON, as it travels.
func told(t *testing.T, l *usage.Live, seq, through int64, d usage.Detail) {
	t.Helper()
	raw, err := json.Marshal(usage.Batch{Replica: "gw_a", Boot: "b", Seq: seq, Through: through, Detail: &d})
	if err != nil {
		t.Fatal(err)
	}
	var b usage.Batch
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	l.Apply(b)
}

func TestLive_UnmatchedAddUpAndEndAfterAnHour(t *testing.T) {
	t.Parallel()
	now := at(100)
	l := newLive(&now, 0)
	if l.DetailKnown() {
		t.Fatal("known before anybody told")
	}
	lost := usage.PathRow{Method: "GET", Path: "/lost/{id}", Requests: 3, Last: at(90).Unix()}
	caught := usage.PathRow{Method: "GET", Path: "/lost/{id}", Route: "everything-else", Requests: 9, Last: at(95).Unix()}
	told(t, l, 1, at(99).Unix(), usage.Detail{Paths: []usage.PathRow{lost, caught}, Rest: 4})
	told(t, l, 2, at(100).Unix(), usage.Detail{Paths: []usage.PathRow{lost}})
	told(t, l, 2, at(100).Unix(), usage.Detail{Paths: []usage.PathRow{lost}}) // again
	paths, rest := l.Unmatched()
	want := []usage.Unmatched{{Method: "GET", Path: "/lost/{id}", Route: "everything-else", Requests: 9, Last: at(95)}, {Method: "GET", Path: "/lost/{id}", Requests: 6, Last: at(90)}}
	if fmt.Sprint(paths) != fmt.Sprint(want) || rest != 4 || !l.DetailKnown() {
		t.Fatalf("paths are %+v and %d, want %+v", paths, rest, want)
	}
	now = at(131)
	if l.DetailKnown() {
		t.Fatal("still known after half a minute of silence")
	}
	now = at(100 + 3900)
	if paths, rest := l.Unmatched(); len(paths) != 0 || rest != 0 {
		t.Fatalf("after more than an hour: %+v, %d", paths, rest)
	}
}

func TestLive_ForgedDetailsArePassedOver(t *testing.T) {
	t.Parallel()
	now := at(100)
	l := newLive(&now, 0)
	row := func(method, path, route string, n int64, last int) usage.PathRow {
		return usage.PathRow{Method: method, Path: path, Route: route, Requests: n, Last: at(last).Unix()}
	}
	told(t, l, 1, at(99).Unix(), usage.Detail{Rest: -5, Paths: []usage.PathRow{
		row("GET", "/users/jane@example.com", "", 1, 90), row("GET", "<script>", "", 1, 90), row("GET", "/x/123456", "", 1, 90),
		row("GET", "/"+strings.Repeat("a/", 500), "", 1, 90), row("GET\n", "/x", "", 1, 90), row("GET", "/x", "\x1b[31m", 1, 90), row("GET", "", "", 1, 90),
		row("GET", "/x", "", -1, 90), row("GET", "/x", "", math.MaxInt64, 90), row("GET", "/x", "", 1, -4000),
	}, Times: []usage.TimeRow{{Route: "", Buckets: []int64{1}}, {Route: "a\nb", Buckets: []int64{1}}, {Route: "neg", Buckets: []int64{-1}},
		{Route: "big", Buckets: []int64{math.MaxInt64}}, {Route: "long", Buckets: make([]int64, 1000)}}})
	told(t, l, 2, math.MinInt64/2, usage.Detail{Paths: []usage.PathRow{row("GET", "/old", "", 1, 90)}})
	told(t, l, 3, math.MaxInt64/2, usage.Detail{Paths: []usage.PathRow{row("GET", "/future", "", 1, 5000)}})
	paths, rest := l.Unmatched()
	if len(paths) != 1 || paths[0].Path != "/future" || paths[0].Last.After(now) || rest != 0 || len(l.RouteTimes()) != 0 {
		t.Fatalf("paths are %+v, rest %d, times %+v", paths, rest, l.RouteTimes())
	}
	many := make([]usage.PathRow, 10_000)
	for i := range many {
		many[i] = row("GET", fmt.Sprintf("/p/%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26), "", 1, 90)
	}
	told(t, l, 4, at(99).Unix(), usage.Detail{Paths: many})
	if paths, _ := l.Unmatched(); len(paths) > usage.MaxPaths+1 {
		t.Fatalf("%d paths of one batch", len(paths))
	}
}

func TestLive_AScanDoesNotPushOutWhatKeepsComing(t *testing.T) {
	t.Parallel()
	now := at(0)
	l := newLive(&now, 0)
	var total int64
	for i := range 60 {
		now = at(10 * i)
		rows := []usage.PathRow{{Method: "GET", Path: "/steady", Requests: 2, Last: now.Unix()}}
		for k := range 40 {
			n := 40*i + k
			rows = append(rows, usage.PathRow{Method: "GET", Path: fmt.Sprintf("/scan/%c%c%c", 'a'+n%26, 'a'+n/26%26, 'a'+n/676), Requests: 1, Last: now.Unix()})
		}
		told(t, l, int64(i+1), now.Unix(), usage.Detail{Paths: rows})
		total += 42
	}
	paths, rest := l.Unmatched()
	if len(paths) > 512 || paths[0].Path != "/steady" || paths[0].Requests != 120 {
		t.Fatalf("%d paths, first %+v", len(paths), paths[0])
	}
	for _, p := range paths {
		rest += p.Requests
	}
	if rest != total {
		t.Fatalf("%d requests in all, want %d", rest, total)
	}
}

func TestLive_RouteTimesAreOfTheLastMinute(t *testing.T) {
	t.Parallel()
	now := at(100)
	l := newLive(&now, 0)
	told(t, l, 1, at(10).Unix(), usage.Detail{Times: []usage.TimeRow{{Route: "report", Buckets: []int64{0, 0, 0, 0, 0, 0, 0, 0, 1000}}}}) // too old
	told(t, l, 2, at(95).Unix(), usage.Detail{Times: []usage.TimeRow{
		{Route: "report", Buckets: []int64{50, 0, 48, 0, 0, 1}}, {Route: "slow", Buckets: []int64{14: 1}}, {Route: "none", Buckets: nil}}})
	told(t, l, 3, at(99).Unix(), usage.Detail{Times: []usage.TimeRow{{Route: "report", Buckets: []int64{0, 0, 0, 0, 0, 0, 0, 1}}}})
	want := map[string]usage.RouteTime{
		"report": {Decisions: 100, P50: 50 * time.Microsecond, P99: 2500 * time.Microsecond},
		"slow":   {Decisions: 1, P50: math.MaxInt64, P99: math.MaxInt64},
	}
	if got := l.RouteTimes(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("times are %+v, want %+v", got, want)
	}
	now = at(190)
	if got := l.RouteTimes(); len(got) != 0 {
		t.Fatalf("after more than a minute: %+v", got)
	}
}

func TestBatch_ReadersWithoutDetailReadTheRest(t *testing.T) {
	t.Parallel()
	c := usage.NewCounter("gw_a", "boot")
	c.AddPath(at(1), "GET", "/lost", "")
	raw, err := json.Marshal(c.CutLast(at(2)))
	if err != nil {
		t.Fatal(err)
	}
	var old struct {
		Replica string      `json:"replica"`
		Seq     int64       `json:"seq"`
		Rows    []usage.Row `json:"rows"`
	}
	if err := json.Unmarshal(raw, &old); err != nil || old.Replica != "gw_a" || old.Seq != 1 {
		t.Fatalf("%+v, %v", old, err)
	}
}

func BenchmarkCounter_AddPathKnown(b *testing.B) {
	c := usage.NewCounter("gw_a", "boot")
	b.ReportAllocs()
	for b.Loop() {
		c.AddPath(t0, "GET", "/v1/things/12345/parts", "everything-else")
	}
}

func BenchmarkCounter_AddDecision(b *testing.B) {
	c := usage.NewCounter("gw_a", "boot")
	b.ReportAllocs()
	for b.Loop() {
		c.AddDecision(t0, "ten_a", "report", usage.OutcomeAdmitted, "", 1, 400*time.Microsecond)
	}
}
