package usage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// Bounds of a RefusedCounter.
const (
	// RefusedPerLimit is how many subjects are kept apart for each limit.
	RefusedPerLimit = 50
	// RefusedLimits is how many limits are kept apart.
	RefusedLimits = 256
	// RefusedWindow is how long one summary counts, in seconds; reports cover the
	// window under way and the one before it.
	RefusedWindow = 300
	// RefusedFresh is for how long after its last refusal a subject is told, in seconds.
	RefusedFresh = 120
	// RefusedRows bounds the subjects of one report.
	RefusedRows = 600
)

// Refused is a subject that a limit refused, with what the replica knew of it then. It
// is what somebody needs in order to look up in the store whether it still is.
type Refused struct {
	Row     RefusedRow `json:"row"`
	Part    string     `json:"part"`           // rate, concurrency, quota or credentials
	Cost    int64      `json:"cost"`           // the least that was refused
	Until   int64      `json:"until,omitzero"` // Unix µs; 0 when nobody knows or it never ends
	Route   string     `json:"route,omitempty"`
	Numbers [3]int64   `json:"numbers,omitzero"` // of a rate: tokens, period in µs, burst
	Most    int64      `json:"most,omitzero"`    // places, or units of a quota
	Start   int64      `json:"start,omitzero"`   // of a quota's period, Unix µs
	End     int64      `json:"end,omitzero"`
	// Overflow: counted together with others, because there are too many identifiers.
	Overflow bool `json:"overflow,omitzero"`
	Blocked  bool `json:"blocked,omitzero"` // the limit admits nothing at all
}

// RefusedRow names a row of the limiter's state.
type RefusedRow struct {
	Kind    string   `json:"kind"` // g, t, c, i or d
	Tenant  string   `json:"tenant,omitempty"`
	Subject RawBytes `json:"subject,omitempty"`
}

// RawBytes is any bytes as a string. In JSON they are base64.
type RawBytes string

// MarshalJSON writes base64.
func (b RawBytes) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(b)) }

// UnmarshalJSON reads base64.
func (b *RawBytes) UnmarshalJSON(text []byte) error {
	var raw []byte
	if err := json.Unmarshal(text, &raw); err != nil {
		return fmt.Errorf("read bytes: %w", err)
	}
	*b = RawBytes(raw)
	return nil
}

// RefusedCount is a subject with its refusals. The true number lies between Count-Error
// and Count.
type RefusedCount struct {
	Refused
	Count int64 `json:"count"`
	Error int64 `json:"error,omitzero"`
	First int64 `json:"first"` // Unix µs; a subject that fell out and came back begins anew
	Last  int64 `json:"last"`
}

// RefusedLimit is what a report says of one limit.
type RefusedLimit struct {
	Limit string `json:"limit"`
	Total int64  `json:"total"` // refusals of all subjects, exact
	// Floor bounds the refusals of any subject that is not listed.
	Floor    int64          `json:"floor,omitzero"`
	Subjects []RefusedCount `json:"subjects"`
}

// RefusedReport is what a replica tells of whom it refused lately, most refused first.
type RefusedReport struct {
	Replica string         `json:"replica"`
	Boot    string         `json:"boot"`
	Since   int64          `json:"since"` // Unix µs: what Count and Total count from
	At      int64          `json:"at"`
	Limits  []RefusedLimit `json:"limits"`
	// Other is refusals by limits beyond RefusedLimits.
	Other int64 `json:"other,omitzero"`
}

// summary is Space-Saving (Metwally, Agrawal, El Abbadi, 2005): a newcomer takes the
// place of whoever has the fewest, and inherits that number as its error. So whoever
// has more than total/RefusedPerLimit refusals is always in it.
type summary struct {
	total   int64
	entries []RefusedCount
	index   map[RefusedRow]int
}

func (s *summary) floor() int64 {
	if s == nil || len(s.entries) < RefusedPerLimit {
		return 0
	}
	return s.entries[s.least()].Count
}

func (s *summary) least() int {
	at := 0
	for i := range s.entries {
		if s.entries[i].Count < s.entries[at].Count {
			at = i
		}
	}
	return at
}

func (s *summary) add(r *Refused, now int64) {
	s.total++
	key := r.Row
	if at, known := s.index[key]; known {
		e := &s.entries[at]
		cost := min(e.Cost, r.Cost)
		e.Refused = *r
		e.Cost, e.Count, e.Last = cost, e.Count+1, max(e.Last, now)
		return
	}
	fresh := RefusedCount{Refused: *r, Count: 1, First: now, Last: now}
	if len(s.entries) < RefusedPerLimit {
		s.index[key] = len(s.entries)
		s.entries = append(s.entries, fresh)
		return
	}
	at := s.least()
	old := &s.entries[at]
	fresh.Count, fresh.Error = old.Count+1, old.Count
	delete(s.index, old.Row)
	s.entries[at], s.index[key] = fresh, at
}

// windows are the summary under way of one limit, and the one before.
type windows struct {
	mu        sync.Mutex
	now, last *summary
	since     int64 // when now began
	before    int64 // when last began
}

func (w *windows) turn(now int64) {
	switch age := now - w.since; {
	case w.now != nil && age < RefusedWindow*1_000_000:
		return
	case w.now == nil || age >= 2*RefusedWindow*1_000_000:
		w.last, w.before = nil, now
	default:
		w.last, w.before = w.now, w.since
	}
	w.now, w.since = &summary{index: map[RefusedRow]int{}}, now
}

// RefusedCounter counts who is refused most, for each limit, in bounded room: some 8 MiB
// at the very most, whatever the number of subjects. It is safe for concurrent use.
type RefusedCounter struct {
	replica, boot string
	mu            sync.RWMutex
	limits        map[string]*windows
	other         int64
}

// NewRefusedCounter makes the counter of a replica.
func NewRefusedCounter(replica, boot string) *RefusedCounter {
	return &RefusedCounter{replica: replica, boot: boot, limits: map[string]*windows{}}
}

// Add notes one refusal by a limit, at a time in Unix µs. It keeps what r points to.
func (c *RefusedCounter) Add(limit string, r *Refused, now int64) {
	c.mu.RLock()
	w := c.limits[limit]
	c.mu.RUnlock()
	if w == nil {
		if w = c.make(limit); w == nil {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	w.now.add(r, now)
}

func (c *RefusedCounter) make(limit string) *windows {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.limits[limit]
	if w == nil && len(c.limits) >= RefusedLimits {
		c.other++
		return nil
	}
	if w == nil {
		w = &windows{}
		c.limits[limit] = w
	}
	return w
}

// Report tells who was refused lately. Limits that refused nobody for two windows are
// forgotten.
func (c *RefusedCounter) Report(now int64) RefusedReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := RefusedReport{Replica: c.replica, Boot: c.boot, Since: now, At: now, Other: c.other}
	for id, w := range c.limits {
		w.mu.Lock()
		if w.now == nil || now-w.since >= 2*RefusedWindow*1_000_000 {
			delete(c.limits, id)
			w.mu.Unlock()
			continue
		}
		since := w.since
		if w.last != nil {
			since = w.before
		}
		told := RefusedLimit{Limit: id, Total: w.now.total, Floor: w.now.floor() + w.last.floor(), Subjects: w.lately(now)}
		if w.last != nil {
			told.Total += w.last.total
		}
		w.mu.Unlock()
		if len(told.Subjects) > 0 {
			out.Limits, out.Since = append(out.Limits, told), min(out.Since, since)
		}
	}
	out.cut()
	return out
}

// lately adds up both windows.
func (w *windows) lately(now int64) []RefusedCount {
	var out []RefusedCount
	add := func(e RefusedCount, other *summary) {
		if at, both := other.find(&e.Row); both {
			e.Count, e.Error, e.First = e.Count+at.Count, e.Error+at.Error, min(e.First, at.First)
		} else {
			e.Count, e.Error = e.Count+other.floor(), e.Error+other.floor()
		}
		if now-e.Last < RefusedFresh*1_000_000 {
			out = append(out, e)
		}
	}
	for i := range w.now.entries {
		add(w.now.entries[i], w.last)
	}
	if w.last != nil {
		for i := range w.last.entries {
			if _, both := w.now.find(&w.last.entries[i].Row); !both {
				add(w.last.entries[i], w.now)
			}
		}
	}
	return out
}

func (s *summary) find(r *RefusedRow) (RefusedCount, bool) {
	if s == nil {
		return RefusedCount{}, false
	}
	at, known := s.index[*r]
	if !known {
		return RefusedCount{}, false
	}
	return s.entries[at], true
}

// cut sorts, and holds the report to its bound: limits keep the same number of subjects,
// and what is cut raises their floor.
func (r *RefusedReport) cut() {
	slices.SortFunc(r.Limits, func(a, b RefusedLimit) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Limit, b.Limit))
	})
	most := RefusedPerLimit
	if n := len(r.Limits); n > 0 {
		most = max(2, min(most, RefusedRows/n))
	}
	for i := range r.Limits {
		l := &r.Limits[i]
		slices.SortFunc(l.Subjects, func(a, b RefusedCount) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Row.Subject, b.Row.Subject), cmp.Compare(a.Row.Tenant, b.Row.Tenant))
		})
		if len(l.Subjects) > most {
			l.Floor = max(l.Floor, l.Subjects[most].Count)
			l.Subjects = l.Subjects[:most]
		}
	}
}
