package envoy

import (
	"sync"

	"github.com/headgate/headgate/gateway"
)

// Room that a call keeps for the next one; what a larger call took is let go.
const (
	keptBytes   = 8 << 10
	keptEntries = 64
)

// call is one call of the rate limit service, from its request to its answer. It is
// used again, so whatever one call leaves in it the next one must not see.
type call struct {
	raw       []byte // of the request, which asked and questions lie in
	asked     message
	questions []question
	verdicts  []gateway.Verdict
	answer    answer
	home      *calls
}

// calls are calls that are used again.
type calls struct{ pool sync.Pool }

func (c *calls) get() *call {
	if used, ok := c.pool.Get().(*call); ok {
		return used
	}
	return &call{home: c}
}

// end gives the call back. Nothing of it may be looked at afterwards.
func (c *call) end() {
	if cap(c.raw) > keptBytes || cap(c.answer.b) > keptBytes || cap(c.answer.body) > keptBytes || cap(c.asked.entries) > keptEntries || cap(c.questions) > keptEntries {
		return
	}
	c.asked.reset()
	clear(c.questions) // they hold text of the caller's
	c.questions, c.answer = c.questions[:0], answer{b: c.answer.b[:0], body: c.answer.body[:0]}
	c.home.pool.Put(c)
}

// room makes room for the questions and verdicts of n descriptors. DecideInto makes
// each verdict anew.
func (c *call) room(n int) {
	if cap(c.questions) < n {
		c.questions = make([]question, n)
	}
	if cap(c.verdicts) < n {
		c.verdicts = append(c.verdicts[:cap(c.verdicts)], make([]gateway.Verdict, n-cap(c.verdicts))...)
	}
	c.questions, c.verdicts = c.questions[:n], c.verdicts[:n]
	clear(c.questions)
}
