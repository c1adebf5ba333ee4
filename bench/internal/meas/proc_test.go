package meas

import (
	"os"
	"testing"
	"time"
)

func TestParseStat_NameMayHoldAnything(t *testing.T) {
	t.Parallel()
	got, err := parseStat("42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0")
	if err != nil || got != 2*time.Second {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestParseStat_TellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "42 (x) S 1", "42 (x) S 1 2 3 4 5 6 7 8 9 10 many 50"} {
		if got, err := parseStat(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestParseBusy_LeavesOutIdleAndGuests(t *testing.T) {
	t.Parallel()
	got, err := parseBusy("cpu  100 1 200 9999 9999 2 3 4 77 77\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	if err != nil || got != 310*tick {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"", "cpu 1 2", "mem 1 2 3 4 5 6 7 8", "cpu a 2 3 4 5 6 7 8"} {
		if got, err := parseBusy(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestCPU_OfThisProcessGrows(t *testing.T) {
	t.Parallel()
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		now, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now > before {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a minute of work took no processor time")
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0")
	f.Add(")")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = parseStat(text)
		_, _ = parseBusy(text)
	})
}
