package policy

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bombs are documents that cost a careless reader its memory or its time.
func bombs() map[string][]byte {
	repeat := func(s string, size int) []byte { return []byte(strings.Repeat(s, size/len(s))) }
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return map[string][]byte{
		"too large":            repeat("a", MaxSourceBytes+1),
		"billion laughs":       []byte(laughs.String()),
		"deep JSON lists":      append([]byte(`{"a":`), repeat("[", 1<<20)...),
		"deep JSON maps":       repeat(`{"a":`, 1<<20),
		"deep YAML flow":       append([]byte("a: "), repeat("[", 1<<20)...),
		"deep YAML blocks":     repeat("- ", 1<<20),
		"deep YAML flow maps":  append([]byte("a: "), repeat("{a: ", 1<<20)...),
		"many JSON values":     append(append([]byte(`{"routes":[`), repeat("0,", MaxSourceBytes-20)...), []byte("0]}")...),
		"many JSON keys":       append(append([]byte(`{`), repeat(`"a":0,`, MaxSourceBytes-20)...), []byte(`"b":0}`)...),
		"many YAML items":      repeat("- a\n", MaxSourceBytes),
		"many YAML flow items": append(append([]byte("a: ["), repeat("a,", MaxSourceBytes-20)...), ']'),
		"many YAML keys":       repeat("a: b\n", MaxSourceBytes),
		"long YAML key":        append(repeat("a", 4<<20), []byte(": 1\n")...),
		"many YAML comments":   repeat("#\n", MaxSourceBytes),
		"many documents":       repeat("--- a\n", MaxSourceBytes),
		"spaces":               repeat(" ", MaxSourceBytes),
		"quotes":               repeat(`"`, MaxSourceBytes),
		"question marks":       repeat("? ", 1<<20),
		"exclamation marks":    repeat("! ", 1<<20),
		"invalid UTF-8":        repeat("\xff", MaxSourceBytes),
		"long number":          append(append([]byte(`{"routes":[{"cost":`), repeat("9", 1<<20)...), []byte("}]}")...),
	}
}

// processorTime is what this process has used so far: what the machine does
// besides must not decide a test.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//nolint:paralleltest // memory and processor time of the whole process are measured
func TestParse_RefusesBombsCheaply(t *testing.T) {
	for name, src := range bombs() { // one at a time: their memory is measured
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := processorTime(t)
		d, r := Parse(src)
		took := processorTime(t) - start
		runtime.ReadMemStats(&after)
		if d != nil || r.OK() {
			t.Errorf("%s: taken", name)
		}
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %v, %d MiB in all, %v", name, took.Round(time.Millisecond), allocated, r.Problems[0])
		if took > 2*time.Second {
			t.Errorf("%s: took %v of processor time, want at most 2 s", name, took)
		}
		if allocated > 48 {
			t.Errorf("%s: allocated %d MiB, want at most 48", name, allocated)
		}
		if len(r.Error()) > 64<<10 {
			t.Errorf("%s: report of %d bytes", name, len(r.Error()))
		}
	}
}

// Documents that are as large as a document may be are read, and in time.
func TestParse_TakesTheLargestDocuments(t *testing.T) {
	t.Parallel()
	d := manyRoutes(t, maxRoutes).Document
	for i := range d.Routes {
		d.Routes[i].Limits = []Limit{{Name: "l", Per: PerTenant, Rate: Rate{Tokens: 5, Period: time.Minute}, Burst: 5}}
		d.Routes[i].OnStoreFailure = StoreFailure{Mode: FailOpen, Fallback: &Fallback{Rate: Rate{Tokens: 5, Period: time.Minute}, Burst: 5}}
	}
	for name, src := range map[string][]byte{"JSON": d.Canonical(), "YAML": d.YAML()} {
		start := time.Now()
		_, r := Parse(src)
		t.Logf("%s of %d KiB: %v", name, len(src)>>10, time.Since(start).Round(time.Millisecond))
		if !r.OK() {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// poisons are validly shaped pieces with blank, negative or absurd values.
func TestParse_PoisonNeverPanics(t *testing.T) {
	t.Parallel()
	base := string(readTestdata(t, "example.canonical.json"))
	values := []string{`null`, `""`, `" "`, `0`, `-1`, `1e309`, `9007199254740993`, `[]`, `{}`, `[null]`, `{"":null}`, `true`, `"` + strings.Repeat("x", 2000) + `"`, `"\ud800"`}
	for at := 0; at < len(base); at++ {
		end := valueEnd(base, at)
		if end < 0 {
			continue
		}
		for _, v := range values {
			src := base[:at+1] + v + base[end:]
			d, r := Parse([]byte(src))
			if (d == nil) == r.OK() {
				t.Fatalf("document %v and report %v for %s", d, r, src)
			}
			if d != nil {
				if _, err := Compile(d); err != nil {
					t.Fatalf("valid document does not compile: %v\n%s", err, src)
				}
			}
		}
	}
	for cut := range base { // a truncated document
		if d, r := Parse([]byte(base[:cut])); d != nil || r.OK() {
			t.Fatalf("the first %d bytes were taken", cut)
		}
	}
}

// valueEnd is where the scalar or empty value after a colon at i ends, -1 when
// there is none.
func valueEnd(s string, i int) int {
	if s[i] != ':' || i+1 == len(s) || i == 0 || s[i-1] != '"' {
		return -1
	}
	if s[i+1] == '"' {
		return i + 2 + strings.IndexByte(s[i+2:], '"') + 1
	}
	if s[i+1] == '{' || s[i+1] == '[' {
		depth := 0
		for j := i + 1; j < len(s); j++ {
			switch s[j] {
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return j + 1
				}
			}
		}
	}
	return i + 1 + strings.IndexAny(s[i+1:], ",}]")
}
