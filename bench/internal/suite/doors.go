package suite

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/headgate/headgate/bench/internal/envoy"
	"github.com/headgate/headgate/bench/internal/httpdoor"
	"github.com/headgate/headgate/bench/internal/lab"
	"github.com/headgate/headgate/bench/internal/meas"
)

// Doors say which Envoy rate-limit services are measured.
type Doors struct {
	Gateway string // a headgate binary, which is started; "": none
	// PeerBinary is an envoyproxy/ratelimit binary, which is started; or Peer is the
	// address of any service that runs with envoy.Config, and PeerPID its process.
	PeerBinary, Peer string
	PeerPID          int
}

const (
	service   = "service" // its name in the measures
	oursDoor  = "headgate, Envoy door"
	theirDoor = "envoyproxy/ratelimit"

	proxyAdmitted = "headgate, proxy door, one limit"
	proxyRefused  = "headgate, proxy door, refused, remembered"
	bareAdmitted  = "bare httputil.ReverseProxy"
	bareRefused   = "bare handler that answers 429"
)

func doorName(door string, kind envoy.Kind) string { return door + ", " + string(kind) }

// doors are services under load, on a Redis of their own.
type doors struct {
	redis    *lab.Redis
	dir      string
	services map[string]*envoy.Service
	keys     []string           // of the tenants at the proxy door
	upstream *httpdoor.Upstream // of the proxy door, and of the bare one beside it
	bare     *httpdoor.Bare
}

func openDoors(ctx context.Context, d Doors) (*doors, error) {
	r, err := lab.Start(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "headgate-bench-doors-")
	if err != nil {
		r.Stop()
		return nil, fmt.Errorf("make folder for services: %w", err)
	}
	o := &doors{redis: r, dir: dir, services: map[string]*envoy.Service{}}
	if err := o.start(ctx, d); err != nil {
		o.stop()
		return nil, err
	}
	return o, nil
}

func (o *doors) start(ctx context.Context, d Doors) error {
	if d.Gateway != "" {
		keyFile := filepath.Join(o.dir, "policy.pub.pem")
		var err error
		if o.keys, err = envoy.Publish(ctx, o.redis.Client, keyFile); err != nil {
			return err
		}
		if o.upstream, err = httpdoor.StartUpstream(); err != nil { //nolint:contextcheck // it lives as long as the doors
			return err
		}
		s, err := envoy.StartGateway(ctx, d.Gateway, o.dir, o.redis.URL, keyFile, o.upstream.URL)
		if err != nil {
			return err
		}
		o.services[oursDoor] = s
		if o.bare, err = httpdoor.StartBare(ctx, o.dir, o.upstream.URL); err != nil {
			return err
		}
	}
	switch {
	case d.Peer != "":
		o.services[theirDoor] = envoy.At(d.Peer, d.PeerPID)
	case d.PeerBinary != "":
		u, err := url.Parse(o.redis.URL)
		if err != nil {
			return fmt.Errorf("the private Redis: %w", err)
		}
		s, err := envoy.StartPeer(ctx, d.PeerBinary, o.dir, u.Host)
		if err != nil {
			return err
		}
		o.services[theirDoor] = s
	}
	return nil
}

func (o *doors) stop() {
	for _, s := range o.services {
		s.Stop()
	}
	if o.bare != nil {
		o.bare.Stop()
	}
	if o.upstream != nil {
		o.upstream.Stop()
	}
	o.redis.Stop()
	_ = os.RemoveAll(o.dir)
}

// cases are all kinds of calls at all services.
func (o *doors) cases() []meas.Case {
	var cases []meas.Case
	for _, kind := range []envoy.Kind{envoy.One, envoy.Four, envoy.Refused} {
		for _, door := range []string{oursDoor, theirDoor} {
			s := o.services[door]
			if s == nil {
				continue
			}
			messages := envoy.Ours(kind)
			if door == theirDoor {
				messages = envoy.Theirs(kind)
			}
			load := &envoy.Load{Address: s.Address, Messages: messages}
			c := meas.Case{
				Name: doorName(door, kind), Callers: envoy.Conns, Op: load.Op, Before: load.Open,
				After:     func(context.Context, *meas.Round) error { return load.Close() },
				Processes: []meas.Process{{Name: server, PID: o.redis.PID()}},
				Counter:   o.redis.ScriptCalls,
			}
			if s.PID() != 0 {
				c.Processes = append(c.Processes, meas.Process{Name: service, PID: s.PID()})
			}
			cases = append(cases, c)
		}
	}
	return append(cases, o.proxies()...)
}

// proxies are calls at the proxy door, each beside the same at the bare one. The
// upstream is in this process.
func (o *doors) proxies() []meas.Case {
	ours := o.services[oursDoor]
	if ours == nil || o.bare == nil {
		return nil
	}
	var cases []meas.Case
	for _, c := range []struct {
		name, path, address string
		keys                []string
		pid                 int
	}{
		{proxyAdmitted, httpdoor.Admitted, ours.Proxy, o.keys, ours.PID()},
		{bareAdmitted, httpdoor.Admitted, o.bare.Address, nil, o.bare.PID()},
		{proxyRefused, httpdoor.Refused, ours.Proxy, o.keys, ours.PID()},
		{bareRefused, httpdoor.Refused, o.bare.Address, nil, o.bare.PID()},
	} {
		load := &httpdoor.Load{Address: c.address, Path: c.path, Keys: c.keys}
		cases = append(cases, meas.Case{
			Name: c.name, Callers: httpdoor.Callers, Op: load.Op, Before: load.Open,
			After:     func(context.Context, *meas.Round) error { return load.Close() },
			Processes: []meas.Process{{Name: server, PID: o.redis.PID()}, {Name: service, PID: c.pid}},
			Counter:   o.redis.ScriptCalls,
		})
	}
	return cases
}

// measureDoors measures the services, if there are any.
func measureDoors(ctx context.Context, o Options, report *Report) error {
	if o.Doors == (Doors{}) {
		return nil
	}
	opened, err := openDoors(ctx, o.Doors)
	if err != nil {
		return err
	}
	defer opened.stop()
	cases := only(opened.cases(), o.Only)
	plan := meas.Plan{Callers: envoy.Conns, Rounds: o.Rounds, Warm: o.Warm + 200*time.Millisecond, Length: o.Length, Progress: o.progress}
	measured, err := plan.Run(ctx, cases)
	if err != nil {
		return err
	}
	for _, c := range cases {
		report.Doors = append(report.Doors, measured[c.Name])
	}
	report.Targets = append(report.Targets, results(measured).doors()...)
	return nil
}

// doors judges T6 and T7.
func (r results) doors() []Target {
	var all []Target
	for _, t := range []struct {
		kind          envoy.Kind
		faster        float64
		cpu, lateness float64 // 0: nothing is wanted
	}{{envoy.One, 1.6, 0.55, 0.6}, {envoy.Four, 1.6, 0.55, 0.6}, {envoy.Refused, 1.5, 0, 0}} {
		ours, theirs := doorName(oursDoor, t.kind), doorName(theirDoor, t.kind)
		what := string(t.kind) + ", Envoy door beside envoyproxy/ratelimit"
		all = append(all, r.faster("T6", what, ours, theirs, t.faster)...)
		if t.cpu > 0 {
			all = append(all, r.cheaper("T6", what+", server CPU", service, ours, theirs, t.cpu)...)
			all = append(all, r.sooner("T6", what+", p99", ours, theirs, t.lateness)...)
		}
	}
	all = append(all, r.faster("T7", "proxy door, admitted, beside a bare httputil.ReverseProxy", proxyAdmitted, bareAdmitted, 0.7)...)
	return append(all, r.faster("T7", "proxy door, refused and remembered, beside a bare 429 handler", proxyRefused, bareRefused, 0.8)...)
}

// sooner compares the 99th percentiles.
func (r results) sooner(id, what, ours, theirs string, want float64) []Target {
	if !r.have(ours, theirs) {
		return nil
	}
	p99 := func(o *meas.Round) float64 { return float64(o.Latency.Quantile(.99)) }
	ratio := meas.Ratio(r[ours], r[theirs], p99)
	return []Target{{
		ID: id, What: what, Wants: fmt.Sprintf("≤ %.2g ×", want), Met: ratio <= want,
		Figure: fmt.Sprintf("%s : %s = %.2f ×", micros(r[ours].Quantile(.99)), micros(r[theirs].Quantile(.99)), ratio),
	}}
}
