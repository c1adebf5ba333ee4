package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
)

// outagePolicy has one route of each fail mode. The fallback does not refill
// while a test runs.
const outagePolicy = `
apiVersion: headgate/v1
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 100000/minute, burst: 100000}]}
routes:
  - name: open
    match: ["/open"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 10/day, burst: 10}}
  - name: unlimited
    match: ["/unlimited"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: unlimited}
  - name: all
    match: ["/"]
    identity: api_key
    motive: quota
    on_store_failure: {mode: closed}
`

// ill is a Redis that a test makes ill, and the gateway that depends on it.
type ill struct {
	server *testkit.RedisServer
	proxy  *testkit.FaultProxy // in between
	admin  *redis.Client
	fleet  *Fleet
	m      *Member
}

// config sets a setting of the server.
func (i *ill) config(t *testing.T, name, value string) {
	t.Helper()
	if err := i.admin.ConfigSet(t.Context(), name, value).Err(); err != nil {
		t.Fatal(err)
	}
}

func (i *ill) do(t *testing.T, args ...any) {
	t.Helper()
	if err := i.admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

func (i *ill) info(t *testing.T, section, name string) string {
	t.Helper()
	s, err := i.admin.Info(t.Context(), section).Result()
	if err != nil {
		t.Fatal(err)
	}
	return infoField(s, name)
}

// illness is one way in which Redis does not do what it should.
type illness struct {
	cause string // by which metrics name it
	lines []string
	spoil func(*testing.T, *ill)
	mend  func(*testing.T, *ill)
}

// secret must never be seen in a log.
const secret = "correct-horse-battery"

func illnesses() map[string]illness {
	return map[string]illness{
		"R01_R19 down, and empty afterwards": {"down", nil,
			func(_ *testing.T, i *ill) { i.server.Kill() },
			func(_ *testing.T, i *ill) { i.server.Start(); i.fleet.Refill() }},
		"R02 hanging": {"hang", nil,
			func(_ *testing.T, i *ill) { i.server.Pause() },
			func(t *testing.T, i *ill) { pause(t.Context(), sized(0, 10*time.Second)); i.server.Resume() }},
		"R03 slow": {"hang", nil,
			func(_ *testing.T, i *ill) { i.proxy.Delay(200 * time.Millisecond) },
			func(_ *testing.T, i *ill) { i.proxy.Pass() }},
		"R09_R045 full, until keys expire": {"oom", nil, fill, emptied},
		"R13 demoted": {"readonly", nil,
			func(t *testing.T, i *ill) { i.do(t, "REPLICAOF", "127.0.0.1", "1") },
			func(t *testing.T, i *ill) { i.do(t, "REPLICAOF", "NO", "ONE") }},
		"R14 loading": {"loading", []string{"key-load-delay 1000", "loading-process-events-interval-bytes 1024", "rdbcompression no"}, load, loaded},
		"R16 another password": {"auth", nil,
			func(t *testing.T, i *ill) {
				i.do(t, "ACL", "SETUSER", "gateway", "resetpass", ">changed-"+secret)
				i.do(t, "CLIENT", "KILL", "USER", "gateway")
			},
			func(_ *testing.T, i *ill) {
				i.m.SetRedisURL("redis://gateway:changed-" + secret + "@" + i.proxy.Addr + "/0")
			}},
		"R16 a right taken": {"auth", nil,
			func(t *testing.T, i *ill) { i.do(t, "ACL", "SETUSER", "gateway", "-evalsha", "-eval") },
			func(t *testing.T, i *ill) { i.do(t, "ACL", "SETUSER", "gateway", "+evalsha", "+eval") }},
		"R17 busy with a script": {"busy", []string{"busy-reply-threshold 20"}, spin,
			func(t *testing.T, i *ill) { i.do(t, "SCRIPT", "KILL") }},
		"R17 not able to save": {"misconf", nil, unsaveable, saveable},
		// The client takes the refusal for one of its greeting, and tells of the
		// connection that ends after it.
		"R17 with too many clients": {"down", nil,
			func(t *testing.T, i *ill) {
				i.config(t, "maxclients", "1")
				i.do(t, "CLIENT", "KILL", "TYPE", "normal") // but for this one
			},
			func(t *testing.T, i *ill) { i.config(t, "maxclients", "1000") }},
	}
}

// fill leaves no memory until what fills it has expired.
func fill(t *testing.T, i *ill) {
	t.Helper()
	text := strings.Repeat("x", 1<<20)
	for n := range 20 {
		i.do(t, "SET", "filler:"+strconv.Itoa(n), text, "PX", "2500")
	}
	used, err := strconv.Atoi(i.info(t, "memory", "used_memory"))
	if err != nil {
		t.Fatal(err)
	}
	i.config(t, "maxmemory", strconv.Itoa(used-10<<20))
}

// emptied waits until the server has room again, by itself.
func emptied(t *testing.T, i *ill) {
	t.Helper()
	eventually(t, 30*time.Second, "the filling has expired", func() error {
		if n := i.info(t, "keyspace", "db0"); i.admin.Exists(t.Context(), "filler:0").Val() != 0 {
			return fmt.Errorf("there is %s", n)
		}
		return nil
	})
}

// loaded waits until the server has read everything.
func loaded(t *testing.T, i *ill) {
	t.Helper()
	eventually(t, time.Minute, "the server has loaded", func() error {
		if n := i.info(t, "persistence", "loading"); n != "0" {
			return fmt.Errorf("loading: %s", n)
		}
		return nil
	})
}

// load has the server read some seconds' worth of keys at its start.
func load(t *testing.T, i *ill) {
	t.Helper()
	pipe, text := i.admin.Pipeline(), strings.Repeat("x", 1<<10)
	for n := range 4000 {
		pipe.Set(t.Context(), "filler:"+strconv.Itoa(n), text, 0)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.do(t, "SAVE")
	i.server.Start()
}

// spin keeps the server busy.
func spin(t *testing.T, i *ill) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: i.server.Addr, ReadTimeout: -1, MaxRetries: -1})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Eval(t.Context(), "while true do end", nil).Err() // killed
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
	eventually(t, 20*time.Second, "the server is busy", func() error {
		if err := i.admin.Ping(t.Context()).Err(); err == nil || !strings.HasPrefix(err.Error(), "BUSY") {
			return fmt.Errorf("PING: %w", err)
		}
		return nil
	})
}

// unsaveable has the server fail to write its snapshot.
func unsaveable(t *testing.T, i *ill) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dataDir(t, i), "dump.rdb", "in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
	i.config(t, "save", "3600 1")
	i.do(t, "BGSAVE")
	saved(t, i, "err")
}

func saveable(t *testing.T, i *ill) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dataDir(t, i), "dump.rdb")); err != nil {
		t.Fatal(err)
	}
	i.do(t, "BGSAVE")
	saved(t, i, "ok")
}

func saved(t *testing.T, i *ill, want string) {
	t.Helper()
	eventually(t, 30*time.Second, "a snapshot has been tried", func() error {
		if got := i.info(t, "persistence", "rdb_last_bgsave_status"); got != want {
			return fmt.Errorf("status %s", got)
		}
		return nil
	})
}

func dataDir(t *testing.T, i *ill) string {
	t.Helper()
	m, err := i.admin.ConfigGet(t.Context(), "dir").Result()
	if err != nil {
		t.Fatal(err)
	}
	return m["dir"]
}

// TestRedis_R01ToR19_EachIllnessIsNamedBoundedAndOver makes Redis ill in each
// way, under a gateway that runs as it does for everybody, and well again.
func TestRedis_R01ToR19_EachIllnessIsNamedBoundedAndOver(t *testing.T) {
	t.Parallel()
	for name, illness := range illnesses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIll(t, illness.lines)
			before := i.m.metric("process_open_fds")
			illness.spoil(t, i)
			longest := max(i.degrades(t, illness.cause), answersByFailMode(t, i.m, i.fleet.Key))
			took(t, "the longest request without Redis", longest, 50*time.Millisecond)
			if longest > 2*time.Second { // a busy machine may make 25 ms long, but not that long
				t.Errorf("a request waited %s for a Redis that does not answer", longest)
			}
			if n := i.m.metric("go_goroutines"); n > 300 {
				t.Errorf("%v goroutines", n)
			}
			illness.mend(t, i)
			well := time.Now()
			eventually(t, time.Minute, "decided by Redis again", func() error { return decided(i.m, i.fleet.Key) })
			took(t, "decided by Redis again", time.Since(well), 5*time.Second)
			i.addsUp(t)
			if after := i.m.metric("process_open_fds"); after > before+40 {
				t.Errorf("%v files were open before, %v are now", before, after)
			}
			if log, err := os.ReadFile(i.m.Log); err != nil || strings.Contains(string(log), secret) {
				t.Errorf("the log holds the password, or cannot be read: %v", err)
			}
		})
	}
}

func newIll(t *testing.T, lines []string) *ill {
	t.Helper()
	server := testkit.Redis(t, append([]string{"user gateway on >" + secret + " ~* &* +@all"}, lines...)...)
	i := &ill{server: server, proxy: testkit.Proxy(t, server.Addr), fleet: NewFleet(t, server.URL, outagePolicy)}
	i.admin = redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, PoolSize: 1, DisableIdentity: true})
	t.Cleanup(func() { _ = i.admin.Close() })
	i.m = i.fleet.add("redis://gateway:" + secret + "@" + i.proxy.Addr + "/0")
	i.m.WaitReady()
	i.m.warm(i.fleet.Key)
	return i
}

// decided is an error unless Redis has decided a request.
func decided(m *Member, key string) error {
	if a := m.Check(key, "/x"); a.Status != http.StatusOK || a.Header.Get("RateLimit") == "" {
		return fmt.Errorf("status %d: %s", a.Status, a.Body)
	}
	return nil
}

// degrades wants the gateway to notice, and to name the cause in its metrics. It returns the longest wait of a request.
func (i *ill) degrades(t *testing.T, cause string) (longest time.Duration) {
	t.Helper()
	eventually(t, 30*time.Second, "the cause is named", func() error {
		a := i.m.Check(i.fleet.Key, "/x")
		longest = max(longest, a.Took)
		if i.m.metric("headgate_store_errors_total", `cause="`+cause+`"`) == 0 || i.m.metric("headgate_degraded_total", `cause="`+cause+`"`) == 0 {
			return fmt.Errorf("status %d; %s", a.Status, errorsOf(i.m))
		}
		return nil
	})
	return longest
}

// errorsOf are the lines of the metrics that tell causes.
func errorsOf(m *Member) string {
	var lines []string
	for line := range strings.Lines(string(m.Admin("/metrics").Body)) {
		if strings.HasPrefix(line, "headgate_store_errors_total") || strings.HasPrefix(line, "headgate_degraded_total") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, ", ")
}

// answersByFailMode holds what callers get meanwhile: 503 where a route is
// closed, what the fallback has where it is open, and no invented number. It
// returns the longest wait.
func answersByFailMode(t *testing.T, m *Member, key string) (longest time.Duration) {
	t.Helper()
	statuses := map[int]int{}
	for range 15 {
		closed, open := m.Check(key, "/x"), m.Check(key, "/open")
		longest = max(longest, closed.Took, open.Took)
		after, err := strconv.Atoi(closed.Header.Get("Retry-After"))
		if closed.Status != http.StatusServiceUnavailable || err != nil || after < 1 || after > 3 ||
			!strings.Contains(string(closed.Body), "#temporary-reduced-capacity") {
			t.Errorf("closed: status %d, Retry-After %q: %s", closed.Status, closed.Header.Get("Retry-After"), closed.Body)
		}
		statuses[open.Status]++
		for _, a := range []Answer{closed, open} {
			if n := a.Header.Get("RateLimit"); n != "" {
				t.Errorf("a number is told that nobody knows: %s", n)
			}
		}
	}
	if statuses[200] != 10 || statuses[429] != 5 {
		t.Errorf("a fallback of 10 answered %v", statuses)
	}
	return longest
}

// told is an incident as the gateway tells it.
type told struct {
	Cause    string     `json:"cause"`
	End      *time.Time `json:"end"`
	Admitted int        `json:"admitted"`
	Refused  int        `json:"refused"`
}

func incidentsOf(t *testing.T, m *Member) []told {
	t.Helper()
	var v struct {
		Incidents []told `json:"incidents"`
	}
	if a := m.Admin("/incidents"); json.Unmarshal(a.Body, &v) != nil {
		t.Fatalf("/incidents: status %d: %s", a.Status, a.Body)
	}
	return v.Incidents
}

// addsUp holds the gateway's own books: each request has one outcome, each
// degraded decision is in an incident, and at length that all have ended.
func (i *ill) addsUp(t *testing.T) {
	t.Helper()
	eventually(t, 20*time.Second, "the books add up", func() error {
		received, decided := i.m.metric("headgate_received_total"), i.m.metric("headgate_decisions_total")
		if received != decided {
			return fmt.Errorf("%v received, %v decided", received, decided)
		}
		sum := 0
		for _, in := range incidentsOf(t, i.m) {
			if in.End == nil && long() { // it ends some seconds after the last failure
				return fmt.Errorf("an incident lasts: %+v", in)
			}
			sum += in.Admitted + in.Refused
		}
		if degraded := int(i.m.metric("headgate_degraded_total")); sum != degraded || sum == 0 {
			return fmt.Errorf("%d decisions in incidents, %d degraded", sum, degraded)
		}
		return nil
	})
}
