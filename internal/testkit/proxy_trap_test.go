package testkit_test

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testkit"
)

// echo answers each line with itself and hands on what arrived.
func echo(t *testing.T) (addr string, arrived chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	arrived = make(chan string, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewScanner(c); in.Scan(); {
					arrived <- in.Text()
					if _, err := c.Write([]byte(in.Text() + "\n")); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), arrived
}

type talker struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func talk(t *testing.T, addr string) talker {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return talker{t, c, bufio.NewReader(c)}
}

// says sends a line and reports whether it is answered.
func (k talker) says(line string, within time.Duration) bool {
	k.t.Helper()
	if _, err := k.conn.Write([]byte(line + "\n")); err != nil {
		k.t.Fatal(err)
	}
	_ = k.conn.SetReadDeadline(time.Now().Add(within))
	got, err := k.in.ReadString('\n')
	return err == nil && strings.TrimSpace(got) == line
}

const soon, briefly = 10 * time.Second, 50 * time.Millisecond

func TestProxy_ATrapHoldsBackTheMessageOrItsAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trap    *testkit.Trap
		says    []string // the last one is not answered
		arrives int
	}{
		"the message":                 {&testkit.Trap{At: "commit"}, []string{"insert", "commit"}, 1},
		"its answer":                  {&testkit.Trap{At: "commit", Reply: true}, []string{"insert", "commit"}, 2},
		"some messages later":         {&testkit.Trap{At: "insert", Skip: 2, Reply: true}, []string{"insert", "a", "b"}, 3},
		"only once something is said": {&testkit.Trap{Once: "insert", At: "commit"}, []string{"commit", "insert", "commit"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, arrived := echo(t)
			p := testkit.Proxy(t, addr)
			caught, other := talk(t, p.Addr), talk(t, p.Addr)
			if !caught.says("hello", soon) || !other.says("hello", soon) {
				t.Fatal("nothing gets through")
			}
			trap := p.Arm(c.trap)
			last := len(c.says) - 1
			for _, line := range c.says[:last] {
				if !caught.says(line, soon) {
					t.Fatalf("%q is not answered", line)
				}
			}
			if caught.says(c.says[last], briefly) {
				t.Errorf("%q is answered", c.says[last])
			}
			select {
			case <-trap.Sprung():
			case <-time.After(soon):
				t.Fatal("the trap does not spring")
			}
			if n := len(arrived) - 2; n != c.arrives {
				t.Errorf("%d messages arrived, want %d", n, c.arrives)
			}
			if !other.says("commit", soon) {
				t.Error("another connection is silent as well")
			}
			p.Sever() // as when the process behind it dies: what was held back never arrives
			if n := len(arrived) - 3; n != c.arrives {
				t.Errorf("%d messages arrived after the end, want %d", n, c.arrives)
			}
		})
	}
}

func TestProxy_AHoleOfSomeConnectionsLeavesTheOthers(t *testing.T) {
	t.Parallel()
	addr, _ := echo(t)
	p := testkit.Proxy(t, addr)
	subscriber, other := talk(t, p.Addr), talk(t, p.Addr)
	if !subscriber.says("subscribe bell", soon) || !other.says("get", soon) {
		t.Fatal("nothing gets through")
	}
	if n := p.HoleOf("subscribe"); n != 1 {
		t.Fatalf("%d connections fell silent", n)
	}
	if subscriber.says("ping", briefly) {
		t.Error("a silent connection answers")
	}
	if !other.says("get", soon) || !talk(t, p.Addr).says("subscribe bell", soon) {
		t.Error("others are silent as well")
	}
}
