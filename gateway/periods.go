package gateway

import (
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

// maxSpans bounds the periods that are kept; beyond it all are found anew.
const maxSpans = 10_000

// periods keeps the periods that quotas are in, because finding one asks a time
// zone. Tenants with the same zone and anchor share an entry.
type periods struct {
	mu    sync.RWMutex
	spans map[spanKey]span
}

type spanKey struct {
	quota  *policy.CompiledQuota
	zone   *time.Location
	anchor time.Time
}

// span is a period, half-open; a zero end never comes.
type span struct{ start, end time.Time }

// at is the quota's period that holds at a time for a tenant with those terms.
func (p *periods) at(q *policy.CompiledQuota, t *terms, now time.Time) (start, end time.Time) {
	key := spanKey{q, t.zone, t.anchor}
	p.mu.RLock()
	s, ok := p.spans[key]
	p.mu.RUnlock()
	if ok && !now.Before(s.start) && (s.end.IsZero() || now.Before(s.end)) {
		return s.start, s.end
	}
	s.start, s.end = q.PeriodAt(now, t.anchor, t.zone)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spans == nil || len(p.spans) >= maxSpans {
		p.spans = map[spanKey]span{}
	}
	p.spans[key] = s
	return s.start, s.end
}
