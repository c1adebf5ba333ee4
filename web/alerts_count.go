package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views/ui"
)

// alertEvery is how old the number of open alerts in the strip may be before they are
// counted anew, alertWait how long counting may take, and alertOld the age from which
// the number is unknown.
const (
	alertEvery = 3 * time.Second
	alertWait  = 2 * time.Second
	alertOld   = 30 * time.Second
)

// alertCache is the open alerts as the strip tells them, counted beside the requests
// and once for all of them. The zero value is empty. It is safe for concurrent use.
type alertCache struct {
	mu       sync.Mutex
	n        int
	oldest   time.Time
	words    string // of the newest
	at       time.Time
	tried    time.Time
	counting bool
}

// alertFacts fills in what the strip says of alerts; it never waits.
func (s *Server) alertFacts(r *http.Request, f *ui.Facts) {
	c := &s.alerts
	c.mu.Lock()
	defer c.mu.Unlock()
	now := s.Now()
	if _, ok := signedInFrom(r.Context()); ok && !c.counting && (c.tried.IsZero() || now.Sub(c.tried).Abs() > alertEvery) {
		c.counting, c.tried = true, now
		go s.countAlerts(context.WithoutCancel(r.Context()))
	}
	f.AlertsKnown = !c.at.IsZero() && now.Sub(c.at) < alertOld
	f.Alerts, f.AlertOldest, f.Alert, f.AlertsAt = c.n, c.oldest, c.words, c.at
}

func (s *Server) countAlerts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, alertWait)
	defer cancel()
	n, err := s.Alerts.CountOpen(ctx)
	var open []console.Alert
	if err == nil && n > 0 {
		open, _, err = s.Alerts.List(ctx, console.AlertQuery{OpenOnly: true, Page: console.Page{Limit: 200}})
	}
	c := &s.alerts
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counting = false
	if err != nil {
		s.Log.DebugContext(ctx, "open alerts cannot be counted", "error", err)
		return
	}
	c.n, c.at, c.words, c.oldest = int(n), s.Now(), "", time.Time{}
	if len(open) > 0 {
		c.words, c.oldest = open[0].Words, open[len(open)-1].OpenedAt
	}
}
