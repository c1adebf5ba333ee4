package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/child"
)

// runAsCmd becomes another command as another user. With it the demo's
// PostgreSQL can be started again: by root, as which it refuses to run, and
// right after a kill, while its last processes are still going.
type runAsCmd struct {
	UID     int      `help:"User id." required:"" env:"-"`
	GID     int      `help:"Group id." required:"" env:"-"`
	IdleDir string   `help:"First wait, up to 10 s, until no process works in this folder." env:"-"`
	Argv    []string `arg:"" passthrough:"" help:"Command, by its path, and its arguments."`
}

// Run does not return when it succeeds.
func (c *runAsCmd) Run(_ context.Context) error {
	argv := c.Argv
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return errors.New("run-as: no command")
	}
	if c.IdleDir != "" {
		child.WaitIdle(c.IdleDir, 10*time.Second)
	}
	if os.Getuid() != c.UID {
		err := errors.Join(syscall.Setgroups([]int{c.GID}), syscall.Setgid(c.GID), syscall.Setuid(c.UID))
		if err != nil {
			return fmt.Errorf("run-as: become user %d: %w", c.UID, err)
		}
	}
	return fmt.Errorf("run-as: %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}
