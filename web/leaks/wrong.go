package leaks

import (
	"net/netip"
	"sync"
	"time"
)

// addressOf is what one client has at hand: an address of IPv4, or the /64 that
// one of IPv6 lies in.
func addressOf(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	a := ap.Addr().Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64) // every address of IPv6 has one
	return p.String()
}

// readers counts bodies that are being read, by address. It is safe for
// concurrent use.
type readers struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

func newReaders() *readers { return &readers{of: map[string]int{}} }

// enter takes a place and returns what gives it back; false when there is none.
func (c *readers) enter(address string) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= maxReading || c.of[address] >= perAddress {
		return nil, false
	}
	c.all++
	c.of[address]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all--
		if c.of[address]--; c.of[address] == 0 {
			delete(c.of, address)
		}
	}, true
}

const (
	wrongPer    = time.Minute
	mostWrong   = 20   // bad signatures of one address in wrongPer, after which it is told to wait
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
	host := addressOf(remote)
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
