package leaks

import (
	"net"
	"sync"
	"time"
)

const (
	wrongPer    = time.Minute
	mostWrong   = 20   // bad signatures of one address in wrongPer, after which its reports are not read
	mostAddress = 4096 // addresses that are told apart; all others count as one
)

// wrong counts bad signatures by address, in windows of a minute. It is safe for
// concurrent use.
type wrong struct {
	mu    sync.Mutex
	since time.Time
	of    map[string]int
}

func newWrong() *wrong { return &wrong{of: map[string]int{}} }

// address is the name under which an address is counted. The lock is held.
func (c *wrong) address(remote string, now time.Time) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	if age := now.Sub(c.since); age < 0 || age >= wrongPer {
		c.since = now
		clear(c.of)
	}
	if _, known := c.of[host]; !known && len(c.of) >= mostAddress {
		return "others"
	}
	return host
}

// wait says how long an address has to wait, 0 when it need not.
func (c *wrong) wait(remote string, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[c.address(remote, now)] < mostWrong {
		return 0
	}
	return max(wrongPer-now.Sub(c.since), time.Second)
}

// note counts one, and reports whether it is the address' first in this window.
func (c *wrong) note(remote string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	host := c.address(remote, now)
	c.of[host]++
	return c.of[host] == 1
}
