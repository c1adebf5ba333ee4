package testkit

import (
	"bytes"
	"sync"
)

// saidKept bounds what a proxy remembers of each client's words.
const saidKept = 4 << 10

// Trap is a moment in a conversation at which a connection falls silent without
// being closed: what a test needs to end a process just there. It springs once.
type Trap struct {
	Once  string // only on a connection whose client has said this since the trap was set; "": on any
	At    string // in the message that it springs at, or that Skip is counted from; "": in any
	Skip  int    // messages of that client to let pass after it
	Reply bool   // let the message pass and swallow its answer; else the message itself never arrives

	sprung chan struct{}
	fire   sync.Once
}

// Sprung is closed when the message is held back or, with Reply, when the server
// has answered it.
func (t *Trap) Sprung() <-chan struct{} { return t.sprung }

// Arm sets a trap, in place of one that was set before. Pass takes it away.
func (p *FaultProxy) Arm(t *Trap) *Trap {
	t.sprung = make(chan struct{})
	p.set(func() {
		p.trap = t
		for pr := range p.pairs {
			pr.primed, pr.watched, pr.skipped = false, false, 0
		}
	})
	return t
}

// HoleOf makes the connections whose clients have said text fall silent, both
// ways, without closing them; what is connected later gets through. It returns
// how many there are. Only a client's first words are remembered (4 KiB).
func (p *FaultProxy) HoleOf(text string) (n int) {
	p.set(func() {
		for pr := range p.pairs {
			if bytes.Contains(pr.said, []byte(text)) {
				pr.deaf, pr.mute = true, true
				n++
			}
		}
	})
	return n
}

// listen takes note of what a client says, before it is passed on.
func (p *FaultProxy) listen(pr *pair, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if rest := saidKept - len(pr.said); rest > 0 {
		pr.said = append(pr.said, b[:min(rest, len(b))]...)
	}
	if pr.mute { // the trap's answer is swallowed: nothing follows
		pr.deaf = true
	}
	t := p.trap
	if t == nil || pr.deaf || !pr.reaches(t, b) {
		return
	}
	p.trap, pr.mute = nil, true
	if t.Reply {
		p.awaited = t
		return
	}
	pr.deaf = true
	t.fire.Do(func() { close(t.sprung) })
}

// reaches says whether a message is the one that the trap springs at.
func (pr *pair) reaches(t *Trap, b []byte) bool {
	if pr.watched {
		pr.skipped++
		return pr.skipped >= t.Skip
	}
	pr.primed = pr.primed || bytes.Contains(b, []byte(t.Once))
	if !pr.primed || !bytes.Contains(b, []byte(t.At)) {
		return false
	}
	pr.watched = true
	return t.Skip == 0
}

// answered springs a trap whose message the server has answered.
func (p *FaultProxy) answered(pr *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.awaited; t != nil && pr.mute && !pr.deaf {
		p.awaited = nil
		t.fire.Do(func() { close(t.sprung) })
	}
}
