package replay_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/replay"
)

var simulated = flag.Int("entries", 10_000_000, "decisions of BenchmarkSimulate")

// traffic makes a log of the usual shape: 1000 tenants, some large and many small, 20
// routes, three layers of limits, about one request of twenty refused, from three
// replicas.
type traffic struct {
	rng      *rand.Rand
	now      int64
	replayer *gateway.Replayer
	tenants  []policy.TenantRecord
	zipf     *rand.Zipf
	ends     []ending // of requests under way, by time
	verdict  gateway.Verdict
	refs     uint64
}

type ending struct {
	entry decisionlog.Entry
	kept  gateway.Kept
}

func trafficPolicy(searchRate int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
apiVersion: headgate/v1
credentials: {headers: [{name: Authorization, scheme: Bearer}]}
global: {limits: [{name: all, per: global, rate: 50000/second, burst: 50000, sync: leased}]}
plans:
  free: {limits: [{name: requests, per: tenant, counts: requests, rate: 600/minute, burst: 60}]}
  pro: {limits: [{name: requests, per: tenant, counts: requests, rate: 30000/minute, burst: 5000}]}
routes:
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-account, per: "body:username", rate: 5/minute, burst: 5}, {name: per-ip, per: ip, rate: 20/minute, burst: 20}]
    on_store_failure: {mode: closed}
  - name: export
    match: ["GET /v1/export/{id}"]
    identity: api_key
    motive: fairness
    cost: 5
    limits: [{name: own, per: tenant, rate: 6000/minute, burst: 600}]
    concurrency: {per: tenant, max: 20, lease: 10s}
    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}
`)
	for i := range 18 {
		fmt.Fprintf(&b, `
  - name: route-%d
    match: ["GET /v1/things-%d/{id}", "POST /v1/things-%d"]
    identity: api_key
    motive: fairness
    limits: [{name: own, per: tenant, rate: %d/minute, burst: 100}]
    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}
`, i, i, i, searchRate)
	}
	return b.String()
}

func newTraffic(tb testing.TB, c *policy.Compiled) *traffic {
	tb.Helper()
	g := &traffic{rng: rand.New(rand.NewPCG(1, 2)), now: start}
	for i := range 1000 {
		plan := "free"
		if i < 100 {
			plan = "pro"
		}
		g.tenants = append(g.tenants, policy.TenantRecord{ID: fmt.Sprintf("ten_%016d", i), Plan: plan, State: policy.TenantActive})
	}
	g.zipf = rand.NewZipf(g.rng, 1.2, 10, 999)
	clock := func() time.Time { return time.UnixMicro(g.now) }
	var err error
	if g.replayer, err = gateway.NewReplayer(gateway.ReplayConfig{Compiled: c, Store: memstore.New(clock), Now: clock, Tenant: g.find()}); err != nil {
		tb.Fatal(err)
	}
	return g
}

func (g *traffic) find() replay.Tenants {
	byID := map[string]policy.TenantRecord{}
	for _, t := range g.tenants {
		byID[t.ID] = t
	}
	return func(id string) (policy.TenantRecord, bool) { t, ok := byID[id]; return t, ok }
}

// next is what came a while later: the end of a request, or one that is decided.
func (g *traffic) next() decisionlog.Entry {
	at := g.now + 1 + g.rng.Int64N(332)
	if len(g.ends) > 0 && g.ends[0].entry.At <= at {
		end := g.ends[0]
		g.ends, g.now = g.ends[1:], end.entry.At
		if err := g.replayer.End(&end.kept); err != nil {
			panic(err)
		}
		return end.entry
	}
	g.now = at
	e := decisionlog.Entry{Kind: decisionlog.KindDecision, At: g.now, Method: "GET", Host: "api.example", Hits: 1, Policy: 7, IP: "203.0.113.9"}
	switch n := g.rng.IntN(100); {
	case n < 2:
		e.Method, e.Path, e.Route = "POST", "/login", "login"
		e.IP = fmt.Sprintf("198.51.%d.%d", g.rng.IntN(64), g.rng.IntN(256))
		e.Values = map[string]string{"body:username": fmt.Sprint("account-", g.rng.IntN(5000))}
	case n < 5:
		e.Path, e.Route = fmt.Sprintf("/v1/export/%d", g.rng.IntN(1000)), "export"
	default:
		i := g.rng.IntN(18)
		e.Path, e.Route = fmt.Sprintf("/v1/things-%d/%d", i, g.rng.IntN(1000)), fmt.Sprint("route-", i)
	}
	if e.Route != "login" {
		e.Tenant = g.tenants[g.zipf.Uint64()].ID
		e.Credential = "crd_" + e.Tenant
	}
	g.decide(&e)
	return e
}

// decide lets the gateway's code say what came of it.
func (g *traffic) decide(e *decisionlog.Entry) {
	client, _ := netip.ParseAddr(e.IP)
	in := gateway.Inbound{
		Method: e.Method, Host: e.Host, EscapedPath: e.Path, Client: client, ClientKnown: true, Tenant: e.Tenant, UserKnown: true, Ends: true,
		Replay: &gateway.Replay{Credential: e.Credential, Logged: true, Values: e.Values, Unreadable: decisionlog.Unreadable},
	}
	v := &g.verdict
	g.replayer.Decide(&in, v)
	e.Allowed, e.Reason, e.Limit, e.Cost, e.Wait = v.Allowed, string(v.Reason), v.DecidingLimit(), v.Cost, v.RetryAfterMicros
	kept := v.Kept()
	if !kept.Holds() {
		return
	}
	g.refs++
	e.Ref, e.Renewed = g.refs, true
	if err := g.replayer.Renew(&kept); err != nil {
		panic(err)
	}
	g.ends = append(g.ends, ending{decisionlog.Entry{Kind: decisionlog.KindEnd, At: g.now + 500_000, Ref: g.refs}, kept})
}

// fileLog is a log in a file, as long as it is encoded.
type fileLog struct {
	path     string
	from, to int64
	entries  int64
}

func (l *fileLog) Bounds() (from, to time.Time, entries int64) {
	return time.UnixMicro(l.from), time.UnixMicro(l.to), l.entries
}

func (l *fileLog) Sample() uint32 { return decisionlog.Whole }

func (l *fileLog) Batches(_ context.Context, yield func(*decisionlog.Batch) error) error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	var head [4 + 8 + 8 + 8]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := binary.BigEndian.Uint64(head[4:])
		b := decisionlog.Batch{
			Replica: fmt.Sprint("gw_", head[0]), Boot: fmt.Sprint("b", head[0]), Seq: int64(n), From: int64(binary.BigEndian.Uint64(head[12:])),
			Sample: decisionlog.Whole, Body: make([]byte, binary.BigEndian.Uint64(head[20:])),
		}
		if _, err := io.ReadFull(in, b.Body); err != nil {
			return err
		}
		if err := yield(&b); err != nil {
			return err
		}
	}
}

// write makes a log of n decisions of three replicas, which cut a batch each second.
func (g *traffic) write(tb testing.TB, n int) (log *fileLog, refused int) {
	tb.Helper()
	log = &fileLog{path: filepath.Join(tb.TempDir(), "log"), from: g.now}
	f, err := os.Create(log.path)
	if err != nil {
		tb.Fatal(err)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	var replicas [3]decisionlog.Batch
	cut := func() {
		ready := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return len(replicas[i].Entries) == 0 })
		slices.SortFunc(ready, func(i, j int) int { return cmp.Compare(replicas[i].Entries[0].At, replicas[j].Entries[0].At) })
		for _, i := range ready {
			g.cut(tb, out, i, &replicas[i])
		}
	}
	seq, next := int64(0), g.now+1_000_000
	for log.entries < int64(n) {
		e := g.next()
		if e.At >= next {
			cut()
			next += 1_000_000
		}
		if seq++; e.Kind == decisionlog.KindDecision {
			log.entries++
			if !e.Allowed {
				refused++
			}
		}
		e.Seq = seq
		b := &replicas[g.rng.IntN(len(replicas))]
		b.Entries = append(b.Entries, e)
	}
	cut()
	log.to = g.now
	if err := out.Flush(); err != nil {
		tb.Fatal(err)
	}
	return log, refused
}

func (g *traffic) cut(tb testing.TB, out io.Writer, replica int, b *decisionlog.Batch) {
	tb.Helper()
	b.Seq++
	b.Replica, b.Boot, b.Sample = fmt.Sprint("gw_", replica), fmt.Sprint("b", replica), decisionlog.Whole
	b.From, b.To = b.Entries[0].At, b.Entries[len(b.Entries)-1].At
	body, err := decisionlog.Encode(b)
	if err != nil {
		tb.Fatal(err)
	}
	head := []byte{byte(replica), 0, 0, 0}
	for _, v := range []int64{b.Seq, b.From, int64(len(body))} {
		head = binary.BigEndian.AppendUint64(head, uint64(v))
	}
	if _, err := out.Write(append(head, body...)); err != nil {
		tb.Fatal(err)
	}
	b.Entries = b.Entries[:0]
}

// used is the process' peak of memory in MiB, and its time on processors.
func used() (peakMiB float64, busy time.Duration) {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Maxrss) / 1024, time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkSimulate replays a log of ten million decisions (-entries says another
// number) under two documents.
func BenchmarkSimulate(b *testing.B) {
	live, draft := documentOf(b, trafficPolicy(300)), documentOf(b, trafficPolicy(200))
	compiled, err := policy.Compile(live)
	if err != nil {
		b.Fatal(err)
	}
	g := newTraffic(b, compiled)
	log, refused := g.write(b, *simulated)
	file, err := os.Stat(log.path)
	if err != nil {
		b.Fatal(err)
	}
	_, before := used()
	b.ResetTimer()
	for range b.N {
		got, err := replay.Engine{}.Compare(b.Context(), live, draft, log, g.find(), nil)
		if err != nil || got.Entries != log.entries || got.Differs != 0 || got.Refused.Requests == 0 {
			b.Fatalf("%v: of %d decisions %d differ, %d newly refused, %d newly admitted, %q", err, got.Entries, got.Differs, got.Refused.Requests, got.Admitted.Requests, got.Notes)
		}
		b.ReportMetric(float64(got.Refused.Requests), "newly-refused")
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/log")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(log.entries), "µs/decision")
	b.ReportMetric(float64(file.Size())/float64(log.entries), "bytes/decision")
	b.ReportMetric(100*float64(refused)/float64(log.entries), "%refused")
	peak, after := used()
	b.ReportMetric(peak, "MiB-peak")
	b.ReportMetric((after-before).Seconds()/float64(b.N), "cpu-s/log")
}
