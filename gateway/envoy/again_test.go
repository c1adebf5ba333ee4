package envoy

import (
	"fmt"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

// drawCall is a call of one or several descriptors, right or wrong, of all kinds of
// decisions. Its answer does not depend on chance.
func drawCall(t *rapid.T, key string) *ratelimitv3.RateLimitRequest {
	maybe := func(d *commonv3.RateLimitDescriptor, key string, values ...string) {
		if v := rapid.SampledFrom(values).Draw(t, key); v != "-" {
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: v})
		}
	}
	seldom := func(label string) bool {
		return rapid.SampledFrom([]bool{false, false, false, false, false, false, false, true}).Draw(t, label)
	}
	r := &ratelimitv3.RateLimitRequest{Domain: DefaultDomain, HitsAddend: rapid.Uint32Range(0, 2).Draw(t, "hits")}
	if seldom("other domain") {
		r.Domain = "other"
	}
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "descriptors") {
		d := descriptor(keyHeader+"x-request-id", "the-same-one")
		if rapid.Bool().Draw(t, "by key") {
			maybe(d, keyAPIKey, key, key, "no key", "-")
		} else {
			maybe(d, keyTenant, "ten_a", "ten_b", "\xff")
		}
		if seldom("by name") {
			maybe(d, keyRoute, "ten", "-")
		} else {
			maybe(d, keyMethod, "GET", "GET", "GET", "GET", "GET", "POST", "OPTIONS")
			maybe(d, keyPath, "/ten", "/ten", "/v1/reports/1?a=b", "/login?username=u", "/mine", "/public/x", "/stopped", "/a/../b", "/nowhere")
		}
		maybe(d, keyAddress, "192.0.2.1", "::1%lo", "x", "-", "-")
		maybe(d, keyUser, "u1", "u2", "-", "-")
		maybe(d, keyHost, "api.example", "\x00", "-", "-", "-", "-", "-")
		maybe(d, keyHeader+"origin", "https://app.example", "-")
		maybe(d, keyHeader+"x-headgate-debug", "1", "-")
		if own := rapid.Uint64Range(0, 4).Draw(t, "own"); own < 3 {
			d.HitsAddend = wrapperspb.UInt64(own)
		}
		d.IsNegativeHits = seldom("negative")
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// said is what a call is told, in words.
func (s *rateLimits) said(t *rapid.T, c *call, r *ratelimitv3.RateLimitRequest) string {
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(pack(r))}, c); err != nil {
		t.Fatal(err)
	}
	if err := s.shouldRateLimit(t.Context(), c); err != nil {
		return err.Error()
	}
	raw, err := newCodec().Marshal(c)
	var out ratelimitv3.RateLimitResponse
	if err := proto.Unmarshal(raw.Materialize(), &out); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(out.String(), err)
}

// A call that is used again answers as a new one does, whatever it was used for.
func TestCall_NothingOfACallShowsInTheNextOne(t *testing.T) {
	t.Parallel()
	again, fresh := newFixture(t), newFixture(t)
	key := again.tenant("ten_b")
	again.tenant("ten_a")
	fresh.directory.keys, fresh.directory.tenants = again.directory.keys, again.directory.tenants
	one, other := newRateLimits(again.server), newRateLimits(fresh.server)
	used, pause := one.calls.get(), 300*time.Millisecond
	rapid.Check(t, func(t *rapid.T) {
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			r := drawCall(t, key)
			again.advance(pause)
			fresh.advance(pause)
			got, want := one.said(t, used, r), other.said(t, new(calls).get(), r)
			if got != want {
				t.Fatalf("%v:\nused again: %s\nnew: %s", r, got, want)
			}
		}
	})
}

// What a large call took is not kept, and what it said is not either.
func TestCall_LargeRoomIsLetGo(t *testing.T) {
	t.Parallel()
	home := &calls{}
	for name, grow := range map[string]func(c *call){
		"message": func(c *call) { c.raw = make([]byte, keptBytes+1) },
		"answer":  func(c *call) { c.answer.b = make([]byte, keptBytes+1) },
		"body":    func(c *call) { c.answer.body = make([]byte, keptBytes+1) },
		"entries": func(c *call) { c.asked.entries = make([]entry, keptEntries+1) },
	} {
		c := &call{home: home}
		grow(c)
		if c.end(); home.pool.Get() != nil {
			t.Errorf("%s: kept", name)
		}
	}
	c := &call{home: home, asked: message{entries: []entry{{key: []byte("k")}}}, questions: make([]question, 1)}
	c.questions[0].Tenant = "ten_a"
	if c.end(); c.questions[:1][0].Tenant != "" || c.asked.entries[:1][0].key != nil {
		t.Errorf("it still holds %+v", c)
	}
}
