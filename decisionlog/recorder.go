package decisionlog

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// floorShare is the smallest share of subjects that a Recorder goes down to.
	floorShare = Whole / 1024
	// batchEntries bounds a recorder's batches, so that they stay well within what may
	// travel, whatever their texts.
	batchEntries = 4096
	// plainText is what the texts of an entry may have without counting, in bytes;
	// what they have beyond it is bounded by bulkText for all of a batch.
	plainText = 160
	bulkText  = 256 << 10
	// calmCuts is for how many cuts in a row the log must have room before the share
	// is doubled.
	calmCuts = 10
)

// Recorder keeps what one replica decides until it is cut into batches. It is safe
// for concurrent use, and its memory is bounded. Subjects are sampled, not entries:
// of a subject that is in the sample everything is kept, so that its bursts stay whole.
// The share of subjects halves whenever a second brings more entries than the rate
// and doubles again when there has been room for ten; a change begins a new batch.
type Recorder struct {
	replica, boot string
	rate          int64 // entries a second, of the sample; as many again of what is kept besides
	share         atomic.Uint32
	unjudged      atomic.Int64
	logged        atomic.Int64
	lost          atomic.Int64

	mu      sync.Mutex
	seq     int64 // of the last entry
	batches int64 // the last batch's Seq
	current Batch
	bulk    int
	closed  []Batch
	sampled int64 // since the last cut
	kept    int64 // since the last cut, apart from the sample
	allowed int64 // how many of the sample there may be before the share is halved
	calm    int
	cutAt   time.Time
}

// NewRecorder records for one replica and boot, about rate entries a second of the
// sample and as many refusals and degraded decisions besides. A rate below 1 records
// nothing.
func NewRecorder(replica, boot string, rate int64) *Recorder {
	r := &Recorder{replica: replica, boot: boot, rate: max(0, rate), allowed: rate}
	r.share.Store(Whole)
	r.current = r.empty()
	return r
}

func (r *Recorder) empty() Batch {
	return Batch{Replica: r.replica, Boot: r.boot, Sample: r.share.Load()}
}

// Sampled reports whether everything of a subject is recorded at present.
func (r *Recorder) Sampled(subject string) bool {
	share := r.share.Load()
	return share >= Whole || Bucket(subject) < share
}

// All reports whether every subject is recorded at present.
func (r *Recorder) All() bool { return r.share.Load() >= Whole }

// Unjudged counts a request that no limiter saw.
func (r *Recorder) Unjudged() { r.unjudged.Add(1) }

// Add records a copy of e, with its Seq. What is always kept (refusals and degraded
// decisions) has a bound of its own.
func (r *Recorder) Add(e *Entry, always bool) {
	bulk := max(0, e.textBytes()-plainText)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full(always) || bulk > bulkText || !e.fits() {
		r.current.Dropped++
		r.lost.Add(1)
		return
	}
	if len(r.current.Entries) >= batchEntries || r.bulk+bulk > bulkText {
		r.border()
	}
	r.bulk += bulk
	if always {
		r.kept++
	} else {
		r.sampled++
	}
	r.seq++
	r.logged.Add(1)
	r.current.Entries = append(r.current.Entries, *e)
	r.current.Entries[len(r.current.Entries)-1].Seq = r.seq
}

// full makes room for one more entry, or reports that there is none. It wants the
// lock held.
func (r *Recorder) full(always bool) bool {
	switch share := r.share.Load(); {
	case always:
		return r.kept >= r.rate
	case r.sampled < r.allowed:
		return false
	case share <= floorShare || r.rate < 2:
		return true
	default:
		// The steps add up to the rate once more at most, before the floor is reached.
		r.allowed += max(1, r.rate*int64(share)/int64(2*Whole))
		r.share.Store(share / 2)
		r.calm = 0
		r.border()
		return false
	}
}

// border ends the batch. It wants the lock held.
func (r *Recorder) border() {
	if len(r.current.Entries) > 0 || r.current.Dropped > 0 {
		r.batches++
		r.current.Seq = r.batches
		r.current.Unjudged = r.unjudged.Swap(0)
		r.closed = append(r.closed, r.current)
	}
	room := len(r.current.Entries)
	r.current, r.bulk = r.empty(), 0
	r.current.Entries = make([]Entry, 0, min(room+room/4, batchEntries))
}

// Cut takes out what was recorded since the last cut, in the order of the store, as
// batches that Encode takes; none when there is nothing. It has to be called about
// once a second.
func (r *Recorder) Cut(now time.Time) []Batch {
	r.mu.Lock()
	r.adapt(now)
	r.border()
	out := r.closed
	r.closed = nil
	r.sampled, r.kept, r.allowed = 0, 0, r.rate
	r.mu.Unlock()
	for i := range out {
		out[i].sort(now)
	}
	return out
}

// adapt doubles the share when there is room for it. It wants the lock held, and
// comes before the border.
func (r *Recorder) adapt(now time.Time) {
	elapsed := now.Sub(r.cutAt)
	r.cutAt = now
	share := r.share.Load()
	// Twice as many must leave room for busier seconds than this one.
	if share >= Whole || float64(r.sampled) > 0.4*float64(r.rate)*min(elapsed.Seconds(), 1) {
		r.calm = 0
		return
	}
	if r.calm++; r.calm >= calmCuts {
		r.calm = 0
		r.share.Store(share * 2)
	}
}

// sort brings the entries in order and notes the time that they span.
func (b *Batch) sort(now time.Time) {
	slices.SortFunc(b.Entries, compare)
	b.From, b.To = now.UnixMicro(), now.UnixMicro()
	if n := len(b.Entries); n > 0 {
		b.From, b.To = b.Entries[0].At, b.Entries[n-1].At
	}
}

// Lost takes back a batch that could not be sent, of so many entries and dropped ones;
// the next batch says so.
func (r *Recorder) Lost(entries, dropped int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.Dropped += entries + dropped
	r.lost.Add(entries)
	r.logged.Add(-entries)
}

// Totals are the entries that were logged and lost since the start, and the share of
// subjects that are whole at present: Sample of 65 536.
func (r *Recorder) Totals() (logged, lost int64, sample uint32) {
	return r.logged.Load(), r.lost.Load(), r.share.Load()
}

// textBytes is about what the entry's own texts take, if no other entry has them.
func (e *Entry) textBytes() int {
	n := len(e.Tenant) + len(e.Credential) + len(e.User) + len(e.IP) + len(e.Method) + len(e.Host) + len(e.Path)
	for name, value := range e.Values {
		n += len(name) + len(value)
	}
	return n
}
