package memstore

import "github.com/headgate/headgate/limiter"

// indexed is from how many buckets on a row finds them by a map.
const indexed = 32

// row is the buckets of one subject, by the hash of their limit. Most have few.
type row struct {
	hashes  []uint64
	buckets []limiter.Bucket
	index   map[uint64]int // place of each; nil while there are few
	latest  int64          // no bucket's time is later
	forgets int64          // no bucket is forgotten before
}

// find is the place of a bucket, or -1.
func (r *row) find(hash uint64) int {
	if r.index != nil {
		if at, ok := r.index[hash]; ok {
			return at
		}
		return -1
	}
	for at, h := range r.hashes {
		if h == hash {
			return at
		}
	}
	return -1
}

func (r *row) put(hash uint64, b limiter.Bucket) {
	soonest := b.TimeMicros + limiter.ForgetMicros // were it full
	if len(r.hashes) == 0 || soonest < r.forgets {
		r.forgets = soonest
	}
	r.latest = max(r.latest, b.TimeMicros)
	if at := r.find(hash); at >= 0 {
		r.buckets[at] = b
		return
	}
	r.hashes, r.buckets = append(r.hashes, hash), append(r.buckets, b)
	switch last := len(r.hashes) - 1; {
	case r.index != nil:
		r.index[hash] = last
	case last == indexed:
		r.index = make(map[uint64]int, 2*indexed)
		for at, h := range r.hashes {
			r.index[h] = at
		}
	}
}

func (r *row) remove(at int) {
	last := len(r.hashes) - 1
	if r.index != nil {
		delete(r.index, r.hashes[at])
		if at != last {
			r.index[r.hashes[last]] = at
		}
	}
	r.hashes[at], r.buckets[at] = r.hashes[last], r.buckets[last]
	r.hashes, r.buckets = r.hashes[:last], r.buckets[:last]
}

// mend brings what lies in the future to now and drops what is forgotten.
func (r *row) mend(now int64) {
	if now >= r.latest && now < r.forgets {
		return
	}
	r.latest, r.forgets = min(r.latest, now), 1<<63-1
	for at := 0; at < len(r.buckets); {
		b := &r.buckets[at]
		b.TimeMicros = min(b.TimeMicros, now)
		if b.Forgotten(now) {
			r.remove(at)
			continue
		}
		r.forgets = min(r.forgets, b.TimeMicros+limiter.UntilFull(b.Units, b.Numbers)+limiter.ForgetMicros)
		at++
	}
}

// forgotten reports whether none of the row's buckets is needed.
func (r *row) forgotten(now int64) bool {
	if len(r.buckets) > 0 && now < r.forgets {
		return false
	}
	for i := range r.buckets {
		if !r.buckets[i].Forgotten(now) {
			return false
		}
	}
	return true
}
