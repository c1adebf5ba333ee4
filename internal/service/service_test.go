package service_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func logger() (*slog.Logger, *logBuffer) {
	b := &logBuffer{}
	return slog.New(slog.NewTextHandler(b, nil)), b
}

// lasting runs until it is told to stop and says that it was.
func lasting(name string, stopped chan<- string) service.Task {
	return service.Task{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		stopped <- name
		return ctx.Err()
	}}
}

func TestRun_StopsAllWhenToldAndCallsItNoError(t *testing.T) {
	t.Parallel()
	log, out := logger()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan string, 2)
	cancel()
	if err := service.Run(ctx, log, time.Minute, lasting("a", stopped), lasting("b", stopped)); err != nil {
		t.Errorf("Run() = %v", err)
	}
	if len(stopped) != 2 {
		t.Errorf("%d of 2 parts were stopped", len(stopped))
	}
	if out.String() != "" {
		t.Errorf("logged %q", out)
	}
}

func TestRun_OnePartsErrorStopsTheOthersAndIsReturned(t *testing.T) {
	t.Parallel()
	log, out := logger()
	broken := errors.New("broken")
	stopped := make(chan string, 1)
	err := service.Run(t.Context(), log, time.Minute, lasting("a", stopped),
		service.Task{Name: "b", Run: func(context.Context) error { return broken }})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "b: ") {
		t.Errorf("Run() = %v", err)
	}
	if len(stopped) != 1 {
		t.Error("the other part was not stopped")
	}
	if !strings.Contains(out.String(), "part=b") {
		t.Errorf("log %q does not name the part", out)
	}
}

func TestRun_EndingWithoutAnErrorIsAFault(t *testing.T) {
	t.Parallel()
	log, _ := logger()
	err := service.Run(t.Context(), log, time.Minute, service.Task{Name: "a", Run: func(context.Context) error { return nil }})
	if err == nil || !strings.Contains(err.Error(), "a: ended by itself") {
		t.Errorf("Run() = %v", err)
	}
}

func TestRun_APanicIsThePartsError(t *testing.T) {
	t.Parallel()
	log, _ := logger()
	err := service.Run(t.Context(), log, time.Minute, service.Task{Name: "a", Run: func(context.Context) error { panic("boom") }})
	if err == nil || !strings.Contains(err.Error(), "a: panic: boom") {
		t.Errorf("Run() = %v", err)
	}
}

func TestRun_DoesNotWaitLongerThanItsGrace(t *testing.T) {
	t.Parallel()
	log, _ := logger()
	release := make(chan struct{})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := service.Run(ctx, log, time.Millisecond, service.Task{Name: "deaf", Run: func(context.Context) error {
		<-release
		return nil
	}})
	if err == nil || !strings.Contains(err.Error(), "1 parts did not stop") {
		t.Errorf("Run() = %v", err)
	}
}

func TestHTTP_LetsARequestUnderWayFinish(t *testing.T) {
	t.Parallel()
	log, _ := logger()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	under, release := make(chan struct{}), make(chan struct{})
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(under)
		<-release
		_, _ = io.WriteString(w, "finished")
	})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx, log, time.Minute, service.HTTP("web", srv, l, time.Minute)) }()
	answer := make(chan string, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			answer <- err.Error()
			return
		}
		defer func() { _ = res.Body.Close() }()
		b, _ := io.ReadAll(res.Body)
		answer <- string(b)
	}()
	<-under
	cancel()
	close(release)
	if got := <-answer; got != "finished" {
		t.Errorf("the request under way got %q", got)
	}
	if err := <-done; err != nil {
		t.Errorf("Run() = %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("still accepts connections")
	}
}

func TestHTTP_CutsOffWhatOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	log, _ := logger()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	under := make(chan struct{})
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(under)
		<-r.Context().Done()
	})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx, log, time.Minute, service.HTTP("web", srv, l, time.Millisecond)) }()
	failed := make(chan error, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + l.Addr().String())
		if err == nil {
			_ = res.Body.Close()
		}
		failed <- err
	}()
	<-under
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v: cutting off while stopping is only logged", err)
	}
	if <-failed == nil {
		t.Error("the request that outlasted the drain got an answer")
	}
}

func TestHTTP_AListenerThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	log, _ := logger()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	err = service.Run(t.Context(), log, time.Minute, service.HTTP("web", &http.Server{ReadHeaderTimeout: time.Second}, l, time.Second))
	if err == nil || !strings.Contains(err.Error(), "web: serve on") {
		t.Errorf("Run() = %v", err)
	}
}
