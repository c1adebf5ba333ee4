package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// heldKey is a key with what gateways have to make of it.
type heldKey struct {
	name, key string
	want      atomic.Int32  // wantAny, wantLive, wantDead
	turn      atomic.Int64  // counts changes of want
	refused   []atomic.Bool // by gateway, since the key is final
	final     atomic.Bool   // it was revoked, or a rotation ended it
}

const (
	wantAny int32 = iota
	wantLive
	wantDead
)

func (k *heldKey) is(want int32) { k.want.Store(want); k.turn.Add(1) }

// keyStorm is callers that never stop, and what they have seen go wrong.
type keyStorm struct {
	d    *Demo
	mu   sync.Mutex
	keys []*heldKey
	bad  []string
	hits atomic.Int64
}

func (s *keyStorm) hold(name, key string) *heldKey {
	k := &heldKey{name: name, key: key, refused: make([]atomic.Bool, len(s.d.Gateways))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, k)
	return k
}

func (s *keyStorm) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bad) < 20 {
		s.bad = append(s.bad, fmt.Sprintf(format, args...))
	}
}

// call asks gateway i with a key once and holds the answer against what is known.
func (s *keyStorm) call(i int, k *heldKey) int {
	turn, want, final, refused := k.turn.Load(), k.want.Load(), k.final.Load(), k.refused[i].Load()
	status := s.d.Hit(i, k.key, "/x").Status
	s.hits.Add(1)
	switch {
	case status == http.StatusUnauthorized && final:
		k.refused[i].Store(true)
	case status == http.StatusOK && refused:
		s.say("gateway %d admits %s after it has refused it", i+1, k.name)
	}
	if k.turn.Load() != turn {
		return status
	}
	if want == wantLive && status == http.StatusUnauthorized || want == wantDead && status == http.StatusOK {
		s.say("gateway %d answers %d for %s, which is to be %d", i+1, status, k.name, want)
	}
	return status
}

func (s *keyStorm) run(stop <-chan struct{}, i int) {
	for n := 0; ; n++ {
		s.mu.Lock()
		var k *heldKey
		if len(s.keys) > 0 {
			k = s.keys[n%len(s.keys)]
		}
		s.mu.Unlock()
		if k != nil {
			s.call(i, k)
		}
		select {
		case <-stop:
			return
		case <-time.After(3 * time.Millisecond):
		}
	}
}

// settle waits until every gateway answers for a key as it should.
func (s *keyStorm) settle(t *testing.T, k *heldKey, want int32) {
	t.Helper()
	for i := range s.d.Gateways {
		eventually(t, time.Minute, fmt.Sprintf("gateway %d knows about %s", i+1, k.name), func() error {
			status := s.call(i, k)
			if want == wantLive && status != http.StatusOK || want == wantDead && status != http.StatusUnauthorized {
				return fmt.Errorf("status %d", status)
			}
			return nil
		})
	}
	k.is(want)
}

// post changes something, again until the console has said that it is done.
func (s *keyStorm) post(t *testing.T, path string, body any) (out map[string]any) {
	t.Helper()
	eventually(t, time.Minute, path, func() error {
		a := s.d.API(http.MethodPost, path, body)
		if a.Status == http.StatusConflict { // it was stored the first time
			out = nil
			return nil
		}
		if a.Status != http.StatusOK && a.Status != http.StatusCreated {
			return fmt.Errorf("status %d: %s", a.Status, a.Body)
		}
		out = a.JSON(t)
		return nil
	})
	return out
}

// TestKeys_I10_I19_R053_R056_UnderFaults: keys are revoked, suspended and rotated
// while Redis is flushed and killed, and the console and gateways are killed. No
// gateway admits a key again that it has refused for good, none refuses one that works.
func TestKeys_I10_I19_R053_R056_UnderFaults(t *testing.T) {
	t.Parallel()
	d := StartDemo(t)
	d.Publish(strings.Replace(document(1_000_000, 1_000_000), "plans:", `credentials:
  headers: [{name: Authorization, scheme: Bearer}]
  invalid: {per: ip, rate: 1000000/minute, burst: 1000000}
plans:`, 1))
	s := &keyStorm{d: d}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range d.Gateways {
		callers.Go(func() { s.run(stop, i) })
	}
	faults := []struct {
		name string
		do   func()
	}{
		{"nothing", func() {}},
		{"flush", func() { d.RedisClient().FlushAll(t.Context()) }},
		{"gateway", func() { d.Kill(d.Processes.Gateways[1]); d.Restart(d.Processes.Gateways[1]) }},
		{"console", func() { d.Kill(d.Processes.Console); d.Restart(d.Processes.Console) }},
		{"redis", func() { d.Kill(d.Processes.Redis); d.Restart(d.Processes.Redis) }},
		{"flush and console", func() {
			d.Kill(d.Processes.Console)
			d.RedisClient().FlushAll(t.Context())
			d.Restart(d.Processes.Console)
		}},
	}
	for _, f := range faults {
		s.round(t, f.name, f.do)
	}
	close(stop)
	callers.Wait()
	t.Logf("%d requests", s.hits.Load())
	for _, b := range s.bad {
		t.Error(b)
	}
}

func (s *keyStorm) round(t *testing.T, name string, fault func()) {
	t.Helper()
	t.Logf("round %s", name)
	type made struct {
		*heldKey
		kid, credential string
	}
	var keys []made
	for _, fate := range []string{"revoked", "suspended", "rotated", "cancelled"} {
		tenant, credential := s.d.NewTenant(name+" "+fate, "free")
		k := made{s.hold(name+": "+fate, tenant.Key), kidOf(t, tenant.Key), credential}
		s.settle(t, k.heldKey, wantLive)
		keys = append(keys, k)
	}
	rotation := func(k made) (string, *heldKey) {
		out := s.d.MustAPI(http.StatusCreated, http.MethodPost, "/api/v1/credentials/"+k.credential+"/rotations", map[string]any{"overlap": "24h", "reason": "test"})
		fresh := s.hold(k.name+", the new one", str(out, "key"))
		s.settle(t, fresh, wantLive)
		return str(out, "rotation", "id"), fresh
	}
	ended, _ := rotation(keys[2])
	cancelled, fresh := rotation(keys[3])
	for _, k := range []*heldKey{keys[0].heldKey, keys[1].heldKey, keys[2].heldKey, fresh} {
		k.is(wantAny)
	}
	var harm sync.WaitGroup
	harm.Go(fault)
	reason := map[string]any{"reason": "test"}
	s.post(t, "/api/v1/key-versions/"+keys[0].kid+"/revoke?wait=converged", map[string]any{"reason": "leak"})
	keys[0].final.Store(true)
	s.post(t, "/api/v1/key-versions/"+keys[1].kid+"/suspend?wait=converged", reason)
	s.post(t, "/api/v1/rotations/"+ended+"/end?wait=converged", reason)
	keys[2].final.Store(true)
	s.post(t, "/api/v1/rotations/"+cancelled+"/cancel?wait=converged", reason)
	fresh.final.Store(true)
	harm.Wait()
	for _, k := range []*heldKey{keys[0].heldKey, keys[1].heldKey, keys[2].heldKey, fresh} {
		s.settle(t, k, wantDead)
	}
	fault() // and once more, when everybody knows
	eventually(t, time.Minute, "the console answers again", func() error {
		if a := s.d.API(http.MethodGet, "/api/v1/health", nil); a.Status != http.StatusOK {
			return fmt.Errorf("status %d", a.Status)
		}
		return nil
	})
	keys[1].is(wantAny)
	s.post(t, "/api/v1/key-versions/"+keys[1].kid+"/resume?wait=converged", reason)
	s.settle(t, keys[1].heldKey, wantLive)
}
