package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// runAsCmd becomes another command as another user. With it root can start the
// demo's PostgreSQL again, which refuses to run as root.
type runAsCmd struct {
	UID  int      `help:"User id." required:"" env:"-"`
	GID  int      `help:"Group id." required:"" env:"-"`
	Argv []string `arg:"" passthrough:"" help:"Command, by its path, and its arguments."`
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
	if os.Getuid() != c.UID {
		err := errors.Join(syscall.Setgroups([]int{c.GID}), syscall.Setgid(c.GID), syscall.Setuid(c.UID))
		if err != nil {
			return fmt.Errorf("run-as: become user %d: %w", c.UID, err)
		}
	}
	return fmt.Errorf("run-as: %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}
