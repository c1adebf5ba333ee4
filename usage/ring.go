package usage

import "time"

const (
	chunkSeconds = 300
	// chunks hold an hour whatever the second within a chunk.
	chunks = 3600/chunkSeconds + 1
	// kept is how far back a Live reaches.
	kept = time.Hour
)

// tally is what was counted in one slot.
type tally struct {
	admitted, refused, degraded, invalid, cost int64
}

func (t *tally) add(o tally) {
	t.admitted += o.admitted
	t.refused += o.refused
	t.degraded += o.degraded
	t.invalid += o.invalid
	t.cost += o.cost
}

func (t tally) requests() int64 { return t.admitted + t.refused + t.invalid }

// tallyOf says where a row's requests belong.
func tallyOf(r Row) tally {
	var t tally
	switch {
	case r.Outcome.Admitted():
		t.admitted, t.cost = r.Requests, r.Cost
	case r.Outcome.Refused():
		t.refused = r.Requests
	default:
		t.invalid = r.Requests
	}
	if r.Outcome.Degraded() {
		t.degraded = r.Requests
	}
	return t
}

// ring is a series of the last hour in slots of step seconds. Stretches in
// which nothing happened take no memory.
type ring struct {
	step   int64 // divides chunkSeconds
	chunks [chunks]*chunk
}

type chunk struct {
	begin int64 // Unix second, a multiple of chunkSeconds
	slots []tally
}

// add counts t in a second. Seconds come in almost any order; one that is older
// than what has taken its place is passed over.
func (r *ring) add(second int64, t tally) {
	begin := second - second%chunkSeconds
	i := (begin / chunkSeconds) % chunks
	c := r.chunks[i]
	if c != nil && c.begin > begin {
		return
	}
	if c == nil || c.begin < begin {
		c = &chunk{begin: begin, slots: make([]tally, chunkSeconds/r.step)}
		r.chunks[i] = c
	}
	c.slots[(second-begin)/r.step].add(t)
}

// each calls f for the slots that begin in [from, to), in no order.
func (r *ring) each(from, to int64, f func(second int64, t tally)) {
	for _, c := range r.chunks {
		if c == nil || c.begin >= to || c.begin+chunkSeconds <= from {
			continue
		}
		for i, t := range c.slots {
			if at := c.begin + int64(i)*r.step; at >= from && at < to && t != (tally{}) {
				f(at, t)
			}
		}
	}
}

// sum adds up the slots that end after from.
func (r *ring) sum(from int64) tally {
	var total tally
	r.each(from-r.step+1, 1<<62, func(_ int64, t tally) { total.add(t) })
	return total
}

// silent reports whether nothing happened in a slot that reaches into or past
// oldest.
func (r *ring) silent(oldest int64) bool {
	silent := true
	r.each(oldest-r.step+1, 1<<62, func(int64, tally) { silent = false })
	return silent
}
