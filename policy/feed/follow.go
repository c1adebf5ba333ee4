package feed

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	defaultPoll = 800 * time.Millisecond
	// hastyPoll holds while Redis does not answer or has lost what is followed,
	// so that all is back soon after it is.
	hastyPoll = 200 * time.Millisecond
	// bellGap bounds what a flood of messages on the bell can cost.
	bellGap = 25 * time.Millisecond
	// pollTimeout bounds one look at Redis.
	pollTimeout = time.Second
)

// pace says how soon to look again.
type pace bool

const (
	calm  pace = false
	hasty pace = true
)

type followConfig struct {
	client redis.UniversalClient
	bell   string // channel
	word   string // first word of the messages that matter
	poll   time.Duration
	log    *slog.Logger
	do     func(context.Context) pace
	rings  chan struct{} // of capacity 1, to ask for a poll; nil: only the bell does
}

// follow calls do at once, then on each poll and each bell, until ctx ends. The
// poll is the mechanism; a bell that is lost only costs time.
func follow(ctx context.Context, c followConfig) error {
	rings := c.rings
	if rings == nil {
		rings = make(chan struct{}, 1)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		listen(ctx, c, rings)
	}()
	defer func() { <-stopped }()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := jitter(c.poll)
		if c.do(ctx) == hasty {
			wait = min(wait, jitter(hastyPoll))
		}
		// Bells within the gap wait in rings, which holds one.
		timer.Reset(min(wait, bellGap))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		timer.Reset(max(0, wait-bellGap))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-rings:
		}
	}
}

// jitter is d ± 10 %, so that replicas spread out.
func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // spreads load, guards nothing
}

// listen turns messages on the bell into rings. The client reconnects by
// itself, 100 ms apart; each new subscription rings too, for what was missed.
func listen(ctx context.Context, c followConfig, rings chan<- struct{}) {
	sub := c.client.Subscribe(ctx, c.bell)
	messages := sub.ChannelWithSubscriptions(redis.WithChannelSize(256), redis.WithChannelHealthCheckInterval(time.Second))
	defer func() {
		if err := sub.Close(); err != nil {
			c.log.DebugContext(ctx, "close bell", "error", err)
		}
		for range messages { // until the client's reader has ended
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case m, open := <-messages:
			if !open {
				return
			}
			if !matters(m, c.word) {
				continue
			}
			select {
			case rings <- struct{}{}:
			default:
			}
		}
	}
}

func matters(message any, word string) bool {
	switch m := message.(type) {
	case *redis.Subscription:
		return true
	case *redis.Message:
		first, _, _ := strings.Cut(m.Payload, " ")
		return first == word
	}
	return false
}
