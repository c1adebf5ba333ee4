package limiter

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Incident is a span in which requests were decided without the store. Spans less
// than five seconds apart are one incident.
type Incident struct {
	Start, End time.Time // of the first and the last such decision; End is zero while it lasts
	Cause      string    // of the first failure, in the words of Config.Cause
	// Routes counts the decisions by route, at most 1024 routes; further ones are
	// counted under "…".
	Routes map[string]IncidentCount
}

// IncidentCount counts the decisions of one route during an incident.
type IncidentCount struct{ Admitted, Refused int64 }

const (
	keptIncidents  = 32
	incidentRoutes = 1024
	otherRoutes    = "…"
	incidentQuiet  = 5_000_000 // µs
)

// incidents keeps the record of degraded decisions.
type incidents struct {
	tell func(Incident)
	wake chan struct{} // capacity 1: tells Run that one has begun

	mu      sync.Mutex
	current *Incident
	last    int64      // local µs of the latest degraded decision of the current one
	past    []Incident // the newest last
	cause   string     // of the latest failure
}

func newIncidents(tell func(Incident)) *incidents {
	return &incidents{tell: tell, wake: make(chan struct{}, 1)}
}

// count records one decision made without the store.
func (n *incidents) count(now int64, route, cause string, admitted bool) {
	n.mu.Lock()
	began := n.current == nil
	if began {
		n.current = &Incident{Start: micros(now), Cause: cause, Routes: map[string]IncidentCount{}}
	}
	n.last = max(n.last, now)
	if _, known := n.current.Routes[route]; !known && len(n.current.Routes) >= incidentRoutes {
		route = otherRoutes
	}
	counts := n.current.Routes[route]
	if admitted {
		counts.Admitted++
	} else {
		counts.Refused++
	}
	n.current.Routes[route] = counts
	copied := n.current.copy(began)
	n.mu.Unlock()
	if began {
		n.tell(copied)
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// copy is the incident apart from the one that is counted; an empty one unless wanted.
func (i *Incident) copy(wanted bool) Incident {
	if !wanted {
		return Incident{}
	}
	c := *i
	c.Routes = maps.Clone(i.Routes)
	return c
}

// settle ends the current incident if it has been quiet for long enough and the
// store is being asked. It returns the time after which to look again, or 0
// when nothing lasts.
func (n *incidents) settle(now int64, degraded bool) (again time.Duration) {
	n.mu.Lock()
	if n.current == nil {
		n.mu.Unlock()
		return 0
	}
	if degraded {
		n.last = max(n.last, now)
	}
	if left := n.last + incidentQuiet - now; left > 0 {
		n.mu.Unlock()
		return time.Duration(left) * time.Microsecond
	}
	ended := *n.current
	ended.End = micros(n.last)
	n.current = nil
	n.past = append(n.past, ended)
	if len(n.past) > keptIncidents {
		n.past = n.past[1:]
	}
	n.mu.Unlock()
	n.tell(ended.copy(true))
	return 0
}

func micros(t int64) time.Time { return time.UnixMicro(t).UTC() }

// failed remembers the cause of the latest failure.
func (n *incidents) failed(cause string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cause = cause
}

func (n *incidents) latestCause() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cause
}

// watchIncidents ends incidents in time, also when nobody asks anything.
func (l *Limiter) watchIncidents(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.incidents.wake:
		}
		for again := l.settleIncidents(); again > 0; again = l.settleIncidents() {
			if err := pause(ctx, again); err != nil {
				return err
			}
		}
	}
}

func (l *Limiter) settleIncidents() time.Duration {
	return l.incidents.settle(l.clock.micros(), l.Degraded())
}

// Incidents are the latest ones, the newest first, at most 33: one that lasts and
// 32 that have ended.
func (l *Limiter) Incidents() []Incident {
	l.settleIncidents()
	n := l.incidents
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]Incident, 0, len(n.past)+1)
	if n.current != nil {
		list = append(list, n.current.copy(true))
	}
	for i := len(n.past) - 1; i >= 0; i-- {
		list = append(list, n.past[i].copy(true))
	}
	return list
}
