package console_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

func (w *alertWorld) test(t *testing.T, c console.NewChannel) console.AlertDelivery {
	t.Helper()
	v, err := w.alerts.Test(w.ctx, owner, c.Channel.ID)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (w *alertWorld) delivery(t *testing.T, id string) console.AlertDelivery {
	t.Helper()
	all := w.deliveries(t)
	i := slices.IndexFunc(all, func(v console.AlertDelivery) bool { return v.ID == id })
	if i < 0 {
		t.Fatalf("no delivery %s", id)
	}
	return all[i]
}

func TestDeliveries_AreTriedAgainLaterAndLaterAndThenGivenUp(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	v := w.test(t, w.channel(t, console.ChannelWebhook, "https://hooks.example/a"))
	w.outside.set(503, 0, errNoAnswer)
	last := time.Duration(0)
	for attempt := 1; attempt <= 10; attempt++ {
		w.deliver(t)
		got := w.delivery(t, v.ID)
		if got.Attempts != attempt || got.Status != 503 || got.Problem == "" {
			t.Fatalf("attempt %d: %+v", attempt, got)
		}
		if attempt == 10 {
			break
		}
		wait := got.NextAt.Sub(w.clock.now())
		if wait > 73*time.Minute || wait < 5*time.Second || attempt < 6 && wait < last {
			t.Errorf("attempt %d waits %v after %v", attempt, wait, last)
		}
		last = wait
		w.clock.add(wait - time.Second)
		if n, err := w.alerts.Deliver(w.ctx); n != 0 || err != nil {
			t.Fatalf("it is tried before its time: %d %v", n, err)
		}
		w.clock.add(time.Second)
	}
	if got := w.delivery(t, v.ID); got.State != console.DeliveryDead || got.DoneAt == nil {
		t.Fatalf("%+v", got)
	}
	ids := map[string]bool{}
	for _, c := range w.outside.got() {
		ids[c.id] = true
	}
	if len(ids) != 1 || !ids[v.ID] {
		t.Errorf("repeats have other ids: %v", ids)
	}
	w.outside.set(200, 0, nil)
	if err := w.alerts.Redeliver(w.ctx, owner, v.ID); err != nil {
		t.Fatal(err)
	}
	w.deliver(t)
	if got := w.delivery(t, v.ID); got.State != console.DeliverySent || got.Problem != "" {
		t.Errorf("%+v", got)
	}
	wantCode(t, w.alerts.Redeliver(w.ctx, owner, v.ID), console.CodeNotFound)
}

func TestDeliveries_RetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	v := w.test(t, w.channel(t, console.ChannelWebhook, "https://hooks.example/a"))
	w.outside.set(429, 7*time.Minute, errNoAnswer)
	w.deliver(t)
	if wait := w.delivery(t, v.ID).NextAt.Sub(w.clock.now()); wait != 7*time.Minute {
		t.Errorf("it waits %v", wait)
	}
}

func TestDeliveries_AChannelHasABudgetOfRepeats(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	c := w.channel(t, console.ChannelWebhook, "https://hooks.example/a")
	w.outside.set(500, 0, errNoAnswer)
	for range 15 {
		w.test(t, c)
	}
	w.deliver(t)
	var next []time.Time
	for _, v := range w.deliveries(t) {
		next = append(next, v.NextAt)
	}
	slices.SortFunc(next, time.Time.Compare)
	for i := 1; i < len(next); i++ {
		if gap := next[i].Sub(next[i-1]); gap < 3*time.Second {
			t.Errorf("repeats %d and %d are %v apart", i-1, i, gap)
		}
	}
}

// A console that dies while it sends leaves the message to another one, under the
// same id: the receiver may get it twice, and can tell.
func TestDeliveries_AConsoleThatDiesMeanwhileLosesNothing(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	v := w.test(t, w.channel(t, console.ChannelWebhook, "https://hooks.example/a"))
	held, begun := make(chan struct{}), make(chan struct{})
	w.outside.mu.Lock()
	w.outside.held, w.outside.begun = held, begun
	w.outside.mu.Unlock()
	ctx, kill := context.WithCancel(w.ctx)
	dead := make(chan error, 1)
	go func() { _, err := w.another().Deliver(ctx); dead <- err }()
	<-begun
	kill()
	if err := <-dead; err == nil {
		t.Fatal("it did not die")
	}
	w.outside.mu.Lock()
	w.outside.held = nil
	w.outside.mu.Unlock()
	if n, err := w.alerts.Deliver(w.ctx); n != 0 || err != nil {
		t.Fatalf("another console takes it while the first may be at it: %d %v", n, err)
	}
	w.clock.add(61 * time.Second)
	w.deliver(t)
	calls := w.outside.got()
	if len(calls) != 1 || calls[0].id != v.ID || w.delivery(t, v.ID).State != console.DeliverySent {
		t.Errorf("%+v", calls)
	}
}

func TestDeliveries_ReceiverThatIsGoneSwitchesItsChannelOff(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	c := w.channel(t, console.ChannelWebhook, "https://hooks.example/a")
	v := w.test(t, c)
	w.outside.set(410, 0, errNoAnswer)
	w.deliver(t)
	channels, err := w.alerts.Channels(w.ctx)
	if err != nil || channels[0].Enabled || channels[0].Problem == "" || w.delivery(t, v.ID).State != console.DeliveryDead {
		t.Fatalf("%+v %v", channels, err)
	}
	_, err = w.alerts.Test(w.ctx, owner, c.Channel.ID)
	wantCode(t, err, console.CodeConflict)
	again, err := w.alerts.ChangeChannel(w.ctx, owner, c.Channel.ID, console.AlertChannelInput{Name: "a", Target: "https://hooks.example/a", Enabled: true})
	if err != nil || again.Problem != "" {
		t.Errorf("%+v %v", again, err)
	}
}

func TestDeliveries_MailThatIsRefusedForGoodIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	c := w.channel(t, console.ChannelMail, "ann@example.com")
	for status, want := range map[int]console.DeliveryState{550: console.DeliveryDead, 451: console.DeliveryWaiting, 0: console.DeliveryWaiting} {
		v := w.test(t, c)
		w.outside.set(status, 0, errNoAnswer)
		w.deliver(t)
		if got := w.delivery(t, v.ID); got.State != want {
			t.Errorf("%d: %+v", status, got)
		}
	}
}

func TestDeliveries_OfARemovedChannelAreGivenUp(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	c := w.channel(t, console.ChannelWebhook, "https://hooks.example/a")
	r := w.rule(t, console.AlertNACK, 0, c)
	v := w.test(t, c)
	if err := w.alerts.RemoveChannel(w.ctx, owner, c.Channel.ID); err != nil {
		t.Fatal(err)
	}
	w.deliver(t)
	if got := w.delivery(t, v.ID); got.State != console.DeliveryDead || len(w.outside.got()) != 0 {
		t.Errorf("%+v", got)
	}
	if r, err := w.alerts.Rule(w.ctx, r.ID); err != nil || len(r.Channels) != 0 {
		t.Errorf("the rule still tells it: %+v %v", r, err)
	}
}

func TestChannels_SecretsAreSealedShownOnceAndReplacedWithAnOverlap(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	c := w.channel(t, console.ChannelWebhook, "https://hooks.example/a")
	if !strings.HasPrefix(c.Secret, "whsec_") || len(c.Secret) < 40 {
		t.Fatalf("secret %q", c.Secret)
	}
	var stored []byte
	if err := w.pool(t).QueryRow(w.ctx, "SELECT secret FROM alert_channels").Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(stored, []byte(c.Secret)) || bytes.Contains(stored, []byte(strings.TrimPrefix(c.Secret, "whsec_"))) {
		t.Error("the database can read the secret")
	}
	fresh, err := w.alerts.RotateSecret(w.ctx, owner, c.Channel.ID)
	if err != nil || fresh.Secret == c.Secret {
		t.Fatalf("%v", err)
	}
	signedWith := func() []string {
		w.test(t, c)
		w.deliver(t)
		calls := w.outside.got()
		return calls[len(calls)-1].secrets
	}
	if got := signedWith(); !slices.Equal(got, []string{fresh.Secret, c.Secret}) {
		t.Errorf("in the overlap: %d secrets", len(got))
	}
	again, err := w.alerts.RotateSecret(w.ctx, owner, c.Channel.ID) // the answer before was lost
	if err != nil {
		t.Fatal(err)
	}
	if got := signedWith(); !slices.Equal(got, []string{again.Secret, c.Secret}) {
		t.Errorf("after another one: %d secrets", len(got))
	}
	w.clock.add(25 * time.Hour)
	if got := signedWith(); !slices.Equal(got, []string{again.Secret}) {
		t.Errorf("after the overlap: %d secrets", len(got))
	}
	// A row that was put in another's place does not open.
	other := w.channel(t, console.ChannelWebhook, "https://hooks.example/b")
	if _, err := w.pool(t).Exec(w.ctx, "UPDATE alert_channels a SET secret = b.secret FROM alert_channels b WHERE a.id = $1 AND b.id = $2", other.Channel.ID, c.Channel.ID); err != nil {
		t.Fatal(err)
	}
	n := len(w.outside.got())
	v := w.test(t, other)
	w.deliver(t)
	if got := w.delivery(t, v.ID); len(w.outside.got()) != n || got.State != console.DeliveryWaiting || got.Problem == "" {
		t.Errorf("it was signed with another's secret: %+v", got)
	}
	for _, e := range w.events(t) {
		for _, text := range []string{c.Secret, fresh.Secret, other.Secret} {
			if strings.Contains(string(e.After)+string(e.Before)+e.Reason, strings.TrimPrefix(text, "whsec_")) {
				t.Errorf("the trail holds a secret: %s", e.Action)
			}
		}
	}
}

func TestChannels_TargetsAreChecked(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	for name, in := range map[string]console.AlertChannelInput{
		"plain":   {Name: "a", Kind: console.ChannelWebhook, Target: "http://hooks.example"},
		"no mail": {Name: "a", Kind: console.ChannelMail, Target: "nobody"},
		"two":     {Name: "a", Kind: console.ChannelMail, Target: "a@example.com, b@example.com"},
		"break":   {Name: "a", Kind: console.ChannelMail, Target: "a@example.com\r\nBcc: b@example.com"},
		"kind":    {Name: "a", Kind: "pigeon", Target: "a@example.com"},
		"no name": {Kind: console.ChannelMail, Target: "a@example.com"},
		"a key":   {Name: "a", Kind: console.ChannelWebhook, Target: "https://hooks.example/?k=hg_test_000000000000_000000000000000000000000000000002zIGxN"},
	} {
		_, err := w.alerts.AddChannel(w.ctx, owner, in)
		wantCodeNamed(t, name, err, console.CodeInvalid)
	}
}

func TestChannels_ATenantHasItsOwnAndMailsItsOwnPeopleAlone(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	acme, other := w.tenant(t, "Acme"), w.tenant(t, "Other")
	admin := w.admin(t, acme, "ann@acme.example")
	stranger := w.admin(t, other, "bob@other.example")
	add := func(a console.Actor, target string) (console.NewChannel, error) {
		kind := console.ChannelMail
		if strings.HasPrefix(target, "https") {
			kind = console.ChannelWebhook
		}
		return w.alerts.AddChannel(w.ctx, a, console.AlertChannelInput{Name: "a", Kind: kind, Target: target, Enabled: true})
	}
	_, err := add(admin, "bob@other.example")
	wantCode(t, err, console.CodeInvalid)
	mine, err := add(admin, "Ann@acme.example")
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"change": func() error {
			_, err := w.alerts.ChangeChannel(w.ctx, stranger, mine.Channel.ID, console.AlertChannelInput{Name: "b", Target: "bob@other.example"})
			return err
		}(),
		"remove": w.alerts.RemoveChannel(w.ctx, stranger, mine.Channel.ID),
		"test":   func() error { _, err := w.alerts.Test(w.ctx, stranger, mine.Channel.ID); return err }(),
		"rotate": func() error { _, err := w.alerts.RotateSecret(w.ctx, stranger, mine.Channel.ID); return err }(),
		"owner":  w.alerts.RemoveChannel(w.ctx, owner, mine.Channel.ID),
	} {
		wantCodeNamed(t, what, err, console.CodeNotFound)
	}
	for range 4 {
		if _, err := add(admin, "https://hooks.example/a"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = add(admin, "https://hooks.example/a")
	wantCode(t, err, console.CodeConflict)
	viewer := admin
	viewer.Role = console.RoleTenantViewer
	_, err = add(viewer, "https://hooks.example/a")
	wantCode(t, err, console.CodeForbidden)

	// The tenant's mark goes to the tenant's channels, and the operators' are not told.
	w.channel(t, console.ChannelWebhook, "https://operators.example/a")
	portal := console.NewPortal(w.deps, w.store)
	if err := portal.AddThreshold(w.ctx, admin, console.ThresholdQuota, 120); err != nil {
		t.Fatal(err)
	}
	w.quotas.use(acme, 121, 100)
	w.look(t, 0)
	w.deliver(t)
	calls := w.outside.got()
	if len(calls) != 5 || len(w.open(t)) != 0 {
		t.Fatalf("%d messages, %d of operators'", len(calls), len(w.open(t)))
	}
	for _, c := range calls {
		if strings.Contains(c.to, "operators") || strings.Contains(c.body, "/alerts") && !strings.Contains(c.body, "/t/alerts") {
			t.Errorf("%+v", c)
		}
	}
	list, err := portal.AlertList(w.ctx, admin)
	if err != nil || len(list.Alerts) != 1 || len(list.Channels) != 5 || len(list.Deliveries) != 5 || len(list.Marks) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	for _, c := range list.Channels {
		if c.Secret != nil || c.OldSecret != nil {
			t.Error("the tenant's pages read a secret")
		}
	}
	if list, err := portal.AlertList(w.ctx, stranger); err != nil || len(list.Alerts)+len(list.Channels)+len(list.Deliveries)+len(list.Marks) != 0 {
		t.Errorf("another tenant sees %+v %v", list, err)
	}
}
