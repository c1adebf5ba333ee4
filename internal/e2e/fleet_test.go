package e2e_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/policy/feed"
)

// Fleet is gateways, each a process of its own, on a Redis that the test breaks:
// with what a console would have published there, and without the console.
type Fleet struct {
	Gateways []*Member
	Upstream *Upstream
	Key      string // of the tenant ten_a, whom every gateway knows

	t         testing.TB
	began     time.Time
	dir       string
	redisURL  string
	private   ed25519.PrivateKey
	public    string // file
	wire      redis.UniversalClient
	publisher *feed.Publisher
	published policy.SignedPolicy
	records   []policy.SignedRecord
}

// fleetDeployment is the deployment that a fleet's records are signed for.
const fleetDeployment = "faults"

// Member is one gateway of a fleet. Its doors have other ports after a restart.
type Member struct {
	Log string // file

	f         *Fleet
	argv      []string
	addresses string
	urlFile   string // its Redis
	proc      *child.Process
	at        atomic.Pointer[doors]
}

// doors are where a gateway listens.
type doors struct {
	Proxy  string `json:"proxy"`
	Decide string `json:"decide"`
	Admin  string `json:"admin"`
}

// NewFleet publishes a policy and a tenant with a key to the Redis behind a URL.
func NewFleet(t testing.TB, redisURL, document string) *Fleet {
	t.Helper()
	f := &Fleet{t: t, began: time.Now(), dir: t.TempDir(), redisURL: redisURL, Upstream: newUpstream(t)}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f.private, f.public = private, filepath.Join(f.dir, "public.pem")
	if err := config.WriteKeyPair(private, filepath.Join(f.dir, "private.pem"), f.public); err != nil {
		t.Fatal(err)
	}
	o, _, err := redisstore.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	f.wire = feed.NewClient(*o)
	t.Cleanup(func() { _ = f.wire.Close() })
	if f.publisher, err = feed.NewPublisher(feed.Config{Client: f.wire, Deployment: fleetDeployment}); err != nil {
		t.Fatal(err)
	}
	f.Publish(1, document)
	f.Key = f.tenant("ten_a")
	f.Refill()
	return f
}

// Publish publishes a document as a version.
func (f *Fleet) Publish(version int64, document string) {
	f.t.Helper()
	doc, report := policy.Parse([]byte(document))
	if doc == nil {
		f.t.Fatalf("policy: %v", report.Problems)
	}
	f.published = policy.SignPolicy(f.private, fleetDeployment, version, f.published.Digest, doc.Canonical(), time.Now())
	if _, err := f.publisher.PublishPolicy(f.t.Context(), f.published); err != nil {
		f.t.Fatal(err)
	}
}

// tenant makes a tenant on the plan free with a key; Refill writes it.
func (f *Fleet) tenant(id string) (key string) {
	f.t.Helper()
	secret, kid, err := apikey.Generate(apikey.Live, rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range []struct {
		kind policy.RecordKind
		id   string
		body any
	}{
		{policy.RecordTenant, id, policy.TenantRecord{ID: id, Plan: "free", State: policy.TenantActive}},
		{policy.RecordKey, kid, policy.KeyRecord{
			KID: kid, Tenant: id, Credential: "crd_" + id, Environment: apikey.Live, Digest: apikey.Digest(secret.Reveal()), State: policy.KeyActive,
		}},
	} {
		signed, err := policy.SignRecord(f.private, fleetDeployment, r.kind, r.id, 1, r.body)
		if err != nil {
			f.t.Fatal(err)
		}
		f.records = append(f.records, signed)
	}
	return secret.Reveal()
}

// Refill writes the policy and all records, as a console does when Redis has lost them.
func (f *Fleet) Refill() {
	f.t.Helper()
	_, err := f.publisher.PublishPolicy(f.t.Context(), f.published)
	if err == nil {
		err = f.publisher.BeginDirectory(f.t.Context())
	}
	if err == nil {
		_, err = f.publisher.PutRecords(f.t.Context(), f.records)
	}
	if err == nil {
		_, err = f.publisher.FinishDirectory(f.t.Context(), rand.Text())
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// Start starts n gateways with further flags and returns when each has decided
// a request of ten_a's to /warm. What they decide by is the fleet's Redis.
func (f *Fleet) Start(n int, flags ...string) {
	f.t.Helper()
	for range n {
		f.add(f.redisURL, flags...)
	}
	for _, m := range f.Gateways {
		m.WaitReady()
		m.warm(f.Key)
	}
}

// add starts one gateway on a Redis of its own, say a proxy of the fleet's.
func (f *Fleet) add(redisURL string, flags ...string) *Member {
	f.t.Helper()
	dir := filepath.Join(f.dir, fmt.Sprintf("gateway-%d", len(f.Gateways)+1))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	m := &Member{
		f: f, Log: filepath.Join(dir, "log"), addresses: filepath.Join(dir, "addresses.json"), urlFile: filepath.Join(dir, "redis-url"),
	}
	m.SetRedisURL(redisURL)
	m.argv = append([]string{
		binary, "gateway", "--listen=127.0.0.1:0", "--upstream=" + f.Upstream.URL, "--decide-listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0",
		"--addr-file=" + m.addresses, "--redis-url-file=" + m.urlFile, "--policy-key-file=" + f.public,
		"--state-dir=" + filepath.Join(dir, "state"), "--deployment=" + fleetDeployment, "--drain=2s",
	}, flags...)
	f.Gateways = append(f.Gateways, m)
	m.launch()
	f.t.Cleanup(func() {
		m.proc.Kill()
		if f.t.Failed() {
			t := tail(m.Log)
			f.t.Logf("gateway in %s ends:\n%s", dir, t[max(0, len(t)-500):])
		}
		if b, _ := os.ReadFile(m.Log); strings.Contains(string(b), "panic:") {
			f.t.Errorf("a gateway panicked: %s", m.Log)
		}
	})
	return m
}

// SetRedisURL writes the file that the gateway reads its Redis' URL from.
func (m *Member) SetRedisURL(url string) {
	m.f.t.Helper()
	if err := os.WriteFile(m.urlFile, []byte(url), 0o600); err != nil {
		m.f.t.Fatal(err)
	}
}

func (m *Member) launch() {
	m.f.t.Helper()
	_ = os.Remove(m.addresses)
	p, err := child.Start(child.Spec{
		Argv: m.argv, Env: []string{"PATH=/usr/bin:/bin", "TZ=UTC", "GOMAXPROCS=2"}, Dir: filepath.Dir(m.Log), LogFile: m.Log, DeathSignal: syscall.SIGKILL,
	})
	if err != nil {
		m.f.t.Fatal(err)
	}
	m.proc = p
}

// WaitReady waits until the gateway says that it is.
func (m *Member) WaitReady() {
	m.f.t.Helper()
	eventually(m.f.t, time.Minute, "a gateway is ready", func() error {
		select {
		case <-m.proc.Done():
			m.f.t.Fatalf("the gateway ended: %v\n%s", m.proc.Err(), tail(m.Log))
		default:
		}
		if err := m.located(); err != nil {
			return err
		}
		if a := m.Admin("/readyz"); a.Status != http.StatusOK {
			return fmt.Errorf("status %d: %s", a.Status, a.Body)
		}
		return nil
	})
}

// located reads where the gateway listens.
func (m *Member) located() error {
	raw, err := os.ReadFile(m.addresses)
	if err != nil {
		return err
	}
	at := &doors{}
	if err := json.Unmarshal(raw, at); err != nil {
		return err
	}
	m.at.Store(at)
	return nil
}

// warm has the gateway look a key up, and connect to its Redis.
func (m *Member) warm(key string) {
	m.f.t.Helper()
	eventually(m.f.t, time.Minute, "a gateway knows the key", func() error {
		if a := m.Check(key, "/warm"); a.Status != http.StatusOK || a.Header.Get("RateLimit") == "" {
			return fmt.Errorf("status %d: %s", a.Status, a.Body)
		}
		return nil
	})
}

// Kill ends the gateway as kill -9 does. Term asks it to stop and waits until it has.
func (m *Member) Kill() { m.proc.Kill() }

// Term asks the gateway to stop, as a supervisor does, and waits until it has.
func (m *Member) Term() {
	m.f.t.Helper()
	if !m.proc.Stop(syscall.SIGTERM, time.Minute) {
		m.f.t.Error("a gateway did not stop within a minute of SIGTERM")
	}
}

// Restart starts the gateway again just as it was started.
func (m *Member) Restart() {
	m.f.t.Helper()
	m.proc.Kill()
	m.launch()
	m.WaitReady()
}

// Check asks the decisions door about GET path with a key.
func (m *Member) Check(key, path string) Answer {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // nothing takes that long unless it hangs
	defer cancel()
	return m.CheckContext(ctx, http.DefaultClient, key, path)
}

// CheckContext is Check with a client of the caller's.
func (m *Member) CheckContext(ctx context.Context, c *http.Client, key, path string) Answer {
	at := m.at.Load()
	return fetch(ctx, c, http.MethodGet, "http://"+at.Decide+"/v1/check", "", http.Header{
		"Authorization": {"Bearer " + key}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {path},
	})
}

// Proxy sends GET path with a key through the gateway to the upstream.
func (m *Member) Proxy(ctx context.Context, key, path string) Answer {
	return fetch(ctx, http.DefaultClient, http.MethodGet, "http://"+m.at.Load().Proxy+path, "", http.Header{"Authorization": {"Bearer " + key}})
}

// Admin asks the gateway's own door.
func (m *Member) Admin(path string) Answer {
	return fetch(context.Background(), http.DefaultClient, http.MethodGet, "http://"+m.at.Load().Admin+path, "", nil)
}

// metric sums the samples of a metric whose labels hold all of the texts.
func (m *Member) metric(name string, labels ...string) (sum float64) {
	m.f.t.Helper()
	a := m.Admin("/metrics")
	if a.Status != http.StatusOK {
		m.f.t.Fatalf("/metrics: status %d: %s", a.Status, a.Body)
	}
	for line := range strings.Lines(string(a.Body)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if got, _, _ := strings.Cut(series, "{"); got != name {
			continue
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(series, l) }) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			m.f.t.Fatalf("/metrics: %q: %v", line, err)
		}
		sum += n
	}
	return sum
}

// sum is a metric over all gateways of the fleet.
func (f *Fleet) sum(name string, labels ...string) (sum float64) {
	f.t.Helper()
	for _, m := range f.Gateways {
		sum += m.metric(name, labels...)
	}
	return sum
}

// fetch sends a request; a connection that fails is status 0.
func fetch(ctx context.Context, c *http.Client, method, url, body string, header http.Header) Answer {
	from := time.Now()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		panic(err) // a URL of the test's own is wrong
	}
	if header != nil {
		req.Header = header
	}
	res, err := c.Do(req)
	if err != nil {
		return Answer{Took: time.Since(from), Body: []byte(err.Error())}
	}
	defer func() { _ = res.Body.Close() }()
	b, _ := io.ReadAll(res.Body)
	return Answer{Status: res.StatusCode, Header: res.Header, Body: b, Took: time.Since(from)}
}
