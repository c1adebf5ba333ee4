package decisionlog

// Kind says what an Entry is.
type Kind byte

// Kinds of entries.
const (
	KindDecision Kind = 1
	KindEnd      Kind = 2 // a request that held places has ended
	KindSettle   Kind = 3 // the real cost of a request became known
)

// Entry is one decision, or what happened to one later. Times are Unix µs by
// the store's clock. Texts are "" when they do not apply.
type Entry struct {
	Kind  Kind
	At    int64 // when the store decided; for a decision without the store an estimate that is never late
	Order int32 // place within the store's call, for entries with the same At
	Seq   int64 // of the replica's boot; KindEnd and KindSettle repeat that of their decision

	Tenant     string
	Credential string
	User       string
	IP         string // the canonical client address or prefix that limits count
	Method     string
	Host       string
	Path       string // canonical
	Route      string // that it met; "" none
	Policy     int64  // version that decided
	Cost       int64  // tokens, of all hits
	Hits       int64
	Priced     bool // the cost came from the request or from a query, not from the route
	// Values are the identifiers that limits are counted per besides the above, as
	// "header:x-region" or "body:username" → a keyed hash; "" for a value that was missing.
	Values map[string]string

	Allowed  bool
	Degraded bool
	Cached   bool   // refused by the deny cache
	Reason   string // limiter.Reason
	Limit    string // id of the deciding limit of a refusal
	Wait     int64  // µs until a repeat can pass, as told; 0 unknown
}

// Batch is what one replica logged in a while.
type Batch struct {
	Replica, Boot string
	Seq           int64  // of the batch, from 1
	From, To      int64  // of its entries' At
	Sample        uint32 // subjects whose Bucket is below it are whole; Whole: all of them
	Dropped       int64  // entries that did not fit, since the batch before
	Entries       []Entry
}

// Whole is the Sample of a log in which nothing was left out.
const Whole uint32 = 1 << 16
