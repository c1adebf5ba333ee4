package feed

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// gatewayACL is the gateways' Redis user as far as this package needs it: it
// reads what the console publishes and writes what replicas report.
var gatewayACL = []string{
	"%R~hg:{policy}:*", "%R~hg:{directory}:*", "%R~hg:key:*", "%R~hg:tenant:*", "%R~hg:{ledger}:*", "~hg:replica:*", "~hg:usage:*",
	"&hg:{policy}:bell", "-@all", "+hello", "+ping", "+time", "+subscribe", "+unsubscribe",
	"+eval", "+evalsha", "+eval_ro", "+evalsha_ro",
	"+get", "+hget", "+hstrlen", "+type", "+getrange", "+xrange", "+set", "+pexpire",
	"+zadd", "+zcount", "+zremrangebyscore", "+xadd", "+xtrim", "+xlen", "+xrevrange",
}

// asGateway is the rig as a gateway's Redis user sees it.
func (r *rig) asGateway() *redis.Client {
	r.t.Helper()
	rule := append([]any{"ACL", "SETUSER", "gateway", "on", ">secret"}, anyOf(gatewayACL)...)
	r.do(rule...)
	o, err := Options(strings.Replace(r.redis.URL, "redis://", "redis://gateway:secret@", 1))
	if err != nil {
		r.t.Fatal(err)
	}
	c := redis.NewClient(o)
	r.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return c
}

func anyOf(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

func TestACL_AGatewaysUserDoesItsWorkAndCannotPublish(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := Config{Client: r.asGateway(), Deployment: deployment}
	r.publish(1, 60)
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive), r.tenantRecord("ten_a", 1, policy.TenantActive))

	w := r.watcherOn(r.asGateway(), "", rarely)
	start(t, w.Run)
	w.untilVersion(t, 1)
	d := r.directory("", rarely, func(c *DirectoryConfig) { c.Client = cfg.Client })
	start(t, d.Run)
	d.untilPlace(t, place)
	untilSubscribed(t, r, 2)
	r.publish(2, 61)
	w.untilVersion(t, 2)
	if d.state("k1") != "active" || d.tenantState("ten_a") != "active" || d.Stats().Misses != 1 {
		t.Errorf("key %s, tenant %s, %+v", d.state("k1"), d.tenantState("ten_a"), d.Stats())
	}
	rep, err := NewReporter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := rep.Beat(t.Context(), policy.Heartbeat{ID: "gw_a"}); err != nil {
		t.Error(err)
	}
	if err := rep.SendUsage(t.Context(), usage.Batch{Replica: "gw_a", Boot: "b", Seq: 1}); err != nil {
		t.Error(err)
	}

	forger, err := NewPublisher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, publish := forger.PublishPolicy(t.Context(), r.signed(3, 62))
	_, put := forger.PutRecords(t.Context(), []policy.SignedRecord{r.keyRecord("k1", 2, policy.KeyRevoked)})
	for what, err := range map[string]error{
		"publish a policy": publish, "put a record": put, "begin a directory": forger.BeginDirectory(t.Context()),
		"put a stamp":   forger.PutStamp(t.Context(), policy.SignStamp(r.key, deployment, 2, "sha256:00", w.cfg.Now())),
		"ring the bell": cfg.Client.Publish(t.Context(), "hg:{policy}:bell", "policy 9").Err(),
		"flush":         cfg.Client.FlushAll(t.Context()).Err(),
	} {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "permission") {
			t.Errorf("a gateway can %s: %v", what, err)
		}
	}
}

// TestACL_AMissingRightIsUnavailableNotUnknown: a user that lacks a right is told
// apart from a key that does not exist.
func TestACL_AMissingRightIsUnavailableNotUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill("e1")
	c := r.asGateway()
	r.do("ACL", "SETUSER", "gateway", "-eval_ro", "-evalsha_ro")
	d, err := NewDirectory(DirectoryConfig{Config: Config{Client: c, Deployment: deployment}, PublicKeys: []ed25519.PublicKey{public(r.key)}})
	if err != nil {
		t.Fatal(err)
	}
	l := looking{Directory: d}
	for i := range 5 {
		if got := l.state(fmt.Sprintf("k%d", i)); got != "unavailable" {
			t.Fatalf("key is %s", got)
		}
	}
}

// TestACL_TheSameUserDoesItsWorkOnACluster: a user may ask who has which slot,
// and be sent on while a slot moves; nothing else is needed besides.
func TestACL_TheSameUserDoesItsWorkOnACluster(t *testing.T) {
	t.Parallel()
	c := testkit.Cluster(t)
	w := newWideRig(t, c.URL(), "hg")
	for _, n := range c.Nodes {
		rule := append([]any{"ACL", "SETUSER", "gateway", "on", ">secret"}, anyOf(gatewayACL)...)
		rule = append(rule, "+cluster|slots", "+asking")
		admin := redis.NewClient(&redis.Options{Addr: n.Addr})
		if err := admin.Do(t.Context(), rule...).Err(); err != nil {
			t.Fatal(err)
		}
		_ = admin.Close()
	}
	w.publish(1, 60)
	place := w.fill("e1", w.keyRecord("k1", 1, policy.KeyActive), w.tenantRecord("ten_a", 1, policy.TenantActive))
	w.url = strings.Replace(c.URL(), "redis-cluster://", "redis-cluster://gateway:secret@", 1)
	e := w.ends()
	e.untilVersion(t, 1)
	e.untilPlace(t, place)
	if e.state("k1") != "active" || e.tenantState("ten_a") != "active" || e.state("k2") != "unknown" {
		t.Errorf("key %s, tenant %s, another key %s", e.state("k1"), e.tenantState("ten_a"), e.state("k2"))
	}
	if _, _, err := e.reporter.Beat(t.Context(), policy.Heartbeat{ID: "gw_a"}); err != nil {
		t.Error(err)
	}
	slot := c.Slot("hg:tenant:ten_b")
	to := c.Nodes[0]
	if c.Owner(slot) == to {
		to = c.Nodes[1]
	}
	finish := c.BeginMove(slot, to)
	w.put(w.tenantRecord("ten_b", 1, policy.TenantActive)) // goes where the slot is going
	if got := e.tenantState("ten_b"); got != "active" {
		t.Errorf("a tenant of a slot that is moving: %s", got)
	}
	finish()
}
