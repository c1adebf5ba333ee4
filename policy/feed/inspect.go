package feed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

const (
	// scanSteps and scanCount bound one look for state without a TTL; the next look
	// goes on where it ended.
	scanSteps = 8
	scanCount = 500
	// clockBar is how far two clocks may be apart: a failover to a clock that is
	// ahead hands out what refills in that time.
	clockBar = time.Second
	// lagBar is the longest replication lag, in seconds, for which an isolated
	// primary may go on.
	lagBar = 10
	// oldestMajor is the oldest Redis that the scripts are written for.
	oldestMajor = 7
)

// inspected is what the last look at one server found; a server that was
// replaced is another one.
type inspected struct {
	run     string // the server process
	evicted int64
	cursor  uint64
	noTTL   []string // keys without a TTL that this round of scanning has found
	lastTTL []string // those of the round before, once there was one
}

// Inspect looks each server over for known hazards, the worst first. It costs a
// server a few calls and reads a part of its keys' names at most, another part
// each time. A server that does not answer is left out; when none does, that is
// an error.
func (p *Publisher) Inspect(ctx context.Context) ([]policy.Hazard, error) {
	var mu sync.Mutex
	var found []policy.Hazard
	var failed error
	answered := 0
	err := everyServer(ctx, p.cfg.Client, func(ctx context.Context, node *redis.Client) error {
		hazards, err := p.inspectServer(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			return nil
		}
		answered++
		found = append(found, hazards...)
		return nil
	})
	if err = cmp.Or(err, failed); err != nil && answered == 0 {
		return nil, fmt.Errorf("inspect Redis: %w", err)
	}
	rank := map[policy.Severity]int{policy.SeverityRed: 0, policy.SeverityAmber: 1, policy.SeverityNote: 2}
	slices.SortFunc(found, func(a, b policy.Hazard) int {
		return cmp.Or(cmp.Compare(rank[a.Severity], rank[b.Severity]), strings.Compare(a.Code, b.Code), strings.Compare(a.Server, b.Server))
	})
	return found, nil
}

// everyServer calls do for each server, replicas of a Cluster included: they
// may have to take over.
func everyServer(ctx context.Context, client redis.UniversalClient, do func(context.Context, *redis.Client) error) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		return c.ForEachShard(ctx, do)
	case *redis.Client:
		return do(ctx, c)
	}
	return fmt.Errorf("client of type %T", client)
}

// inspection is one server's answers, and what is said of them.
type inspection struct {
	server string
	info   string
	found  []policy.Hazard
}

func (l *inspection) add(code string, severity policy.Severity, text, mend string) {
	l.found = append(l.found, policy.Hazard{Code: code, Severity: severity, Server: l.server, Text: text, Mend: mend})
}

func (l *inspection) text(field string) string { return infoField(l.info, field) }

func (l *inspection) number(field string) int64 {
	n, err := strconv.ParseInt(l.text(field), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (p *Publisher) inspectServer(ctx context.Context, node *redis.Client) ([]policy.Hazard, error) {
	info, err := node.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	l := &inspection{server: serverName(node, info), info: info}
	l.version()
	l.eviction()
	l.saving()
	primary := l.text("role") == "master"
	if primary {
		l.minReplicas(ctx, node)
	}
	if err := l.clock(ctx, node, p.cfg.Now); err != nil {
		return nil, err
	}
	p.inspecting.Lock()
	defer p.inspecting.Unlock()
	last := p.inspected[l.server]
	if last.run != l.text("run_id") {
		last = inspected{run: l.text("run_id"), evicted: -1}
	}
	l.evicted(&last)
	if primary {
		if err := l.withoutTTL(ctx, node, p.keys.limiterState(), &last); err != nil {
			return nil, err
		}
	}
	if p.inspected == nil {
		p.inspected = map[string]inspected{}
	}
	p.inspected[l.server] = last
	return l.found, nil
}

// serverName is the address that the client has, or, where Sentinels name the
// primary, its port.
func serverName(node *redis.Client, info string) string {
	if addr := node.Options().Addr; strings.Contains(addr, ":") || strings.HasPrefix(addr, "/") {
		return addr
	}
	return "primary, port " + infoField(info, "tcp_port")
}

func (l *inspection) version() {
	version := l.text("redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestMajor {
		l.add(policy.HazardVersion, policy.SeverityRed, fmt.Sprintf("Redis %s is older than 7.0: gateways' scripts and read-only rights need 7.0.", version),
			"Upgrade to Redis 7.0 or newer, or to Valkey.")
	}
}

func (l *inspection) eviction() {
	if rule := l.text("maxmemory_policy"); rule != "" && rule != "noeviction" {
		l.add(policy.HazardEvictionPolicy, policy.SeverityRed,
			fmt.Sprintf("maxmemory-policy is %s: under memory pressure Redis drops counters, and whoever's counter is dropped gets a fresh budget.", rule),
			"Set maxmemory-policy noeviction, and give limits a Redis of their own when this one is also a cache.")
	}
	if most := l.number("maxmemory"); most > 0 && l.number("used_memory") > most-most/10 {
		l.add(policy.HazardMemory, policy.SeverityAmber,
			fmt.Sprintf("%s of %s are in use: a full Redis refuses every charge, and routes fall to their fail mode.", l.text("used_memory_human"), l.text("maxmemory_human")),
			"Raise maxmemory, or find out what else fills this Redis.")
	}
}

// evicted compares with the look before: growing is worse than having been.
func (l *inspection) evicted(last *inspected) {
	now := l.number("evicted_keys")
	grown := now - last.evicted
	switch {
	case last.evicted >= 0 && grown > 0:
		l.add(policy.HazardEvicting, policy.SeverityRed,
			fmt.Sprintf("%d keys were evicted since the last look: each dropped counter is one fresh budget.", grown),
			"Set maxmemory-policy noeviction and raise maxmemory.")
	case now > 0:
		l.add(policy.HazardEvicting, policy.SeverityAmber,
			fmt.Sprintf("%d keys were evicted since this server started: counters may have been among them.", now),
			"Set maxmemory-policy noeviction and raise maxmemory; the count begins anew when the server restarts.")
	}
	last.evicted = now
}

func (l *inspection) saving() {
	if l.text("rdb_last_bgsave_status") == "err" || l.text("aof_last_write_status") == "err" || l.text("aof_last_bgrewrite_status") == "err" {
		l.add(policy.HazardSaving, policy.SeverityRed, "The last save to disk failed: Redis may refuse every write (MISCONF).",
			"Look at Redis' log and its disk; rates need no persistence, so without quotas saving may also be turned off.")
	}
	if l.text("aof_enabled") == "0" && l.number("connected_slaves") == 0 && l.text("role") == "master" && l.text("cluster_enabled") != "1" {
		l.add(policy.HazardPersistence, policy.SeverityNote,
			"There is no append-only file and no replica: after a restart every bucket is full again, which lets through one burst per subject at most, and quotas are closed until the console has rebuilt them from the ledger. Policy and keys are published again by the console.",
			"Turn on appendonly, or run a replica, if that, or a burst after a restart, is too much.")
	}
}

// minReplicas looks for the pair of settings that stops a primary which has
// been cut off from its replicas: until its clients notice, two primaries admit.
func (l *inspection) minReplicas(ctx context.Context, node *redis.Client) {
	if l.number("connected_slaves") == 0 {
		return
	}
	const mend = "Set min-replicas-to-write 1 and min-replicas-max-lag 1 on the primary and on every replica."
	if l.text("min_slaves_good_slaves") == "" {
		l.add(policy.HazardMinReplicas, policy.SeverityRed,
			"There are replicas, and min-replicas-to-write and min-replicas-max-lag are not both set: a primary that is cut off goes on admitting beside the new one.", mend)
		return
	}
	set, err := node.ConfigGet(ctx, "min-replicas-max-lag").Result()
	if lag, bad := strconv.Atoi(set["min-replicas-max-lag"]); err == nil && bad == nil && lag >= lagBar {
		l.add(policy.HazardMinReplicas, policy.SeverityAmber,
			fmt.Sprintf("min-replicas-max-lag is %d: a primary that is cut off goes on admitting for that many seconds beside the new one.", lag), mend)
	}
}

// clock compares with the console's clock, half a round trip taken into account.
func (l *inspection) clock(ctx context.Context, node *redis.Client, now func() time.Time) error {
	asked := now()
	at, err := node.Time(ctx).Result()
	if err != nil {
		return err
	}
	trip := now().Sub(asked)
	distance := at.Sub(asked.Add(trip / 2))
	if distance.Abs() > clockBar+trip/2 {
		l.add(policy.HazardClock, policy.SeverityAmber,
			fmt.Sprintf("Its clock is %v away from the console's. Limits count by this clock alone, but a failover to another one moves them by the distance, and expiry dates are off by it.", distance.Round(time.Millisecond)),
			"Synchronise the clocks (chrony, ntpd).")
	}
	return nil
}

// withoutTTL looks on for limiter state that would stay for ever.
func (l *inspection) withoutTTL(ctx context.Context, node *redis.Client, pattern string, last *inspected) error {
	for range scanSteps {
		names, next, err := node.Scan(ctx, last.cursor, pattern, scanCount).Result()
		if err != nil {
			return err
		}
		bad, err := keysWithoutTTL(ctx, node, names)
		if err != nil {
			return err
		}
		last.noTTL = append(last.noTTL, bad...)
		last.noTTL = last.noTTL[:min(len(last.noTTL), scanCount)]
		if last.cursor = next; next == 0 {
			last.lastTTL, last.noTTL = last.noTTL, nil
			break
		}
	}
	if n := max(len(last.noTTL), len(last.lastTTL)); n > 0 {
		example := append(slices.Clone(last.noTTL), last.lastTTL...)[0]
		l.add(policy.HazardNoTTL, policy.SeverityRed,
			fmt.Sprintf("%d keys of the limiter or more have no TTL, such as %q: something else than a gateway wrote them, and a lockout in them may never end.", n, example),
			"A key gets its TTL with the next request that touches it; delete those that nobody asks for.")
	}
	return nil
}

func keysWithoutTTL(ctx context.Context, node *redis.Client, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	pipe := node.Pipeline()
	ttls := make([]*redis.DurationCmd, len(names))
	for i, name := range names {
		ttls[i] = pipe.PTTL(ctx, name)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var bad []string
	for i, ttl := range ttls {
		if ttl.Val() == -1 { // -2: gone meanwhile
			bad = append(bad, names[i])
		}
	}
	return bad, nil
}
