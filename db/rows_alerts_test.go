package db_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/console"
)

// alerted gives a tenant an alert, a channel and a message.
func alerted(t *testing.T, conn *pgx.Conn, tenantID, c string) {
	t.Helper()
	run(t, conn, `INSERT INTO alert_channels (id, tenant_id, name, kind, target, secret, secret_at, enabled, created_at, updated_at)
		VALUES ('chn_' || repeat($1, 16), $2, 'taint-' || $1, 'webhook', 'https://hooks.example', 'x', now(), true, now(), now())`, c, tenantID)
	run(t, conn, `INSERT INTO alerts (id, tenant_id, rule_id, rule_name, kind, object, object_name, value, threshold, words, opened_at, seen_at)
		VALUES ('alt_' || repeat($1, 16), $2, 'thr_' || repeat($1, 16), 'r', 'own-quota-used', $2, 'taint-' || $1, 1, 1, 'w', now(), now())`, c, tenantID)
	run(t, conn, `INSERT INTO alert_deliveries (id, tenant_id, channel_id, channel_name, kind, target, alert_id, event, subject, body, next_at, created_at)
		VALUES ('dlv_' || repeat($1, 16), $2, 'chn_' || repeat($1, 16), 'c', 'webhook', 't', 'alt_' || repeat($1, 16), 'alert.opened', 's', 'taint-' || $1, now(), now())`, c, tenantID)
}

func TestPortal_A05_ATenantSeesItsOwnAlertsAndNoSecret(t *testing.T) {
	t.Parallel()
	s, dsn := open(t)
	conn := connect(t, dsn)
	fill(t, s, tenA, "a")
	fill(t, s, tenB, "b")
	alerted(t, conn, tenA, "a")
	alerted(t, conn, tenB, "b")
	err := s.ReadTenant(t.Context(), tenA, func(tx console.PortalTx) error {
		channels, err1 := tx.AlertChannels(t.Context())
		alerts, err2 := tx.Alerts(t.Context())
		messages, err3 := tx.AlertDeliveries(t.Context())
		if len(channels) != 1 || channels[0].Name != "taint-a" || channels[0].Secret != nil || len(alerts) != 1 || alerts[0].ObjectName != "taint-a" || len(messages) != 1 || messages[0].Body != "" {
			t.Errorf("%+v %+v %+v", channels, alerts, messages)
		}
		return errors.Join(err1, err2, err3)
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, conn, "SET ROLE headgate_portal")
	for _, sql := range []string{
		"SELECT secret FROM alert_channels", "SELECT old_secret FROM alert_channels", "SELECT body FROM alert_deliveries", "SELECT 1 FROM alert_rules", "SELECT 1 FROM alert_silences",
		"UPDATE alerts SET words = 'x'", "DELETE FROM alert_channels",
	} {
		_, err := conn.Exec(t.Context(), sql)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" {
			t.Errorf("%s: %v, want it refused", sql, err)
		}
	}
}

func TestSchema_BadStatesOfAlertsAreRefusedByPostgreSQL(t *testing.T) {
	t.Parallel()
	conn := fixtureConn(t)
	const (
		insert  = `INSERT INTO alerts (id, rule_id, rule_name, kind, object, object_name, value, threshold, words, opened_at, seen_at, resolved_at, resolution) VALUES `
		message = `INSERT INTO alert_deliveries (id, channel_id, channel_name, kind, target, alert_id, event, subject, body, state, next_at, created_at, done_at) VALUES `
		silence = `INSERT INTO alert_silences (id, rule_id, object, reason, author_id, author, created_at, ends_at) VALUES `
		channel = `INSERT INTO alert_channels (id, name, kind, target, secret, secret_at, enabled, created_at, updated_at) VALUES `
		first   = insert + `('alt_aaaaaaaaaaaaaaaa','alr_a','r','k','o','o',1,1,'w',now(),now(),NULL,'');`
		told    = message + `('dlv_aaaaaaaaaaaaaaaa','chn_a','c','mail','t','alt_a','alert.opened','s','b','waiting',now(),now(),NULL);`
	)
	for name, c := range map[string]struct{ sql, want string }{
		"a second open alert of a rule and an object": {first + insert + `('alt_bbbbbbbbbbbbbbbb','alr_a','r','k','o','o',1,1,'w',now(),now(),NULL,'')`, "23505"},
		"an open one beside one that is over":         {insert + `('alt_aaaaaaaaaaaaaaaa','alr_a','r','k','o','o',1,1,'w',now(),now(),now(),'over');` + insert + `('alt_bbbbbbbbbbbbbbbb','alr_a','r','k','o','o',1,1,'w',now(),now(),NULL,'')`, ""},
		"an alert that is over without a reason":      {insert + `('alt_aaaaaaaaaaaaaaaa','alr_a','r','k','o','o',1,1,'w',now(),now(),now(),'')`, "23514"},
		"an alert revived":                            {insert + `('alt_aaaaaaaaaaaaaaaa','alr_a','r','k','o','o',1,1,'w',now(),now(),now(),'over'); UPDATE alerts SET resolved_at = NULL, resolution = ''`, "23000"},
		"an event told twice to a channel":            {told + message + `('dlv_bbbbbbbbbbbbbbbb','chn_a','c','mail','t','alt_a','alert.opened','s','b','waiting',now(),now(),NULL)`, "23505"},
		"a message that is sent and not done":         {message + `('dlv_aaaaaaaaaaaaaaaa','chn_a','c','mail','t','alt_a','alert.opened','s','b','sent',now(),now(),NULL)`, "23514"},
		"a silence for ever":                          {silence + `('sil_aaaaaaaaaaaaaaaa','','','r','o','o',now(),now() + interval '32 days')`, "23514"},
		"a silence without a reason":                  {silence + `('sil_aaaaaaaaaaaaaaaa','','','','o','o',now(),now() + interval '1 day')`, "23514"},
		"a webhook without a secret":                  {channel + `('chn_aaaaaaaaaaaaaaaa','n','webhook','t',NULL,NULL,true,now(),now())`, "23514"},
		"a mail address with a secret":                {channel + `('chn_aaaaaaaaaaaaaaaa','n','mail','t','x',now(),true,now(),now())`, "23514"},
	} {
		if got := refused(t, conn, c.sql); got != c.want {
			t.Errorf("%s: SQLSTATE %q, want %q", name, got, c.want)
		}
	}
}

// Of a channel one message at a time goes out, and none to two consoles.
func TestClaim_TwoConsolesNeverTakeTheSameMessage(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	now := at
	in(t, s, func(ctx context.Context, tx console.Tx) error {
		for i := range 12 {
			c := string(rune('a' + i))
			v := console.AlertDelivery{ID: "dlv_" + strings.Repeat(c, 16), ChannelID: "chn_" + string(rune('a'+i%4)), ChannelName: "c", Kind: console.ChannelMail, Target: "t", AlertID: "alt_" + c, Event: console.EventOpened, Subject: "s", Body: "b", CreatedAt: now.Add(time.Duration(i) * time.Second)}
			if ok, err := tx.InsertAlertDelivery(ctx, v); err != nil || !ok {
				return errors.Join(err, errors.New("not inserted"))
			}
			v.ID = "dlv_" + strings.Repeat("z", 16)
			if ok, err := tx.InsertAlertDelivery(ctx, v); err != nil || ok {
				t.Errorf("told twice: %v %v", ok, err)
			}
		}
		return nil
	})
	later := now.Add(time.Minute)
	var mu sync.Mutex
	taken := map[string]int{}
	channels := map[string]int{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			err := s.InTx(context.WithoutCancel(t.Context()), func(tx console.Tx) error {
				due, err := tx.ClaimAlertDeliveries(context.WithoutCancel(t.Context()), later, later.Add(time.Minute), 16)
				mu.Lock()
				defer mu.Unlock()
				for _, v := range due {
					taken[v.ID]++
					channels[v.ChannelID]++
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for id, n := range taken {
		if n != 1 {
			t.Errorf("%s was taken %d times", id, n)
		}
	}
	if len(channels) != 4 {
		t.Errorf("channels served: %v", channels)
	}
	for id, n := range channels {
		if n != 1 {
			t.Errorf("%d messages at a time to %s", n, id)
		}
	}
}
