package e2e_test

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	control "github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/policy/feed"
	"github.com/headgate/headgate/usage"
)

// keyUses looks at what the demo's console has learnt, as another console beside it
// that collects nothing itself.
func (d *Demo) keyUses() (uses *control.KeyUses, rotations *control.Rotations) {
	d.t.Helper()
	store, err := db.Open(d.t.Context(), d.Postgres, 4)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(store.Close)
	wire, err := feed.NewPublisher(feed.Config{Client: d.RedisClient(), Deployment: "demo"})
	if err != nil {
		d.t.Fatal(err)
	}
	deps := control.Deps{Store: store, Feed: wire, Signer: make(ed25519.PrivateKey, ed25519.PrivateKeySize), Deployment: "demo"}
	return control.NewKeyUses(deps, control.NewFleet(deps), control.KeyUseRetention{}), control.NewRotations(deps)
}

// hitAs is a request of a program.
func (d *Demo) hitAs(i int, key, agent string) int {
	d.t.Helper()
	return d.do(http.MethodGet, d.Gateways[i]+"/x", http.Header{"Authorization": {"Bearer " + key}, "User-Agent": {agent}}, nil).Status
}

func kidOf(t *testing.T, key string) string {
	t.Helper()
	parsed, err := apikey.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.KID
}

// known waits until a key's use is as it should be.
func known(t *testing.T, uses *control.KeyUses, kid, what string, good func(control.KeyUse) bool) control.KeyUse {
	t.Helper()
	var last control.KeyUse
	after := eventually(t, time.Minute, what, func() error {
		all, age, err := uses.Uses(t.Context(), []string{kid})
		if err != nil {
			return err
		}
		if last = all[kid]; !good(last) {
			return fmt.Errorf("use is %+v, age %+v", last, age)
		}
		return nil
	})
	took(t, what, after, 15*time.Second)
	return last
}

// TestKeyUse_R056_R065_WhoUsesAKeyIsKnownWithinSeconds: accepted, stopped for a moment,
// revoked; and nothing of the secret is anywhere on the way (A16).
func TestKeyUse_R056_R065_WhoUsesAKeyIsKnownWithinSeconds(t *testing.T) {
	t.Parallel()
	d := StartDemo(t)
	uses, rotations := d.keyUses()
	tenant, credential := d.NewTenant("Used", "free")
	kid := kidOf(t, tenant.Key)
	for i := range d.Gateways {
		eventually(t, 20*time.Second, "the key is accepted", func() error {
			if status := d.hitAs(i, tenant.Key, "acme-sync/4.2 "+tenant.Key); status != http.StatusOK {
				return fmt.Errorf("status %d", status)
			}
			return nil
		})
	}
	u := known(t, uses, kid, "three uses are known", func(u control.KeyUse) bool { return u.Requests24h >= 3 })
	if u.LastNetwork != "127.0.0.0/24" || u.LastAgent != "acme-sync/4" || u.FirstUsedAt == nil || u.RefusedAt != nil {
		t.Errorf("use is %+v", u)
	}
	sources, age, err := uses.Sources(t.Context(), kid, time.Now().Add(-time.Hour), 10)
	if err != nil || len(sources) != 1 || age.Behind || age.Since.IsZero() {
		t.Errorf("sources are %+v, age %+v, %v", sources, age, err)
	}

	started := d.MustAPI(http.StatusCreated, http.MethodPost, "/api/v1/credentials/"+credential+"/rotations", map[string]any{"overlap": "24h", "reason": "test"})
	actor := control.Actor{ID: "opr_aaaaaaaaaaaaaaaa", Name: "Test", Role: control.RoleOwner, Via: control.ViaConsole}
	brownout, _, err := rotations.StartBrownout(t.Context(), actor, str(started, "rotation", "id"), control.NewBrownout{For: 5 * time.Second, Reason: "who is left?"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 4*time.Second, "the old key is refused for a moment", func() error {
		if status := d.hitAs(0, tenant.Key, "acme-sync/4.2"); status != http.StatusUnauthorized {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	eventually(t, 30*time.Second, "the old key is accepted again, by itself", func() error {
		if status := d.hitAs(0, tenant.Key, "acme-sync/4.2"); status != http.StatusOK {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	if time.Now().Before(brownout.Until.Add(-time.Second)) {
		t.Errorf("the brown-out ended before its time %v", brownout.Until)
	}
	known(t, uses, kid, "who was stopped is known", func(u control.KeyUse) bool { return u.RefusedAt != nil && u.RefusedAgent == "acme-sync/4" })

	stopped := time.Now()
	d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/key-versions/"+kid+"/revoke?wait=converged", map[string]any{"reason": "leak"})
	<-time.After(time.Until(stopped.Truncate(time.Second).Add(2 * time.Second))) // uses are told by the second
	if status := d.hitAs(1, tenant.Key, "thief/1.0"); status != http.StatusUnauthorized {
		t.Errorf("the revoked key gets %d", status)
	}
	known(t, uses, kid, "the use of a revoked key is known", func(u control.KeyUse) bool { return u.RefusedAgent == "thief/1" })
	eventually(t, 5*time.Second, "it is an event", func() error {
		if events := d.API(http.MethodGet, "/api/v1/audit?action=key.used-revoked", nil); !strings.Contains(string(events.Body), kid) {
			return fmt.Errorf("%d: %s", events.Status, events.Body)
		}
		return nil
	})
	noSecret(t, d, tenant.Key)
}

// noSecret fails when a batch of key uses has a part of a key's secret.
func noSecret(t *testing.T, d *Demo, key string) {
	t.Helper()
	secret := key[strings.LastIndexByte(key, '_')+1:]
	entries, err := d.RedisClient().XRange(t.Context(), "hg:usage:keys", "-", "+").Result()
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d batches, %v", len(entries), err)
	}
	for _, e := range entries {
		body, _ := e.Values["batch"].(string)
		b, err := usage.DecodeKeys([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at+8 <= len(secret); at++ {
			if strings.Contains(fmt.Sprintf("%+v", b), secret[at:at+8]) {
				t.Fatalf("batch %+v has a part of the secret", b)
			}
		}
	}
}

// TestKeyUse_WithoutACollectorItSaysSo: nobody is told that a key is not used when it
// was only not heard of, and what was counted meanwhile comes in afterwards.
func TestKeyUse_WithoutACollectorItSaysSo(t *testing.T) {
	t.Parallel()
	d := StartDemo(t)
	uses, _ := d.keyUses()
	tenant, _ := d.NewTenant("Unheard", "free")
	kid := kidOf(t, tenant.Key)
	ages := func() (control.UseAge, bool) {
		t.Helper()
		all, age, err := uses.Uses(t.Context(), []string{kid})
		if err != nil {
			t.Fatal(err)
		}
		_, any := all[kid]
		return age, any
	}
	eventually(t, 30*time.Second, "all gateways have told", func() error {
		if age, _ := ages(); age.Behind || age.Through.IsZero() {
			return fmt.Errorf("age is %+v", age)
		}
		return nil
	})
	acceptedAt(t, d, 0, tenant.Key)
	eventually(t, 20*time.Second, "the key is accepted", func() error {
		if status := d.hitAs(0, tenant.Key, "curl/8.5"); status != http.StatusOK {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	d.Kill(d.Processes.Console)
	if status := d.hitAs(1, tenant.Key, "late/1.0"); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	eventually(t, 2*time.Minute, "it falls behind", func() error {
		age, _ := ages()
		if ago := time.Since(age.Through); age.Behind != (len(age.Silent) > 0) || age.Behind && ago < 55*time.Second {
			t.Fatalf("after %v age is %+v", ago, age)
		}
		if len(age.Silent) < len(d.Gateways) || !slices.IsSorted(age.Silent) {
			return fmt.Errorf("age is %+v", age)
		}
		return nil
	})
	d.Restart(d.Processes.Console)
	known(t, uses, kid, "what was counted meanwhile is known", func(u control.KeyUse) bool { return u.Requests24h == 3 })
	sources, _, err := uses.Sources(t.Context(), kid, time.Time{}, 10)
	if err != nil || !slices.ContainsFunc(sources, func(s control.KeySource) bool { return s.Agent == "late/1" && s.Requests == 1 }) {
		t.Errorf("sources are %+v, %v", sources, err)
	}
	eventually(t, 30*time.Second, "it is current again", func() error {
		if age, _ := ages(); age.Behind || age.Missing != nil {
			return fmt.Errorf("age is %+v", age)
		}
		return nil
	})
}
