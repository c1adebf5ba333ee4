package replay

import (
	"container/heap"

	"github.com/headgate/headgate/gateway"
)

// places are what requests hold that are under way, by the time when they end.
type places []held

type held struct {
	until int64 // Unix µs
	kept  gateway.Kept
}

// take lets a request hold what it keeps until a time. The clock stands at its
// decision.
func (p *places) take(kept gateway.Kept, until int64, r *gateway.Replayer) error {
	if kept.Empty() {
		return nil
	}
	if err := r.Renew(&kept); err != nil {
		return err
	}
	heap.Push(p, held{until, kept})
	return nil
}

// until ends the requests that end by a time, each at its own.
func (p *places) until(at int64, c *clock, r *gateway.Replayer) error {
	for len(*p) > 0 && (*p)[0].until <= at {
		one := heap.Pop(p).(held)
		c.micros = one.until
		if err := r.End(&one.kept); err != nil {
			return err
		}
	}
	return nil
}

// Len is the number of requests; for package heap.
func (p places) Len() int { return len(p) }

// Less orders by the end; for package heap.
func (p places) Less(i, j int) bool { return p[i].until < p[j].until }

// Swap is for package heap.
func (p places) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push is for package heap.
func (p *places) Push(x any) { *p = append(*p, x.(held)) }

// Pop is for package heap.
func (p *places) Pop() any {
	last := len(*p) - 1
	one := (*p)[last]
	(*p)[last], *p = held{}, (*p)[:last]
	return one
}
