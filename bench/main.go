// Command bench measures headgate's limiter beside its peers, all in one run on one
// private Redis, prints what came out and what should have, and writes it into a
// document. It exits with 0 whatever came out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"

	"github.com/headgate/headgate/bench/internal/envoy"
	"github.com/headgate/headgate/bench/internal/suite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "measure for a minute instead of ten")
	only := flags.String("only", "", "measure only cases whose names contain one of these, separated by semicolons; memory is one of them")
	out := flags.String("out", "", "write the document to this file")
	var d suite.Doors
	flags.StringVar(&d.Gateway, "gateway", "", "measure the Envoy door of this headgate binary")
	flags.StringVar(&d.PeerBinary, "peer-binary", "", "measure this envoyproxy/ratelimit binary beside it")
	flags.StringVar(&d.Peer, "peer", "", "measure the Envoy rate-limit service at this address instead; it has to know the configuration that -peer-config prints")
	flags.IntVar(&d.PeerPID, "peer-pid", 0, "its process, for the processor time")
	peerConfig := flags.Bool("peer-config", false, "print envoyproxy/ratelimit's configuration for -peer, and end")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this process to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *peerConfig {
		_, err := fmt.Print(envoy.Config)
		return err
	}
	o := suite.Full()
	if *quick {
		o = suite.Quick()
	}
	o.Progress, o.Doors = os.Stderr, d
	if o.Only = *only; o.Only != "" && !strings.Contains(o.Only, "memory") {
		o.Identifiers = 0
	}
	if *profile != "" {
		stop, err := startProfile(*profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	report, err := suite.Run(ctx, o)
	if err != nil {
		return err
	}
	return write(report, *out)
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
