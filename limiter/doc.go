// Package limiter decides whether a request may pass. It asks a Store for all
// the limits, concurrency limits and quotas of a request at once, keeps to one hard
// time budget, stops asking a broken store (breaker) and then falls back to the
// route's fail mode with a bounded in-process limit.
//
// What it need not ask it answers itself: refusals that are known to hold (deny
// cache) and tokens that it debited ahead (slices of leased limits). Neither admits
// more than asking each time would: a cached refusal is one that the store would give
// too, and a leased limit keeps its bound over every interval.
//
// In the background (Run) it probes a broken store, renews the leases of requests
// under way, gives unspent slices back and keeps a record of incidents. Every table
// in it is bounded.
//
// It imports policy and nothing else of this module, and only the standard
// library besides: a Store brings its own client.
package limiter
