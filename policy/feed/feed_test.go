package feed

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	goleak.VerifyTestMain(m)
}

// quiet keeps the client's own remarks on outages out of the tests' output.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

const (
	deployment = "test"
	// patience is for busy machines; nothing waits that long when it works.
	patience = 20 * time.Second
)

// key is a signing key from a fixed seed.
func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey {
	return k.Public().(ed25519.PublicKey) // of crypto/ed25519's own type
}

// rig is a Redis with the console's end of the wire.
type rig struct {
	t      testing.TB
	redis  *testkit.RedisServer
	client *redis.Client
	pub    *Publisher
	key    ed25519.PrivateKey
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, redis: testkit.Redis(t), key: key('a')}
	r.client = r.newClient()
	var err error
	if r.pub, err = NewPublisher(r.config()); err != nil {
		t.Fatal(err)
	}
	return r
}

// newClient is a client as a process would make it.
func (r *rig) newClient() *redis.Client {
	r.t.Helper()
	o, err := Options(r.redis.URL)
	if err != nil {
		r.t.Fatal(err)
	}
	c := redis.NewClient(o)
	r.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			r.t.Errorf("close client: %v", err)
		}
	})
	return c
}

func (r *rig) config() Config { return Config{Client: r.client, Deployment: deployment} }

// document is a valid policy whose one plan has a rate.
func document(rate int) []byte {
	doc, report := policy.Parse(fmt.Appendf(nil, `
apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, rate: %d/minute, burst: %d}]
routes:
  - name: all
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}
`, rate, rate))
	if !report.OK() {
		panic(report.Error())
	}
	return doc.Canonical()
}

// signed is a version of the given rate.
func (r *rig) signed(version int64, rate int) policy.SignedPolicy {
	return policy.SignPolicy(r.key, deployment, version, "", document(rate), time.Now())
}

func (r *rig) publish(version int64, rate int) policy.SignedPolicy {
	r.t.Helper()
	p := r.signed(version, rate)
	if result, err := r.pub.PublishPolicy(r.t.Context(), p); err != nil || result != "published" {
		r.t.Fatalf("publish version %d: %q, %v", version, result, err)
	}
	return p
}

// do runs a raw command, as somebody with access to Redis could.
func (r *rig) do(args ...any) {
	r.t.Helper()
	if err := r.client.Do(r.t.Context(), args...).Err(); err != nil && err != redis.Nil { //nolint:errorlint // never wrapped
		r.t.Fatalf("redis %v: %v", args, err)
	}
}

// signals counts OnChange calls and lets a test wait for the next one.
type signals struct{ c chan struct{} }

func newSignals() *signals { return &signals{c: make(chan struct{}, 1)} }

func (s *signals) notify() {
	select {
	case s.c <- struct{}{}:
	default:
	}
}

// until waits for a condition, which it looks at on each signal, and every few
// milliseconds for what sends none.
func until(t testing.TB, s *signals, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-s.c:
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// hung is the time that nothing takes, however busy the machine.
const hung = 20 * time.Second

// holds logs a measured time against its bar. Machines that run tests are busy,
// so a missed bar fails the test only when HEADGATE_E2E_STRICT is 1; reaching
// the limit, which means that something hung, always does.
func holds(t *testing.T, what string, took, bar, limit time.Duration) {
	t.Helper()
	t.Logf("%s took %v, the bar is %v", what, took, bar)
	if took > limit || took > bar && os.Getenv("HEADGATE_E2E_STRICT") == "1" {
		t.Errorf("%s took %v, the bar is %v", what, took, bar)
	}
}

// start runs something until the test ends or stop is called.
func start(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != context.Canceled { //nolint:errorlint // returned as it is
				t.Errorf("run ended with %v, want that it was cancelled", err)
			}
		case <-time.After(patience):
			t.Error("run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

func TestConfig_ListsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := NewWatcher(WatcherConfig{Config: Config{Namespace: "a b", Deployment: "Prod!"}})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{"Redis client", "namespace", "deployment", "public keys"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	three := []ed25519.PublicKey{public(key('a')), public(key('b')), public(key('c'))}
	for name, keys := range map[string][]ed25519.PublicKey{"none": nil, "three": three, "a short one": {three[0][:5]}} {
		if _, err := NewDirectory(DirectoryConfig{Config: Config{Client: client, Deployment: "d"}, PublicKeys: keys}); err == nil {
			t.Errorf("%s: public keys are accepted", name)
		}
	}
}

func TestOptions_SetWhatTheWireCountsOn(t *testing.T) {
	t.Parallel()
	o, err := Options("redis://:secret@127.0.0.1:6379/2")
	if err != nil {
		t.Fatal(err)
	}
	if !o.ContextTimeoutEnabled || o.MaxRetries != -1 || o.DB != 2 || o.Password != "secret" || o.MaxActiveConns == 0 {
		t.Fatalf("options are %+v", o)
	}
	for _, bad := range []string{"http://nowhere", "redis://:hunter2@host:port/0", "redis://:hunter2@ho st", "redis://:hunter2@h/%zz", ""} {
		if _, err := Options(bad); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want an error without the password", bad, err)
		}
	}
}
