package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/child"
)

// readyFile describes a demo that is up, for scripts and tests.
type readyFile struct {
	Console       string         `json:"console"`        // URL
	Gateways      []string       `json:"gateways"`       // URLs of the proxies
	GatewayAdmin  []string       `json:"gateway_admin"`  // URLs: /metrics, /healthz, /readyz
	GatewayDecide []string       `json:"gateway_decide"` // URLs: /v1/check, /v1/decide
	GRPC          []string       `json:"grpc"`           // addresses: Envoy's services
	Redis         string         `json:"redis"`          // URL with password
	Postgres      string         `json:"postgres"`       // URL
	Upstream      string         `json:"upstream"`       // URL
	Operator      readyOperator  `json:"operator"`
	APIToken      string         `json:"api_token"`
	Tenants       []demoTenant   `json:"tenants"`
	Processes     readyProcesses `json:"processes"`
	Dir           string         `json:"dir"`  // the demo's folder
	Logs          string         `json:"logs"` // folder with a log file a part
}

type readyOperator struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

type readyProcesses struct {
	Console  readyProcess   `json:"console"`
	Gateways []readyProcess `json:"gateways"`
	Redis    readyProcess   `json:"redis"`
	Postgres readyProcess   `json:"postgres"`
	Upstream readyProcess   `json:"upstream"`
	Traffic  *readyProcess  `json:"traffic,omitempty"`
}

// readyProcess is one part: running argv with exactly env (in cwd) starts it
// again as it was, on the same ports and with the same state.
type readyProcess struct {
	PID  int               `json:"pid"`
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env"`
	Cwd  string            `json:"cwd"`
	Log  string            `json:"log"`
}

func (d *demo) ready() readyFile {
	r := readyFile{
		Console: httpURL(d.ports.console), Gateways: httpURLs(d.ports.proxy), GatewayAdmin: httpURLs(d.ports.admin),
		GatewayDecide: httpURLs(d.ports.decide), GRPC: loopbacks(d.ports.grpc), Redis: d.secrets.redisURL, Postgres: d.secrets.databaseURL,
		Upstream: httpURL(d.ports.upstream), Operator: readyOperator{demoEmail, d.secrets.operatorPassword},
		APIToken: d.apiToken, Tenants: d.tenants, Dir: d.dir.path, Logs: d.dir.logs(),
	}
	for _, p := range d.parts {
		desc := d.describe(p.proc)
		switch {
		case p.name == "console":
			r.Processes.Console = desc
		case p.name == "redis":
			r.Processes.Redis = desc
		case p.name == "postgres":
			r.Processes.Postgres = desc
			r.Processes.Postgres.Argv = d.postgresArgv(p.proc.Spec)
		case p.name == "upstream":
			r.Processes.Upstream = desc
		case p.name == "traffic":
			r.Processes.Traffic = &desc
		case strings.HasPrefix(p.name, "gateway-"):
			r.Processes.Gateways = append(r.Processes.Gateways, desc)
		}
	}
	return r
}

// postgresArgv starts PostgreSQL as its user, once a killed one has gone.
func (d *demo) postgresArgv(s child.Spec) []string {
	uid, gid := os.Getuid(), os.Getgid()
	if c := s.Credential; c != nil {
		uid, gid = int(c.Uid), int(c.Gid)
	}
	return append([]string{d.self, "run-as", fmt.Sprintf("--uid=%d", uid), fmt.Sprintf("--gid=%d", gid),
		"--idle-dir=" + filepath.Join(s.Dir, "data"), "--"}, s.Argv...)
}

func (d *demo) describe(p *child.Process) readyProcess {
	env := map[string]string{}
	for _, kv := range p.Spec.Env {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	return readyProcess{PID: p.PID(), Argv: p.Spec.Argv, Env: env, Cwd: p.Spec.Dir, Log: p.Spec.LogFile}
}

// clearReadyFile removes an earlier demo's file, which nobody may take for this
// one's, and finds out early when the folder is not there.
func clearReadyFile(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// writeReadyFile writes the file whole or not at all; it holds secrets (0600).
func writeReadyFile(path string, r readyFile) error {
	b, err := json.MarshalIndent(r, "", "  ") //nolint:gosec // secrets are what it is for
	if err != nil {
		return fmt.Errorf("encode ready file: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".headgate-ready-*") // 0600
	if err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	_, err = tmp.Write(append(b, '\n'))
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("--ready-file: %w", err)
	}
	return nil
}

// announce prints what a person needs.
func (d *demo) announce(took time.Duration) {
	host, _ := os.Hostname()
	name := "you"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	port := strconv.Itoa(d.ports.console)
	t := d.tenants[0]
	if d.opts.Port == 0 && d.ports.console != defaultDemoPort {
		fmt.Printf("Port %d or one after it is taken; the console is on %d. --port chooses.\n", defaultDemoPort, d.ports.console)
	}
	fmt.Printf(`
Headgate is up after %.1f s.

  Console    %s
  Sign in    %s
  Password   %s

  Gateways   %s
  Try it     curl -i -H 'Authorization: Bearer %s' %s/v1/hello
             (a key of %s, on the plan %s)
  Decisions  %s
             (JSON and forward auth: /v1/decide, /v1/check, /v1/release, /v1/settle)
  Envoy      %s
  Health     %s
             (/metrics, /readyz, /incidents)
  API token  %s

  From another machine:
             ssh -L %s:127.0.0.1:%s %s@%s
             and then open %s there.

  Logs       %s
  Ctrl-C stops everything; nothing is kept.
`, took.Seconds(), httpURL(d.ports.console), demoEmail, d.secrets.operatorPassword, strings.Join(httpURLs(d.ports.proxy), " "),
		t.Key, httpURL(d.ports.proxy[0]), t.Name, t.Plan, strings.Join(httpURLs(d.ports.decide), " "), strings.Join(loopbacks(d.ports.grpc), " "), strings.Join(httpURLs(d.ports.admin), " "),
		d.apiToken, port, port, name, host, httpURL(d.ports.console), d.dir.logs())
}
