package usage

// maxBoots bounds the replicas' boots that are remembered.
const maxBoots = 4096

type bootKey struct{ replica, boot string }

// seenBatches remembers which batches were taken: of each boot the highest
// sequence and the 63 below it. Batches come in order but for repetitions, so
// what lies further back was taken long ago.
type seenBatches map[bootKey]*bootSeen

type bootSeen struct {
	high   int64
	window uint64 // bit n: high-n was taken
	last   int64  // Unix second of the last one
}

// take reports whether the batch is new, and remembers it.
func (s seenBatches) take(b Batch, now int64) bool {
	k := bootKey{b.Replica, b.Boot}
	seen, held := s[k]
	if !held {
		if len(s) >= maxBoots {
			s.sweep()
		}
		s[k] = &bootSeen{high: b.Seq, window: 1, last: now}
		return true
	}
	seen.last = now
	ahead := b.Seq - seen.high
	switch {
	case ahead > 0:
		seen.window = seen.window<<uint(min(ahead, 64)) | 1
		seen.high = b.Seq
		return true
	case ahead <= -64:
		return false
	}
	bit := uint64(1) << uint(-ahead)
	if seen.window&bit != 0 {
		return false
	}
	seen.window |= bit
	return true
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
