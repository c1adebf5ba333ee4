package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/child"
	"github.com/headgate/headgate/internal/testkit"
)

// keyCrash is a moment of a rotation at which the console that does it is killed.
type keyCrash struct {
	crash
	overlap string
}

// keyCrashes are the moments in a console that is killed while another relays. The
// last one is that of a rotation which nobody brings to its end.
func keyCrashes() []keyCrash {
	const retired, inserted, rotated = "name: UpdateKeyVersion", "name: InsertKeyVersion", "name: InsertRotation"
	moment := func(name string, db *testkit.Trap, kept bool) keyCrash {
		return keyCrash{crash: crash{name: name, db: db, kept: kept}, overlap: "24h"}
	}
	last := moment("after the commit, its answer lost", &testkit.Trap{Once: rotated, At: "commit", Reply: true}, true)
	last.overlap = "15s"
	return []keyCrash{
		moment("before the old version retires", &testkit.Trap{At: retired}, false),
		moment("after the old version retired", &testkit.Trap{At: retired, Skip: 1, Reply: true}, false),
		moment("after the new version is inserted", &testkit.Trap{At: inserted, Skip: 1, Reply: true}, false),
		moment("before the commit", &testkit.Trap{Once: rotated, At: "commit"}, false),
		moment("after the commit, before the response", &testkit.Trap{At: "name: FinishIdempotencyKey"}, true),
		last,
	}
}

// keyLife is a credential whose clients call a gateway all the time.
type keyLife struct {
	*pair
	tenant, gateway string

	mu      sync.Mutex
	refused []time.Time // when the watched key got 401 or 403
}

// TestKeys_C07_I19_A18_AConsoleKilledInARotationLeavesAKeyThatWorks kills a console
// process at each moment of a rotation. The old key goes on working until its end,
// without one refusal; the new version is there whole, or absent. Its secret was
// shown to nobody, so that nobody ever gets it: the same request again is 409
// without it, and a further rotation gives a key that works.
func TestKeys_C07_I19_A18_AConsoleKilledInARotationLeavesAKeyThatWorks(t *testing.T) {
	t.Parallel()
	l := newKeyLife(t)
	stable := l.console()
	holder := l.leads(0)
	l.begin(t, stable)
	for _, c := range keyCrashes() {
		l.crashes(t, c, l.console(), stable)
	}
	// The relay itself, between the commit and Redis, and after it.
	for _, reply := range []bool{false, true} {
		victim := l.console()
		stable.kill()
		holder = l.leads(holder)
		heir := l.console()
		c := keyCrash{overlap: "24h", crash: crash{name: fmt.Sprintf("at Redis, which has it: %v", reply), kept: true, wire: &testkit.Trap{Reply: reply}}}
		l.crashes(t, c, victim, heir)
		stable, holder = heir, l.leads(holder)
	}
	l.cutIssue(t, l.console(), stable)
}

func newKeyLife(t *testing.T) *keyLife {
	t.Helper()
	l := &keyLife{pair: newPair(t)}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(upstream.Close)
	base := filepath.Join(l.dir, "gateway")
	proc, err := child.Start(child.Spec{
		Argv: []string{
			binary, "gateway", "--listen=127.0.0.1:0", "--upstream=" + upstream.URL, "--admin-listen=127.0.0.1:0", "--addr-file=" + base + ".json",
			"--redis-url=" + l.redisURL, "--policy-key-file=" + filepath.Join(l.dir, "signing-key.pub.pem"), "--state-dir=" + base, unhurried,
		},
		Env: []string{"PATH=/usr/bin:/bin", "TZ=UTC"}, Dir: l.dir, LogFile: base + ".log", DeathSignal: syscall.SIGKILL,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proc.Kill)
	eventually(t, time.Minute, "the gateway listens", func() error {
		raw, err := os.ReadFile(base + ".json")
		if err != nil {
			return err
		}
		at := &doors{}
		if err := json.Unmarshal(raw, at); err != nil {
			return err
		}
		l.gateway = "http://" + strings.TrimPrefix(at.Proxy, "http://")
		return nil
	})
	return l
}

// begin publishes a policy and makes a tenant.
func (l *keyLife) begin(t *testing.T, c *consoleProcess) {
	t.Helper()
	if a := c.api(http.MethodPost, "/api/v1/policy/publish", map[string]any{"document": document(60000, 60000), "base_version": 0, "note": "test"}); a.Status >= 300 {
		t.Fatalf("publish: %d %s", a.Status, a.Body)
	}
	l.tenant = str(l.must(t, c, http.StatusCreated, "/api/v1/tenants", map[string]any{"name": "Crash Ltd", "plan": "free"}), "id")
}

// must asks a console where only the status want is right.
func (l *keyLife) must(t *testing.T, c *consoleProcess, want int, path string, body any) map[string]any {
	t.Helper()
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	a := c.api(method, path, body)
	if a.Status != want {
		t.Fatalf("%s: %d, want %d: %s", path, a.Status, want, a.Body)
	}
	return a.JSON(t)
}

// call asks the gateway with a key and returns the status.
func (l *keyLife) call(key string) int {
	return fetch(l.t.Context(), http.DefaultClient, http.MethodGet, l.gateway+"/x", "", http.Header{"Authorization": {"Bearer " + key}}).Status
}

// works waits until the gateway accepts a key.
func (l *keyLife) works(t *testing.T, what, key string) {
	t.Helper()
	eventually(t, time.Minute, what, func() error {
		if got := l.call(key); got != http.StatusNoContent {
			return fmt.Errorf("status %d", got)
		}
		return nil
	})
}

// watch calls with a key all the time until the function that it returns is called.
func (l *keyLife) watch(key string) (end func()) {
	l.refused = nil
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			if got := l.call(key); got == http.StatusUnauthorized || got == http.StatusForbidden {
				l.mu.Lock()
				l.refused = append(l.refused, time.Now())
				l.mu.Unlock()
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceFunc(func() { close(stop); <-done })
}

// firstRefusal is when the watched key was refused first; zero: never.
func (l *keyLife) firstRefusal() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refused) == 0 {
		return time.Time{}
	}
	return l.refused[0]
}

// repeated sends a request that a killed console did not answer again, to another
// one: it must not show a secret.
func (l *keyLife) repeated(t *testing.T, c *consoleProcess, path, idempotency string, body any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	a := fetch(t.Context(), http.DefaultClient, http.MethodPost, c.url+path, string(raw), http.Header{
		"Authorization": {"Bearer " + l.token}, "Content-Type": {"application/json"}, "Idempotency-Key": {idempotency},
	})
	if a.Status != http.StatusConflict || strings.Contains(string(a.Body), "hg_live_") {
		t.Errorf("the same request again: %d %s", a.Status, a.Body)
	}
}

// cut sends a request to the victim, which is killed when the trap has sprung.
func (l *keyLife) cut(t *testing.T, victim *consoleProcess, c crash, path, idempotency string, body any) {
	t.Helper()
	trap, proxy := c.db, victim.db
	if c.wire != nil {
		trap, proxy = c.wire, victim.wire
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Arm(trap)
	answered := make(chan Answer, 1)
	go func() {
		answered <- fetch(t.Context(), http.DefaultClient, http.MethodPost, victim.url+path, string(raw), http.Header{
			"Authorization": {"Bearer " + l.token}, "Content-Type": {"application/json"}, "Idempotency-Key": {idempotency},
		})
	}()
	select {
	case <-trap.Sprung():
	case <-time.After(time.Minute):
		t.Fatalf("%s: the moment does not come", c.name)
	}
	victim.kill()
	<-answered
}

// crashes kills the victim in a rotation of a fresh credential, looks at what the
// other console and the gateway make of it, and rotates again.
func (l *keyLife) crashes(t *testing.T, c keyCrash, victim, other *consoleProcess) {
	t.Helper()
	issued := l.must(t, other, http.StatusCreated, "/api/v1/tenants/"+l.tenant+"/credentials", map[string]any{"name": c.name, "environment": "live"})
	credential, old, kid := str(issued, "credential", "id"), str(issued, "key"), str(issued, "key_version", "kid")
	l.works(t, "the old key works", old)
	end := l.watch(old)
	defer end()
	if c.wire != nil {
		c.wire.At = "hg:key:" + kid
	}
	path := "/api/v1/credentials/" + credential + "/rotations"
	body := map[string]any{"overlap": c.overlap, "reason": "test"}
	l.cut(t, victim, c.crash, path, credential, body)

	versions, rotations := int64(1), int64(0)
	if c.kept {
		versions, rotations = 2, 1
	}
	if n := l.count(t, "SELECT count(*) FROM key_versions WHERE state IN ('active', 'retiring') AND credential_id = '"+credential+"'"); n != versions {
		t.Fatalf("%s: %d working versions, want %d", c.name, n, versions)
	}
	if n := l.count(t, "SELECT count(*) FROM rotations WHERE credential_id = '"+credential+"'"); n != rotations {
		t.Fatalf("%s: %d rotations, want %d", c.name, n, rotations)
	}
	l.repeated(t, other, path, credential, body)
	eventually(t, time.Minute, c.name+": nothing is left to send", func() error {
		if n := l.count(t, "SELECT count(*) FROM outbox WHERE done_at IS NULL"); n > 0 {
			return fmt.Errorf("%d rows", n)
		}
		return nil
	})
	l.heals(t, c, other, credential, end)
	t.Logf("killed %s: healed", c.name)
}

// heals rotates a credential whose rotation was cut, until a key works whose
// secret is known.
func (l *keyLife) heals(t *testing.T, c keyCrash, other *consoleProcess, credential string, end func()) {
	t.Helper()
	path := "/api/v1/credentials/" + credential + "/rotations"
	if c.kept {
		var id, fresh string
		var ends time.Time
		if err := l.sql.QueryRow(t.Context(), "SELECT id, new_kid, ends_at FROM rotations WHERE credential_id = $1", credential).Scan(&id, &fresh, &ends); err != nil {
			t.Fatal(err)
		}
		if n := l.redis.Exists(t.Context(), "hg:key:"+fresh).Val(); n != 1 {
			t.Fatalf("%s: gateways are not told of the new version", c.name)
		}
		if c.overlap == "24h" { // it is there, and only unrevealed: take it back
			l.must(t, other, http.StatusOK, "/api/v1/rotations/"+id+"/cancel", map[string]any{"reason": "its secret was never seen"})
		} else { // nobody notices before the old key's end
			eventually(t, time.Minute, "the old key ends", func() error {
				if l.firstRefusal().IsZero() {
					return fmt.Errorf("it is not refused; it ends at %v", ends)
				}
				return nil
			})
			if early := ends.Sub(l.firstRefusal()); early > time.Second {
				t.Errorf("the old key was refused %v before its end", early)
			}
			took(t, "the old key is refused after its end", l.firstRefusal().Sub(ends), time.Second)
			end()
			l.mu.Lock()
			l.refused = nil
			l.mu.Unlock()
		}
	}
	again := l.must(t, other, http.StatusCreated, path, map[string]any{"overlap": "24h", "reason": "again"})
	l.works(t, c.name+": the key of a further rotation works", str(again, "key"))
	end()
	if at := l.firstRefusal(); !at.IsZero() {
		t.Errorf("%s: the old key was refused at %v", c.name, at)
	}
}

// cutIssue kills a console after it has committed a new credential and before it
// has answered: nobody has its secret, and rotating it gives one.
func (l *keyLife) cutIssue(t *testing.T, victim, other *consoleProcess) {
	t.Helper()
	path := "/api/v1/tenants/" + l.tenant + "/credentials"
	body := map[string]any{"name": "unseen", "environment": "live"}
	l.cut(t, victim, crash{name: "an issue before its response", db: &testkit.Trap{At: "name: FinishIdempotencyKey"}}, path, "issue", body)
	l.repeated(t, other, path, "issue", body)
	var credential string
	if err := l.sql.QueryRow(t.Context(), "SELECT id FROM credentials WHERE name = 'unseen'").Scan(&credential); err != nil {
		t.Fatal(err)
	}
	again := l.must(t, other, http.StatusCreated, "/api/v1/credentials/"+credential+"/rotations", map[string]any{"overlap": "0s", "reason": "never seen"})
	l.works(t, "the key of the rotation works", str(again, "key"))
}
