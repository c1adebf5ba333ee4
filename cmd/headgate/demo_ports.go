package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/headgate/headgate/internal/child"
)

// defaultDemoPort is where the search for ports begins.
const defaultDemoPort = 8480

// demoPorts are the loopback ports of a demo. Each is reserved by a lock that
// the demo holds, so that two demos that start together do not take the same.
type demoPorts struct {
	console, upstream, redis int
	proxy, decide, admin     []int
	grpc                     []int
	locks                    []*os.File
}

// takePorts takes as many ports as a demo with so many gateways needs. With
// from 0 it looks for free ones; otherwise they are from, from+1, … and have to
// be free.
func takePorts(from, gateways int) (demoPorts, error) {
	var p demoPorts
	next := from
	if from == 0 {
		next = defaultDemoPort
	}
	take := func() (int, error) {
		for ; next <= 65535; next++ {
			lock, taken := reservePort(next)
			if !taken && child.PortFree(next) {
				p.locks = append(p.locks, lock)
				next++
				return next - 1, nil
			}
			_ = lock.Close()
			if from != 0 {
				return 0, fmt.Errorf("port %d (of --port %d and the ones after it) is taken", next, from)
			}
		}
		return 0, fmt.Errorf("no free port found from %d on", max(from, defaultDemoPort))
	}
	targets := []*int{&p.console}
	p.proxy, p.decide, p.admin, p.grpc = make([]int, gateways), make([]int, gateways), make([]int, gateways), make([]int, gateways)
	for _, list := range [][]int{p.proxy, p.decide, p.admin, p.grpc} {
		for i := range list {
			targets = append(targets, &list[i])
		}
	}
	for _, t := range append(targets, &p.upstream, &p.redis) {
		port, err := take()
		if err != nil {
			p.release()
			return p, err
		}
		*t = port
	}
	return p, nil
}

// portsDir holds the locks of all users' demos on this machine.
const portsDir = "/tmp/headgate-ports"

// reservePort locks a port's file among the demos of this machine and reports
// whether another demo has it. Where files cannot be shared there are no locks
// (nil), and what is left is to see whether the port is free.
func reservePort(port int) (lock *os.File, taken bool) {
	if os.Mkdir(portsDir, 0o700) == nil {
		_ = os.Chmod(portsDir, 0o777|os.ModeSticky)
	}
	path := filepath.Join(portsDir, strconv.Itoa(port))
	f, err := os.Open(path) // another user's may be read and locked, but not written
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // empty; all users share it, as they share the ports
	}
	if err != nil {
		return nil, false
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, true
	}
	return f, false
}

func (p *demoPorts) release() {
	for _, l := range p.locks {
		_ = l.Close()
	}
	p.locks = nil
}

// loopback is the address of a port.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// httpURL is the URL of a port.
func httpURL(port int) string { return "http://" + loopback(port) }

func loopbacks(ports []int) []string {
	addrs := make([]string, len(ports))
	for i, p := range ports {
		addrs[i] = loopback(p)
	}
	return addrs
}

func httpURLs(ports []int) []string {
	urls := make([]string, len(ports))
	for i, p := range ports {
		urls[i] = httpURL(p)
	}
	return urls
}
