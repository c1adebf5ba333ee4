package httpdoor

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestMain lets the test's program be the bare proxy.
func TestMain(m *testing.M) {
	if IsBare() {
		if err := Serve(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestBare_ForwardsAndRefuses_T7(t *testing.T) {
	t.Parallel()
	u, err := StartUpstream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Stop)
	b, err := StartBare(t.Context(), t.TempDir(), u.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	if b.PID() == os.Getpid() {
		t.Error("the proxy is no process of its own")
	}
	for path, admitted := range map[string]uint64{Admitted: 1, Refused: 0} {
		l := Load{Address: b.Address, Path: path}
		if err := l.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(3) {
			tally, err := l.Op(t.Context(), int(i), i)
			if err != nil || tally.Decisions != 1 || tally.Admitted != admitted {
				t.Errorf("%s: %+v, %v", path, tally, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLoad_GoesRoundTheKeysAndTellsOtherAnswers(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 4)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(s.Close)
	l := Load{Address: strings.TrimPrefix(s.URL, "http://"), Path: Admitted, Keys: []string{"a", "b"}}
	if err := l.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got := map[string]bool{}
	for i := range uint64(4) {
		if _, err := l.Op(t.Context(), 0, i); err == nil || !strings.Contains(err.Error(), "502") {
			t.Errorf("a 502 counts as an answer: %v", err)
		}
		got[<-seen] = true
	}
	if len(got) != 2 || !got["Bearer a"] || !got["Bearer b"] {
		t.Errorf("keys were %v", got)
	}
}

func TestLoad_NobodyListens(t *testing.T) {
	t.Parallel()
	l := Load{Address: "127.0.0.1:1", Path: Admitted}
	if err := l.Open(t.Context()); err == nil {
		t.Error("connected to nobody")
	}
}
