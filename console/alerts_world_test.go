package console_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// outside is where messages go in tests: it keeps what it takes, by id.
type outside struct {
	mu     sync.Mutex
	calls  []outsideCall
	status int
	wait   time.Duration
	fail   error
	held   chan struct{} // not nil: a call waits until it is closed, or its context ends
	begun  chan struct{}
}

type outsideCall struct {
	to, subject, body, id string
	secrets               []string
}

func (o *outside) take(ctx context.Context, c outsideCall) (int, error) {
	o.mu.Lock()
	held, begun := o.held, o.begun
	o.mu.Unlock()
	if held != nil {
		close(begun)
		select {
		case <-held:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, c)
	return o.status, o.fail
}

func (o *outside) Mail(ctx context.Context, to, subject, text, id string) (int, error) {
	return o.take(ctx, outsideCall{to: to, subject: subject, body: text, id: id})
}

func (o *outside) Webhook(ctx context.Context, url string, secrets []string, id string, _ time.Time, body []byte) (int, time.Duration, error) {
	status, err := o.take(ctx, outsideCall{to: url, body: string(body), id: id, secrets: secrets})
	o.mu.Lock()
	defer o.mu.Unlock()
	return status, o.wait, err
}

func (o *outside) CheckURL(url string) string {
	if !strings.HasPrefix(url, "https://") {
		return "Use https."
	}
	return ""
}

func (o *outside) CanMail() bool { return true }

func (o *outside) set(status int, wait time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.status, o.wait, o.fail = status, wait, err
}

func (o *outside) got() []outsideCall {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]outsideCall(nil), o.calls...)
}

// quotaFacts are quotas as a test says they are.
type quotaFacts struct {
	mu    sync.Mutex
	now   func() time.Time
	by    map[string]console.QuotaStanding
	ahead map[string]console.QuotaForecast
	fail  error
}

func (q *quotaFacts) use(t console.Tenant, used, amount int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.by[t.ID] = console.QuotaStanding{TenantID: t.ID, TenantName: t.Name, Amount: amount, Ledger: used}
}

func (q *quotaFacts) MostUsed(context.Context, int) (out []console.QuotaStanding, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, v := range q.by {
		v.ComparedAt = q.now()
		out = append(out, v)
	}
	return out, q.fail
}

func (q *quotaFacts) Standings(ctx context.Context, ids []string) (map[string]console.QuotaStanding, error) {
	all, err := q.MostUsed(ctx, 0)
	out := map[string]console.QuotaStanding{}
	for _, v := range all {
		for _, id := range ids {
			if id == v.TenantID {
				out[id] = v
			}
		}
	}
	return out, err
}

func (q *quotaFacts) Forecast(_ context.Context, _ console.Actor, id string) (console.QuotaForecast, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ahead[id], nil
}

// ledgerFacts is a ledger that stands as a test says.
type ledgerFacts struct{ st console.LedgerStanding }

func (l *ledgerFacts) Standing(context.Context) (console.LedgerStanding, error) { return l.st, nil }

// alertWorld is a console with alerts.
type alertWorld struct {
	*env
	alerts  *console.Alerts
	outside *outside
	quotas  *quotaFacts
	ledger  *ledgerFacts
	live    *console.Activity
}

func newAlertWorld(t *testing.T) *alertWorld {
	t.Helper()
	e := newEnv(t)
	w := &alertWorld{
		env: e, outside: &outside{status: 200}, ledger: &ledgerFacts{}, live: console.NewActivity(e.deps),
		quotas: &quotaFacts{now: e.clock.now, by: map[string]console.QuotaStanding{}, ahead: map[string]console.QuotaForecast{}},
	}
	w.alerts = w.another()
	return w
}

// another is a second console on the same database.
func (w *alertWorld) another() *console.Alerts {
	return console.NewAlerts(w.deps, console.AlertConfig{
		Fleet: w.fleet, Live: w.live.Live(), Notifier: w.outside, Quotas: w.quotas, Ledger: w.ledger, PublicURL: "https://console.example",
	})
}

// channel makes a channel of the operators'.
func (w *alertWorld) channel(t *testing.T, kind console.ChannelKind, target string) console.NewChannel {
	t.Helper()
	c, err := w.alerts.AddChannel(w.ctx, owner, console.AlertChannelInput{Name: string(kind), Kind: kind, Target: target, Enabled: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *alertWorld) rule(t *testing.T, kind console.AlertKind, threshold int64, channels ...console.NewChannel) console.AlertRule {
	t.Helper()
	in := console.AlertRuleInput{Name: string(kind), Kind: kind, Threshold: threshold, Enabled: true}
	for _, c := range channels {
		in.Channels = append(in.Channels, c.Channel.ID)
	}
	r, err := w.alerts.AddRule(w.ctx, owner, in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// look evaluates some time later.
func (w *alertWorld) look(t *testing.T, later time.Duration) {
	t.Helper()
	w.clock.add(later)
	if err := w.alerts.Evaluate(w.ctx); err != nil {
		t.Fatal(err)
	}
}

func (w *alertWorld) open(t *testing.T) []console.Alert {
	t.Helper()
	out, _, err := w.alerts.List(w.ctx, console.AlertQuery{OpenOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// deliver sends what is due until nothing is.
func (w *alertWorld) deliver(t *testing.T) {
	t.Helper()
	for {
		n, err := w.alerts.Deliver(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func (w *alertWorld) deliveries(t *testing.T) []console.AlertDelivery {
	t.Helper()
	out, _, err := w.alerts.Deliveries(w.ctx, console.DeliveryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// beats are the replicas that the feed tells of.
func (w *alertWorld) beats(t *testing.T, beats ...policy.Heartbeat) {
	t.Helper()
	w.feed.set(func() { w.feed.beats = beats })
	w.clock.add(4 * time.Second) // the snapshot before is stale then
	w.fleet.Health(w.ctx)
}

var errNoAnswer = errors.New("the receiver gave no answer")

// pool is the database behind the console's back.
func (w *alertWorld) pool(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(w.ctx, w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(w.ctx)) })
	return conn
}

// admin is a tenant's admin.
func (w *alertWorld) admin(t *testing.T, ten console.Tenant, email string) console.Actor {
	t.Helper()
	m := w.joined(t, ten.ID, email, console.RoleTenantAdmin)
	return m.Actor("192.0.2.1", "req-1")
}
