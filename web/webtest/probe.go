package webtest

import (
	"context"
	"sync"

	"github.com/headgate/headgate/console"
)

// Probe plays the gateways' engine: it answers what it was told to.
type Probe struct {
	mu      sync.Mutex
	answer  func(console.ProbeQuestion) console.ProbeAnswer
	version int64
	asked   []console.ProbeQuestion
}

// Answers lets the probe answer so from now on, by a version.
func (p *Probe) Answers(version int64, answer func(console.ProbeQuestion) console.ProbeAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version, p.answer = version, answer
}

// Asked is everything that was asked.
func (p *Probe) Asked() []console.ProbeQuestion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]console.ProbeQuestion(nil), p.asked...)
}

// Version implements console.Probe.
func (p *Probe) Version() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version
}

// Ask implements console.Probe: everything is admitted unless it was told otherwise.
func (p *Probe) Ask(_ context.Context, questions []console.ProbeQuestion) ([]console.ProbeAnswer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]console.ProbeAnswer, 0, len(questions))
	for _, q := range questions {
		p.asked = append(p.asked, q)
		a := console.ProbeAnswer{Allowed: true, Status: 200, Deciding: -1}
		if p.answer != nil {
			a = p.answer(q)
		}
		if a.Route == "" {
			a.Route = q.Route
		}
		out = append(out, a)
	}
	return out, nil
}
