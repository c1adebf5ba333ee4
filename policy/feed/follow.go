package feed

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
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
	// bellCheck is how long the bell's connection may be silent before the server
	// is asked whether it is there, and how long it may take to answer.
	bellCheck = time.Second
	// resubscribe is how soon a bell that broke is listened to again.
	resubscribe = 100 * time.Millisecond
	// pollTimeout bounds one look at Redis.
	pollTimeout = time.Second
)

// pace says how soon to look again, at the latest; calm is the ordinary poll.
type pace time.Duration

const (
	calm  pace = 0
	hasty      = pace(hastyPoll)
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
		if sooner := c.do(ctx); sooner != calm {
			wait = min(wait, jitter(time.Duration(sooner)))
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

// listen turns messages on the bell into rings, and subscribes again when the
// connection breaks or no longer answers; each new subscription rings too, for
// what was missed.
func listen(ctx context.Context, c followConfig, rings chan<- struct{}) {
	for ctx.Err() == nil {
		sub := c.client.Subscribe(ctx, c.bell)
		stop := context.AfterFunc(ctx, func() { _ = sub.Close() }) // ends a reading that waits
		err := hear(ctx, sub, c.word, rings)
		stop()
		if closed := sub.Close(); closed != nil && !errors.Is(closed, redis.ErrClosed) {
			c.log.DebugContext(ctx, "close bell", "error", closed)
		}
		c.log.DebugContext(ctx, "bell is silent", "error", err)
		timer := time.NewTimer(jitter(resubscribe))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// hear reads one subscription until it breaks. A connection that is cut without
// either side being told takes what is written for many minutes: what counts is
// whether the server answers.
func hear(ctx context.Context, sub *redis.PubSub, word string, rings chan<- struct{}) error {
	for asked := false; ; {
		m, err := sub.ReceiveTimeout(ctx, bellCheck)
		var late net.Error
		switch {
		case err == nil:
			asked = false
		case ctx.Err() != nil || asked || !errors.As(err, &late) || !late.Timeout():
			return err
		default:
			asked = true
			if err := sub.Ping(ctx); err != nil {
				return err
			}
		}
		if err != nil || !matters(m, word) {
			continue
		}
		select {
		case rings <- struct{}{}:
		default:
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
