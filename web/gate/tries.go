package gate

import (
	"net"
	"sync"
	"time"
)

const (
	triesPer    = time.Minute
	mostTries   = 20   // wrong tokens of one address in triesPer that are answered 401
	mostAddress = 4096 // addresses that are told apart; all others count as one
)

// tries counts wrong tokens by address, in windows of a minute. It is safe for
// concurrent use.
type tries struct {
	mu    sync.Mutex
	since time.Time
	of    map[string]int
}

func newTries() *tries { return &tries{of: map[string]int{}} }

// wrong notes one. It returns how long the address has to wait, 0 when it need
// not, and whether this is its first in this window.
func (t *tries) wrong(remote string, now time.Time) (wait time.Duration, first bool) {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if age := now.Sub(t.since); age < 0 || age >= triesPer {
		t.since = now
		clear(t.of)
	}
	if _, known := t.of[host]; !known && len(t.of) >= mostAddress {
		host = "others"
	}
	t.of[host]++
	if t.of[host] > mostTries {
		return max(triesPer-now.Sub(t.since), time.Second), false
	}
	return 0, t.of[host] == 1
}
