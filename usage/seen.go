package usage

// maxBoots bounds the replicas' boots that are remembered.
const maxBoots = 4096

type bootKey struct{ replica, boot string }

// seenBatches remembers which batches were taken: of each boot the highest
// sequence and the 63 below it. Batches come in order but for repetitions, so
// what lies further back was taken long ago.
type seenBatches map[bootKey]*bootSeen

type bootSeen struct {
	high    int64
	window  uint64 // bit n: high-n was taken
	last    int64  // Unix second of the last one
	through int64  // of the batch with the number high
}

// take reports whether the batch is new, and remembers it. From is the first
// second that the batch says everything about; it says nothing about what a
// batch would have told that was lost.
func (s seenBatches) take(b Batch, now int64) (from int64, isNew bool) {
	k := bootKey{b.Replica, b.Boot}
	seen, held := s[k]
	if !held {
		if len(s) >= maxBoots {
			s.sweep()
		}
		s[k] = &bootSeen{high: b.Seq, window: 1, last: now, through: b.Through}
		return b.Through, true
	}
	seen.last = now
	ahead := b.Seq - seen.high
	switch {
	case ahead > 0:
		from = b.Through
		if ahead == 1 {
			from = min(from, seen.through+1)
		}
		seen.window = seen.window<<uint(min(ahead, 64)) | 1
		seen.high, seen.through = b.Seq, b.Through
		return from, true
	case ahead <= -64:
		return 0, false
	}
	bit := uint64(1) << uint(-ahead)
	if seen.window&bit != 0 {
		return 0, false
	}
	seen.window |= bit
	return b.Through, true
}

// reported remembers the seconds of the last hour that a batch spoke of.
type reported [4096]int64

func (r *reported) mark(second int64) {
	if second > 0 {
		r[second%int64(len(r))] = second
	}
}

// any reports whether one of the seconds in [from, to) was spoken of.
func (r *reported) any(from, to int64) bool {
	for second := max(from, 0); second < to; second++ {
		if r[second%int64(len(r))] == second {
			return true
		}
	}
	return false
}

// sweep forgets the half that was not heard of for longest.
func (s seenBatches) sweep() {
	var oldest, newest int64 = 1 << 62, 0
	for _, b := range s {
		oldest, newest = min(oldest, b.last), max(newest, b.last)
	}
	for k, b := range s {
		if b.last <= oldest+(newest-oldest)/2 {
			delete(s, k)
		}
	}
}
