package feed

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	// defaultPull is how often a console is asked while Redis is away.
	defaultPull = time.Second
	// slowestPull is how often a console is asked that does not answer, or whose
	// answer was refused.
	slowestPull = 15 * time.Second
)

// puller asks a console for the policy while Redis cannot be asked, and only
// then. It hands what it gets to Run's goroutine, so that a console that is slow
// holds up nothing else.
type puller struct {
	console *Console
	every   time.Duration
	away    chan struct{} // one token a failed poll of Redis
	rings   chan struct{} // has Run's goroutine look
	answers chan pulled   // of capacity 1
}

func newPuller(c *Console, every time.Duration) *puller {
	if every <= 0 {
		every = defaultPull
	}
	return &puller{console: c, every: every, away: make(chan struct{}, 1), rings: make(chan struct{}, 1), answers: make(chan pulled, 1)}
}

// redisAway is told of each poll of Redis that failed.
func (p *puller) redisAway() {
	select {
	case p.away <- struct{}{}:
	default:
	}
}

// pull asks until ctx ends.
func (w *Watcher) pull(ctx context.Context) {
	p, wait, etag, failed := w.puller, time.Duration(0), "", false
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.away:
		}
		got, err := p.console.policy(ctx, w.cfg.Replica, etag)
		if err == nil {
			etag, wait = got.etag, p.every
			if !p.hand(ctx, got) {
				return
			}
			if w.refusedPulled.Swap(false) {
				etag, wait = "", slowestPull
			}
		} else {
			wait = min(max(2*wait, p.every), slowestPull)
		}
		w.notePull(ctx, err, failed)
		failed = err != nil
		timer := time.NewTimer(jitter(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		select { // of polls that failed while this one waited
		case <-p.away:
		default:
		}
	}
}

// hand gives an answer to Run's goroutine and waits until it was looked at.
func (p *puller) hand(ctx context.Context, got pulled) bool {
	got.seen = make(chan struct{})
	select {
	case p.answers <- got:
	case <-ctx.Done():
		return false
	}
	select {
	case p.rings <- struct{}{}:
	default:
	}
	select {
	case <-got.seen:
		return true
	case <-ctx.Done():
		return false
	}
}

// notePull logs when the way over the console opens or closes.
func (w *Watcher) notePull(ctx context.Context, err error, failed bool) {
	switch {
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
	case err != nil && !failed:
		w.cfg.Log.WarnContext(ctx, "policy cannot be pulled from the console either", "error", err)
	case err == nil && failed:
		w.cfg.Log.InfoContext(ctx, "policy can be pulled from the console again")
	}
}

// takePulled looks at what a console answered. It holds the same order as an
// offer in Redis.
func (w *Watcher) takePulled(ctx context.Context) {
	if w.puller == nil {
		return
	}
	select {
	case got := <-w.puller.answers:
		defer close(got.seen)
		w.takeStamp(ctx, got.stamp)
		if got.offer != nil && got.offer.Policy.Version > 0 {
			w.takeOffer(ctx, *got.offer)
		}
	default:
	}
}

func (w *Watcher) takeOffer(ctx context.Context, p policy.Pulled) {
	var c *policy.Canary
	if p.Canary != nil {
		if err := policy.VerifyCanary(w.cfg.PublicKeys, w.cfg.Deployment, *p.Canary); err != nil {
			w.cfg.Log.WarnContext(ctx, "canary refused", "error", err)
		} else {
			c = p.Canary
		}
	}
	if p.Policy.Body == nil {
		p.Policy.Body = []byte{} // there is none, and none in Redis either
	}
	raw := []string{"pulled", p.Policy.Digest, p.Policy.Parent, p.Policy.Signer, string(p.Policy.Signature)}
	w.decide(ctx, head{offer: p.Policy, raw: strings.Join(raw, "\n")}, c, p.CanaryBody)
	cur := w.current.Load()
	w.refusedPulled.Store(cur == nil || cur.Version < p.Policy.Version)
}
