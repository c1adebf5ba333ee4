package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// demoCmd runs a whole deployment on this machine. Every part is a process of
// its own; one that is killed stays down until somebody starts it again.
type demoCmd struct {
	Gateways       int           `help:"How many gateways." default:"3"`
	Port           int           `help:"First port: the console's; the other parts take the next ones. A port that is given has to be free; without one, free ports are looked for from 8480 on." placeholder:"PORT"`
	Traffic        bool          `help:"Living traffic of sample tenants." default:"true" negatable:""`
	GatewayBudget  time.Duration `help:"The gateways' --budget: longest time for a decision. Longer than the default on a machine that is busy with other things." placeholder:"DURATION"`
	RedisURL       string        `help:"Use this Redis (also Sentinel or Cluster) instead of one of the demo's own." placeholder:"URL" env:"HEADGATE_DEMO_REDIS_URL"` // not HEADGATE_REDIS_URL, which a shell may have for a deployment
	RedisNamespace string        `help:"First part of every Redis key." default:"hg" env:"HEADGATE_DEMO_REDIS_NAMESPACE"`
	ReadyFile      string        `help:"Write a JSON file that describes everything, once it is up." placeholder:"FILE"`
}

// maxGateways bounds a demo: beyond it ports and memory of one machine are the limit.
const maxGateways = 32

// upTimeout bounds the start of the demo, a slow machine included.
const upTimeout = 2 * time.Minute

// Run starts everything, says where it is, and stops everything when told to.
func (c *demoCmd) Run(ctx context.Context) error {
	if c.Gateways < 1 || c.Gateways > maxGateways {
		return fmt.Errorf("--gateways: %d is not between 1 and %d", c.Gateways, maxGateways)
	}
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("--port: %d is not a port", c.Port)
	}
	if err := clearReadyFile(c.ReadyFile); err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	if !signal.Ignored(syscall.SIGHUP) { // a closed terminal ends the demo, unless under nohup
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
	}
	started := time.Now()
	d, err := newDemo(c) //nolint:contextcheck // what cleans up goes on when the context is over
	if err != nil {
		return err
	}
	defer d.stop() //nolint:contextcheck // see above
	upCtx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if err := d.up(upCtx); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop while starting
		}
		d.keepLogs = true
		return fmt.Errorf("start the demo: %w\nThe parts' logs are in %s", err, d.dir.logs())
	}
	if c.ReadyFile != "" {
		if err := writeReadyFile(c.ReadyFile, d.ready()); err != nil {
			return err
		}
	}
	d.announce(time.Since(started))
	d.watch(ctx)
	return nil
}

// demo is a running demo.
type demo struct {
	opts     *demoCmd
	dir      *demoDir
	ports    demoPorts
	secrets  demoSecrets
	self     string // this binary
	parts    []*part
	tenants  []demoTenant
	apiToken string
	keepLogs bool
	returns  bool // keys are to be removed from a Redis that is not ours
}

// newDemo cleans up after demos that died, and takes a folder and ports.
func newDemo(c *demoCmd) (*demo, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	cleanStaleDemos()
	dir, err := newDemoDir()
	if err != nil {
		return nil, err
	}
	d := &demo{opts: c, dir: dir, self: self, secrets: newDemoSecrets(dir)}
	if d.ports, err = takePorts(c.Port, c.Gateways); err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

// up starts all parts in the order in which they need each other.
func (d *demo) up(ctx context.Context) error {
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"make signing keys", d.makeKeys},
		{"start PostgreSQL and Redis", d.startStores},
		{"migrate", d.migrate},
		{"start console, gateways and upstream", d.startPlanes},
		{"make an operator", d.makeOperator},
		{"wait for the console", d.waitConsole},
		{"publish the sample policy", d.publishPolicy},
		{"make sample tenants", d.makeTenants},
		{"wait for the gateways", d.waitGateways},
		{"start traffic", d.startTraffic},
	}
	for _, s := range steps {
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// watch returns when the demo is told to stop. Meanwhile it says which parts end.
func (d *demo) watch(ctx context.Context) {
	ended := make(chan *part, len(d.parts))
	for _, p := range d.parts {
		go func() {
			<-p.proc.Done()
			ended <- p
		}()
	}
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(os.Stderr, "\nStopping the demo.")
			return
		case p := <-ended:
			fmt.Fprintf(os.Stderr, "%s (pid %d) has ended: %v. The demo goes on without it; the ready file says how to start it again.\n", p.name, p.proc.PID(), p.proc.Err())
		}
	}
}

// stop ends all parts, also those that somebody else started again, and removes
// the folder.
func (d *demo) stop() {
	stopParts(d.parts)
	d.dir.endLeftovers()
	d.returnRedis()
	d.ports.release()
	if d.keepLogs {
		d.dir.removeAllButLogs()
		return
	}
	d.dir.remove()
}
