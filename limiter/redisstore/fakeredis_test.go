package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeRedis answers every script call with the same bytes, whatever it asks.
type fakeRedis struct {
	addr   string
	mu     sync.Mutex
	answer string   // RESP
	seen   []string // commands, but for those of the handshake
}

func newFakeRedis(t testing.TB, answer string) *fakeRedis {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	f := &fakeRedis{addr: listener.Addr().String(), answer: answer}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(conn)
		}
	}()
	return f
}

func (f *fakeRedis) url() string { return "redis://" + f.addr + "/0?protocol=2" }

func (f *fakeRedis) commands() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.seen...)
}

func (f *fakeRedis) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		command, err := readCommand(in)
		if err != nil {
			return
		}
		reply := "+OK\r\n"
		switch name := strings.ToUpper(command); name {
		case "HELLO": // as servers before Redis 6: the client then does without
			reply = "-ERR unknown command 'HELLO'\r\n"
		case "EVALSHA", "EVAL", "SCRIPT":
			f.mu.Lock()
			f.seen, reply = append(f.seen, name), f.answer
			f.mu.Unlock()
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// readCommand reads one command in RESP and returns its name.
func readCommand(in *bufio.Reader) (string, error) {
	words, err := number(in, '*')
	if err != nil {
		return "", err
	}
	name := ""
	for i := range words {
		size, err := number(in, '$')
		if err != nil {
			return "", err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return "", err
		}
		if i == 0 {
			name = string(word[:size])
		}
	}
	return name, nil
}

func number(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("not RESP: %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// proxy carries bytes to a server, and what comes back through a gate.
type proxy struct {
	addr string
	mute func(b bool)                     // while true, answers are dropped
	slow func(delay func() time.Duration) // before each answer; nil for none
}

func newProxy(t testing.TB, upstream string) proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	shared := &gates{}
	go func() {
		for {
			down, err := listener.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", upstream)
			if err != nil {
				_ = down.Close()
				continue
			}
			go func() { _, _ = io.Copy(up, down); _ = up.Close() }()
			go func() {
				defer down.Close()
				_, _ = io.Copy(gate{down, shared}, up)
			}()
		}
	}()
	return proxy{
		addr: listener.Addr().String(),
		mute: func(b bool) { shared.set(func(g *gates) { g.shut = b }) },
		slow: func(delay func() time.Duration) { shared.set(func(g *gates) { g.delay = delay }) },
	}
}

// gates is how the proxy's connections treat what comes back.
type gates struct {
	mu    sync.Mutex
	shut  bool
	delay func() time.Duration
}

func (g *gates) set(change func(*gates)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

// gate writes on, late or never as the gates say.
type gate struct {
	io.Writer
	*gates
}

func (g gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	shut, delay := g.shut, g.delay
	g.mu.Unlock()
	if delay != nil {
		time.Sleep(delay()) //nolint:forbidigo // a slow server is what it plays
	}
	if shut {
		return len(b), nil
	}
	return g.Writer.Write(b)
}
