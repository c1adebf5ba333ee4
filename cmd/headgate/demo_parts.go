package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/internal/pglocal"
	"github.com/headgate/headgate/internal/redislocal"
)

// Names in the demo's deployment.
const (
	demoDeployment = "demo"
	demoEmail      = "owner@demo.example"
	demoDatabase   = "headgate"
)

// partGrace is how long a part may take to stop.
const partGrace = 8 * time.Second

// part is one process of the demo.
type part struct {
	name string
	proc *child.Process
}

// demoSecrets are made anew for each demo.
type demoSecrets struct {
	operatorPassword, redisPassword string
	gatewayPassword                 string // of the gateways' Redis user
	redisURL, databaseURL           string
	redisURLFile, databaseURLFile   string
	gatewayRedisURLFile             string
	privateKey, publicKey           string // files
}

func newDemoSecrets(d *demoDir) demoSecrets {
	return demoSecrets{
		operatorPassword: strings.ToLower(rand.Text()[:16]),
		redisPassword:    rand.Text(),
		gatewayPassword:  rand.Text(),
		redisURLFile:     d.secret("redis-url"),
		databaseURLFile:  d.secret("database-url"),

		gatewayRedisURLFile: d.secret("gateway-redis-url"),
	}
}

// gatewayUser is the Redis user of the gateways: it reads what the console
// publishes and writes counts, heartbeats and usage, and nothing else
// (docs/redis.md).
func gatewayUser(password string) string {
	return "user gateway on >" + password + " resetkeys resetchannels -@all" +
		" %R~hg:{policy}:* %R~hg:{directory}:* %R~hg:key:* %R~hg:tenant:* %R~hg:{ledger}:* ~hg:l:* ~hg:replica:* ~hg:usage:* &hg:{policy}:bell" +
		" +hello +ping +time +info +subscribe +unsubscribe +eval +evalsha +eval_ro +evalsha_ro +script|load" +
		" +get +set +getrange +pttl +pexpire +type +hget +hgetall +hstrlen +xrange +xrevrange +xadd +xtrim +xlen" +
		" +mget +exists +zadd +zrem +zscore +zcount +zrange +zremrangebyscore"
}

func (d *demo) makeKeys(context.Context) (err error) {
	d.secrets.privateKey, d.secrets.publicKey, err = writeSigningKeys(d.dir.sub("secrets"))
	return err
}

// startStores starts PostgreSQL and Redis at the same time.
func (d *demo) startStores(ctx context.Context) error {
	var pg *pglocal.Server
	var rd *redislocal.Server
	var pgErr, rdErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		pg, pgErr = pglocal.Start(ctx, pglocal.Options{Dir: d.dir.sub("postgres"), Log: d.dir.log("postgres")})
		if pgErr == nil {
			pgErr = pg.Create(ctx, demoDatabase, "")
		}
	})
	wg.Go(func() {
		if d.opts.RedisURL != "" {
			rdErr = d.borrowRedis(ctx)
			return
		}
		rd, rdErr = redislocal.Start(ctx, redislocal.Options{
			Dir: d.dir.sub("redis"), Port: d.ports.redis, Password: d.secrets.redisPassword, Log: d.dir.log("redis"),
			Users: []string{gatewayUser(d.secrets.gatewayPassword)},
		})
	})
	wg.Wait()
	if pg != nil {
		d.parts = append(d.parts, &part{"postgres", pg.Process})
	}
	if rd != nil {
		d.parts = append(d.parts, &part{"redis", rd.Process})
	}
	if err := errors.Join(pgErr, rdErr); err != nil {
		return err
	}
	d.secrets.databaseURL = pg.URL(demoDatabase)
	_, err2 := d.dir.writeSecret("database-url", d.secrets.databaseURL)
	if rd == nil {
		return err2
	}
	d.secrets.redisURL = rd.URL()
	_, err1 := d.dir.writeSecret("redis-url", d.secrets.redisURL)
	_, err3 := d.dir.writeSecret("gateway-redis-url", "redis://gateway:"+d.secrets.gatewayPassword+"@"+rd.Addr+"/0")
	return errors.Join(err1, err2, err3)
}

// env is the whole environment of our own parts: settings of the shell that the
// demo runs in are none of theirs.
func (d *demo) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir.path, "TMPDIR=" + child.TempParent(), "TZ=UTC"}
}

// start starts this binary as a part, working in a folder of its own.
func (d *demo) start(name string, args ...string) error {
	dir := d.dir.sub(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of %s: %w", name, err)
	}
	p, err := child.Start(child.Spec{
		Argv: append([]string{d.self}, args...), Env: d.env(), Dir: dir, LogFile: d.dir.log(name),
		DeathSignal: syscall.SIGKILL, // a killed demo must leave nothing, and a part that drains would stay
	})
	if err != nil {
		return err
	}
	d.parts = append(d.parts, &part{name, p})
	return nil
}

// once runs this binary to its end and returns what it printed.
func (d *demo) once(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, d.self, args...)
	cmd.Env, cmd.Dir = d.env(), d.dir.path
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("headgate %s %s: %w: %s", args[0], args[1], err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func (d *demo) migrate(ctx context.Context) error {
	_, err := d.once(ctx, "migrate", "--database-url-file="+d.secrets.databaseURLFile)
	return err
}

// makeOperator makes the owner who signs in, and a token for the JSON API.
func (d *demo) makeOperator(ctx context.Context) error {
	file, err := d.dir.writeSecret("operator-password", d.secrets.operatorPassword)
	if err != nil {
		return err
	}
	if _, err := d.once(ctx, "user", "create", "--database-url-file="+d.secrets.databaseURLFile,
		"--email="+demoEmail, "--name=Demo Owner", "--role=owner", "--password-file="+file); err != nil {
		return err
	}
	out, err := d.once(ctx, "user", "token", "--database-url-file="+d.secrets.databaseURLFile, "--email="+demoEmail, "--name=demo")
	if err != nil {
		return err
	}
	d.apiToken = out[strings.LastIndex(out, "\n")+1:]
	return nil
}

func (d *demo) startPlanes(context.Context) error {
	token, err := d.dir.writeSecret("gateway-token", rand.Text()+rand.Text())
	if err != nil {
		return err
	}
	if err := d.start("upstream", "upstream", "--listen="+loopback(d.ports.upstream)); err != nil {
		return err
	}
	err = d.start("console", "console",
		"--listen="+loopback(d.ports.console), "--public-url="+httpURL(d.ports.console),
		"--database-url-file="+d.secrets.databaseURLFile, "--redis-url-file="+d.secrets.redisURLFile,
		"--signing-key-file="+d.secrets.privateKey, "--deployment="+demoDeployment, "--environment=demo",
		"--redis-namespace="+d.opts.RedisNamespace, "--gateway-token-file="+token,
		"--webhook-allow=127.0.0.0/8", "--webhook-allow=::1/128") // the demo is of one machine: so are receivers
	if err != nil {
		return err
	}
	for i := range d.opts.Gateways {
		name := "gateway-" + strconv.Itoa(i+1)
		args := []string{
			"gateway",
			"--listen=" + loopback(d.ports.proxy[i]), "--upstream=" + httpURL(d.ports.upstream),
			"--decide-listen=" + loopback(d.ports.decide[i]), "--admin-listen=" + loopback(d.ports.admin[i]),
			"--grpc-listen=" + loopback(d.ports.grpc[i]),
			"--redis-url-file=" + d.secrets.gatewayRedisURLFile, "--policy-key-file=" + d.secrets.publicKey,
			"--redis-namespace=" + d.opts.RedisNamespace,
			"--console-url=" + httpURL(d.ports.console), "--gateway-token-file=" + token,
			"--state-dir=" + d.dir.sub(name), "--deployment=" + demoDeployment, "--zone=zone-" + string(rune('a'+i%3)),
			"--debug-header", "--drain=3s",
		}
		if b := d.opts.GatewayBudget; b != 0 {
			args = append(args, "--budget="+b.String(), "--grpc-budget="+b.String())
		}
		if err := d.start(name, args...); err != nil {
			return err
		}
	}
	return nil
}

// stopParts ends the parts, those that were started last first, and those of
// one kind together.
func stopParts(parts []*part) {
	for _, kind := range []string{"traffic", "gateway", "console", "upstream", "redis", "postgres"} {
		var wg sync.WaitGroup
		for _, p := range parts {
			if !strings.HasPrefix(p.name, kind) {
				continue
			}
			sig := syscall.SIGTERM
			if kind == "postgres" {
				sig = syscall.SIGINT // fast shutdown: SIGTERM would wait for clients
			}
			wg.Go(func() { p.proc.Stop(sig, partGrace) })
		}
		wg.Wait()
	}
}
