// Package suite knows what is measured, what should come out, and how to tell it.
//
// It imports bench's other packages and, of headgate, limiter and policy.
package suite

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate/headgate/bench/internal/contend"
	"github.com/headgate/headgate/bench/internal/meas"
)

// Options say how long to measure.
type Options struct {
	Rounds       int
	Warm, Length time.Duration // of a round
	// Identifiers is how many the memory of Redis is measured with, Sizes how many
	// that of a replica. Without any, memory is not measured.
	Identifiers int
	Sizes       []int
	Doors       Doors
	Only        string    // measure only cases whose names contain one of these, separated by semicolons
	Progress    io.Writer // told what goes on
}

// Full measures for less than ten minutes.
func Full() Options {
	return Options{
		Rounds: 5, Warm: 200 * time.Millisecond, Length: 1200 * time.Millisecond,
		Identifiers: 1_000_000, Sizes: []int{100_000, 1_000_000, 10_000_000},
	}
}

// Quick measures for less than 90 seconds.
func Quick() Options {
	return Options{
		Rounds: 3, Warm: 100 * time.Millisecond, Length: 400 * time.Millisecond,
		Identifiers: 100_000, Sizes: []int{300_000, 1_000_000},
	}
}

func (o *Options) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(o.Progress, format+"\n", args...) // nobody waits for it
}

// Run measures everything on a private Redis.
func Run(ctx context.Context, o Options) (*Report, error) {
	began := time.Now()
	b, err := newBench(ctx)
	if err != nil {
		return nil, err
	}
	defer b.stop()
	report := &Report{Date: began.UTC(), Machine: machine(), Redis: b.redis.Version(ctx), Options: o}
	if err := b.measure(ctx, o, report); err != nil {
		return nil, err
	}
	if o.Identifiers > 0 {
		if report.Memory, err = b.memory(ctx, o); err != nil {
			return nil, err
		}
	}
	if err := measureDoors(ctx, o, report); err != nil {
		return nil, err
	}
	report.Targets = append(report.Targets, report.Memory.targets()...)
	report.Took = time.Since(began)
	return report, nil
}

func (b *bench) measure(ctx context.Context, o Options, report *Report) error {
	cases, err := b.cases(ctx)
	if err != nil {
		return err
	}
	cases = only(cases, o.Only)
	alone, err := b.alone(ctx)
	if err != nil {
		return err
	}
	plan := meas.Plan{Callers: callers, Rounds: o.Rounds, Warm: o.Warm, Length: o.Length, Progress: o.progress}
	measured, err := plan.Run(ctx, append(cases, only([]meas.Case{alone.asCase()}, o.Only)...))
	if err != nil {
		return err
	}
	for _, c := range cases {
		report.Cases = append(report.Cases, measured[c.Name])
	}
	shares := map[string]float64{}
	for name, bound := range b.bounds {
		shares[name] = bound.Share()
	}
	report.Targets = results(measured).targets(alone, shares)
	return nil
}

// alone is a lone caller's decision beside a bare script call.
func (b *bench) alone(ctx context.Context) (*pair, error) {
	bare, err := contend.BareScript(ctx, b.client)
	if err != nil {
		return nil, err
	}
	return &pair{first: b.replicas[0].Decide(contend.OneLimit()), second: bare}, nil
}

func (p *pair) asCase() meas.Case {
	return meas.Case{Name: "headgate and EVALSHA return 1 in turn, one caller", Callers: 1, Op: p.op, After: p.end}
}

func (b *bench) memory(ctx context.Context, o Options) (*Memory, error) {
	m := &Memory{Identifiers: o.Identifiers, Sizes: o.Sizes}
	var err error
	if m.Redis, err = b.measureRedis(ctx, o.Identifiers, o.progress); err != nil {
		return nil, err
	}
	o.progress("memory of a replica, up to %d identifiers", o.Sizes[len(o.Sizes)-1])
	if m.Denied, err = heaps(ctx, refusing{}, o.Sizes); err != nil {
		return nil, err
	}
	m.Fallback, err = heaps(ctx, away{}, o.Sizes)
	return m, err
}

func only(cases []meas.Case, parts string) []meas.Case {
	if parts == "" {
		return cases
	}
	var kept []meas.Case
	for _, c := range cases {
		for part := range strings.SplitSeq(parts, ";") {
			if strings.Contains(c.Name, part) {
				kept = append(kept, c)
				break
			}
		}
	}
	return kept
}
