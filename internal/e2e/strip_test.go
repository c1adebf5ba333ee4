package e2e_test

import (
	"testing"
	"time"
)

// TestFailModes_OpenPageTellsTheOutageAndItsEnd watches a page that is left open
// while Redis dies and comes back. Nobody loads it again.
func TestFailModes_OpenPageTellsTheOutageAndItsEnd(t *testing.T) {
	t.Parallel()
	d := StartDemo(t)
	p := OpenBrowser(t, d)
	p.SignIn(d)
	p.Says("3/3 in sync")
	d.Kill(d.Processes.Redis)
	from := time.Now()
	p.Becomes(`document.querySelector('[data-health=bad]') && document.body.innerText.includes('Redis is unreachable')`)
	took(t, "the open page turned red", time.Since(from), 5*time.Second)
	p.Shot("9-redis-away")
	d.Restart(d.Processes.Redis)
	d.WaitPort(d.Redis)
	from = time.Now()
	p.Becomes(`!document.querySelector('[data-health=bad]') && document.body.innerText.replace(/\s+/g,' ').includes('3/3 in sync')`)
	took(t, "the open page is calm again", time.Since(from), 5*time.Second)
}
