package gateway

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// tally keeps running totals for heartbeat rates and the log's summary. Refused
// requests are never logged one by one: a flood of them would fill the disk.
type tally struct {
	decisions atomic.Int64
	refused   atomic.Int64
	fallback  atomic.Int64

	mu     sync.Mutex
	codes  map[Code]int64   // refusals since the last summary; bounded by the codes there are
	causes map[string]int64 // failed calls since the last summary; bounded by the causes there are
	sample refusalSample
	plans  map[string]bool // plans that a policy lacked, bounded
}

// refusalSample is one refusal of those that a summary counts.
type refusalSample struct{ requestID, route, tenant, client string }

func newTally() *tally {
	return &tally{codes: map[Code]int64{}, causes: map[string]int64{}, plans: map[string]bool{}}
}

func (t *tally) add(v *Verdict) {
	t.decisions.Add(1)
	if v.Degraded && v.Allowed {
		t.fallback.Add(1)
	}
	if v.Allowed || v.Aborted {
		return
	}
	t.refused.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.codes) == 0 {
		t.sample = refusalSample{v.RequestID, v.routeName(), v.Tenant, v.Subject}
	}
	t.codes[v.Code]++
}

func (t *tally) storeFailed(cause string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.causes["store "+cause]++
}

func (t *tally) upstreamFailed(cause string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.causes["upstream "+cause]++
}

// summary logs what was refused and what failed since the last call: at most one
// line of each. It is called once a second.
func (t *tally) summary(log *slog.Logger) {
	t.mu.Lock()
	codes, causes, sample := t.codes, t.causes, t.sample
	t.codes, t.causes = map[Code]int64{}, map[string]int64{}
	t.mu.Unlock()
	if len(codes) > 0 {
		total, attrs := int64(0), make([]any, 0, len(codes))
		for code, n := range codes {
			total += n
			attrs = append(attrs, slog.Int64(string(code), n))
		}
		log.Info("requests refused", "count", total, slog.Group("codes", attrs...),
			slog.Group("sample", "request_id", sample.requestID, "route", sample.route, "tenant", sample.tenant, "client", sample.client))
	}
	if len(causes) > 0 {
		attrs := make([]any, 0, len(causes))
		for cause, n := range causes {
			attrs = append(attrs, slog.Int64(cause, n))
		}
		log.Warn("calls failed", slog.Group("causes", attrs...))
	}
}

// missesPlan reports whether a plan is missed for the first time.
func (t *tally) missesPlan(plan string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.plans[plan] || len(t.plans) >= 1000 {
		return false
	}
	t.plans[plan] = true
	return true
}

// totals are the tally at one moment.
type totals struct{ decisions, refused, fallback int64 }

func (t *tally) totals() totals {
	return totals{t.decisions.Load(), t.refused.Load(), t.fallback.Load()}
}
