package csvout

import (
	"encoding/csv"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
)

// corpus is what others have got spreadsheets to run, and texts near it.
func corpus() []string {
	return []string{
		"=1+1", "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1,1)", "\t=1", "\r=1", "\n=1", " =1", "  \t =1", "＝1+1", "＋1", "－1", "＠SUM(1)",
		`=HYPERLINK("http://x","y")`, `=IMPORTXML("http://x","//a")`, "=1,2", `="a""b"`, "'=1", "''=1", "' =1", "'", "''", "plain", "O'Brien", "a=b",
		"-", "+", "=", "@", "\u00a0=1", "\u200b=1", "\ufeff=1", "a\nb", `a"b`, "a,b", "", " ", "-5", "é=1", "'plain", "日本", "\u2028=1",
	}
}

func dangerous(s string) bool {
	if s == "" {
		return false
	}
	if strings.ContainsRune("\t\r\n", rune(s[0])) {
		return true
	}
	s = strings.TrimLeftFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Cc, r) })
	for _, lead := range []string{"=", "+", "-", "@", "＝", "＋", "－", "＠"} {
		if strings.HasPrefix(s, lead) {
			return true
		}
	}
	return false
}

func TestRow_A08_R115_NoTextRunsAndEachComesBack(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := NewWriter(&b)
	for _, s := range corpus() {
		if err := w.Row("x", s, "y"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(corpus()) {
		t.Fatalf("%d rows, want %d", len(rows), len(corpus()))
	}
	for i, want := range corpus() {
		got := rows[i][1]
		if dangerous(got) {
			t.Errorf("%q is written as %q, which runs", want, got)
		}
		// encoding/csv reads CRLF within a field as LF, and so drops a CR before one.
		if back := Restore(got); back != want {
			t.Errorf("%q came back as %q", want, back)
		}
	}
}

func TestRow_A08_NumbersStayNumbers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := NewWriter(&b)
	at := time.Date(2026, 1, 15, 16, 0, 0, 0, time.FixedZone("", 8*3600))
	if err := w.Row(int64(-5), 7, true, at, (*time.Time)(nil), time.Time{}, []string{"a", "b"}, nil, &at); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "-5,7,true,2026-01-15T16:00:00+08:00,,,a b,,2026-01-15T16:00:00+08:00\r\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestRow_RefusesWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	if err := NewWriter(io.Discard).Row("a", struct{}{}); err == nil || !strings.Contains(err.Error(), "cell 2") {
		t.Errorf("got %v, want an error that names the cell", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestRow_SaysThatNobodyReads(t *testing.T) {
	t.Parallel()
	w := NewWriter(broken{})
	_ = w.Row(strings.Repeat("x", 8192))
	if err := w.Row("y"); err == nil {
		if err = w.Flush(); err == nil {
			t.Error("writing to a closed pipe is no error")
		}
	}
}

func TestFileName_HasNoPlaceForAHeader(t *testing.T) {
	t.Parallel()
	got := FileName("ten\r\nX: y\"/../ants", time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC))
	if got != `attachment; filename="headgate-tenXy..ants-2026-11-30.csv"` {
		t.Errorf("got %q", got)
	}
}

// A million rows pass through without being kept.
func TestRow_A08_AMillionRowsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	w := NewWriter(io.Discard)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 1_000_000 {
		if err := w.Row(int64(i), "=tenant", "free"); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func FuzzDefuse(f *testing.F) {
	for _, s := range corpus() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := Defuse(s)
		if dangerous(out) {
			t.Errorf("%q is written as %q", s, out)
		}
		if back := Restore(out); back != s {
			t.Errorf("%q came back as %q", s, back)
		}
	})
}

func ExampleWriter() {
	var b strings.Builder
	w := NewWriter(&b)
	_ = w.Row("tenant", "requests")
	_ = w.Row("=Acme", int64(3))
	_ = w.Flush()
	fmt.Print(strings.ReplaceAll(b.String(), "\r\n", "\n"))
	// Output:
	// tenant,requests
	// '=Acme,3
}
