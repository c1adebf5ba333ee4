package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func refusal(subject string) *Refused {
	return &Refused{Row: RefusedRow{Kind: "i", Subject: RawBytes(subject)}, Part: "rate", Cost: 1, Numbers: [3]int64{1, 1, 1}}
}

const second = int64(1_000_000)

// TestRefused_EveryNumberIsWithinItsStatedError: for any stream of refusals, over turns of
// the window, the true number lies between Count-Error and Count, whoever is not listed has
// at most Floor, and the total is exact.
func TestRefused_EveryNumberIsWithinItsStatedError(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := NewRefusedCounter("gw", "boot")
		subjects := rapid.IntRange(1, 200).Draw(rt, "subjects")
		seed := rapid.Uint64().Draw(rt, "seed")
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		true1 := map[string]int64{}
		now, total := int64(1000)*second, int64(0)
		for range rapid.IntRange(1, 2000).Draw(rt, "refusals") {
			who := fmt.Sprint(min(r.IntN(subjects), r.IntN(subjects)))
			c.Add("l", refusal(who), now)
			true1[who]++
			total++
			now += r.Int64N(second / 5) // at most 400 s: two windows
		}
		report := c.Report(now)
		l := report.Limits[0]
		if l.Total != total {
			rt.Fatalf("total %d, not %d", l.Total, total)
		}
		listed := map[string]bool{}
		for _, s := range l.Subjects {
			who := string(s.Row.Subject)
			listed[who] = true
			if n := true1[who]; n > s.Count || n < s.Count-s.Error {
				rt.Fatalf("%s was refused %d times; told %d with error %d", who, n, s.Count, s.Error)
			}
		}
		for who, n := range true1 {
			if !listed[who] && n > l.Floor && now-1 < 1000*second+RefusedFresh*second { // else it may just be old
				rt.Fatalf("%s with %d refusals is not listed, floor %d", who, n, l.Floor)
			}
		}
	})
}

// TestRefused_B2_AMillionIdentifiersTakeBoundedRoomAndHideNobody: one subject that is
// refused more often than its share stays listed among any number of others.
func TestRefused_B2_AMillionIdentifiersTakeBoundedRoomAndHideNobody(t *testing.T) {
	t.Parallel()
	c := NewRefusedCounter("gw", "boot")
	const others = 1_000_000
	heavy := int64(0)
	for i := range others {
		c.Add("l", refusal(fmt.Sprint("o", i)), second)
		if i%40 == 0 { // 2.4 %, above 1/50
			c.Add("l", refusal("heavy"), second)
			heavy++
		}
	}
	w := c.limits["l"]
	if len(w.now.entries) > RefusedPerLimit || len(w.now.index) > RefusedPerLimit {
		t.Fatalf("%d entries, %d in the index", len(w.now.entries), len(w.now.index))
	}
	first := c.Report(second).Limits[0].Subjects[0]
	if string(first.Row.Subject) != "heavy" || heavy > first.Count || heavy < first.Count-first.Error {
		t.Errorf("first is %+v; heavy was refused %d times", first, heavy)
	}
}

func TestRefused_LimitsAreBounded(t *testing.T) {
	t.Parallel()
	c := NewRefusedCounter("gw", "boot")
	for i := range RefusedLimits + 10 {
		for s := range 10 {
			c.Add(fmt.Sprint("l", i), refusal(fmt.Sprint(s)), second)
		}
	}
	r := c.Report(second)
	rows := 0
	for _, l := range r.Limits {
		rows += len(l.Subjects)
		if l.Floor == 0 && len(l.Subjects) < 10 {
			t.Errorf("%s lists %d of 10 and says that nobody is left out", l.Limit, len(l.Subjects))
		}
	}
	if len(r.Limits) != RefusedLimits || r.Other != 100 || rows > RefusedRows {
		t.Errorf("%d limits, %d rows, %d others", len(r.Limits), rows, r.Other)
	}
	if _, err := EncodeRefused(&r); err != nil {
		t.Error(err)
	}
}

func TestRefused_WhoIsNoLongerRefusedLeavesByItself(t *testing.T) {
	t.Parallel()
	c := NewRefusedCounter("gw", "boot")
	c.Add("l", refusal("a"), second)
	c.Add("l", refusal("b"), (RefusedFresh-1)*second)
	if got := c.Report((RefusedFresh + 1) * second).Limits[0].Subjects; len(got) != 1 || got[0].Row.Subject != "b" {
		t.Errorf("after two minutes: %+v", got)
	}
	c.Add("l", refusal("b"), (RefusedWindow+10)*second) // the window turned
	got := c.Report((RefusedWindow + 11) * second)
	if s := got.Limits[0].Subjects; len(s) != 1 || s[0].Count != 2 || s[0].First != (RefusedFresh-1)*second || got.Since != second {
		t.Errorf("over two windows: %+v since %d", s, got.Since)
	}
	if got := c.Report(4 * RefusedWindow * second); len(got.Limits) != 0 || len(c.limits) != 0 {
		t.Errorf("after the windows: %+v, %d limits kept", got, len(c.limits))
	}
}

func TestRefused_KeepsTheLeastCostAndTheNewestTerms(t *testing.T) {
	t.Parallel()
	c := NewRefusedCounter("gw", "boot")
	a, b := refusal("a"), refusal("a")
	a.Cost, b.Cost, b.Until, b.Numbers = 3, 5, 9*second, [3]int64{2, 2, 2}
	c.Add("l", a, second)
	c.Add("l", b, 2*second)
	if got := c.Report(2 * second).Limits[0].Subjects[0]; got.Cost != 3 || got.Until != 9*second || got.Numbers != b.Numbers || got.First != second || got.Last != 2*second {
		t.Errorf("%+v", got)
	}
}

func TestRefused_ConcurrentRefusalsAreAllCounted(t *testing.T) {
	t.Parallel()
	c := NewRefusedCounter("gw", "boot")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 1000 {
				c.Add(fmt.Sprint("l", i%2), refusal("a"), second)
			}
			c.Report(second)
		})
	}
	wg.Wait()
	for _, l := range c.Report(second).Limits {
		if l.Total != 4000 || l.Subjects[0].Count != 4000 {
			t.Errorf("%+v", l)
		}
	}
}

func TestMergeRefused_SumsNumbersAndErrors(t *testing.T) {
	t.Parallel()
	report := func(replica string, since, floor int64, counts map[string][2]int64) *RefusedReport {
		l := RefusedLimit{Limit: "l", Floor: floor}
		for who, n := range counts {
			l.Subjects = append(l.Subjects, RefusedCount{Refused: *refusal(who), Count: n[0], Error: n[1], First: since, Last: since + n[0]})
		}
		return &RefusedReport{Replica: replica, Since: since, Limits: []RefusedLimit{l}}
	}
	out, since := MergeRefused([]*RefusedReport{report("x", 5, 3, map[string][2]int64{"a": {10, 1}, "b": {4, 0}}), report("y", 2, 7, map[string][2]int64{"a": {20, 2}})})
	if since != 2 || len(out) != 2 {
		t.Fatalf("%+v since %d", out, since)
	}
	if a := out[0]; a.Row.Subject != "a" || a.Count != 30 || a.Error != 3 || a.First != 2 || len(a.Replicas) != 2 {
		t.Errorf("a: %+v", a)
	}
	// y may have refused b up to 7 times without listing it.
	if b := out[1]; b.Count != 11 || b.Error != 7 || len(b.Replicas) != 1 {
		t.Errorf("b: %+v", b)
	}
	if out, since := MergeRefused(nil); out != nil || since != 0 {
		t.Errorf("of none: %v, %d", out, since)
	}
}

func TestRefused_TravelsWhole(t *testing.T) {
	t.Parallel()
	c := NewRefusedCounter("gw", "boot")
	c.Add("l", refusal("\x00\xff\"<script>"), second)
	want := c.Report(second)
	body, err := EncodeRefused(&want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeRefused(body)
	if err != nil || !reflect.DeepEqual(got, &want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestDecodeRefused_BelievesNothing(t *testing.T) {
	t.Parallel()
	good := func() *RefusedReport {
		return &RefusedReport{Replica: "gw", Limits: []RefusedLimit{{Limit: "l", Subjects: []RefusedCount{{Refused: *refusal("a"), Count: 1}}}}}
	}
	if body, _ := json.Marshal(good()); func() bool { _, err := DecodeRefused(body); return err != nil }() {
		t.Fatal("a good report is refused")
	}
	for name, spoil := range map[string]func(*RefusedReport){
		"no replica":        func(r *RefusedReport) { r.Replica = "" },
		"negative count":    func(r *RefusedReport) { r.Limits[0].Subjects[0].Count = -1 },
		"error above count": func(r *RefusedReport) { r.Limits[0].Subjects[0].Error = 2 },
		"huge count":        func(r *RefusedReport) { r.Limits[0].Subjects[0].Count = maxRefusedNumber },
		"kind":              func(r *RefusedReport) { r.Limits[0].Subjects[0].Row.Kind = "" },
		"part":              func(r *RefusedReport) { r.Limits[0].Subjects[0].Part = "x" },
		"long subject":      func(r *RefusedReport) { r.Limits[0].Subjects[0].Row.Subject = RawBytes(make([]byte, 300)) },
		"no limit":          func(r *RefusedReport) { r.Limits[0].Limit = "" },
		"many rows":         func(r *RefusedReport) { r.Limits[0].Subjects = make([]RefusedCount, RefusedRows+1) },
		"many limits":       func(r *RefusedReport) { r.Limits = make([]RefusedLimit, RefusedLimits+1) },
	} {
		r := good()
		spoil(r)
		body, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeRefused(body); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzDecodeRefused(f *testing.F) {
	r := NewRefusedCounter("gw", "boot")
	r.Add("l", refusal("a"), second)
	report := r.Report(second)
	body, err := EncodeRefused(&report)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"replica":"x","limits":[{"limit":"l","subjects":[{"row":{"kind":"d","subject":"!"}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := DecodeRefused(body)
		if err != nil {
			if !errors.Is(err, ErrRefused) {
				t.Fatal(err)
			}
			return
		}
		out, _ := MergeRefused([]*RefusedReport{got, got})
		for _, m := range out {
			if m.Error > m.Count || m.Row.Kind == "" {
				t.Fatalf("%+v", m)
			}
		}
	})
}

func BenchmarkRefused(b *testing.B) {
	for name, distinct := range map[string]int{"known": 10, "all new": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			c := NewRefusedCounter("gw", "boot")
			rows := make([]*Refused, distinct)
			for i := range rows {
				rows[i] = refusal(fmt.Sprint("subject", i))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.Add("l", rows[i%distinct], second)
				i++
			}
		})
	}
}
