package testkit

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// FaultProxy stands between a client and a TCP server and does to their
// conversation what networks do. It begins by passing everything. Its methods
// are safe for concurrent use.
type FaultProxy struct {
	URL  string // redis://127.0.0.1:port/0
	Addr string // 127.0.0.1:port

	target   string
	listener net.Listener
	accepted atomic.Int64
	running  sync.WaitGroup

	mu      sync.Mutex
	refuse  bool          // new connections are closed at once
	changed chan struct{} // closed and renewed when hole or delay change
	hole    bool          // nothing gets through, either way
	delay   time.Duration // of each reply
	drops   int           // next replies that are swallowed
	cutAt   int           // bytes of the next reply after which its connection is cut; -1: none
	pairs   map[*pair]bool
	trap    *Trap // armed; nil: none
	awaited *Trap // whose message has passed and whose answer has not come
}

// pair is one client's connection and the one to the server that belongs to it.
type pair struct {
	client, server net.Conn

	said    []byte // the beginning of what the client said; guarded by the proxy's mu, as is what follows
	deaf    bool   // nothing more of the client's gets through
	mute    bool   // nothing more of the server's gets through
	primed  bool   // the client has said a Trap's Once
	watched bool   // and its At
	skipped int    // messages since
}

func (p *pair) close() { _, _ = p.client.Close(), p.server.Close() }

// Proxy starts a proxy in front of target (host:port, or the path of a Unix
// socket) and stops it at the end of the test.
func Proxy(t testing.TB, target string) *FaultProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of loopback: nothing to wait for
	if err != nil {
		t.Fatalf("testkit: start proxy: %v", err)
	}
	p := &FaultProxy{
		URL: "redis://" + l.Addr().String() + "/0", Addr: l.Addr().String(), target: target, listener: l,
		changed: make(chan struct{}), cutAt: -1, pairs: map[*pair]bool{},
	}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.running.Wait()
	})
	return p
}

// Pass lets everything through again, undelayed.
func (p *FaultProxy) Pass() {
	p.set(func() {
		p.refuse, p.hole, p.delay, p.drops, p.cutAt, p.trap = false, false, 0, 0, -1, nil
		for pr := range p.pairs {
			pr.deaf, pr.mute = false, false
		}
	})
}

// Cut closes all connections and refuses new ones until Pass.
func (p *FaultProxy) Cut() {
	p.set(func() { p.refuse = true })
	p.Sever()
}

// Sever closes the connections that are open; new ones are served.
func (p *FaultProxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pr := range p.pairs {
		pr.close()
	}
}

// Hole swallows what either side says, without closing anything, until Pass;
// then what was held back arrives.
func (p *FaultProxy) Hole() { p.set(func() { p.hole = true }) }

// Delay holds back each reply for d.
func (p *FaultProxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// DropReply swallows the next reply, on whatever connection; the connection stays
// open. The server has done what it was asked to.
func (p *FaultProxy) DropReply() { p.set(func() { p.drops++ }) }

// CutReply passes the first n bytes of the next reply and closes its connection.
func (p *FaultProxy) CutReply(n int) { p.set(func() { p.cutAt = n }) }

// Conns is the number of connections that are open.
func (p *FaultProxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

// Accepted is the number of connections that were made since the start, refused
// ones included.
func (p *FaultProxy) Accepted() int64 { return p.accepted.Load() }

func (p *FaultProxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *FaultProxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		p.running.Go(func() { p.serve(c) })
	}
}

func (p *FaultProxy) serve(client net.Conn) {
	network := "tcp"
	if strings.HasPrefix(p.target, "/") {
		network = "unix"
	}
	server, err := net.DialTimeout(network, p.target, time.Second) //nolint:noctx // bounded by its timeout
	if err != nil {
		_ = client.Close()
		return
	}
	pr := &pair{client: client, server: server}
	gone := make(chan struct{})
	p.mu.Lock()
	refuse := p.refuse
	if !refuse {
		p.pairs[pr] = true
	}
	p.mu.Unlock()
	defer func() {
		pr.close()
		p.mu.Lock()
		delete(p.pairs, pr)
		p.mu.Unlock()
	}()
	if refuse {
		return
	}
	p.running.Go(func() {
		defer close(gone)
		defer pr.close()
		p.copy(pr, server, client, false)
	})
	p.copy(pr, client, server, true)
	pr.close()
	<-gone
}

// copy carries one direction until either side ends. A reply is what one read
// of the server's side brings: with one question at a time, exactly one reply.
func (p *FaultProxy) copy(pr *pair, to io.Writer, from net.Conn, reply bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		b, cut := buf[:n], false
		if reply {
			b, cut = p.tamper(b)
			p.answered(pr)
		} else {
			p.listen(pr, b)
		}
		if !p.hold(pr, reply) {
			return
		}
		if _, err := to.Write(b); err != nil || cut {
			return
		}
	}
}

// tamper takes one reply's share of the faults that befall single replies.
func (p *FaultProxy) tamper(b []byte) (rest []byte, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.drops > 0:
		p.drops--
		return nil, false
	case p.cutAt >= 0:
		n := min(p.cutAt, len(b))
		p.cutAt = -1
		return b[:n], true
	}
	return b, false
}

// hold waits out a delay or a hole; false when the proxy was cut meanwhile.
func (p *FaultProxy) hold(pr *pair, reply bool) bool {
	from := time.Now()
	for {
		p.mu.Lock()
		refuse, changed := p.refuse, p.changed
		hole := p.hole || (reply && pr.mute) || (!reply && pr.deaf)
		rest := p.delay - time.Since(from)
		p.mu.Unlock()
		switch {
		case refuse:
			return false
		case hole:
			<-changed
		case reply && rest > 0:
			t := time.NewTimer(rest)
			select {
			case <-t.C:
			case <-changed:
			}
			t.Stop()
		default:
			return true
		}
	}
}
