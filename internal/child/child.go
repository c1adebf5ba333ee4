package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Spec says what to run. It is complete: the child sees Env and nothing of the
// parent's environment.
type Spec struct {
	Argv        []string            // Argv[0] is the path of the binary
	Env         []string            // KEY=value
	Dir         string              // working directory; "" is the parent's
	LogFile     string              // both outputs are appended here; "" discards them
	Credential  *syscall.Credential // nil: the parent's
	DeathSignal syscall.Signal      // sent when the parent dies (Linux); 0 is SIGTERM
}

// Process is a child that was started. Its methods are safe for concurrent use.
type Process struct {
	Spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; valid once done is closed
}

// Start starts the child and returns once the kernel has it.
func Start(s Spec) (*Process, error) {
	if len(s.Argv) == 0 {
		return nil, errors.New("start child: no command")
	}
	if s.DeathSignal == 0 {
		s.DeathSignal = syscall.SIGTERM
	}
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...) //nolint:noctx // it ends by Stop, which first asks it to
	cmd.Args, cmd.Env, cmd.Dir = s.Argv, s.Env, s.Dir
	cmd.SysProcAttr = sysProcAttr(s)
	if s.LogFile != "" {
		f, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open log of %s: %w", s.Argv[0], err)
		}
		defer func() { _ = f.Close() }()
		cmd.Stdout, cmd.Stderr = f, f
	}
	p := &Process{Spec: s, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Argv[0], err)
	}
	return p, nil
}

// run forks and waits on one thread: the kernel's death signal belongs to the
// thread that forked, so that thread has to live as long as the child.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// PID is the process id, also after the end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the child ended; it blocks until it has. Nil is exit status 0.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends a signal to the child alone; to one that has ended it does nothing.
func (p *Process) Signal(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig)
}

// Kill ends the child at once (SIGKILL) and waits for it.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop sends sig and waits; after grace the whole group is killed. It reports
// whether the child ended by itself.
func (p *Process) Stop(sig syscall.Signal, grace time.Duration) bool {
	p.Signal(sig)
	p.Signal(syscall.SIGCONT) // a suspended child would never see sig
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		<-p.done
		return false
	}
}
