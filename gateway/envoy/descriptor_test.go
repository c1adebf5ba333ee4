package envoy

import (
	"net/netip"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/policy"
)

// questioned is the call that asks r.
func questioned(s *Server, r *ratelimitv3.RateLimitRequest) (*call, error) {
	c := new(calls).get()
	c.raw = pack(r)
	if err := c.asked.read(c.raw); err != nil {
		return nil, err
	}
	return c, s.question(c)
}

// reading is the question of one descriptor.
func reading(d *commonv3.RateLimitDescriptor) (*question, error) {
	c, err := questioned(&Server{cfg: Config{Domain: DefaultDomain}}, request(d))
	return &c.questions[0], err
}

func TestDescriptor_EntriesDescribeARequest(t *testing.T) {
	t.Parallel()
	q, err := reading(descriptor(
		keyAPIKey, "k", keyMethod, "POST", keyHost, "api.example:443", keyPath, "/a%20b?x=1&y=?", keyAddress, "::ffff:192.0.2.1", keyUser, "u", "header:x-plan", "gold", "header:Origin", "https://a",
	))
	if err != nil {
		t.Fatal(err)
	}
	if q.Key != "k" || q.Method != "POST" || q.Host != "api.example:443" || q.EscapedPath != "/a%20b" || q.Query != "x=1&y=?" || q.Tenant != "" || q.RouteName != "" {
		t.Errorf("%+v", q.Inbound)
	}
	if q.Client != netip.MustParseAddr("192.0.2.1") || !q.ClientKnown || q.User != "u" || !q.UserKnown || q.Header.Get("X-Plan") != "gold" || q.Header.Get("Origin") != "https://a" {
		t.Errorf("%+v", q.Inbound)
	}
}

func TestDescriptor_ARouteByNameNeedsNoPath(t *testing.T) {
	t.Parallel()
	for _, key := range []string{keyRoute, keyGeneric} {
		if q, err := reading(descriptor(key, "ten", keyTenant, "ten_a")); err != nil || q.RouteName != "ten" || q.Method != "GET" || q.Tenant != "ten_a" {
			t.Errorf("%s: %+v, %v", key, q.Inbound, err)
		}
	}
	if q, err := reading(descriptor(keyRoute, "graphql", keyMethod, "POST")); err != nil || q.Method != "POST" {
		t.Errorf("with a method: %+v, %v", q.Inbound, err)
	}
}

func TestUnits_WindowsAreExact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		l     gateway.LimitState
		unit  ratelimitv3.RateLimitResponse_RateLimit_Unit
		times uint32
	}{
		"second":                   {gateway.LimitState{Window: 1}, ratelimitv3.RateLimitResponse_RateLimit_SECOND, 0},
		"90 s":                     {gateway.LimitState{Window: 90}, ratelimitv3.RateLimitResponse_RateLimit_SECOND, 90},
		"minute":                   {gateway.LimitState{Window: 60}, ratelimitv3.RateLimitResponse_RateLimit_MINUTE, 0},
		"10 min":                   {gateway.LimitState{Window: 600}, ratelimitv3.RateLimitResponse_RateLimit_MINUTE, 10},
		"hour":                     {gateway.LimitState{Window: 3600}, ratelimitv3.RateLimitResponse_RateLimit_HOUR, 0},
		"day":                      {gateway.LimitState{Window: day}, ratelimitv3.RateLimitResponse_RateLimit_DAY, 0},
		"a rate over 30 days":      {gateway.LimitState{Window: 30 * day}, ratelimitv3.RateLimitResponse_RateLimit_DAY, 30},
		"January":                  {gateway.LimitState{Kind: gateway.LimitQuota, Window: 31 * day}, ratelimitv3.RateLimitResponse_RateLimit_MONTH, 0},
		"March with summer time":   {gateway.LimitState{Kind: gateway.LimitQuota, Window: 31*day - hour}, ratelimitv3.RateLimitResponse_RateLimit_MONTH, 0},
		"February":                 {gateway.LimitState{Kind: gateway.LimitQuota, Window: 28 * day}, ratelimitv3.RateLimitResponse_RateLimit_MONTH, 0},
		"a week":                   {gateway.LimitState{Kind: gateway.LimitQuota, Window: 7 * day}, ratelimitv3.RateLimitResponse_RateLimit_WEEK, 0},
		"a day of 25 hours":        {gateway.LimitState{Kind: gateway.LimitQuota, Window: 25 * hour}, ratelimitv3.RateLimitResponse_RateLimit_DAY, 0},
		"a leap year":              {gateway.LimitState{Kind: gateway.LimitQuota, Window: 366 * day}, ratelimitv3.RateLimitResponse_RateLimit_YEAR, 0},
		"a period that never ends": {gateway.LimitState{Kind: gateway.LimitQuota}, ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN, 0},
		"places":                   {gateway.LimitState{Kind: gateway.LimitConcurrency}, ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN, 0},
	} {
		got := describe(&c.l).message()
		if got.GetUnit() != c.unit || got.GetUnitMultiplier().GetValue() != c.times {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := describe(&gateway.LimitState{ID: "x", Quota: 1 << 40, Window: 1}); got.perUnit != 1<<32-1 || got.name != "x" {
		t.Errorf("%+v", got)
	}
}

// checkQuestion holds what the gateway relies on.
func checkQuestion(t interface{ Fatalf(string, ...any) }, q *question) {
	switch {
	case q.Tenant != "" && !policy.ValidID(q.Tenant):
		t.Fatalf("tenant %q", q.Tenant)
	case q.Tenant != "" && q.Key != "":
		t.Fatalf("tenant %q and key %q", q.Tenant, q.Key)
	case q.RouteName == "" && strings.ContainsAny(q.EscapedPath, "?#"):
		t.Fatalf("path %q", q.EscapedPath)
	case !q.ClientKnown || q.Client.Is4In6() || q.Client.Zone() != "":
		t.Fatalf("client %v", q.Client)
	case q.Hits < 0 || q.zero != q.Peek:
		t.Fatalf("hits %d, zero %v, peek %v", q.Hits, q.zero, q.Peek)
	}
}

// Whatever the values are, only keys decide whether a descriptor is understood.
func TestDescriptor_B4_ValuesNeverDecideWhetherItIsUnderstood(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{Domain: DefaultDomain}}
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.SampledFrom([]string{
			keyTenant, keyAPIKey, keyKey, keyMethod, keyHost, keyPath, keyAddress, keyUser, keyRoute, keyGeneric, "header:a", "header:", "b",
		}), 0, 6).Draw(t, "keys")
		asked := func(label string) error {
			d := &commonv3.RateLimitDescriptor{}
			for _, key := range keys {
				value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\xff", "/x", "ten_a", "192.0.2.1", "fe80::1%eth0"})).Draw(t, label)
				d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
			}
			c, err := questioned(s, request(d))
			if err == nil {
				checkQuestion(t, &c.questions[0])
			}
			return err
		}
		if a, b := asked("value"), asked("other value"); (a == nil) != (b == nil) {
			t.Fatalf("keys %q: %v with one set of values, %v with another", keys, a, b)
		}
	})
}

func FuzzDescriptor(f *testing.F) {
	f.Add("tenant", "ten_a", "method", "GET", "path", "/x?y", uint64(0), true)
	f.Add("header:a", "1", "generic_key", "r", "remote_address", "::1%lo", uint64(1<<63), false)
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, k3, v3 string, hits uint64, own bool) {
		r := request(descriptor(k1, v1, k2, v2, k3, v3))
		r.HitsAddend = uint32(hits)
		if own {
			r.Descriptors[0].HitsAddend = wrapperspb.UInt64(hits)
		}
		c, err := questioned(&Server{cfg: Config{Domain: DefaultDomain}}, r)
		if err != nil {
			if !strings.Contains(err.Error(), "descriptors[0].") {
				t.Fatalf("the error does not name the descriptor: %v", err)
			}
			return
		}
		checkQuestion(t, &c.questions[0])
	})
}
