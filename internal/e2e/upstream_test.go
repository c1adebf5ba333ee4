package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Upstream is an API that keeps requests to /slots/hold waiting and knows how
// many are with it at once.
type Upstream struct {
	*httptest.Server
	Entered chan struct{} // gets a value per request that is held

	mu          sync.Mutex
	inside, max int
	let         chan struct{} // closed by Let
}

func newUpstream(t testing.TB) *Upstream {
	u := &Upstream{Entered: make(chan struct{}, 1000), let: make(chan struct{})}
	u.Server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.Let()
		u.Close()
	})
	return u
}

// ServeHTTP answers 200, /slots/hold once it is let or its caller has gone.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/slots/panic":
		panic(http.ErrAbortHandler) // net/http cuts the connection
	case "/slots/hold":
		u.hold(r)
	}
	w.WriteHeader(http.StatusOK)
}

func (u *Upstream) hold(r *http.Request) {
	u.mu.Lock()
	u.inside++
	u.max = max(u.max, u.inside)
	let := u.let
	u.mu.Unlock()
	u.Entered <- struct{}{}
	select {
	case <-let:
	case <-r.Context().Done():
	}
	u.mu.Lock()
	u.inside--
	u.mu.Unlock()
}

// Let answers the requests that are held; later ones are held again.
func (u *Upstream) Let() {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.let)
	u.let = make(chan struct{})
}

// Most is the most requests that were held at once.
func (u *Upstream) Most() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.max
}
