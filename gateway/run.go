package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 120 * time.Second
	maxHeaderBytes    = 64 << 10
	warmTimeout       = 250 * time.Millisecond
)

// Bound are the addresses that a gateway listens on, "" where it does not.
type Bound struct {
	Proxy  string `json:"proxy"`
	Decide string `json:"decide"`
	Admin  string `json:"admin"`
	GRPC   string `json:"grpc"`
}

// door is one listener with its server.
type door struct {
	name     string
	listener net.Listener
	server   Door
}

// httpDoor is a Door on net/http.
type httpDoor struct{ *http.Server }

// Serve answers until the server is closed.
func (d httpDoor) Serve(l net.Listener) error {
	if err := d.Server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// Run listens, serves until ctx ends, then stops in order: readiness off, doors
// closed, requests in flight finished within the grace, last counts sent, last
// heartbeat. It returns an error when something that has to run failed.
func (g *Gateway) Run(ctx context.Context) error {
	doors, err := g.listen(ctx)
	if err != nil {
		return err
	}
	if err := g.writeAddresses(); err != nil {
		closeAll(doors)
		return err
	}
	return g.serve(ctx, doors)
}

// serve runs the doors and the background until ctx ends or one of them fails.
func (g *Gateway) serve(ctx context.Context, doors []door) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	failed := make(chan error, len(doors)+11)
	g.prepareLog(background)
	var tasks, servers sync.WaitGroup
	for name, run := range map[string]func(context.Context) error{
		"policy": g.cfg.Policies.Run, "directory": g.cfg.Directory.Run, "limiter": g.limiter.Run,
		"heartbeat": g.beatLoop, "counts": g.usageLoop, "decisions": g.decisionLoop, "keys' use": g.keyUseLoop, "refused": g.refusedLoop, "state": g.keepState, "console": g.consoleLoop, "ledger": g.ledgerLoop,
	} {
		tasks.Go(func() {
			if err := run(background); err != nil && background.Err() == nil {
				failed <- fmt.Errorf("%s stopped: %w", name, err)
			}
		})
	}
	g.warm(background)
	for _, d := range doors {
		servers.Go(func() {
			if err := d.server.Serve(d.listener); err != nil {
				failed <- fmt.Errorf("%s door stopped: %w", d.name, err)
			}
		})
	}
	g.cfg.Log.Info("gateway runs", "replica", g.cfg.Identity.ID, "boot", g.cfg.Identity.Boot, "build", g.cfg.Build,
		"proxy", g.bound.Proxy, "decide", g.bound.Decide, "admin", g.bound.Admin, "grpc", g.bound.GRPC)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	g.drain(background, doors)
	stop()
	tasks.Wait()
	servers.Wait()
	return err
}

// warm dials the store and loads its script before the first request needs both
// within its budget. An error is left to the first decision.
func (g *Gateway) warm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	_ = g.cfg.Store.Ping(ctx)
}

// drain ends the doors that carry traffic first, and the admin door last, so
// that readiness can be seen to be off while requests finish.
func (g *Gateway) drain(ctx context.Context, doors []door) {
	g.draining.Store(true)
	g.cfg.Log.Info("gateway drains", "grace", g.cfg.Drain.String())
	grace, cancel := context.WithTimeout(ctx, g.cfg.Drain)
	defer cancel()
	var traffic sync.WaitGroup
	for _, d := range doors {
		if d.name == "admin" {
			continue
		}
		traffic.Go(func() {
			if err := d.server.Shutdown(grace); err != nil {
				g.cfg.Log.Warn("requests were cut off at the end of the grace", "door", d.name)
				_ = d.server.Close()
			}
		})
	}
	traffic.Wait()
	for _, d := range doors {
		_ = d.server.Close()
	}
}

// listen binds all doors or none.
func (g *Gateway) listen(ctx context.Context) ([]door, error) {
	var doors []door
	var problems []error
	for _, want := range []struct {
		name, flag, addr string
		server           func(*Gateway) (Door, error)
		bound            *string
	}{
		{"proxy", "--listen", g.cfg.Listen, g.serverOf(g.ProxyHandler()), &g.bound.Proxy},
		{"decide", "--decide-listen", g.cfg.DecideListen, g.serverOf(g.DecideHandler()), &g.bound.Decide},
		{"grpc", "--grpc-listen", g.cfg.GRPCListen, g.cfg.GRPCDoor, &g.bound.GRPC},
		{"admin", "--admin-listen", g.cfg.AdminListen, g.serverOf(g.AdminHandler()), &g.bound.Admin},
	} {
		if want.addr == "" {
			continue
		}
		server, err := want.server(g)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", want.flag, err))
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", want.addr)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", want.flag, err))
			continue
		}
		*want.bound = l.Addr().String()
		doors = append(doors, door{want.name, l, server})
	}
	if len(problems) > 0 {
		closeAll(doors)
		return nil, errors.Join(problems...)
	}
	return doors, nil
}

// serverOf has the limits that every HTTP door needs. There is no limit on the
// whole request: uploads and streams may be long.
func (g *Gateway) serverOf(h http.Handler) func(*Gateway) (Door, error) {
	return func(*Gateway) (Door, error) { return httpDoor{g.httpServer(h)}, nil }
}

func (g *Gateway) httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(serverLog{g.cfg.Log}, "", 0),
	}
}

func closeAll(doors []door) {
	for _, d := range doors {
		_ = d.listener.Close()
	}
}

// writeAddresses tells whoever started the gateway where it listens.
func (g *Gateway) writeAddresses() error {
	if g.cfg.AddrFile == "" {
		return nil
	}
	raw, err := json.Marshal(g.bound)
	if err != nil {
		return fmt.Errorf("encode addresses: %w", err)
	}
	if err := writeFile(g.cfg.AddrFile, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("--addr-file: %w", err)
	}
	return nil
}

// serverLog takes the lines of net/http. What callers can cause at will (bad
// handshakes, broken requests) is for debugging; a panic is a fault of ours.
type serverLog struct{ log *slog.Logger }

// maxLogged bounds one line of net/http in the log, in bytes.
const maxLogged = 8 << 10

// Write logs one line.
func (s serverLog) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.Contains(line, []byte("panic")) {
		level = slog.LevelError
	}
	s.log.Log(context.Background(), level, "http server", "text", string(bytes.TrimSpace(line[:min(len(line), maxLogged)])))
	return len(line), nil
}
