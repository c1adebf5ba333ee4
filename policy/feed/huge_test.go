package feed

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
)

// TestFeed_A23_HugeValuesNeitherReachTheConsoleNorStay writes values that no
// console and no gateway writes, as whoever has Redis could. Reading them four
// times a second would stall Redis for the gateways.
func TestFeed_A23_HugeValuesNeitherReachTheConsoleNorStay(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("1 ", 1<<20)
	t.Run("in the directory's head", func(t *testing.T) {
		t.Parallel()
		for _, field := range []string{"epoch", "seq", "servers"} {
			r := newRig(t)
			r.publish(5, 60)
			place := r.fill("e1", r.tenantRecord("ten_a", 1, policy.TenantActive))
			r.do("HSET", "hg:{directory}:head", field, huge)
			before := r.sent()
			s, err := r.pub.State(t.Context())
			if err != nil || s.Directory == place && s.Compared == huge || len(s.Directory.Epoch)+len(s.Compared) > 128 {
				t.Errorf("%s: %v, %d bytes", field, err, len(s.Directory.Epoch)+len(s.Compared))
			}
			if sent := r.sent() - before; sent > 64<<10 {
				t.Errorf("%s: Redis sent %d bytes", field, sent)
			}
			if s.Version != 5 {
				t.Errorf("%s: version %d", field, s.Version)
			}
		}
		r := newRig(t)
		r.do("SET", "hg:{directory}:head", huge)
		if s, err := r.pub.State(t.Context()); err != nil || s.Directory.Epoch != "" {
			t.Errorf("a string: %v, %q", err, s.Directory.Epoch)
		}
	})
	t.Run("in the index of replicas", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		reporter, err := NewReporter(Config{Client: r.asGateway(), Deployment: deployment})
		if err != nil {
			t.Fatal(err)
		}
		beat := func() {
			t.Helper()
			if _, _, err := reporter.Beat(t.Context(), policy.Heartbeat{ID: "gw_a", Boot: "b"}); err != nil {
				t.Fatal(err)
			}
		}
		beat()
		r.do("ZADD", "hg:replica:index", 1, huge)
		for range 2 {
			if got, err := r.pub.Replicas(t.Context()); err != nil || len(got) != 1 || got[0].ID != "gw_a" || got[0].At.IsZero() {
				t.Fatalf("%d replicas, %v", len(got), err)
			}
		}
		if n := r.client.ZCard(t.Context(), "hg:replica:index").Val(); n != 1 {
			t.Errorf("%d entries are left", n)
		}
		r.do("SET", "hg:replica:index", "x") // a gateway's user may
		if got, err := r.pub.Replicas(t.Context()); err != nil || len(got) != 0 {
			t.Fatalf("%d replicas, %v", len(got), err)
		}
		beat()
		if got, err := r.pub.Replicas(t.Context()); err != nil || len(got) != 1 {
			t.Fatalf("%d replicas, %v: the index does not come back", len(got), err)
		}
	})
	t.Run("in the head and the body", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		base := r.publish(5, 60)
		r.do("HSET", "hg:{policy}:head", "bodies", huge)
		r.do("SET", "hg:{policy}:body:6", huge)
		r.try(base, 6, 61, "gw_a")
		r.do("HSET", "hg:{policy}:head", "bodies", huge)
		r.publish(6, 62)
		if n := r.client.HStrLen(t.Context(), "hg:{policy}:head", "bodies").Val(); n > 256 {
			t.Errorf("bodies has %d bytes", n)
		}
		if body := r.client.Get(t.Context(), "hg:{policy}:body:6").Val(); body != string(document(62)) {
			t.Errorf("the body has %d bytes", len(body))
		}
	})
}

// sent is how many bytes Redis has answered in all.
func (r *rig) sent() int64 {
	r.t.Helper()
	info, err := r.client.Info(r.t.Context(), "stats").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return number(infoField(info, "total_net_output_bytes"))
}
