// Package feed is the one wire between the planes. The console's end is
// Publisher; a gateway's ends are Watcher (the policy), Directory (keys and
// tenants) and Reporter (heartbeats and live counts). What stands in Redis
// between them is laid down in docs/redis.md.
//
// Nothing that comes out of Redis is believed: policy, records and stamps count
// only with a signature of a configured key, sizes are asked for before values
// are fetched, and what cannot be read is reported and never acted on. Nothing
// is dropped either because Redis lost it.
//
// The package imports policy and usage of this module and go-redis. It must not
// import limiter, gateway, console or db.
package feed
