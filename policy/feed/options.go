package feed

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// mostConns bounds what one process opens for the wire, subscriptions apart.
	mostConns = 48
	// poolSize is no size: go-redis stops dialling but once a second after as
	// many failed dials, which would add a second to every recovery.
	poolSize = 1 << 16
)

// Options reads a Redis URL and sets what this package counts on: deadlines
// that hold, no hidden retries, time enough to read a large policy, and a
// client that is back at once when Redis is.
func Options(address string) (*redis.Options, error) {
	o, err := redis.ParseURL(address)
	if parse, ok := errors.AsType[*url.Error](err); ok {
		err = parse.Err // without the URL, which has the password in it
	}
	if err != nil {
		return nil, fmt.Errorf("read Redis URL: %w", err)
	}
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = 500 * time.Millisecond
	o.ReadTimeout = 3 * time.Second
	o.WriteTimeout = 3 * time.Second
	o.PoolSize = poolSize
	o.MaxActiveConns = mostConns
	o.MinIdleConns = 1
	return o, nil
}
