package child

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports below 32768 are outside the range from which kernels take ports for
// outgoing connections, so a port found here stays free while its server is
// down.
const (
	firstPort = 20000
	lastPort  = 31999
)

// FreePort finds a loopback TCP port that nobody listens on, at random.
func FreePort() (int, error) {
	for range 200 {
		p := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // keeps neighbours apart, guards nothing
		if PortFree(p) {
			return p, nil
		}
	}
	return 0, errors.New("no free loopback port found")
}

// PortFree reports whether a loopback TCP port can be listened on now.
func PortFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // of loopback: nothing to wait for
	if err != nil {
		return false
	}
	return l.Close() == nil
}
