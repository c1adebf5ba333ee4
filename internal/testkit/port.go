package testkit

import (
	"fmt"
	"syscall"

	"github.com/headgate/headgate/internal/child"
)

// port is a loopback port that stays its server's own while that is down. A
// stranger's server on the port of one that was killed would be taken for it:
// Sentinels make it a replica of theirs, which empties it, and believe those that
// it knows.
//
// The port is held by a socket that is bound to it and never listens, so that
// dials are refused. Nobody else can listen while the socket does not allow its
// address to be used again.
type port struct{ number, socket int }

// takePort holds a port that is free. Whoever takes it lets it go.
func takePort() (*port, error) {
	var err error
	for range 20 { // another process may take the port between finding and binding it
		var p *port
		if p, err = holdFreePort(); err == nil {
			return p, nil
		}
	}
	return nil, err
}

func holdFreePort() (*port, error) {
	number, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hold port %d: %w", number, err)
	}
	if err := syscall.Bind(s, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: number}); err != nil {
		_ = syscall.Close(s)
		return nil, fmt.Errorf("hold port %d: %w", number, err)
	}
	return &port{number, s}, nil
}

// lend lets servers listen, until it is called again with false; one that listens
// by then goes on.
func (p *port) lend(on bool) error {
	reuse := 0
	if on {
		reuse = 1
	}
	if err := syscall.SetsockoptInt(p.socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, reuse); err != nil {
		return fmt.Errorf("lend port %d: %w", p.number, err)
	}
	return nil
}

// letGo gives the port back. The server must have ended.
func (p *port) letGo() { _ = syscall.Close(p.socket) }
