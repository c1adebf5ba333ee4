package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate/console"
)

// reviewEvery is how old the number of reviews in the strip may be before it is
// counted anew, and reviewWait how long counting may take.
const (
	reviewEvery = 10 * time.Second
	reviewWait  = 5 * time.Second
)

// reviewCache is the number of reviews as the strip shows it. Counting looks at
// each draft, so it is done beside the requests, once for all of them. The zero
// value is empty. It is safe for concurrent use.
type reviewCache struct {
	mu       sync.Mutex
	n        int
	known    bool
	at       time.Time
	counting bool
}

// reviewCount is the last number that is known; it never waits.
func (s *Server) reviewCount(r *http.Request) (n int, known bool) {
	c := &s.reviews
	c.mu.Lock()
	defer c.mu.Unlock()
	now := s.Now()
	if in, ok := signedInFrom(r.Context()); ok && !c.counting && (!c.known || now.Sub(c.at) > reviewEvery) {
		c.counting = true
		who := console.Actor{ID: in.operator.ID, Name: in.operator.Name, Role: in.operator.Role, Via: console.ViaConsole}
		go s.countReviews(context.WithoutCancel(r.Context()), who)
	}
	return c.n, c.known
}

func (s *Server) countReviews(ctx context.Context, who console.Actor) {
	ctx, cancel := context.WithTimeout(ctx, reviewWait)
	defer cancel()
	waiting, err := s.Policies.Waiting(ctx, who)
	open := int64(0)
	if err == nil {
		open, err = s.Policies.OpenReviews(ctx)
	}
	c := &s.reviews
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counting = false
	c.at = s.Now()
	if err == nil {
		c.n, c.known = len(waiting)+int(open), true
	}
}
