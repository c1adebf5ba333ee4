package decisionlog

// Kind says what an Entry is.
type Kind byte

// Kinds of entries.
const (
	KindDecision Kind = 1
	KindEnd      Kind = 2 // the place that a request held is free again
	KindSettle   Kind = 3 // the real cost of a request became known
)

// Entry is one decision, or what happened to one later. Times are Unix µs by
// the store's clock. Texts are "" when they do not apply. Entries are in the order
// of the store by At, then Order, then (within a replica) Seq.
type Entry struct {
	Kind  Kind
	At    int64 // when the store did it; without the store an estimate, for Cached one that is never late
	Order int32 // place within the store's call, for entries with the same At
	Seq   int64 // of the entry, in its replica's boot
	// Ref names a request that holds a place or may be settled, in the whole log: its
	// KindEnd and KindSettle, of whichever replica, repeat it; of several the first
	// counts. 0: neither.
	Ref uint64

	Tenant     string
	Credential string
	User       string // keyed hash of the user
	ByUser     bool   // the route knows callers by their user: then that is the subject
	IP         string // the canonical client address or prefix that limits count
	Method     string
	Host       string
	Path       string // canonical
	Route      string // that it met; "" none
	Policy     int64  // version that decided
	Cost       int64  // tokens, of all hits; of KindSettle the real cost
	Hits       int64
	Priced     bool // the cost came from the request or from a query, not from the route
	Renewed    bool // what it holds is kept until its KindEnd; else it ends by itself, too
	// Values are the identifiers that limits are counted per besides the above, as
	// "header:x-region" or "body:username" → a keyed hash; "" for a value that was
	// missing, Unreadable for one that could not be told. Shared between entries: only read.
	Values map[string]string

	Allowed  bool
	Degraded bool
	Cached   bool   // refused by the deny cache
	Leased   bool   // a leased limit had a part in it: its count was ahead by what slices held
	Reason   string // limiter.Reason
	Limit    string // id of the deciding limit of a refusal
	Wait     int64  // µs until a repeat can pass, as told; 0 unknown
}

// Unreadable stands in Values for a value that may be there and could not be told.
const Unreadable = "!"

// Batch is what one replica logged in a while.
type Batch struct {
	Replica, Boot string
	Seq           int64  // of the batch, from 1
	From, To      int64  // of its entries' At
	Sample        uint32 // subjects whose Bucket is below it are whole; Whole: all of them
	Dropped       int64  // entries that did not fit, since the batch before
	Unjudged      int64  // requests that no limiter saw (no route, no identity), since the batch before
	Entries       []Entry
	// Body is the batch as Encode wrote it, of one that was not decoded: Entries is nil
	// then, and a Reader or Merge finds them.
	Body []byte
}

// Whole is the Sample of a log in which nothing was left out.
const Whole uint32 = 1 << 16

// Bounds of a batch. What is beyond them is neither written nor read.
const (
	MaxEntries    = 65_536
	MaxCompressed = 1 << 20
	MaxDecoded    = 16 << 20
	maxText       = 8 << 10 // bytes of one text
)

// Before reports whether e comes before o in the order of the store.
func (e *Entry) Before(o *Entry) bool {
	switch {
	case e.At != o.At:
		return e.At < o.At
	case e.Order != o.Order:
		return e.Order < o.Order
	}
	return e.Seq < o.Seq
}

// Bucket sorts a subject (a tenant's id; where there is none "user:" and the user on
// routes that know callers by it, else the address) into one of 65 536 buckets: those below a batch's Sample are whole.
func Bucket(subject string) uint32 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(subject) {
		h = (h ^ uint64(subject[i])) * 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15 // so that the upper bits depend on every byte
	return uint32(h >> 48)
}

// Subject is what Bucket sorts an entry by.
func (e *Entry) Subject() string {
	switch {
	case e.Tenant != "":
		return e.Tenant
	case e.ByUser:
		return "user:" + e.User
	}
	return e.IP
}
