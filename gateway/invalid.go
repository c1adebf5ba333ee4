package gateway

import (
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

// maxInvalidEntries bounds the table of refused credentials: about 100 bytes an entry.
const maxInvalidEntries = 50_000

// invalidLimit counts refused credentials per client address, in this process
// and before any lookup, so that guessing costs the directory nothing. When the
// table is full and nothing in it has recovered, an arbitrary entry is
// forgotten: that gives one address a fresh burst, while a shared overflow bucket
// would lock out addresses that never sent a bad key.
type invalidLimit struct {
	mu      sync.Mutex
	entries map[string]invalidEntry
	max     int
	begun   time.Time // entries count their time from here: a third of a time.Time's size
	swept   time.Duration
}

// invalidEntry is a token bucket in floating point: it protects, it bills nobody.
type invalidEntry struct {
	tokens float64
	at     time.Duration
}

func newInvalidLimit(entries int) *invalidLimit {
	return &invalidLimit{entries: make(map[string]invalidEntry), max: entries}
}

// over reports whether the address has used up its refusals, and how long until
// it has one again.
func (l *invalidLimit) over(subject string, rule policy.InvalidLimit, now time.Time) (time.Duration, bool) {
	if rule.Rate.Unlimited {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[subject]
	if !ok {
		return 0, false
	}
	e = e.refill(rule, now.Sub(l.begun))
	if e.tokens >= 1 {
		return 0, false
	}
	perSecond := perSecond(rule.Rate)
	if perSecond <= 0 {
		return time.Minute, true
	}
	return time.Duration((1 - e.tokens) / perSecond * float64(time.Second)), true
}

// charge books one refused credential. False: the address had none left, so that
// of many lookups at once no more are told apart than the limit allows.
func (l *invalidLimit) charge(subject string, rule policy.InvalidLimit, now time.Time) bool {
	if rule.Rate.Unlimited {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun.IsZero() {
		l.begun = now
	}
	at := now.Sub(l.begun)
	e, ok := l.entries[subject]
	if !ok {
		if len(l.entries) >= l.max {
			l.makeRoom(rule, at)
		}
		e = invalidEntry{tokens: float64(rule.Burst), at: at}
	}
	e = e.refill(rule, at)
	paid := e.tokens >= 1
	e.tokens = max(e.tokens-1, 0)
	l.entries[subject] = e
	return paid
}

// makeRoom drops what has recovered, at most once a second, else any one entry.
func (l *invalidLimit) makeRoom(rule policy.InvalidLimit, now time.Duration) {
	if l.swept == 0 || now-l.swept >= time.Second {
		l.swept = now
		for subject, e := range l.entries {
			if e.refill(rule, now).tokens >= float64(rule.Burst) {
				delete(l.entries, subject)
			}
		}
	}
	for subject := range l.entries {
		if len(l.entries) < l.max {
			return
		}
		delete(l.entries, subject)
	}
}

func (e invalidEntry) refill(rule policy.InvalidLimit, now time.Duration) invalidEntry {
	elapsed := max((now - e.at).Seconds(), 0)
	e.tokens = min(e.tokens+elapsed*perSecond(rule.Rate), float64(rule.Burst))
	e.at = now
	return e
}

func perSecond(r policy.Rate) float64 {
	if r.Period <= 0 {
		return 0
	}
	return float64(r.Tokens) / r.Period.Seconds()
}
