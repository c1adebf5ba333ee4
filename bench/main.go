// Command bench measures headgate's limiter beside its peers, all in one run on one
// private Redis, prints what came out and what should have, and writes it into a
// document. It exits with 0 whatever the figures are; only a limit that was exceeded is
// a failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"

	"github.com/headgate/headgate/bench/internal/envoy"
	"github.com/headgate/headgate/bench/internal/httpdoor"
	"github.com/headgate/headgate/bench/internal/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if httpdoor.IsBare() {
		err = httpdoor.Serve(ctx)
	} else {
		err = run(ctx, os.Args[1:])
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are what the command line says.
type settings struct {
	quick, peerConfig  bool
	only, out, profile string
	doors              suite.Doors
}

func parse(args []string) (*settings, error) {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&s.quick, "quick", false, "measure for a minute instead of ten")
	flags.StringVar(&s.only, "only", "", "measure only cases whose names contain one of these, separated by semicolons; memory is one of them")
	flags.StringVar(&s.out, "out", "", "write the document to this file")
	flags.StringVar(&s.doors.Gateway, "gateway", "", "measure the Envoy and proxy doors of this headgate binary")
	flags.StringVar(&s.doors.PeerBinary, "peer-binary", "", "measure this envoyproxy/ratelimit binary beside it")
	flags.StringVar(&s.doors.Peer, "peer", "", "measure the Envoy rate-limit service at this address instead; it has to know the configuration that -peer-config prints")
	flags.IntVar(&s.doors.PeerPID, "peer-pid", 0, "its process, for the processor time")
	flags.BoolVar(&s.peerConfig, "peer-config", false, "print envoyproxy/ratelimit's configuration for -peer, and end")
	flags.StringVar(&s.profile, "cpuprofile", "", "write a CPU profile of this process to this file")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("there is no argument %q, only flags (-help)", flags.Arg(0))
	}
	for _, file := range []*string{&s.doors.Gateway, &s.doors.PeerBinary} { // they are started elsewhere
		if *file == "" {
			continue
		}
		absolute, err := filepath.Abs(*file)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", *file, err)
		}
		*file = absolute
	}
	return &s, nil
}

func (s *settings) options() suite.Options {
	o := suite.Full()
	if s.quick {
		o = suite.Quick()
	}
	o.Progress, o.Doors, o.Only = os.Stderr, s.doors, s.only
	if o.Only != "" && !strings.Contains(o.Only, "memory") {
		o.Identifiers = 0
	}
	return o
}

func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	if s.peerConfig {
		_, err := fmt.Print(envoy.Config)
		return err
	}
	if s.profile != "" {
		stop, err := startProfile(s.profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	report, err := suite.Run(ctx, s.options())
	if err != nil {
		return err
	}
	return write(report, s.out)
}

func write(report *suite.Report, path string) error {
	if err := report.Text(os.Stdout); err != nil {
		return err
	}
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, []byte(report.Markdown()), 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

func startProfile(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write a profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("write a profile: %w", err), f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}
