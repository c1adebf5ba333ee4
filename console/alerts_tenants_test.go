package console_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func TestChannels_A22_TenantsDoNotReachWhatIsAllowedToOperators(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	strict := &outside{status: 200}
	alerts := console.NewAlerts(w.deps, console.AlertConfig{Fleet: w.fleet, Live: w.live.Live(), Notifier: lax{w.outside}, TenantNotifier: strict})
	inside := console.AlertChannelInput{Name: "a", Kind: console.ChannelWebhook, Target: "http://10.0.0.9:8080/", Enabled: true}
	if _, err := alerts.AddChannel(w.ctx, owner, inside); err != nil {
		t.Fatal(err)
	}
	admin := w.admin(t, w.tenant(t, "Acme"), "ann@acme.example")
	_, err := alerts.AddChannel(w.ctx, admin, inside)
	wantCode(t, err, console.CodeInvalid)
	outward := inside
	outward.Target = "https://hooks.example/a"
	mine, err := alerts.AddChannel(w.ctx, admin, outward)
	if err != nil {
		t.Fatal(err)
	}
	_, err = alerts.ChangeChannel(w.ctx, admin, mine.Channel.ID, inside)
	wantCode(t, err, console.CodeInvalid)
	if _, err := alerts.Test(w.ctx, admin, mine.Channel.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := alerts.Deliver(w.ctx); err != nil {
		t.Fatal(err)
	}
	if n, strictly := len(w.outside.got()), len(strict.got()); n != 0 || strictly != 1 {
		t.Errorf("a tenant's message went out %d times by the operators' way, %d times by the tenants'", n, strictly)
	}
}

// lax lets every address through, as a network that is allowed does.
type lax struct{ *outside }

func (lax) CheckURL(string) string { return "" }

func TestDeliveries_WhoLeftATenantIsToldNoMore(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme := w.tenant(t, "Acme")
	admin := w.admin(t, acme, "ann@acme.example")
	leaver := w.joined(t, acme.ID, "bob@acme.example", console.RoleTenantViewer)
	c, err := w.alerts.AddChannel(w.ctx, admin, console.AlertChannelInput{Name: "a", Kind: console.ChannelMail, Target: leaver.Email, Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	tell := func() {
		t.Helper()
		if _, err := w.alerts.Test(w.ctx, admin, c.Channel.ID); err != nil {
			t.Fatal(err)
		}
		w.clock.add(time.Second)
		w.deliver(t)
	}
	tell()
	if n := len(w.outside.got()); n != 1 {
		t.Fatalf("a member got %d messages", n)
	}
	if _, err := w.pool(t).Exec(w.ctx, "UPDATE members SET disabled_at = now() WHERE id = $1", leaver.ID); err != nil {
		t.Fatal(err)
	}
	tell()
	if n := len(w.outside.got()); n != 1 {
		t.Errorf("%d messages, the last to somebody who left", n)
	}
	list, err := console.NewPortal(w.deps, w.store).AlertList(w.ctx, admin)
	if err != nil || len(list.Deliveries) != 2 || list.Deliveries[0].State != console.DeliveryDead {
		t.Errorf("%+v %v", list.Deliveries, err)
	}
}

// Many tenants whose receivers take their time must not hold up the operators.
func TestDeliveries_OperatorsGoBeforeTenants(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	mine := w.channel(t, console.ChannelWebhook, "https://operators.example/a")
	for i := range 20 {
		name := string(rune('a' + i))
		admin := w.admin(t, w.tenant(t, "Tenant "+name), name+"@tenants.example")
		c, err := w.alerts.AddChannel(w.ctx, admin, console.AlertChannelInput{Name: "a", Kind: console.ChannelWebhook, Target: "https://tenants.example/" + name, Enabled: true})
		if err == nil {
			_, err = w.alerts.Test(w.ctx, admin, c.Channel.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.clock.add(time.Minute)
	if _, err := w.alerts.Test(w.ctx, owner, mine.Channel.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.alerts.Deliver(w.ctx); err != nil { // one batch
		t.Fatal(err)
	}
	for _, c := range w.outside.got() {
		if c.to == mine.Channel.Target {
			return
		}
	}
	t.Errorf("%d messages of tenants went out before the operators' one", len(w.outside.got()))
}

func TestAlerts_AChannelThatIsStuckDoesNotKeepOthersFromBeingTold(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme := w.tenant(t, "Acme")
	stuck, fine := w.channel(t, console.ChannelWebhook, "https://stuck.example/a"), w.channel(t, console.ChannelMail, "ops@example.com")
	w.rule(t, console.AlertQuotaUsed, 80, stuck, fine)
	_, err := w.pool(t).Exec(w.ctx, `INSERT INTO alert_deliveries (id, channel_id, channel_name, kind, target, alert_id, event, subject, body, next_at, created_at)
		SELECT 'dlv_' || lpad(translate(n::text, '0123456789', 'abcdefghij'), 16, 'a'), $1, 'webhook', 'webhook', 'https://stuck.example/a', 'alt_aaaaaaaaaaaaaaaa', 'alert.test', '', '{}', $2::timestamptz + interval '1 hour', $2::timestamptz - interval '1 minute'
		FROM generate_series(1, 500) n`, stuck.Channel.ID, w.clock.now())
	if err != nil {
		t.Fatal(err)
	}
	w.quotas.use(acme, 90, 100)
	w.look(t, 0)
	w.look(t, 5*time.Second)
	w.deliver(t)
	if calls := w.outside.got(); len(calls) != 1 || calls[0].to != "ops@example.com" {
		t.Fatalf("told: %+v", calls)
	}
	var given []console.AlertDelivery
	for _, v := range w.deliveries(t) {
		if v.Event == console.EventOpened && v.ChannelID == stuck.Channel.ID {
			given = append(given, v)
		}
	}
	if len(given) != 1 || given[0].State != console.DeliveryDead || given[0].Problem == "" {
		t.Fatalf("what the stuck channel missed is not in the list: %+v", given)
	}
	if err := w.alerts.Redeliver(w.ctx, owner, given[0].ID); err != nil {
		t.Errorf("it cannot be tried anew: %v", err)
	}
}
