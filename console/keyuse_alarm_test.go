package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/usage"
)

// TestKeyUses_R053_AUseAfterRevocationIsAnEvent, the first at once and then one an hour.
func TestKeyUses_R053_AUseAfterRevocationIsAnEvent(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	kid := w.issued(t)
	seq := int64(0)
	alarms := func(rows ...usage.KeyRow) (n int) {
		t.Helper()
		seq++
		w.send(t, w.batch("gw_a", seq, rows...))
		w.collect(t)
		for _, action := range w.actions(t) {
			if action == "key.used-revoked" {
				n++
			}
		}
		return n
	}
	if n := alarms(w.refused(kid, home, -3, 1)); n != 0 { // it was suspended then
		t.Fatalf("%d events of a key that is not revoked", n)
	}
	w.clock.add(10 * time.Second)
	if _, err := w.keys.Revoke(w.ctx, owner, kid, console.RevokeLeak); err != nil {
		t.Fatal(err)
	}
	if n := alarms(w.refused(kid, home, -3, 1), w.used(kid, office, "curl/8", -2, 1)); n != 0 {
		t.Fatalf("%d events of uses from before the revocation", n)
	}
	w.clock.add(30 * time.Second)
	if n := alarms(w.used(kid, office, "curl/8", -28, 1)); n != 0 {
		t.Fatalf("%d events of a use that a replica accepted when it had not heard yet", n)
	}
	if n := alarms(w.refused(kid, home, -4, 5), w.refused(kid, office, -3, 5)); n != 1 {
		t.Fatalf("%d events, want one", n)
	}
	e := w.events(t)[0]
	want := fmt.Sprintf(`{"network":%q,"agent":"curl/8","at":%q}`, office, time.Unix(w.sec(-3), 0).UTC().Format(time.RFC3339))
	if e.Action != "key.used-revoked" || e.ObjectID != kid || e.TenantID == "" || e.Via != console.ViaSystem || string(e.After) != want {
		t.Fatalf("event is %+v with %s, want %s", e, e.After, want)
	}
	w.clock.add(59 * time.Minute)
	if n := alarms(w.refused(kid, home, -3, 5)); n != 1 {
		t.Fatalf("%d events within the hour", n)
	}
	w.clock.add(2 * time.Minute)
	if n := alarms(); n != 1 {
		t.Fatalf("%d events without a use", n)
	}
	if n := alarms(w.refused(kid, home, -3, 5)); n != 2 {
		t.Fatalf("%d events after an hour, want two", n)
	}
	if _, _, problem, err := w.audit.Verify(w.ctx); err != nil || problem != nil {
		t.Fatal(problem, err)
	}
}

// TestKeyUses_ManyRevokedKeysAreToldOverSomeBatches: a transaction holds the trail for
// a hundred events at most, and none is forgotten.
func TestKeyUses_ManyRevokedKeysAreToldOverSomeBatches(t *testing.T) {
	t.Parallel()
	w := newUseWorld(t)
	tenant := w.tenant(t, "Acme").ID
	var kids []string
	for range 105 {
		kid := w.issue(t, tenant).KeyVersion.KID
		if _, err := w.keys.Revoke(w.ctx, owner, kid, console.RevokeLeak); err != nil {
			t.Fatal(err)
		}
		kids = append(kids, kid)
	}
	w.clock.add(time.Minute)
	for seq := int64(1); seq <= 2; seq++ {
		b := w.batch("gw_a", seq)
		for _, kid := range kids {
			b.Rows = append(b.Rows, w.refused(kid, home, -3, 1))
		}
		w.send(t, b)
		w.collect(t)
		events, _, err := w.audit.List(w.ctx, console.AuditQuery{Action: "key.used-revoked", Page: console.Page{Limit: 200}})
		if want := map[int64]int{1: 100, 2: 105}[seq]; err != nil || len(events) != want {
			t.Fatalf("after batch %d there are %d events, want %d (%v)", seq, len(events), want, err)
		}
	}
}
