// Package service runs the long-lived parts of a process together: when one
// ends, or the process is told to stop, all are stopped and waited for.
//
// It imports nothing of this module.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Task is one part. Run returns when ctx is done, or earlier with an error;
// ending without one before ctx is done is a fault too.
type Task struct {
	Name string
	Run  func(ctx context.Context) error
}

// Run runs all tasks until ctx is done or one of them ends, then stops the
// others and waits up to grace. It returns the error of the task that ended
// first; being told to stop is not an error.
func Run(ctx context.Context, log *slog.Logger, grace time.Duration, tasks ...Task) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		name string
		err  error
	}
	ends := make(chan end, len(tasks))
	for _, t := range tasks {
		go func() { ends <- end{t.Name, guard(ctx, t)} }()
	}
	var first error
	var late <-chan time.Time
	done := ctx.Done()
	for left := len(tasks); left > 0; {
		select {
		case <-done:
			done, late = nil, time.After(grace)
		case e := <-ends:
			left--
			stopping := ctx.Err() != nil
			if e.err != nil && (!stopping || !errors.Is(e.err, context.Canceled)) {
				log.Error("part ended", "part", e.name, "error", e.err)
			}
			if first == nil && !stopping {
				first = fmt.Errorf("%s: %w", e.name, ended(e.err))
			}
			cancel()
		case <-late:
			return errors.Join(first, fmt.Errorf("%d parts did not stop within %s", left, grace))
		}
	}
	return first
}

// errEnded is for a part that returned nil while it should run.
var errEnded = errors.New("ended by itself")

func ended(err error) error {
	if err == nil {
		return errEnded
	}
	return err
}

// guard turns a panic of a part into its error, so that the others still stop
// in order.
func guard(ctx context.Context, t Task) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return t.Run(ctx)
}

// HTTP is the task that serves srv on l and, when told to stop, lets requests
// that are under way finish for up to drain.
func HTTP(name string, srv *http.Server, l net.Listener, drain time.Duration) Task {
	return Task{Name: name, Run: func(ctx context.Context) error {
		failed := make(chan error, 1)
		go func() { failed <- srv.Serve(l) }()
		select {
		case err := <-failed:
			return fmt.Errorf("serve on %s: %w", l.Addr(), err)
		case <-ctx.Done():
		}
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		if err := srv.Shutdown(dctx); err != nil {
			_ = srv.Close()
			return fmt.Errorf("drain %s: %w", l.Addr(), err)
		}
		return nil
	}}
}
