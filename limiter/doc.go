// Package limiter decides whether a request may pass. It asks a Store for all
// the limits of a request at once, keeps to one hard time budget, stops asking
// a broken store (breaker) and then falls back to the route's fail mode with a
// bounded in-process limit.
//
// It imports policy and nothing else of this module, and only the standard
// library besides: a Store brings its own client.
package limiter
