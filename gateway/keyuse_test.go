package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/usage"
)

// keyReporter is a fakeReporter that takes key uses.
type keyReporter struct {
	*fakeReporter
	mu     sync.Mutex
	broken bool
	bodies [][]byte
	told   chan struct{}
}

func (r *keyReporter) SendKeyUse(_ context.Context, _ *usage.KeyBatch, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return errors.New("refused")
	}
	r.bodies = append(r.bodies, bytes.Clone(body))
	select {
	case r.told <- struct{}{}:
	default:
	}
	return nil
}

func (r *keyReporter) fail(broken bool) { r.mu.Lock(); defer r.mu.Unlock(); r.broken = broken }

// batches are those that were sent.
func (r *keyReporter) batches(t testing.TB) []*usage.KeyBatch {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*usage.KeyBatch, 0, len(r.bodies))
	for _, body := range r.bodies {
		b, err := usage.DecodeKeys(body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// keyFixture is a fixture whose reporter takes key uses.
func keyFixture(t testing.TB, changes ...func(*Config)) (*fixture, *keyReporter) {
	t.Helper()
	r := &keyReporter{told: make(chan struct{}, 100)}
	f := newFixture(t, testPolicy, nil, append([]func(*Config){func(c *Config) {
		r.fakeReporter = c.Reporter.(*fakeReporter)
		c.Reporter = r
	}}, changes...)...)
	return f, r
}

// rows cuts what was counted, a moment later.
func (f *fixture) rows() []usage.KeyRow {
	f.t.Helper()
	f.advance(3 * time.Second)
	batches := f.g.keyUse.Cut(f.clock(), f.clock(), false)
	if len(batches) != 1 {
		f.t.Fatalf("%d batches", len(batches))
	}
	return batches[0].Rows
}

func kidOf(t testing.TB, key string) string {
	t.Helper()
	parsed, err := apikey.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.KID
}

func TestKeyUse_NotesWhoPresentedAKeyAndWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	f, _ := keyFixture(t)
	key := f.key("ten_a", "free")
	at := f.clock().Unix()
	for range 3 { // cost 5 of a burst of 10: the third is refused
		f.do("GET", "/v1/reports/1", "Authorization", "Bearer "+key, "User-Agent", "curl/8.5.0")
	}
	f.do("GET", "/api/x", "X-API-Key", key, "User-Agent", "python-requests/2.31", "Peer", "[2001:db8:1:2::9]:80")
	rows := f.rows()
	want := []usage.KeyRow{
		{KID: kidOf(t, key), Network: "192.0.2.0/24", Agent: "curl/8", FirstUsed: at, LastUsed: at, Requests: 3, Limited: 1},
		{KID: kidOf(t, key), Network: "2001:db8:1::/48", Agent: "python-requests/2", FirstUsed: at, LastUsed: at, Requests: 1},
	}
	if len(rows) != 2 || rows[0] != want[0] || rows[1] != want[1] {
		t.Fatalf("rows are\n%+v, want\n%+v", rows, want)
	}
}

// TestKeyUse_R070_TheClientBehindATrustedProxyIsTheSource, and nobody else can name it.
func TestKeyUse_R070_TheClientBehindATrustedProxyIsTheSource(t *testing.T) {
	t.Parallel()
	f, _ := keyFixture(t)
	key := f.key("ten_a", "big")
	f.do("GET", "/api/x", "X-API-Key", key, "Peer", "10.0.0.5:80", "X-Forwarded-For", "198.51.100.9")
	f.do("GET", "/api/x", "X-API-Key", key, "Peer", "192.0.2.7:80", "X-Forwarded-For", "203.0.113.9")
	rows := f.rows()
	if len(rows) != 2 || rows[0].Network != "192.0.2.0/24" || rows[1].Network != "198.51.100.0/24" {
		t.Fatalf("rows are %+v", rows)
	}
}

// TestKeyUse_EachDoorTellsTheCallerAndNotWhoAsksForHim.
func TestKeyUse_EachDoorTellsTheCallerAndNotWhoAsksForHim(t *testing.T) {
	t.Parallel()
	f, _ := keyFixture(t)
	key := f.key("ten_a", "big")
	f.ask(`{"key": "` + key + `", "method": "GET", "path": "/api/x", "ip": "203.0.113.9", "headers": {"user-agent": "decide/1.2"}}`)
	f.ask(`{"key": "` + key + `", "method": "GET", "path": "/api/x"}`) // from nobody knows where
	res := serve(f.g.DecideHandler(), "GET", "/v1/check", "Peer", "127.0.0.1:1", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/api/x",
		"X-Forwarded-For", "198.51.100.7", "Authorization", "Bearer "+key, "User-Agent", "check/3")
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	got := map[string]string{}
	for _, r := range f.rows() {
		got[r.Network] = r.Agent
	}
	if len(got) != 3 || got["203.0.113.0/24"] != "decide/1" || got["198.51.100.0/24"] != "check/3" || got[""] != "" {
		t.Fatalf("sources are %v", got)
	}
}

// TestKeyUse_AStoppedKeyWithItsRightSecretIsATripwire: revoked, expired and
// suspended ones, and with a wrong secret nothing is noted of any.
func TestKeyUse_AStoppedKeyWithItsRightSecretIsATripwire(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*policy.KeyRecord, time.Time){
		"revoked":   func(r *policy.KeyRecord, _ time.Time) { r.State = policy.KeyRevoked },
		"suspended": func(r *policy.KeyRecord, _ time.Time) { r.State = policy.KeySuspended },
		"expired":   func(r *policy.KeyRecord, _ time.Time) { r.State = policy.KeyExpired },
		"too late":  func(r *policy.KeyRecord, now time.Time) { r.NotAfter = &now },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := keyFixture(t)
			key := f.key("ten_a", "free", func(r *policy.KeyRecord) { stop(r, f.clock()) })
			if res := f.do("GET", "/api/x", bearer(key)...); res.StatusCode != http.StatusUnauthorized {
				t.Fatalf("status %d", res.StatusCode)
			}
			rows := f.rows()
			if len(rows) != 1 || rows[0].KID != kidOf(t, key) || rows[0].Refused != 1 || rows[0].Requests != 1 || rows[0].LastUsed != 0 || rows[0].LastRefused == 0 {
				t.Fatalf("rows are %+v", rows)
			}
		})
	}
}

func TestKeyUse_R062_StrangersDoNotMoveWhatIsKnownOfAKey(t *testing.T) {
	t.Parallel()
	f, _ := keyFixture(t)
	key := f.key("ten_a", "free")
	other := f.key("ten_b", "free")
	for _, state := range []policy.KeyState{policy.KeyActive, policy.KeyRevoked} {
		f.directory.change(func(d *fakeDirectory) { // the other's secret under this kid
			r := d.keys[kidOf(t, key)]
			r.State, r.Digest = state, apikey.Digest(other)
			d.keys[r.KID] = r
		})
		f.do("GET", "/api/x", bearer(key)...)
	}
	f.do("GET", "/api/x", bearer(unknownKey(t))...)
	f.do("GET", "/api/x", bearer(key[:len(key)-1]+"!")...)
	f.do("GET", "/api/x")
	if rows := f.rows(); len(rows) != 0 {
		t.Fatalf("rows are %+v", rows)
	}
}

// TestKeyUse_QuestionsAndOutagesAreNoUse.
func TestKeyUse_QuestionsAndOutagesAreNoUse(t *testing.T) {
	t.Parallel()
	f, _ := keyFixture(t)
	key := f.key("ten_a", "free")
	in := Inbound{Method: "GET", Host: "a", EscapedPath: "/api/x", Key: key, Peer: netip.MustParseAddr("192.0.2.1"), Peek: true}
	if v := f.g.decide(t.Context(), &in); !v.Allowed {
		t.Fatal(v.Code)
	}
	in = Inbound{Method: "GET", Host: "a", EscapedPath: "/api/x", Tenant: "ten_a"}
	if v := f.g.decide(t.Context(), &in); !v.Allowed {
		t.Fatal(v.Code)
	}
	f.directory.change(func(d *fakeDirectory) { d.err = errors.New("away") })
	f.do("GET", "/api/x", bearer(key)...)
	if rows := f.rows(); len(rows) != 0 {
		t.Fatalf("rows are %+v", rows)
	}
}

// TestKeyUse_A16_R065_NoSecretIsInABatch, wherever a caller put one.
func TestKeyUse_A16_R065_NoSecretIsInABatch(t *testing.T) {
	t.Parallel()
	f, _ := keyFixture(t)
	key := f.key("ten_a", "big")
	secret := key[strings.LastIndexByte(key, '_')+1:]
	for _, agent := range []string{key, secret, "curl/8 " + key, "curl/" + secret, "x/" + key, key + "/1", "(" + key + ")", strings.ReplaceAll(key, "_", "%5F"), strings.Repeat("a ", 240) + key} {
		f.do("GET", "/api/"+secret+"?key="+key, "Authorization", "Bearer "+key, "User-Agent", agent, "Referer", key, "Cookie", "k="+key)
	}
	f.advance(3 * time.Second)
	for _, b := range f.g.keyUse.Cut(f.clock(), f.clock(), false) {
		if len(b.Rows) == 0 {
			t.Fatal("nothing was counted")
		}
		for _, r := range b.Rows {
			for at := 0; at+8 <= len(secret); at++ {
				if part := secret[at : at+8]; strings.Contains(r.Agent+r.Network+r.KID, part) {
					t.Fatalf("%+v has %q of the secret", r, part)
				}
			}
		}
	}
}

// TestBrownout_RefusesARetiringKeyForItsTimeByRedisClock, whatever the own clock says.
func TestBrownout_RefusesARetiringKeyForItsTimeByRedisClock(t *testing.T) {
	t.Parallel()
	f, r := keyFixture(t)
	r.skew = time.Until(f.clock().Add(90 * time.Second)) // Redis is 90 s ahead of the own clock
	f.g.beat(t.Context(), policy.Heartbeat{})
	redis := f.g.redisTime(f.clock())
	if ahead := redis.Sub(f.clock()); ahead < 80*time.Second || ahead > 100*time.Second {
		t.Fatalf("Redis is taken to be %v ahead", ahead)
	}
	key := f.key("ten_a", "big", func(k *policy.KeyRecord) {
		k.State = policy.KeyRetiring
		k.Brownout = &policy.Brownout{From: redis.Add(10 * time.Second), Until: redis.Add(40 * time.Second)}
	})
	for _, step := range []struct {
		at   time.Duration
		want int
	}{{0, 204}, {9, 204}, {10, 401}, {39, 401}, {40, 204}, {80, 204}, {120, 204}} {
		f.mu.Lock()
		f.now = redis.Add(step.at*time.Second - 90*time.Second)
		f.mu.Unlock()
		f.g.clockOffset.Store(int64(-90 * time.Second))
		if res := f.do("GET", "/api/x", bearer(key)...); res.StatusCode != step.want {
			t.Errorf("after %d s it answers %d, want %d", step.at, res.StatusCode, step.want)
		}
	}
	rows := f.rows()
	if len(rows) != 1 || rows[0].Requests != 7 || rows[0].Refused != 2 || rows[0].Limited != 0 || rows[0].LastRefused-rows[0].FirstRefused != 29 {
		t.Fatalf("rows are %+v", rows)
	}
}

// TestBrownout_ConcernsItsNetworkAndRetiringVersionsAlone, and never longer than a minute.
func TestBrownout_ConcernsItsNetworkAndRetiringVersionsAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		network string
		state   policy.KeyState
		since   time.Duration
		length  time.Duration
		peer    string
		want    int
	}{
		"from everywhere":        {"", policy.KeyRetiring, 0, time.Minute, "192.0.2.1:1", 401},
		"from its network":       {"192.0.2.0/24", policy.KeyRetiring, 0, time.Minute, "192.0.2.200:1", 401},
		"mapped into IPv6":       {"192.0.2.0/24", policy.KeyRetiring, 0, time.Minute, "[::ffff:192.0.2.3]:1", 401},
		"from another network":   {"192.0.2.0/24", policy.KeyRetiring, 0, time.Minute, "198.51.100.1:1", 204},
		"from its /48":           {"2001:db8:1::/48", policy.KeyRetiring, 0, time.Minute, "[2001:db8:1:9::1]:1", 401},
		"from another /48":       {"2001:db8:1::/48", policy.KeyRetiring, 0, time.Minute, "[2001:db8:2::1]:1", 204},
		"a network that is none": {"everywhere", policy.KeyRetiring, 0, time.Minute, "192.0.2.1:1", 204},
		"an active version":      {"", policy.KeyActive, 0, time.Minute, "192.0.2.1:1", 204},
		"longer than a minute":   {"", policy.KeyRetiring, time.Minute, time.Hour, "192.0.2.1:1", 204},
		"at the end of a minute": {"", policy.KeyRetiring, time.Minute - time.Second, time.Hour, "192.0.2.1:1", 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := keyFixture(t)
			key := f.key("ten_a", "big", func(k *policy.KeyRecord) {
				from := f.clock().Add(-c.since)
				k.State, k.Brownout = c.state, &policy.Brownout{Network: c.network, From: from, Until: from.Add(c.length)}
			})
			if res := f.do("GET", "/api/x", append(bearer(key), "Peer", c.peer)...); res.StatusCode != c.want {
				t.Errorf("status %d, want %d", res.StatusCode, c.want)
			}
		})
	}
}

// TestBrownout_LooksLikeAnyRefusedKeyAndChargesNobody: hundreds of requests of one
// address are refused with 401, and afterwards it is not over any limit.
func TestBrownout_LooksLikeAnyRefusedKeyAndChargesNobody(t *testing.T) {
	t.Parallel()
	f, _ := keyFixture(t)
	key := f.key("ten_a", "big", func(k *policy.KeyRecord) {
		k.State, k.Brownout = policy.KeyRetiring, &policy.Brownout{From: f.clock(), Until: f.clock().Add(time.Minute)}
	})
	for range 100 {
		if res := f.do("GET", "/api/x", bearer(key)...); res.StatusCode != http.StatusUnauthorized {
			t.Fatalf("status %d", res.StatusCode)
		}
	}
	in := f.do("GET", "/api/x", bearer(key)...)
	unknown := f.do("GET", "/api/x", bearer(unknownKey(t))...)
	if unknown.StatusCode != http.StatusUnauthorized {
		t.Fatalf("the address is over the limit of refused credentials: %d", unknown.StatusCode)
	}
	for _, name := range []string{"Www-Authenticate", "Content-Type", "Cache-Control", "Deprecation", "Sunset"} {
		if in.Header.Get(name) != unknown.Header.Get(name) {
			t.Errorf("%s is %q in a brown-out, %q for an unknown key", name, in.Header.Get(name), unknown.Header.Get(name))
		}
	}
}

// run starts the loop that tells, after a heartbeat; the returned function ends it.
func (f *fixture) tell() (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	var loop sync.WaitGroup
	loop.Go(func() { _ = f.g.keyUseLoop(ctx) })
	return func() { cancel(); loop.Wait() }
}

// TestKeyUse_TheEndTellsEverything: an orderly end leaves nothing untold, and says that
// it is the last.
func TestKeyUse_TheEndTellsEverything(t *testing.T) {
	t.Parallel()
	f, r := keyFixture(t)
	stop := f.tell()
	key := f.key("ten_a", "big")
	f.do("GET", "/api/x", bearer(key)...)
	stop()
	batches := r.batches(t)
	if len(batches) != 1 || !batches[0].Final || batches[0].Seq != 1 || len(batches[0].Rows) != 1 || batches[0].Through != f.clock().Unix() || batches[0].Replica != "gw_aaaaaaaaaaaaaaaa" {
		t.Fatalf("batches are %+v", batches)
	}
}

// TestKeyUse_WhatDoesNotGetThroughIsSentAgainAsItWas, and what comes meanwhile is in
// the next batch.
func TestKeyUse_WhatDoesNotGetThroughIsSentAgainAsItWas(t *testing.T) {
	t.Parallel()
	f, r := keyFixture(t)
	key := f.key("ten_a", "big")
	var waiting keyCargo
	f.do("GET", "/api/x", bearer(key)...)
	f.g.cutKeyUse(&waiting, false)
	r.fail(true)
	f.g.shipKeyUse(t.Context(), &waiting)
	f.do("GET", "/api/x", bearer(key)...)
	f.do("GET", "/api/x", bearer(key)...)
	f.g.shipKeyUse(t.Context(), &waiting)
	if len(waiting.batches) != 1 || waiting.bytes == 0 {
		t.Fatalf("%d batches wait", len(waiting.batches))
	}
	r.fail(false)
	f.g.shipKeyUse(t.Context(), &waiting)
	f.g.cutKeyUse(&waiting, true)
	f.g.shipKeyUse(t.Context(), &waiting)
	batches := r.batches(t)
	if len(batches) != 2 || waiting.bytes != 0 || batches[0].Rows[0].Requests != 1 || batches[1].Rows[0].Requests != 2 || batches[1].Seq != 2 || batches[1].From != batches[0].Through+1 {
		t.Fatalf("batches are %+v, %d bytes wait", batches, waiting.bytes)
	}
}

// TestKeyUse_TimesAreThoseOfRedis: a replica whose clock is wrong by an hour tells the
// same seconds as others.
func TestKeyUse_TimesAreThoseOfRedis(t *testing.T) {
	t.Parallel()
	f, r := keyFixture(t)
	f.g.clockOffset.Store(int64(time.Hour)) // as a heartbeat has found
	f.g.reached.Store(true)
	key := f.key("ten_a", "big")
	f.do("GET", "/api/x", bearer(key)...)
	f.tell()()
	b := r.batches(t)[0]
	right := f.clock().Add(-time.Hour).Unix()
	if b.Rows[0].LastUsed != right || b.Through != right || b.Started != right {
		t.Fatalf("%+v, want %d", b, right)
	}
}

// TestKeyUse_ManyKeysAreToldBeforeTheirTime: the counter that fills up is cut at once.
func TestKeyUse_ManyKeysAreToldBeforeTheirTime(t *testing.T) {
	t.Parallel()
	f, r := keyFixture(t)
	stop := f.tell()
	defer stop()
	from := netip.MustParseAddr("192.0.2.1")
	for i := range 60_000 {
		f.g.keyUse.Add(f.clock(), testKID(i), from, "curl/8", usage.KeyAdmitted)
	}
	select {
	case <-r.told:
	case <-time.After(keyUseEvery - time.Second):
		t.Fatal("nothing is told")
	}
}

func testKID(i int) string {
	kid := []byte("000000000000")
	for at := len(kid) - 1; i > 0; at, i = at-1, i/36 {
		kid[at] = "0123456789abcdefghijklmnopqrstuvwxyz"[i%36]
	}
	return string(kid)
}

// TestKeyUse_CostsACachedRefusalNoAllocation: what a flood costs stays what it was.
//
//nolint:paralleltest // it counts allocations
func TestKeyUse_CostsACachedRefusalNoAllocation(t *testing.T) {
	refused := func(f *fixture) float64 {
		key := f.key("ten_a", "free")
		h := f.g.ProxyHandler()
		r := httptest.NewRequest("GET", "/v1/reports/1", nil)
		r.RemoteAddr = "192.0.2.1:4711"
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0")
		w := &discard{h: http.Header{}}
		for range 3 {
			h.ServeHTTP(w, r)
		}
		if w.status != http.StatusTooManyRequests {
			t.Fatal(w.status)
		}
		return testing.AllocsPerRun(200, func() { clear(w.h); h.ServeHTTP(w, r) })
	}
	f, _ := keyFixture(t)
	with, without := refused(f), refused(newFixture(t, testPolicy, nil))
	if with > without {
		t.Fatalf("%v allocations, %v without counting", with, without)
	}
	if rows := f.rows(); len(rows) != 1 || rows[0].Requests < 200 {
		t.Fatalf("rows are %+v", rows)
	}
}
